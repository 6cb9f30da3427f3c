"""The three standard streams of a process of ours, which whoever started it may have closed."""

import os
import sys
from contextlib import suppress
from typing import NoReturn


def open_what_is_closed() -> None:
    """Let nothing else, such as the connection to Redis, take the place of a standard stream that is closed.

    Here and in the processes that this one starts.
    """
    while (place := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest that is free
        os.set_inheritable(place, True)
    os.close(place)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def leave(code: int) -> NoReturn:
    """End the process now: a handler that still sits in a thread does not hold it up, as `sys.exit` would let it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more, or it has been closed
            stream.flush()
    os._exit(code)
