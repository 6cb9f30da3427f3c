"""Making due tasks available: delayed ones, retries, blocked ones for another look, periodic ones."""

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

from dtq_engine import crash
from dtq_engine.connection import Connection
from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.ids import new_token
from dtq_engine.store import Store
from dtq_engine.worker.loop import Loop
from dtq_engine.worker.outage import Outage
from dtq_engine.worker.ticker import Ticker

log = logging.getLogger("dtq.worker")

LOCK_MS = 3_000
REFRESH_S = 1.0
LOOK_S = 3.0

T = TypeVar("T")


class Scheduler(Loop):
    """One worker of a deployment leads, by a lock; it promotes what is due in every queue there is.

    It knows when each queue's next task or tick is due and waits for exactly that. A new head of a schedule is
    announced to it (`look_at`); should an announcement get lost, all queues are looked at every 3 s. New
    queues are found within a second.
    """

    name = "scheduler"

    def __init__(self, store: Store, outage: Outage, patience_s: float = 0.0) -> None:
        """`patience_s`: for how long workers may be missed before what they alone have is withdrawn."""
        super().__init__(outage)
        self._store = store
        self._ticker = Ticker(store, 1 + math.ceil(patience_s / LOOK_S))
        self._token = new_token()
        self._electing = threading.Lock()
        self._led_at = -math.inf
        self._leading = threading.Event()
        self._due: dict[str, float] = {}
        self._named_at = -math.inf
        self._looked_at = -math.inf
        self._announced: SimpleQueue[str] = SimpleQueue()

    @property
    def leads(self) -> bool:
        """Whether this worker is the leader."""
        return self._leading.is_set() and not self.stopped

    def wait_to_lead(self, timeout_s: float) -> bool:
        """Wait until this worker is the leader; whether it is."""
        return self._leading.wait(timeout_s) and self.leads

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that the leader knows of."""
        return tuple(self._due)

    def look_at(self, queue: str) -> None:
        """Promote this queue now, because its schedule has a new head; any thread may say so."""
        self._announced.put(queue)

    def step(self) -> None:
        """Promote what is due, then wait for what is due next; without the lock, wait for that."""
        if not self._lead():
            self._stopped.wait(random.uniform(0.7, 1.0))
            return
        self._look_around()
        self._promote()
        self._wait()

    def stop(self) -> None:
        """Ask the loop to end, and give up the lock, so that another worker leads at once."""
        super().stop()
        self._announced.put("")

    def release(self) -> None:
        """Give the lock to whoever asks next."""
        with self._electing:
            if self._leading.is_set():
                self._leading.clear()
                self._store.workers.release_lock(self._token)

    def _lead(self) -> bool:
        now = time.monotonic()
        if self.leads and now - self._led_at < REFRESH_S:
            return True
        with self._electing:
            # Taken after `release` the lock would be missed by all for its whole time to live.
            leads = not self.stopped and self._store.workers.acquire_lock(self._token, LOCK_MS)
            self._led_at = now
            if not leads:
                self._leading.clear()
            elif not self._leading.is_set():
                log.info("leads the schedules from now on")
                self._looked_at = -math.inf
                crash.at("leading")
        return leads

    def _look_around(self) -> None:
        """Learn the names of new queues; now and then, look at all."""
        now = time.monotonic()
        if now - self._named_at < REFRESH_S:
            return
        known = self._due
        if now - self._looked_at >= LOOK_S:
            known = {}
            self._survive(self._ticker.take_over, "take over what workers announce")
        try:
            self._due = {queue: known.get(queue, now) for queue in self._store.inspect.queues()}
        finally:
            # Even where their list is damaged: it is mended only by who leads.
            self._leading.set()
        self._named_at = now
        if not known:
            self._looked_at = now

    def _promote(self) -> None:
        for queue, due in list(self._due.items()):
            if due <= time.monotonic():
                self._due[queue] = self._promote_queue(queue)

    def _promote_queue(self, queue: str) -> float:
        """Deal with ticks, promote one batch; when to look again."""
        # A tick that is to start later has a place in the schedule before that is asked what is due next.
        next_tick_in_s = self._survive(lambda: self._ticker.turn(queue), f"deal with the ticks of the queue {queue}")
        next_due_in_s = self._survive(lambda: self._promote_batch(queue), f"promote the queue {queue}")
        return time.monotonic() + min(LOOK_S if each is None else each for each in (next_tick_in_s, next_due_in_s))

    def _promote_batch(self, queue: str) -> float | None:
        promotion = self._store.schedule.promote(queue)
        if promotion.damage:
            self._complain(f"cannot promote all of the queue {queue}: {promotion.damage}")
        if promotion.moved:
            crash.at("after-promote")
        if promotion.outbox:
            self._store.outbox.relay(queue)
        return None if promotion.next_due_in_ms is None else promotion.next_due_in_ms / 1000

    def _survive(self, action: Callable[[], T], what: str) -> T | None:
        """What one queue or worker has damaged must not keep the others waiting."""
        try:
            return action()
        except RedisUnavailable:
            raise
        except DtqError as error:
            self._complain(f"cannot {what}: {error}")
            return None

    def _wait(self) -> None:
        now = time.monotonic()
        until = min([self._led_at + REFRESH_S, self._named_at + REFRESH_S, *self._due.values()])
        try:
            self._due[self._announced.get(timeout=max(0.0, until - now))] = 0.0
            while True:
                self._due[self._announced.get_nowait()] = 0.0
        except Empty:
            self._due.pop("", None)


class ScheduleWatch(Loop):
    """Listens for new heads of schedules on behalf of the leader.

    A loop of its own, because Redis ends a BLPOP up to 100 ms late, which is too late for what is due.
    """

    name = "schedule-watch"

    def __init__(self, scheduler: Scheduler, store: Store, connection: Connection, outage: Outage) -> None:
        super().__init__(outage)
        self._scheduler = scheduler
        self._store = store
        self._connection = connection

    def step(self) -> None:
        """Wait up to 3 s for one announcement; those who do not lead leave them to the leader."""
        if not self._scheduler.wait_to_lead(LOOK_S):
            return
        keys = {self._store.keys.wake_schedule(queue): queue for queue in self._scheduler.queues}
        if not keys:
            self._stopped.wait(REFRESH_S)
        elif (key := self._connection.blpop(list(keys), LOOK_S)) is not None:
            self._scheduler.look_at(keys[key])
