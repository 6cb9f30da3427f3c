"""`dtq tree`: the tasks that depend on each other."""

from collections.abc import Iterator

import click

from dtq_engine.branches import Branch, branches
from dtq_engine.cli.console import Console
from dtq_engine.cli.options import as_id, as_queue, common
from dtq_engine.cli.text import status_cell
from dtq_engine.harmless import safe
from dtq_engine.model import Tree
from dtq_engine.tree_shapes import tree_shape

DEEPEST = 40
"""Deeper lines are not moved further to the right: a chain may have hundreds of tasks."""


@click.command(short_help="Show the workflow that a task is part of.")
@click.argument("task_id", metavar="ID", callback=as_id)
@click.option("--queue", metavar="NAME", callback=as_queue, help="Look in this queue only, which is faster.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=200,
    metavar="NUMBER",
    help="At most this many tasks, 200 by default.",
)
@common
@click.pass_obj
def tree(console: Console, task_id: str, queue: str | None, limit: int) -> int:
    """Show the tasks that wait for each other, with the one named, each below one that it waits for.

    \b
    Example:
      dtq tree 01K8ME0V9VJ3X0D1M2Q6ZB7C5F
    """
    found = console.app().store.trees.tree(task_id, queue=queue, limit=limit)
    if console.json:
        console.emit(tree_shape(found))
        return 0
    for line in _lines(found):
        console.say(line)
    if found.is_cut:
        console.note(f"There are more: these are the {len(found.nodes)} nearest; see more with --limit.")
    return 0


def _lines(tree: Tree) -> Iterator[str]:
    for branch in branches(tree):
        indent = "  " * min(branch.depth, DEEPEST)
        bold = (branch.queue, branch.id) == (tree.of.queue, tree.of.id)
        yield f"{indent}{click.style(safe(branch.id), bold=bold or None)}  {_what(branch)}"


def _what(branch: Branch) -> str:
    if branch.node is None:
        return click.style("…", dim=True)
    if branch.node.status is None:
        return click.style(f"{safe(branch.queue)}  gone", dim=True)
    cell = status_cell(branch.node.status)
    status = click.style(cell.text, fg=cell.colour, dim=cell.dim or None)
    reason = f"  ({safe(branch.node.reason)})" if branch.node.reason else ""
    again = click.style("  (as above)", dim=True) if branch.again else ""
    return f"{safe(branch.node.type or '')}  {safe(branch.queue)}  {status}{reason}{again}"
