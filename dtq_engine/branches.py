"""A tree as lines, each task below a parent of its own: for people, in a terminal or on a page."""

from collections.abc import Iterator
from dataclasses import dataclass

from dtq_engine.model import Relative, Tree, TreeNode

Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Branch:
    """A line: a task at a depth. `again`: it stands above, with all that is below it. `node` None: it was cut off."""

    depth: int
    id: str
    queue: str
    node: TreeNode | None
    again: bool = False


def branches(tree: Tree) -> list[Branch]:
    """The tree from those that wait for nobody in it down to those that nobody waits for."""
    nodes = {(node.queue, node.id): node for node in tree.nodes}
    roots = [node for node in tree.nodes if not any((each.queue, each.id) in nodes for each in node.parents)]
    shown: set[Place] = set()
    # Links make no circle, but damaged ones might.
    return list(_below([Relative(node.id, node.queue) for node in roots or tree.nodes[:1]], nodes, shown))


def _below(starts: list[Relative], nodes: dict[Place, TreeNode], shown: set[Place]) -> Iterator[Branch]:
    waiting = [(0, each) for each in reversed(starts)]
    while waiting:
        depth, each = waiting.pop()
        place = (each.queue, each.id)
        node, again = nodes.get(place), place in shown
        yield Branch(depth, each.id, each.queue, node, again)
        if node is not None and not again:
            shown.add(place)
            waiting += [(depth + 1, child) for child in reversed(node.children)]
