"""Reading how tasks depend on each other."""

from collections.abc import Sequence
from typing import cast

from dtq_engine.model import Relative, Tree, TreeNode
from dtq_engine.store.base import Base
from dtq_engine.store.inspect import Inspect

NODES_MAX = 1000
ROW_SIDES = ""

Place = tuple[str, str]
"""Queue and id of a task."""


class Trees:
    """Follows links from task to task."""

    def __init__(self, base: Base, inspect: Inspect) -> None:
        self._base = base
        self._inspect = inspect

    def tree(self, task_id: str, *, queue: str | None = None, limit: int = 200) -> Tree:
        """The task and all that is linked with it, over any number of steps, at most `limit` (1 to 1000) tasks.

        Those nearest to it come first; `is_cut` says that there are more. Raises TaskNotFound.
        """
        limit = max(1, min(NODES_MAX, limit))
        start = (queue or self._inspect.queue_of(task_id), task_id)
        self._inspect.get(task_id, queue=start[0])
        nodes: dict[Place, TreeNode] = {}
        known, edge, is_cut = {start}, [start], False
        while edge:
            nodes |= dict(zip(edge, self._look(edge), strict=True))
            beyond = [
                (each.queue, each.id) for place in edge for each in (*nodes[place].parents, *nodes[place].children)
            ]
            found = [place for place in dict.fromkeys(beyond) if place not in known]
            edge = found[: limit - len(known)]
            is_cut = is_cut or len(edge) < len(found)
            known.update(edge)
        return Tree(Relative(*reversed(start)), tuple(nodes.values()), is_cut)

    def _look(self, places: Sequence[Place]) -> list[TreeNode]:
        """What is known of these tasks; of one that is gone, its id."""
        tasks = self._inspect.read(places, ROW_SIDES)
        keys = self._base.keys
        linked = [place for place, task in zip(places, tasks, strict=True) if task is not None and task.is_linked]
        commands = [
            command
            for place in linked
            for command in (("HKEYS", keys.awaits(*place)), ("ZRANGE", keys.children(*place), 0, NODES_MAX))
        ]
        replies = [_relatives(reply) for reply in self._base.connection.pipeline(commands)]
        of = {place: (replies[2 * at], replies[2 * at + 1]) for at, place in enumerate(linked)}
        return [
            TreeNode(
                id=place[1],
                queue=place[0],
                type=task.type if task else None,
                status=task.status if task else None,
                reason=task.reason if task else None,
                parents=of.get(place, ((), ()))[0],
                children=of.get(place, ((), ()))[1],
            )
            for place, task in zip(places, tasks, strict=True)
        ]


def _relatives(reply: object) -> tuple[Relative, ...]:
    words = cast("list[bytes]", reply) if isinstance(reply, list) else []
    pairs = [word.decode("utf-8", "replace").partition(" ") for word in words]
    return tuple(Relative(task_id, queue) for queue, _, task_id in pairs if task_id)
