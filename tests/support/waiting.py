"""Wait for a condition instead of sleeping for luck."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout: float = 10.0, interval: float = 0.01) -> T:
    """The first true value of `condition()`; AssertionError if there was none within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still {value!r} after {timeout} s: {getattr(condition, '__name__', condition)}")
        time.sleep(interval)
    return value
