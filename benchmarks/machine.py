"""The machine: what it is, how busy others keep it, and what a process on it has used (Linux)."""

import os
import platform
import re
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.figures import Machine
from dtq_engine.embedded import shipped_binary

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
ROOT = Path(__file__).parent.parent


def describe() -> Machine:
    """What this machine is, and what runs on it."""
    processor = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    said = subprocess.run([shipped_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    server = re.search(r"v=(\S+)", said)
    return Machine(
        processor=processor[1] if processor else platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gib=round(os.sysconf("SC_PHYS_PAGES") * PAGE / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        redis_py=version("redis"),
        server=f"Valkey {server[1]}" if server else said.strip(),
    )


def commit() -> str:
    """The short name of the commit that is measured, with a plus where files were changed since."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or "unknown"


@dataclass
class Others:
    """The share of the machine's time that others used, known once the context has ended."""

    share: float = 0.0


@contextmanager
def watching_others() -> Iterator[Others]:
    """Compare what the machine did meanwhile with what this process and its children did, once those have ended."""
    found, began = Others(), time.monotonic()
    busy, ours = _busy_s(), _ours_s()
    yield found
    whole = (time.monotonic() - began) * (os.cpu_count() or 1)
    found.share = round(max(0.0, (_busy_s() - busy) - (_ours_s() - ours)) / whole, 3) if whole else 0.0


def _busy_s() -> float:
    """Seconds that all cores worked, or could not because the host gave their time to another machine."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def _ours_s() -> float:
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def cpu_s(pid: int) -> float:
    """User and system CPU seconds that a process and its living descendants have used."""
    return sum(_cpu_of(each) for each in family(pid))


def rss_mib(pid: int) -> float:
    """Resident memory of a process and its living descendants."""
    return sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) * PAGE for each in family(pid)) / 2**20


def family(pid: int) -> list[int]:
    """A process and its living descendants."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            found.extend(map(int, task.read_text().split()))
    return found


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
