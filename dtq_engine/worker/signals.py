"""What SIGTERM and SIGINT mean to a worker."""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from dtq_engine.copies import Disowned

SAME_TERM_S = 2.0
SAME_INT_S = 0.5
EXIT_INTERRUPTED = 130


class Signals:
    """While it is entered, in the main thread: the first signal drains, and a later one ends the waiting.

    Supervisors repeat SIGTERM, so within 2 s it is the same one; after that it cuts the drain short. A second
    SIGINT ends the process at once (a terminal and a parent process may send one Ctrl-C both: within half a
    second it is the same), by way of `abort` if there is one. Copies that handlers fork are not meant.
    """

    def __init__(
        self, stop: Callable[[], None], hurry: Callable[[], None], abort: Callable[[], None] | None = None
    ) -> None:
        self._stop = stop
        self._hurry = hurry
        self._abort = abort or exit_at_once
        self._first_at: float | None = None
        self._earlier: dict[int, Any] = {}
        self._disowned: Disowned | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._earlier = {number: signal.signal(number, self._on) for number in (signal.SIGTERM, signal.SIGINT)}
            self._disowned = Disowned(self._on)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)

    def _on(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first_at is None:
            self._first_at = now
            self._stop()
        elif number == signal.SIGINT and now - self._first_at >= SAME_INT_S:
            self._abort()
        elif number == signal.SIGTERM and now - self._first_at >= SAME_TERM_S:
            self._hurry()


def exit_at_once() -> None:
    """End this process as Ctrl-C does, with nothing put away."""
    os._exit(EXIT_INTERRUPTED)
