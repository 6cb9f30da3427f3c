"""The end of a web process is known to all that wait in it."""

import signal
import threading
from types import FrameType
from typing import Any
from weakref import WeakSet

# Signals belong to the process, and so does the list of those who are told; an app may be mounted where none can find
# it. An app that is no longer used is not kept by this.
_told: WeakSet[threading.Event] = WeakSet()


def tell(stopping: threading.Event) -> None:
    """Have an event set when this process is told to end, if `announce` is called in it, before this or after it."""
    _told.add(stopping)


def announce() -> None:
    """Have SIGTERM, SIGINT and SIGQUIT set `Web.stopping` of all apps of this process before what they did anyway.

    For the main thread only.
    """
    first = iter([True])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        before: Any = signal.getsignal(number)

        def heard(signum: int, frame: FrameType | None, before: Any = before) -> None:
            # A signal that interrupts the handling of another one must not wait for a lock that its own thread holds.
            if next(first, False):
                for stopping in list(_told):
                    stopping.set()
            if callable(before):
                before(signum, frame)

        signal.signal(number, heard)
