"""Threads that wait for tasks to end: however many, they share one subscription.

A message is only a hint: whoever is woken, or has waited long enough, looks at the record itself.
"""

import random
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from dtq_engine import ids
from dtq_engine.connection import Connection
from dtq_engine.errors import RedisUnavailable
from dtq_engine.model import Task
from dtq_engine.store import Store
from dtq_engine.subscription import Subscription

POLL_S = 1.0
"""How often a waiter looks while the subscription is down."""

LOOK_S = 20.0
"""How often it looks anyway, since a message can be lost."""

LINGER_S = 10.0
"""How long the subscription outlives its last waiter."""

TICK_S = 0.2
"""How soon the listener sees that it is to end."""

_SHARED = "*"


class Waiters:
    """All the waiting that one process does on one Redis."""

    def __init__(self, connection: Connection, store: Store) -> None:
        self._connection = connection
        self._store = store
        self._process = ids.new_token()
        self._lock = threading.Lock()
        self._bells: dict[str, list[threading.Event]] = {}
        self._listener: threading.Thread | None = None
        self._subscribed = False
        self._closed = threading.Event()

    def wait(self, task_id: str, queue: str, timeout_s: float | None = None) -> Task | None:
        """The task once it has ended; None if it has not within `timeout_s`. Without a limit, however long it takes.

        Raises TaskNotFound when the record is gone, and RedisUnavailable if Redis is away at the start or at
        the end; an outage in between is waited out.
        """
        ends = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        task = self._store.inspect.get(task_id, queue=queue)
        if task.status.is_final or timeout_s == 0:
            return task if task.status.is_final else None
        with self._bell(task_id) as bell:
            while True:
                found = self._look(task_id, queue, last=time.monotonic() >= ends)
                if found or time.monotonic() >= ends:
                    return found
                bell.wait(min(ends - time.monotonic(), self._patience_s()))
                bell.clear()

    def close(self) -> None:
        """End the subscription, before its connection is closed. Those who still wait look each second."""
        self._closed.set()
        if listener := self._listener:
            listener.join()

    def _look(self, task_id: str, queue: str, *, last: bool) -> Task | None:
        """The task if it has ended; else this process is among those told of its end."""
        try:
            if self._store.leases.watch(task_id, queue, self._process).is_final:
                return self._store.inspect.get(task_id, queue=queue)
        except RedisUnavailable:
            if last:
                raise
        return None

    def _patience_s(self) -> float:
        return (LOOK_S if self._subscribed else POLL_S) * random.uniform(0.8, 1.0)

    @contextmanager
    def _bell(self, task_id: str) -> Generator[threading.Event]:
        bell = threading.Event()
        with self._lock:
            self._bells.setdefault(task_id, []).append(bell)
            self._ensure_listener()
        try:
            yield bell
        finally:
            with self._lock:
                self._bells[task_id].remove(bell)
                if not self._bells[task_id]:
                    del self._bells[task_id]

    def _ensure_listener(self) -> None:
        if self._listener is None and not self._closed.is_set():
            self._listener = threading.Thread(target=self._listen, name="dtq-waiters", daemon=True)
            self._listener.start()

    def _listen(self) -> None:
        """Ring for each message, subscribing anew whenever the connection breaks, until nobody waits any more."""
        channels = [self._store.keys.done_channel(name) for name in (self._process, _SHARED)]
        while not self._is_over():
            try:
                with self._connection.listen(channels) as subscription:
                    self._relay(subscription)
            except RedisUnavailable:
                self._closed.wait(random.uniform(0.5, 1.5) * POLL_S)
            finally:
                self._subscribed = False

    def _relay(self, subscription: Subscription) -> None:
        self._subscribed = True
        self._ring_all()  # what ended before the subscription stood was not announced to it
        idle_since = time.monotonic()
        while not self._closed.is_set():
            message = subscription.get(TICK_S)
            if message:
                self._ring(message[1].partition(b" ")[0].decode())
            if self._bells:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > LINGER_S:
                return

    def _is_over(self) -> bool:
        """Whether the listener ends now; decided under the lock, so that a new waiter starts another."""
        with self._lock:
            over = self._closed.is_set() or not self._bells
            if over:
                self._listener = None
            return over

    def _ring(self, task_id: str) -> None:
        with self._lock:
            for bell in self._bells.get(task_id, ()):
                bell.set()

    def _ring_all(self) -> None:
        with self._lock:
            for bells in self._bells.values():
                for bell in bells:
                    bell.set()
