"""The JSON of workflows, as `dtq tree --json` prints it and the HTTP API answers. Fields are only added."""

import msgspec

from dtq_engine.model import Relative, TaskStatus, Tree


class RelativeShape(msgspec.Struct):
    """A parent or child of a task."""

    id: str
    queue: str


class TreeNodeShape(msgspec.Struct, kw_only=True):
    """A task of a tree. Of one that is gone, `type`, `status` and its links are not known any more."""

    id: str
    queue: str
    type: str | None
    status: TaskStatus | None
    reason: str | None
    parents: list[RelativeShape]
    children: list[RelativeShape]


class TreeShape(msgspec.Struct, kw_only=True):
    """The tasks that are linked with one, the nearest first. `complete` false: there are more."""

    id: str
    queue: str
    nodes: list[TreeNodeShape]
    complete: bool


def tree_shape(tree: Tree) -> TreeShape:
    """A tree as JSON."""
    nodes = [
        TreeNodeShape(
            id=node.id,
            queue=node.queue,
            type=node.type,
            status=node.status,
            reason=node.reason,
            parents=_relatives(node.parents),
            children=_relatives(node.children),
        )
        for node in tree.nodes
    ]
    return TreeShape(id=tree.of.id, queue=tree.of.queue, nodes=nodes, complete=not tree.is_cut)


def _relatives(relatives: tuple[Relative, ...]) -> list[RelativeShape]:
    return [RelativeShape(each.id, each.queue) for each in relatives]
