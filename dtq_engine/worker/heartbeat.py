"""Staying alive: the worker's leases and its entry in the list of workers."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.model import Claim, WorkerInfo
from dtq_engine.store import Store
from dtq_engine.worker.attendance import Attendance
from dtq_engine.worker.execution import Cause, Key
from dtq_engine.worker.inflight import InFlight
from dtq_engine.worker.known_types import KnownTypes
from dtq_engine.worker.logs import facts, title
from dtq_engine.worker.loop import Loop
from dtq_engine.worker.outage import Outage

log = logging.getLogger("dtq.worker")

Lease = tuple[Claim, int | None]
"""What is to be renewed, and for how many ms it has run; None for what is kept however long that is."""


class Heartbeat(Loop):
    """Renews the leases of all that runs, then says that the worker is alive."""

    name = "heartbeat"

    def __init__(
        self,
        *,
        store: Store,
        inflight: InFlight,
        types: KnownTypes,
        attendance: Attendance,
        describe: Callable[[], WorkerInfo],
        interrupt: Callable[[Key, Cause], None],
        outage: Outage,
        interval_s: float,
        ttl_s: float,
    ) -> None:
        super().__init__(outage, interval_s)
        self._store = store
        self._inflight = inflight
        self._types = types
        self._attendance = attendance
        self._describe = describe
        self._interrupt = interrupt
        self._ttl_s = ttl_s
        self._beating = threading.Lock()

    def step(self) -> None:
        """One heartbeat. The leases come first: they are what a late heartbeat endangers."""
        self._renew_all(self._leases())
        with self._beating:
            if not self.stopped:
                with self._outage.exchange():
                    known = self._store.workers.beat(self._describe(), self._ttl_s)
                self._attendance.show(is_news=not known)
        self._types.refresh()
        self._outage.ended()

    def leave(self) -> None:
        """Take the worker off the list; no heartbeat puts it back."""
        with self._beating:
            self.stop()
            # First, so that a worker that gets no further is missed where it did not say so.
            self._attendance.end()
            self._store.workers.leave(self._describe().id)

    def _leases(self) -> list[Lease]:
        now = time.monotonic()
        running = [(each.claim, each.ran_ms(now)) for each in self._inflight.running() if each.cause is not Cause.LOST]
        return [*running, *((claim, None) for claim in list(self._inflight.held.values()))]

    def _renew_all(self, leases: Sequence[Lease]) -> None:
        # Band by band, as each is a stream of its own: a damaged one must not cost the others their leases.
        bands: dict[tuple[str, int], list[Lease]] = {}
        for claim, ran_ms in leases:
            bands.setdefault((claim.queue, claim.priority), []).append((claim, ran_ms))
        for (queue, priority), members in bands.items():
            try:
                with self._outage.exchange():
                    self._renew(members)
            except RedisUnavailable:
                raise
            except DtqError as error:
                self._complain(f"cannot renew leases of the queue {queue}, priority {priority}: {error}")

    def _renew(self, leases: Sequence[Lease]) -> None:
        renewal = self._store.leases.renew(
            [claim for claim, _ in leases],
            overdue=[claim.key for claim, ran_ms in leases if ran_ms is None],
            ran_ms={claim.key: ran_ms for claim, ran_ms in leases if ran_ms is not None},
        )
        for key in renewal.cancel:
            self._interrupt(key, Cause.CANCEL)
        for key in renewal.lost:
            self._lose(key)

    def _lose(self, key: Key) -> None:
        # What has ended here since the list was made is no loss: its lease went with its end.
        execution = self._inflight.find(key)
        if execution is not None:
            claim = execution.claim
            log.warning("%s lost its lease while it runs here", title(claim), extra=facts(claim))
            self._interrupt(key, Cause.LOST)
