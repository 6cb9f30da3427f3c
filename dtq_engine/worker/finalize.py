"""Carrying outcomes to Redis, in batches."""

import logging
import random
import time
from collections.abc import Collection, Sequence
from queue import Empty

from dtq_engine import crash
from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.masking import Masks
from dtq_engine.model import (
    AttemptError,
    Block,
    Claim,
    DeadLetter,
    LeaseExpired,
    Misfit,
    Outcome,
    Release,
    Reschedule,
    Settled,
    Succeed,
    Transition,
)
from dtq_engine.policy import decide
from dtq_engine.registry import Registry
from dtq_engine.store import Store
from dtq_engine.worker.execution import Key
from dtq_engine.worker.failures import Failures
from dtq_engine.worker.fleet import Fleet
from dtq_engine.worker.inflight import Ended, InFlight
from dtq_engine.worker.logs import facts, title
from dtq_engine.worker.loop import Loop
from dtq_engine.worker.outage import Outage
from dtq_engine.worker.reports import Reporter

log = logging.getLogger("dtq.worker")

BATCH = 100
PAUSE_S = 1.0
HOLD_FIRST_S = 0.5
HOLD_MOST_S = 5.0

Item = tuple[Claim, Transition]

LOGGED = 1000
"""How many characters of what an error says are logged; the task itself has more."""

HELD = "ends of tasks of the queue {} cannot be recorded, and are held until they can be"


class Finalizer(Loop):
    """Takes the outcomes that are there, up to 100, and sends them until Redis has answered.

    Those that it refuses, because a key that they need is damaged, are held and sent again: somebody will mend it.
    """

    name = "finalize"

    def __init__(
        self,
        *,
        store: Store,
        inflight: InFlight,
        fleet: Fleet,
        failures: Failures,
        reporter: Reporter,
        outage: Outage,
        registry: Registry,
        max_lease_expiries: int,
    ) -> None:
        super().__init__(outage)
        self._reporter = reporter
        self._fleet = fleet
        self._failures = failures
        self._registry = registry
        self._store = store
        self._inflight = inflight
        self._max_lease_expiries = max_lease_expiries
        self._batch: list[Ended] = []
        self._held: dict[Key, Item] = {}
        self._hold_until = 0.0
        self._hold_s = HOLD_FIRST_S

    def step(self) -> None:
        """Finalize one batch, and what is held if it is time; without Redis both are kept for the next step."""
        self._batch = self._batch or self._take()
        if self._batch:
            self._finalize()
        if self._held and time.monotonic() >= self._hold_until:
            self._try_again()

    def _finalize(self) -> None:
        # A lost lease is a reaper's to judge, so nothing is sent about it.
        mine = [ended for ended in self._batch if not isinstance(ended[1], LeaseExpired)]
        self._reporter.conclude(claim for claim, _ in self._batch)
        crash.at("before-finalize")
        self._hold(self._send([(claim, self._decide(claim, outcome)) for claim, outcome in mine]))
        crash.at("after-finalize")
        done = [claim for claim, _ in self._batch if claim.key not in self._held]
        self._batch = []
        self._let_go(done)

    def _hold(self, items: Sequence[Item]) -> None:
        if items and not self._held:
            self._hold_s, self._hold_until = HOLD_FIRST_S, time.monotonic() + HOLD_FIRST_S
        for claim, transition in items:
            self._held[claim.key] = claim, transition
            self._inflight.held[claim.key] = claim

    def _try_again(self) -> None:
        left = {claim.key for claim, _ in self._send(list(self._held.values()))}
        self._hold_s = min(HOLD_MOST_S, 2 * self._hold_s)
        self._hold_until = time.monotonic() + self._hold_s
        done = [claim for key, (claim, _) in self._held.items() if key not in left]
        for claim in done:
            del self._held[claim.key], self._inflight.held[claim.key]
        self._let_go(done)

    def stop(self) -> None:
        """Ask the loop to end, even while it waits for outcomes."""
        super().stop()
        self._inflight.ended.put(None)

    def _take(self) -> list[Ended]:
        ended = self._inflight.ended
        batch: list[Ended] = []
        try:
            item = ended.get(timeout=PAUSE_S)
            while item is not None:
                batch.append(item)
                if len(batch) == BATCH:
                    break
                item = ended.get_nowait()
        except Empty:
            pass
        return batch

    def _decide(self, claim: Claim, outcome: Outcome | Block | Release) -> Transition:
        if isinstance(outcome, Block | Release):
            return outcome
        if isinstance(outcome, Misfit) and self._fleet.disagrees_on(claim.type):
            # A release is being rolled out: a payload that this build cannot read may be another's.
            return Block(f"payload_misfit:{claim.type}")
        return decide(claim, outcome, luck=random.uniform(-1, 1), max_lease_expiries=self._max_lease_expiries)

    def _send(self, items: Sequence[Item]) -> list[Item]:
        """Record these; those that are refused for now."""
        try:
            answers = self._store.leases.finalize(items)
        except RedisUnavailable:
            raise
        except Exception as error:
            if len(items) > 1:
                # One damaged key must not hold up the tasks of other queues.
                return [refused for item in items for refused in self._send([item])]
            return self._refused(items[0], error)
        for (claim, transition), answer in zip(items, answers, strict=True):
            # What went well is by far the most, and nobody wants to read it.
            if answer is not Settled.DAMAGED and (answer is not Settled.OK or not isinstance(transition, Succeed)):
                report(claim, transition, answer, self._registry.redacted(claim.type))
                self._failures.tell(claim, transition, answer, self._inflight.raised.get(claim.key))
        refused = [item for item, answer in zip(items, answers, strict=True) if answer is Settled.DAMAGED]
        for queue in {claim.queue for claim, _ in refused}:
            self._complain(refusal(self._store, queue))
        return refused

    def _refused(self, item: Item, error: Exception) -> list[Item]:
        claim = item[0]
        if isinstance(error, DtqError):
            self._complain(f"{HELD.format(claim.queue)}: {error}")
            return [item]
        log.error("%s cannot be recorded and is left to a reaper", title(claim), extra=facts(claim), exc_info=error)
        return []

    def _let_go(self, done: Sequence[Claim]) -> None:
        for claim in done if self._inflight.raised else ():
            self._inflight.raised.pop(claim.key, None)
        self._inflight.release(len(done))


def refusal(store: Store, queue: str) -> str:
    """Why the ends of a queue's tasks are refused."""
    wrong = store.health.wrong_types(queue)
    why = str(wrong[0]) if wrong else "a key that they need was damaged"
    return f"{HELD.format(queue)}: {why}; rename or delete it, then run dtq doctor --repair."


def report(claim: Claim, transition: Transition, answer: Settled, redact: Collection[str]) -> None:
    """Log what became of an execution: loudly only what an operator has to know, and no value of what is redacted."""
    name, extra = title(claim), facts(claim)
    match answer, transition:
        case Settled.FENCED, _:
            log.warning("%s does not count: the task has moved on to another holder", name, extra=extra)
        case Settled.GONE, _:
            log.warning("%s does not count: the task is no longer there", name, extra=extra)
        case _, DeadLetter(error, reason):
            log.error("%s failed for good (%s): %s", name, reason, _cause(claim, error, redact), extra=extra)
        case _, Reschedule(error, delay_ms):
            cause = _cause(claim, error, redact)
            log.warning("%s failed and is tried again in %.3g s: %s", name, delay_ms / 1000, cause, extra=extra)
        case _:
            log.debug("%s: %s", name, type(transition).__name__.lower(), extra=extra)


def _cause(claim: Claim, error: AttemptError, redact: Collection[str]) -> str:
    said = f"{error.type}: {Masks(redact, (claim.payload,)).text(error.message)}"
    return said if len(said) <= LOGGED else f"{said[: LOGGED - 1]}…"
