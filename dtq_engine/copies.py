"""Copies of a process, which handlers make by forking, as multiprocessing does: what must not be theirs.

A copy has one thread, that which forked. It has all that the process had, locks that other threads held too.
"""

import os
import signal
import threading
import weakref
from collections.abc import Callable
from types import FrameType

OnSignal = Callable[[int, FrameType | None], None]

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def in_copies(method: Callable[[], None]) -> None:
    """Have this method called at once in each copy of this process, as long as its object lives."""
    os.register_at_fork(after_in_child=_weak(method))


class Disowned:
    """As long as this lives, SIGTERM and SIGINT end copies of this process, if `handler` handles them here.

    Otherwise nobody could end a copy, as `terminate` of multiprocessing does.
    """

    def __init__(self, handler: OnSignal) -> None:
        self._handler = handler
        self._forking = threading.local()
        before, after, in_copy = map(_weak, (self._block, self._unblock, self._disown))
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=in_copy)

    def _block(self) -> None:
        # A signal that reaches a copy before its first step would be lost.
        self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._forking.mask)

    def _disown(self) -> None:
        for number in SIGNALS:
            if signal.getsignal(number) == self._handler:
                # Not Python's own for SIGINT: the KeyboardInterrupt of one that comes at this moment would be lost.
                signal.signal(number, signal.SIG_DFL)
        self._unblock()


def _weak(method: Callable[[], None]) -> Callable[[], None]:
    known = weakref.WeakMethod(method)

    def call() -> None:
        if (found := known()) is not None:
            found()

    return call
