"""`dtq workers`: who serves the queues."""

from collections.abc import Sequence

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import as_queue, common
from dtq_engine.cli.tables import Column
from dtq_engine.cli.text import Cell, ago
from dtq_engine.harmless import safe
from dtq_engine.model import WorkerInfo
from dtq_engine.operator_shapes import WorkersShape, worker_shape

HEADERS = (
    Column("ID", least=16),
    Column("HOST", spare=2, least=8),
    Column("PID", spare=1),
    Column("QUEUES", least=10),
    Column("BUSY"),
    Column("STATE", spare=6),
    Column("RELEASE", spare=3, least=8),
    Column("STARTED", spare=4),
    Column("SEEN", spare=5),
)


@click.command(short_help="Show the workers that are alive.")
@click.option("--queue", metavar="NAME", callback=as_queue, help="Only workers that serve this queue.")
@common
@click.pass_obj
def workers(console: Console, queue: str | None) -> int:
    """Show the workers that are alive: what they serve, and how many of their slots are busy.

    \b
    Example:
      dtq workers
      dtq workers --queue reports --json | jq -r '.workers[].id'
    """
    store = console.app().store
    found = [info for info in store.workers.list() if queue is None or queue in info.queues]
    if console.json:
        console.emit(WorkersShape([worker_shape(info) for info in found]))
    elif found:
        now_ms = store.now_ms()
        console.show_table(HEADERS, [_row(info, now_ms) for info in found])
    else:
        serves = f" that serves {queue}" if queue else ""
        console.note(f"There is no worker{serves}: start one with dtq worker --app MODULE:APP.")
    return 0


def _row(info: WorkerInfo, now_ms: int) -> Sequence[Cell]:
    return (
        Cell(safe(info.id)),
        Cell(safe(info.host)),
        Cell(str(info.pid), right=True),
        Cell(safe(",".join(info.queues))),
        Cell(f"{info.in_flight}/{info.concurrency}", right=True),
        Cell(safe(info.state), colour=None if info.state == "running" else "yellow"),
        Cell(safe(info.release)),
        Cell(ago(info.started_ms, now_ms), right=True),
        Cell(ago(info.seen_ms, now_ms), right=True),
    )
