"""Dying on purpose: the points at which tests crash a worker process, to show that no task is lost or ends twice.

`DTQ_CRASH` names one of them; without it, as in production, nothing here does anything.
"""

import os
import signal
from collections.abc import Sequence

from dtq_engine.config import crash_point

POINT = crash_point()


def at(point: str) -> None:
    """End this process as a crash does, if this is the point."""
    if point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


def sent(command: Sequence[object]) -> None:
    """The same between a command and its reply: `sent:` and the command's name, a script's digest or a function's."""
    if POINT and POINT in {f"sent:{word}" for word in command[:2]}:
        at(POINT)
