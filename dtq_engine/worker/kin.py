"""What a process has started, wherever that has gone: found by parentage, and by a mark that is handed down.

A process group ends with one signal, but a program in a session of its own leaves it. On Linux it is still found in
/proc: as a descendant; or, once its parent is gone, by a variable of the environment that it was started with. Only
what has lost its parent and was given another environment is not.
"""

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dtq_engine.config import KIN_MARK

PROC = Path("/proc")
# What is being killed may start others meanwhile.
ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Running:
    """A process of this machine, as far as it matters here."""

    pid: int
    parent: int
    group: int


def end_kin(marks: Collection[str], roots: Collection[int] = ()) -> None:
    """Kill what carries these marks, or longer ones, and what descends from these processes; not those themselves.

    What is in the process group of one of them is left to whoever ends that. A root that goes on may start more.
    """
    signs = [f"{KIN_MARK}={mark}".encode() for mark in marks]
    for _ in range(ROUNDS):
        found = [each for each in _kin(signs, roots) if each.group not in roots and each.pid != os.getpid()]
        if not found:
            return
        for each in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL)


def _kin(signs: Collection[bytes], roots: Collection[int]) -> Iterator[Running]:
    running = {each.pid: each for each in _all_running()}
    for each in running.values():
        if each.pid not in roots and (_descends(each, roots, running) or _is_marked(each, signs)):
            yield each


def _descends(one: Running, roots: Collection[int], running: Mapping[int, Running]) -> bool:
    parent = running.get(one.parent)
    # Read one after the other, they may even seem to be a circle: no family is as old as that.
    for _ in range(len(running)):
        if parent is None:
            return False
        if parent.pid in roots:
            return True
        parent = running.get(parent.parent)
    return False


def _is_marked(one: Running, signs: Collection[bytes]) -> bool:
    with suppress(OSError):  # it is gone, or somebody else's
        environ = (PROC / str(one.pid) / "environ").read_bytes()
        return any(each.startswith(sign) for sign in signs if sign in environ for each in environ.split(b"\0"))
    return False


def _all_running() -> Iterator[Running]:
    with suppress(OSError):  # not every system has it
        for place in PROC.iterdir():
            if place.name.isdigit() and (found := _running(int(place.name))) is not None:
                yield found


def _running(pid: int) -> Running | None:
    with suppress(OSError):
        # After the name, which may hold anything: state, parent, group.
        state, parent, group = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[:3]
        return None if state in b"ZX" else Running(pid, int(parent), int(group))
    return None
