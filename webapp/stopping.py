"""The end of a web process is known to all that wait in it."""

import signal
from types import FrameType
from typing import Any

from flask import Flask

from webapp.state import Web


def announce(flask: Flask) -> None:
    """Have SIGTERM, SIGINT and SIGQUIT set `Web.stopping` before what they did anyway. For the main thread only."""
    here: Web = flask.extensions["dtq"]
    first = iter([True])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        before: Any = signal.getsignal(number)

        def heard(signum: int, frame: FrameType | None, before: Any = before) -> None:
            # A signal that interrupts the handling of another one must not wait for a lock that its own thread holds.
            if next(first, False):
                here.stopping.set()
            if callable(before):
                before(signum, frame)

        signal.signal(number, heard)
