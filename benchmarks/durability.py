"""What an append-only file costs: the same work on three servers, in turns."""

from collections.abc import Mapping
from contextlib import ExitStack

from benchmarks import stage
from benchmarks.drain import drained
from benchmarks.figures import Figure
from benchmarks.run import Plan
from benchmarks.submit import in_bulk, one_by_one, rate
from benchmarks.tasks import app, noop_async

SERVERS: Mapping[str, Mapping[str, str]] = {
    "nothing on disk": {},
    "everysec": {"appendonly": "yes", "appendfsync": "everysec"},
    "always": {"appendonly": "yes", "appendfsync": "always"},
}
WORK = ("single", "bulk", "drain")


def durability(plan: Plan) -> tuple[Figure, ...]:
    """Submit and drain with each way to write the file, beside a server that writes none."""
    found: dict[tuple[str, str], list[float]] = {(how, work): [] for how in SERVERS for work in WORK}
    with ExitStack() as stack:
        servers = {how: stack.enter_context(stage.server(**options)) for how, options in SERVERS.items()}
        for _ in range(plan.runs):
            for how, server in servers.items():
                for work, figure in worked(server.url, plan.tasks).items():
                    found[how, work].append(figure)
        app.close()
    plain = {work: tuple(found["nothing on disk", work]) for work in WORK}
    return tuple(
        Figure(f"{work}, {how}", "tasks/s", tuple(figures), plain[work]) for (how, work), figures in found.items()
    )


def worked(url: str, tasks: int) -> dict[str, float]:
    """One run of each kind of work."""
    stage.attach(url)
    figures = {"single": rate(one_by_one, tasks // 20), "bulk": rate(in_bulk, tasks)}
    with stage.worker(url) as process:
        drained(noop_async, tasks // 10, process.pid)
        figures["drain"] = drained(noop_async, tasks, process.pid).rate
    stage.forget()
    return figures
