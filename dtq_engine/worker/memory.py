"""How much memory this process uses."""

import os
from pathlib import Path

STATM = Path("/proc/self/statm")


def resident_kib(statm: Path = STATM) -> int | None:
    """What of this process is in memory, in KiB, as Linux tells it (proc(5): `statm`); None elsewhere."""
    try:
        return int(statm.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    except (OSError, ValueError, IndexError):
        return None
