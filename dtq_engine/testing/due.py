"""What a fleet of workers does by itself, one step at a time: the one place that says what is due."""

from collections import Counter
from collections.abc import Callable, Iterator

from dtq_engine.engine import Dtq
from dtq_engine.errors import ClaimLost, ConfigurationError
from dtq_engine.ids import new_token
from dtq_engine.model import Block, Claim, ClaimStatus, Outcome, Release, Transition
from dtq_engine.policy import decide
from dtq_engine.store import Store
from dtq_engine.testing.clock import Clock
from dtq_engine.timetable import definitions
from dtq_engine.worker import callbacks
from dtq_engine.worker.failures import Failures
from dtq_engine.worker.finalize import report
from dtq_engine.worker.known_types import KnownTypes
from dtq_engine.worker.outcomes import lease_expired
from dtq_engine.worker.ticker import Ticker

WORKER = "dtq-test"
PROMOTED_AT_ONCE = 100
REAP_EVERY_MS = 1000
NO_LUCK = 0.0
"""Retries come exactly when their policy says, without jitter, so that a test knows when."""


class Due:
    """Promotes, reclaims, claims and settles, as the leader, reapers, pollers and finalizers of real workers do.

    All queues are served, first those that the settings name for workers.
    """

    def __init__(self, app: Dtq, clock: Clock, failures: Failures) -> None:
        self._app = app
        self._clock = clock
        self._failures = failures
        self.ticks = True
        self._types: KnownTypes | None = None
        self._published: object = None
        self._reaped_ms = 0
        self._room_at_ms: dict[str, int] = {}

    def pass_time(self) -> None:
        """What leader and reapers do as time goes on: due tasks become available, expired leases are taken over."""
        queues, now_ms = self._queues(), self._clock.now_ms(self._store)
        for queue in queues:
            while self._store.schedule.promote(queue).moved >= PROMOTED_AT_ONCE:
                pass
        # News of one queue may end tasks in another, which has news then.
        while sum(self._store.outbox.relay(queue) for queue in queues):
            pass
        if now_ms - self._reaped_ms >= REAP_EVERY_MS:
            self._reaped_ms = now_ms
            for queue in queues:
                self._reap(queue)

    def next_tick_in_ms(self) -> int | None:
        """Deal with the ticks of periodic tasks that have come; milliseconds until the next, None without any."""
        if not self.ticks or not self._app.registry.periodic():
            return None
        found = {each.name: each for each in definitions(self._app.registry, self._app.settings)}
        queues = {each.queue for each in found.values()}
        self._clock.cover(self._store, queues)
        ticker = Ticker(self._store)
        ticker.settle(found)
        waits = [wait_s for queue in queues if (wait_s := ticker.turn(queue)) is not None]
        return max(1, round(min(waits) * 1000)) if waits else None

    def claims(self, over: Callable[[], bool]) -> Iterator[Claim]:
        """Start what is due, one execution at a time, the most urgent first, until nothing is, or it is `over`.

        Each must be settled, or left to its lease, before the next. Raises ConfigurationError without handlers.
        """
        __tracebackhide__ = True
        if not self._app.registry.types():
            raise ConfigurationError(
                ["The app has no tasks that could run: import the modules that register them, or name another app."]
            )
        while not over() and (claim := self._claim()) is not None:
            yield claim

    def settle(
        self, claim: Claim, outcome: Outcome | Block | Release, raised: BaseException | None = None
    ) -> Transition:
        """Record how an execution ended, by the rules of production, and tell the hooks; what was decided."""
        transition = outcome if isinstance(outcome, Block | Release) else self._decide(claim, outcome)
        (answer,) = self._store.leases.finalize([(claim, transition)])
        report(claim, transition, answer, self._app.registry.redacted(claim.type))
        self._failures.tell(claim, transition, answer, raised)
        return transition

    def next_in_ms(self) -> int | None:
        """Milliseconds until something else is due; None if nothing waits for time to pass."""
        waits: list[int] = []
        now_ms = self._clock.now_ms(self._store)
        for queue in self._queues():
            wait = self._store.schedule.promote(queue).next_due_in_ms
            if wait is not None:
                waits.append(wait)
            stats, room_in_ms = self._store.inspect.queue(queue), self._room_at_ms.get(queue, 0) - now_ms
            if stats.running:
                waits.append(round(self._app.settings.visibility_timeout_s * 1000))
            if stats.waiting and room_in_ms > 0:
                waits.append(room_in_ms)
        return min(waits, default=None)

    def waiting(self) -> str:
        """What waits, for people: types with their states, and why those that are blocked are."""
        tasks = [task for task in self._store.inspect.tasks(limit=200).items if not task.status.is_final]
        shown = Counter(f"{task.type} ({task.status}{f', {task.reason}' if task.reason else ''})" for task in tasks)
        return ", ".join(f"{number} × {name}" for name, number in shown.most_common(3))

    @property
    def _store(self) -> Store:
        # Asked for each time: configuring the app within a test makes another one.
        return self._app.store

    def _queues(self) -> list[str]:
        first = self._app.settings.worker_queues
        return sorted(self._store.inspect.queues(), key=lambda queue: (queue not in first, queue))

    def _claim(self) -> Claim | None:
        self.pass_time()
        queues = self._queues()
        types = self._announce(queues)
        for queue in queues:
            while True:
                reply = self._store.leases.claim(
                    queue, worker=WORKER, token=new_token(), limit=1, types_digest=types.digest
                )
                if reply.room_in_ms is not None:
                    self._room_at_ms[queue] = self._clock.now_ms(self._store) + reply.room_in_ms
                if reply.claims:
                    return reply.claims[0]
                if reply.status is ClaimStatus.TYPES:
                    if queue in types.announce():  # it is damaged
                        break
                elif reply.status is not ClaimStatus.AGAIN:
                    break
        return None

    def _announce(self, queues: list[str]) -> KnownTypes:
        """Publish the types, as each worker does, whenever there are other ones."""
        declared = self._app.registry.declared()
        published = (self._store, queues, self._app.registry.types(), declared)
        if self._types is None or published != self._published:
            self._types = KnownTypes(self._store, queues, self._app.registry.published(), (), declared)
            self._types.announce()
            self._published = published
        return self._types

    def _reap(self, queue: str) -> None:
        while claims := self._store.schedule.reclaim(queue, reaper=WORKER, token=new_token()):
            for claim in claims:
                failure: callbacks.Failure = lease_expired(claim, self._clock.now_ms(self._store))
                handler = self._app.registry.get(claim.type)
                if handler is not None and handler.retry is not None and callbacks.may_decide(failure, claim):
                    (failure,) = callbacks.ask([(failure, handler.retry, ClaimLost(failure.error.message))])
                self.settle(claim, failure)

    def _decide(self, claim: Claim, outcome: Outcome) -> Transition:
        return decide(claim, outcome, luck=NO_LUCK, max_lease_expiries=self._app.settings.max_lease_expiries)
