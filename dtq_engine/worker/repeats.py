"""Failures that come again and again, said often enough to be seen and seldom enough to leave a log readable."""

import time
from collections.abc import Callable

FIRST_S = 60.0
MOST_S = 3600.0
KEPT = 100


class Repeats:
    """Says whether a message is to be logged: at once, then after a minute, and twice as long each time up to an hour.

    One that was not heard of for as long as that begins anew.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[str, tuple[float, float]] = {}  # message → when it is due again, and the pause after that

    def is_due(self, message: str) -> bool:
        """Whether it is to be logged now."""
        now = self._clock()
        due, pause_s = self._said.get(message, (now, FIRST_S))
        if now < due:
            return False
        if now > due + pause_s:
            pause_s = FIRST_S
        self._said[message] = (now + pause_s, min(MOST_S, 2 * pause_s))
        if len(self._said) > KEPT:
            del self._said[min(self._said, key=lambda each: self._said[each][0])]
        return True
