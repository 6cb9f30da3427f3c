"""How many instructions the server executes for a task, counted by callgrind: alike on every x86-64 machine."""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import stage
from benchmarks.figures import Figure
from benchmarks.limit import DATA, KEY, SUBMIT
from benchmarks.run import Plan
from benchmarks.tasks import app, noop_async
from dtq_engine import new_id
from dtq_engine.embedded import EmbeddedValkey, shipped_binary
from dtq_engine.model import Claim, NewTask, Succeed

BULK = 100
"""As many as are done before the client takes the answer for lost and sends them again: callgrind is slow."""
BATCH = 50

FUNCTION = re.compile(r"^ *([\d,]+) \([ \d.]+%\)  (\S*?):(\S+)(?: \[(.*)\])?", re.MULTILINE)
MEMORY = re.compile(r"_?z?(m|c|re)alloc|z?free|(try)?z(m|c|re)alloc_usable|zmalloc|_int_|sdsfree|decrRefCount")
LIBRARY = "libc.so"
SLACK = 0x4000
"""How far beyond its named functions the others of Lua may lie."""


def instructions(_plan: Plan) -> tuple[Figure, ...]:
    """Instructions per task on each path, and their groups."""
    found: list[Figure] = []
    with counted() as server:
        stage.attach(server.url)
        for name, (tasks, work) in paths().items():
            total, groups = server.during(work)
            found.append(Figure(f"{name}: in all", "instructions per task", (total / tasks,)))
            found += [Figure(f"{name}: {group}", "instructions per task", (part / tasks,)) for group, part in groups]
        app.close()
    return tuple(found)


def paths() -> dict[str, tuple[int, Callable[[], None]]]:
    """What is counted, each with the number of its tasks."""
    store = app.store
    digest = store.workers.announce(["default"], [noop_async.name])
    claims: list[Claim] = []
    bare = app.connection.client.register_script(SUBMIT)

    def task() -> NewTask:
        return NewTask(id=new_id(), type=noop_async.name, payload=stage.PAYLOAD)

    def claim(limit: int = BATCH) -> None:
        found = store.leases.claim("default", worker="w", token=new_id(), limit=limit, types_digest=digest)
        claims.extend(found.claims)

    def finalize(count: int = BATCH) -> None:
        store.leases.finalize([(claims.pop(), Succeed(None)) for _ in range(count)])

    def single() -> None:
        store.intake.submit([task()])

    def bulk() -> None:
        store.intake.submit([task() for _ in range(BULK)])

    single()
    claim(1)
    finalize(1)
    bare(keys=[KEY], args=["0", DATA])
    return {
        "PING": (20, lambda: times(20, app.connection.ping)),
        "bare submit script": (20, lambda: times(20, lambda: bare(keys=[KEY], args=[new_id(), DATA]))),
        "submit, one by one": (20, lambda: times(20, single)),
        f"submit, {BULK} a call": (BULK, bulk),
        "claim, one a call": (20, lambda: times(20, lambda: claim(1))),
        f"claim, {BATCH} a call": (2 * BATCH, lambda: times(2, claim)),
        "finalize, one a call": (20, lambda: times(20, lambda: finalize(1))),
        f"finalize, {BATCH} a call": (2 * BATCH, lambda: times(2, finalize)),
    }


def times(count: int, work: Callable[[], object]) -> None:
    """Do it so often."""
    for _ in range(count):
        work()


class Counted:
    """A server under callgrind."""

    def __init__(self, server: EmbeddedValkey, folder: Path) -> None:
        self.url = server.url
        self._pid = server.pid
        self._folder = folder
        self._count = 0

    def during(self, work: Callable[[], None]) -> tuple[int, list[tuple[str, int]]]:
        """The instructions that the server executed meanwhile, in all and by group, the largest group first."""
        self._dump()  # which begins the count anew
        work()
        return counts(self._dump())

    def _dump(self) -> Path:
        """The next dump, complete: callgrind may write it after it was told to."""
        self._count += 1
        dump = self._folder / f"dump.{self._count}"
        subprocess.run(["callgrind_control", "--dump", str(self._pid)], capture_output=True, check=True)
        stage.until(lambda: dump.exists() and "\ntotals:" in dump.read_text(), most_s=60)
        return dump


def counts(dump: Path) -> tuple[int, list[tuple[str, int]]]:
    """What one dump counted, by callgrind_annotate."""
    said = subprocess.run(
        ["callgrind_annotate", "--threshold=100", str(dump)], capture_output=True, text=True, check=True
    ).stdout
    lua = lua_addresses()
    groups: dict[str, int] = {}
    # The functions that were under way when the count began are said to have done all of it.
    whole, *each = [(int(number.replace(",", "")), *where) for number, *where in FUNCTION.findall(said)]
    for number, source, function, image in each:
        if number < whole[0]:
            group = group_of(source, function, image, lua)
            groups[group] = groups.get(group, 0) + number
    return sum(groups.values()), sorted(groups.items(), key=lambda group: -group[1])


def group_of(source: str, function: str, image: str, lua: range) -> str:
    """What a function is for. Those of Lua have no names in the shipped server, but lie together."""
    if function.startswith("lua") or (function.startswith("0x") and int(function.partition("'")[0], 16) in lua):
        return "Lua"
    if MEMORY.match(function) or "malloc" in source:
        return "memory"
    return "text and numbers in libc" if LIBRARY in image else "commands, data, network"


def lua_addresses() -> range:
    """Where the interpreter lies in the server: between the first and the last of its names."""
    said = subprocess.run(["nm", "-D", str(shipped_binary())], capture_output=True, text=True, check=True).stdout
    found = [int(address, 16) for address in re.findall(r"^([0-9a-f]+) T luaL?_", said, re.MULTILINE)]
    return range(min(found) - SLACK, max(found) + SLACK)


@contextmanager
def counted() -> Iterator[Counted]:
    """An empty server under callgrind. Raises RuntimeError where there is none."""
    if not shutil.which("callgrind_control"):
        raise RuntimeError("there is no valgrind here (Debian: apt-get install valgrind)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binary = folder / "server"
        options = f"--tool=callgrind --callgrind-out-file={folder}/dump"
        binary.write_text(f'#!/bin/sh\nexec valgrind {options} {shlex.quote(str(shipped_binary()))} "$@"\n')
        binary.chmod(0o700)
        with EmbeddedValkey(folder / "data", appendonly=False, binary=binary) as server:
            yield Counted(server, folder)
