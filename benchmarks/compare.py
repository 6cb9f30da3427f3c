"""dtq beside other task queues in one run, each at its best settings: `make bench-peers`, about fifteen minutes.

All are measured by the same means (`benchmarks/peers`): an embedded Valkey of its own without persistence, one worker
process, tasks that do nothing, results kept. How far a worker is, its handlers note themselves, so that no peer is
asked in a way of its own. Installed are they into build/peers, each into an environment of its own.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import quantiles

from benchmarks import machine, run, stage
from benchmarks.figures import Figure
from benchmarks.limit import Bare
from benchmarks.peers.places import FOLDER, PEERS, Peer, PeerFailed, installed
from benchmarks.run import Plan
from benchmarks.tasks import app

DRAIN_S = 12.0
"""How long a drain is watched at most: a peer that is slower is judged by what it did until then."""

START_S = 30.0
WEIGHED = 10_000
BARE = 5_000
CALL = 500
"""What peers that have a call for many are given at once: so many tasks, or a multiple."""
SIZES = (40, 300)
BRACKETS = len('{"a":1,"b":""}')


def measure(name: str, plan: Plan) -> tuple[tuple[Figure, ...], dict[str, str]]:
    """All figures of one peer. Raises PeerFailed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    plan = replace(plan, tasks=plan.tasks // CALL * CALL)
    with tempfile.TemporaryDirectory() as folder, stage.server() as server:
        stage.attach(server.url)
        try:
            peer = installed(name, server.url, Path(folder) / "notes")
            about = peer.ask("describe")
            figures = [*submits(peer, plan, about["kinds"][0], bulk=about["bulk"])]
            figures += weights(peer, about["kinds"][0], bulk=about["bulk"])
            for kind in about["kinds"]:
                figures += drains(peer, plan, kind, bulk=about["bulk"])
            figures += starts(peer, plan, about["kinds"][0])
        finally:
            app.close()
    return tuple(figures), {"version": about["version"], "settings": about["settings"]}


def submits(peer: Peer, plan: Plan, kind: str, *, bulk: bool) -> list[Figure]:
    """Tasks accepted per second."""
    singles = max(100, plan.tasks // 4)
    figures = [Figure("submit single", "tasks/s", tuple(rate(peer, "submit", kind, singles) for _ in range(plan.runs)))]
    if bulk:
        many = tuple(rate(peer, "submit_many", kind, plan.tasks) for _ in range(plan.runs))
        figures.append(Figure("submit bulk", "tasks/s", many))
    return figures


def rate(peer: Peer, verb: str, kind: str, count: int) -> float:
    """Tasks per second of one way to submit them, with 40 bytes each."""
    seconds: float = peer.ask(verb, kind, count, SIZES[0] - BRACKETS)["seconds"]
    stage.forget()
    return count / seconds


def weights(peer: Peer, kind: str, *, bulk: bool) -> list[Figure]:
    """What 10,000 waiting tasks take in the server."""
    figures: list[Figure] = []
    for size in SIZES:
        stage.forget()
        before = stage.server_memory_kib()
        peer.ask("submit_many" if bulk else "submit", kind, WEIGHED, size - BRACKETS)
        grown = stage.server_memory_kib() - before
        figures.append(Figure(f"waiting, {size} bytes", "KiB per 10,000", (grown,)))
    stage.forget()
    return figures


def drains(peer: Peer, plan: Plan, kind: str, *, bulk: bool) -> list[Figure]:
    """Tasks per second of one worker that finds all of them waiting, and what they cost."""
    bare = Bare(peer.url)
    runs = [(bare.loop(BARE), *drain(peer, plan, kind, bulk=bulk)) for _ in range(plan.runs)]
    limits, rates, workers, servers, memory = zip(*runs, strict=True)
    return [
        Figure(f"drain {kind}", "tasks/s", rates, limits),
        Figure(f"drain {kind}, worker", "µs of CPU per task", workers),
        Figure(f"drain {kind}, server", "µs of CPU per task", servers),
        Figure(f"drain {kind}, worker's memory", "MiB", memory),
    ]


def drain(peer: Peer, plan: Plan, kind: str, *, bulk: bool) -> tuple[float, float, float, float]:
    """Rate, µs of the worker and of the server, MiB; all from the first task on, when the worker is up."""
    peer.ask("submit_many" if bulk else "submit", kind, plan.tasks, SIZES[0] - BRACKETS)
    with peer.working(kind) as process:
        noted = partial(lines, peer.notes)
        until(noted, process.poll, START_S)
        worker, server = machine.cpu_s(process.pid), stage.server_cpu_s()
        ends, wanted = time.monotonic() + DRAIN_S, 1 + plan.tasks // 100
        while len(noted()) < wanted and time.monotonic() < ends:
            time.sleep(0.01)
        worker, server = machine.cpu_s(process.pid) - worker, stage.server_cpu_s() - server
        memory = machine.rss_mib(process.pid)
        (_, began), (done, ended) = (map(int, noted()[at].split()) for at in (0, -1))
    stage.forget()
    if done == 1:
        raise PeerFailed(f"fewer than 100 tasks were done in {DRAIN_S:.0f} s")
    return (done - 1) / (ended - began) * 1e9, worker / done * 1e6, server / done * 1e6, memory


def starts(peer: Peer, plan: Plan, kind: str) -> list[Figure]:
    """Milliseconds from before the submit to the handler, with a worker that idles."""
    each = min(100, plan.tasks // 50)
    runs: list[list[float]] = []
    with peer.working(kind) as process:
        for _ in range(plan.runs):
            time.sleep(3 if not runs else 0)
            before = len(lines(peer.notes))
            peer.notes.unlink(missing_ok=True)
            peer.ask("clock", each + 1)
            found = lines(peer.notes)
            if len(found) <= each or process.poll() is not None:
                raise PeerFailed(f"{len(found)} of {each + 1 + before} tasks started")
            runs.append([int(nanoseconds) / 1e6 for nanoseconds in found[1:]])
    stage.forget()
    cuts = [quantiles(run, n=100) for run in runs]
    names = {"idle start, p50": 49, "idle start, p99": 98}
    return [Figure(name, "ms", tuple(each[at] for each in cuts)) for name, at in names.items()]


def lines(notes: Path) -> list[str]:
    """What handlers noted so far, whole lines only."""
    return notes.read_text().rpartition("\n")[0].splitlines() if notes.exists() else []


def until(noted: Callable[[], list[str]], ended: Callable[[], int | None], seconds: float) -> None:
    """Wait for the first note. Raises PeerFailed."""
    ends = time.monotonic() + seconds
    while not noted():
        if ended() is not None or time.monotonic() > ends:
            raise PeerFailed("its worker did not start a task")
        time.sleep(0.005)


if __name__ == "__main__":
    run.main("peers", __doc__, {name: partial(measure, name) for name in PEERS}, tasks=6000)
