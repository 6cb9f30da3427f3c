"""Redis away is not workers dead: when it was seen to be away, and for how long its leases cannot be judged."""

import itertools
import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from dtq_engine.errors import RedisUnavailable
from dtq_engine.store.schedule import late_s

log = logging.getLogger("dtq.worker")

# A heartbeat that failed is tried again up to 1.5 s later; short leases wait for that one too.
HOLD_LEAST_S = 2.0
NEWCOMER_S = 10.0


class Outage:
    """What this worker knows of times without Redis; shared by its loops.

    While Redis is away nobody can renew a lease, so for one visibility period after that no expired lease
    says anything about its worker, and reapers hold off.
    """

    def __init__(self, visibility_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._visibility_s = visibility_s
        self._clock = clock
        self._run_id = ""
        self._since: float | None = None
        self._hold_until = 0.0
        # A new worker that was answered at once is believed that Redis was there a moment ago: that no reaper came
        # before it means that no worker did.
        self._steady_since = clock() - NEWCOMER_S
        self._numbers = itertools.count()
        self._under_way: dict[int, float] = {}  # number of the exchange → when it began

    def began(self, error: RedisUnavailable) -> None:
        """Redis did not answer; said once in the log until it does."""
        self._hold_off()
        self._steady_since = self._clock()
        if self._since is None:
            self._since = self._clock()
            log.warning("Redis is unavailable and will be tried again until it answers: %s", error)

    def ended(self) -> None:
        """Redis answered a heartbeat; the hold-off counts from here, for no lease could be renewed until now."""
        since, self._since = self._since, None
        if since is not None:
            self._hold_off()
            log.warning("Redis is back after %.1f s", self._clock() - since)

    def saw_server(self, run_id: str, uptime_s: float) -> None:
        """Take notice of which server answers: a restarted one, or another after a failover, has been away.

        One that answers before the first heartbeat after an outage has only just come back.
        """
        if self._since is not None or self._run_id not in {"", run_id} or uptime_s < self._visibility_s:
            self._hold_off()
        self._run_id = run_id

    @property
    def over(self) -> bool:
        """Whether Redis has been there for a whole visibility period, so that expired leases mean dead workers."""
        return self._clock() >= self._hold_until

    @contextmanager
    def exchange(self) -> Generator[None, None, None]:
        """Around exchanges with Redis that should be quick: one that is not tells that Redis may have stood still."""
        number = next(self._numbers)
        self._under_way[number] = began = self._clock()
        try:
            yield
        finally:
            # In this order: a look at steady_ms in between still sees this exchange.
            if self._late(began):
                self._steady_since = self._clock()
            del self._under_way[number]

    @property
    def steady_ms(self) -> int:
        """For how long every exchange was quick; 0 while one is late that was not answered yet.

        When Redis goes on after it stood still, a call that was sent just before is answered as quickly as ever, and
        maybe before the one that waited for long.
        """
        if any(self._late(began) for began in list(self._under_way.values())):
            return 0
        return int((self._clock() - self._steady_since) * 1000)

    def _late(self, began: float) -> bool:
        return self._clock() - began > late_s(self._visibility_s)

    def _hold_off(self) -> None:
        self._hold_until = self._clock() + max(self._visibility_s, HOLD_LEAST_S)
