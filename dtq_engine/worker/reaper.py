"""Taking over the tasks of workers that are gone."""

import logging
import random
from collections.abc import Callable, Iterable, Sequence

from dtq_engine import crash
from dtq_engine.errors import ClaimLost, DtqError, RedisUnavailable
from dtq_engine.ids import new_token
from dtq_engine.model import Claim, Settled
from dtq_engine.policy import decide
from dtq_engine.registry import Registry
from dtq_engine.store import Store
from dtq_engine.worker import callbacks
from dtq_engine.worker.failures import Failures
from dtq_engine.worker.finalize import refusal, report
from dtq_engine.worker.loop import Loop
from dtq_engine.worker.outage import Outage
from dtq_engine.worker.outcomes import lease_expired
from dtq_engine.worker.server import ServerFacts

log = logging.getLogger("dtq.worker")


class Reaper(Loop):
    """Decides what becomes of executions whose lease has expired: the task's own retry policy is asked.

    After Redis was away it holds off for one visibility period, in which live workers renew their leases.
    """

    name = "reaper"

    def __init__(
        self,
        *,
        worker_id: str,
        store: Store,
        registry: Registry,
        failures: Failures,
        queues: Callable[[], Iterable[str]],
        server: Callable[[], ServerFacts],
        outage: Outage,
        rest_s: float,
        max_lease_expiries: int,
    ) -> None:
        super().__init__(outage, rest_s)
        self._worker_id = worker_id
        self._store = store
        self._registry = registry
        self._failures = failures
        self._queues = queues
        self._server = server
        self._max_lease_expiries = max_lease_expiries

    def step(self) -> None:
        """One round over the queues."""
        with self._outage.exchange():
            server = self._server()
        self._outage.saw_server(server.run_id, server.uptime_s)
        if not self._outage.over:
            return
        for queue in self._queues():
            try:
                self._reap(queue)
            except RedisUnavailable:
                raise
            except DtqError as error:
                # A damaged key in one queue must not cost the others their reaper.
                self._complain(f"cannot reap the queue {queue}: {error}")

    def _reap(self, queue: str) -> None:
        while not self.stopped and (claims := self._take_over(queue)):
            log.warning("took over %d tasks of the queue %s from workers that are gone", len(claims), queue)
            self._settle(claims)

    def _take_over(self, queue: str) -> list[Claim]:
        with self._outage.exchange():
            steady_ms = self._outage.steady_ms
            return self._store.schedule.reclaim(queue, reaper=self._worker_id, token=new_token(), steady_ms=steady_ms)

    def _settle(self, claims: Sequence[Claim]) -> None:
        crash.at("reclaim-undecided")
        failures = self._judged(claims)
        items = [
            (claim, decide(claim, failure, luck=random.uniform(-1, 1), max_lease_expiries=self._max_lease_expiries))
            for claim, failure in zip(claims, failures, strict=True)
        ]
        for (claim, transition), answer in zip(items, self._store.leases.finalize(items), strict=True):
            if answer is Settled.DAMAGED:
                # It comes back to a reaper in ten seconds.
                self._complain(refusal(self._store, claim.queue))
                continue
            report(claim, transition, answer, self._registry.redacted(claim.type))
            self._failures.tell(claim, transition, answer)

    def _judged(self, claims: Sequence[Claim]) -> list[callbacks.Failure]:
        """Each claim's failure, with the say of its retry callback where this build has one."""
        now_ms = self._store.now_ms()
        failures: list[callbacks.Failure] = [lease_expired(claim, now_ms) for claim in claims]
        questions: dict[int, callbacks.Question] = {}
        for position, (claim, failure) in enumerate(zip(claims, failures, strict=True)):
            handler = self._registry.get(claim.type)
            if handler is not None and handler.retry is not None and callbacks.may_decide(failure, claim):
                questions[position] = (failure, handler.retry, ClaimLost(failure.error.message))
        for position, answer in zip(questions, callbacks.ask(list(questions.values())), strict=True):
            failures[position] = answer
        return failures
