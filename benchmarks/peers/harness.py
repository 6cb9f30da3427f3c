"""One peer's side of a comparison: `python -m benchmarks.peers.harness PEER VERB …`, run by the peer's own Python.

A peer is a module of this folder, named as the peer is. It has

- PACKAGE, its name on PyPI; SETTINGS, what was set; KINDS, which of "async" and "sync" its handlers can be;
- submit(kind, payload, count), one call a task over one connection, and submit_many(…), if it has a way for many;
- submit_clock(count, wait), which submits the task `clock` with the time, and calls `wait` after each;
- work(kind), which runs a worker in this process until it is killed.

Any of them may be a coroutine function. Server and file of notes are in the environment: BENCH_URL and BENCH_NOTES.
Standard library only.
"""

import asyncio
import inspect
import json
import os
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

PAUSE_S = 0.02
LOST_S = 10.0


class Notes:
    """What handlers note, as the one who waits for them sees it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0

    def wait(self) -> None:
        """Until there is more, and a moment longer, so that the worker idles again. Raises TimeoutError."""
        ends = time.monotonic() + LOST_S
        while (size := self._path.stat().st_size if self._path.exists() else 0) <= self._seen:
            if time.monotonic() > ends:
                raise TimeoutError("a task did not start within 10 s")
            time.sleep(0.001)
        self._seen = size
        time.sleep(PAUSE_S)


def main(name: str, verb: str, *words: str) -> None:
    """Do one thing, and print what it showed as JSON."""
    peer = import_module(f"benchmarks.peers.{name}")
    with asyncio.Runner() as runner:
        act(peer, runner, verb, words)


def act(peer: Any, runner: asyncio.Runner, verb: str, words: tuple[str, ...]) -> None:
    """Do it, on one event loop where one is needed."""

    def do(found: Any) -> None:
        if inspect.iscoroutine(found):
            runner.run(found)

    match verb:
        case "work":
            do(peer.work(words[0]))
        case "describe":
            answer = {"version": version(peer.PACKAGE), "settings": peer.SETTINGS, "kinds": peer.KINDS}
            print(json.dumps(answer | {"bulk": hasattr(peer, "submit_many")}))
        case "clock":
            do(peer.submit_clock(int(words[0]), Notes(Path(os.environ["BENCH_NOTES"])).wait))
            print("{}")
        case _:
            kind, count, payload = words[0], int(words[1]), "x" * int(words[2])
            way = getattr(peer, verb)
            if verb == "submit":
                do(way(kind, payload, 10))  # connections are open and caches warm now
            began = time.perf_counter()
            do(way(kind, payload, count))
            print(json.dumps({"seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main(*sys.argv[1:])
