"""What tests start, and what that starts, is gone when they are killed; nothing else is touched."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dtq_engine.config import KIN_MARK

ROOT = Path(__file__).parents[2]
# Its input ends when the process does that started it.
WATCHDOG = """
import sys

if not sys.stdin.buffer.read():
    from dtq_engine.worker.kin import end_kin

    end_kin([sys.argv[1]])
"""


@contextmanager
def kin_end_with_this_process() -> Iterator[None]:
    """If this process is killed in here, all that it has started by then, and what that has, is killed as well.

    What is left when the context ends in good order is left alone.
    """
    earlier = os.environ.get(KIN_MARK, "")
    mark = f"{earlier}/{secrets.token_hex(8)}"
    # A session of its own: Ctrl-C is not for it.
    watchdog = subprocess.Popen(
        [sys.executable, "-c", WATCHDOG, mark], stdin=subprocess.PIPE, start_new_session=True, cwd=ROOT
    )
    os.environ[KIN_MARK] = mark
    try:
        yield
    finally:
        os.environ[KIN_MARK] = earlier
        watchdog.communicate(b"in good order")


class Grips:
    """Processes that a test has seen, to be killed after it: those very ones, never another with the number of one."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def take(self, pid: int) -> None:
        """Hold this one, if it is still there."""
        with suppress(ProcessLookupError):
            self._held.append(os.pidfd_open(pid))

    def kill(self) -> None:
        """Kill those that still live."""
        while self._held:
            held = self._held.pop()
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(held, signal.SIGKILL)
            os.close(held)
