"""Claiming tasks: strictly in the order of the queues, never more than fit, and never by polling."""

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from dtq_engine import crash
from dtq_engine.connection import Connection
from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.ids import new_token
from dtq_engine.model import Claim, ClaimReply, ClaimStatus
from dtq_engine.store import Store
from dtq_engine.worker.inflight import InFlight
from dtq_engine.worker.known_types import KnownTypes
from dtq_engine.worker.loop import Loop
from dtq_engine.worker.outage import Outage

log = logging.getLogger("dtq.worker")

BATCH = 100
FULL_BATCH = 25
BLOCK_S = 5.0
BLOCK_LATE_S = 0.12
ROOM_S = 1.0
PATIENCE_S = 0.002
ASK_S = 0.02
"""How often at most queues that come first are asked for wake-ups while full batches are claimed from a later one.

To ask is an exchange with Redis: one before each claim took a fifth off what a busy worker can do. With few slots it is
made all the same, since there each single task may be overtaken.
"""
RECOVER_S = 0.3


class Poll(Loop):
    """Claims for free slots.

    A queue is hot while it may hold more: its last claim got all it asked for, or a wake-up token was
    popped from it. Claims go to the first hot queue, and in between those before it are asked for tokens; with
    no hot queue, the loop blocks until a token comes. A token can be lost with a dead connection, so that after
    each block every queue is tried once. A queue over its own limit becomes hot when time makes room, if this
    worker was told when, and by a token otherwise.
    """

    name = "poll"

    def __init__(
        self,
        *,
        worker_id: str,
        queues: Sequence[str],
        waiting: Connection,
        store: Store,
        inflight: InFlight,
        types: KnownTypes,
        run: Callable[[Sequence[Claim]], None],
        may_claim: Callable[[], bool],
        outage: Outage,
    ) -> None:
        super().__init__(outage)
        self._worker_id = worker_id
        self._queues = {store.keys.wake(queue): queue for queue in queues}
        self._waiting = waiting
        self._store = store
        self._inflight = inflight
        self._types = types
        self._run_claims = run
        self._may_claim = may_claim
        self._hot = set(queues)
        self._asked_at = -math.inf
        self._tokens: set[str] = set()
        self._room_at: dict[str, float] = {}
        # A third of many slots, so that Redis always has something to do: it ends one third while the handlers of the
        # second run and the last one is on its way.
        self._batch = min(BATCH, inflight.slots, max(FULL_BATCH, inflight.slots // 3))
        self._unanswered: tuple[str, str, int] | None = None
        self._claiming = threading.Lock()
        self._begun = False

    def step(self) -> None:
        """Wait for leave to claim, for a slot and for a wake-up, where there is none; then claim once."""
        if not self._may_claim():
            self._give_tokens_back()
            self._stopped.wait(0.1)
        elif self._room() > 0 and (queue := self._next_queue()) is not None:
            self._claim(queue)

    def halt(self, timeout_s: float) -> None:
        """Claim no more from now on; a claim under way is waited for, so that what it brings is known."""
        self.stop()
        if not self._claiming.acquire(timeout=max(0.0, timeout_s)):
            return
        try:
            # In a thread of its own, because Redis may be away and nobody can wait for it now.
            recovery = threading.Thread(target=self._recover, name="dtq-recover", daemon=True)
            recovery.start()
            recovery.join(RECOVER_S)
        finally:
            self._claiming.release()

    def finish(self) -> None:
        """Give wake-ups that led to no claim to other workers."""
        self._give_tokens_back()

    def _room(self) -> int:
        # Under load a few slots at once are worth a moment's wait: each claim is a round trip.
        wanted = max(1, self._batch // 2) if self._hot else 1
        return self._inflight.wait_for_room(ROOM_S, wanted=wanted, patience_s=PATIENCE_S)

    def _next_queue(self) -> str | None:
        self._hot.update(self._with_room())
        if not self._hot:
            return self._wait_for_wake_up()
        cold_before: list[str] = []
        for key, queue in self._queues.items():
            if queue in self._hot:
                break
            cold_before.append(key)
        if cold_before and (self._batch < FULL_BATCH or time.monotonic() - self._asked_at >= ASK_S):
            self._asked_at = time.monotonic()
            if (popped := self._waiting.pop(cold_before)) is not None:
                self._popped(popped)
        return next(queue for queue in self._queues.values() if queue in self._hot)

    def _wait_for_wake_up(self) -> str | None:
        """Wait for a token; its queue, for which nobody more urgent was there a moment ago."""
        wait_s, room_at = BLOCK_S * random.uniform(0.8, 1.2), min(self._room_at.values(), default=math.inf)
        if (room_in_s := room_at - time.monotonic()) < wait_s:
            # Redis ends a block up to 100 ms late, and a token may come first.
            return self._wait_for_room(room_in_s)
        key = self._waiting.blpop(list(self._queues), wait_s)
        if key is None:
            self._hot.update(self._queues.values())
            return None
        return self._popped(key)

    def _wait_for_room(self, room_in_s: float) -> str | None:
        """Wait until time makes room in a queue, or a token comes for one."""
        if room_in_s > BLOCK_LATE_S:
            key = self._waiting.blpop(list(self._queues), room_in_s - BLOCK_LATE_S)
            return None if key is None else self._popped(key)
        self._stopped.wait(max(0.0, room_in_s))
        return None

    def _with_room(self) -> list[str]:
        """The queues in which time has made room by now."""
        now = time.monotonic()
        found = [queue for queue, at in self._room_at.items() if at <= now]
        for queue in found:
            del self._room_at[queue]
        return found

    def _popped(self, key: str) -> str:
        queue = self._queues[key]
        self._hot.add(queue)
        self._tokens.add(queue)
        return queue

    def _claim(self, queue: str) -> None:
        with self._claiming:
            if self.stopped or not self._may_claim():
                return
            queue, token, limit = self._unanswered or (queue, new_token(), min(self._batch, self._inflight.free))
            try:
                reply = self._ask(queue, token, limit)
            except RedisUnavailable:
                self._hot.update(self._queues.values())
                raise
            except DtqError as error:
                # It is tried again when there is nothing else to do; until then it must not hold up the others.
                log.error("cannot claim from the queue %s: %s", queue, error)
                self._unanswered = None
                self._hot.discard(queue)
                return
            self._run_claims(reply.claims)
        if reply.room_in_ms is not None:
            self._room_at[queue] = time.monotonic() + reply.room_in_ms / 1000
        if reply.status is ClaimStatus.TYPES:
            if queue in self._types.announce():
                self._hot.discard(queue)
        elif reply.status is ClaimStatus.LIMITED or (
            reply.status is not ClaimStatus.AGAIN and len(reply.claims) < limit
        ):
            self._hot.discard(queue)
        self._tokens.discard(queue)
        if not self._begun:
            # What the first announcement freed may have gone to workers that cannot run it: we had yet to begin.
            self._types.announce(frees=True)
            self._begun = True

    def _ask(self, queue: str, token: str, limit: int) -> ClaimReply:
        """Claim; without an answer the same is asked again next time, for what it claimed runs under its token."""
        self._unanswered = (queue, token, limit)
        crash.at("before-claim")
        with self._outage.exchange():
            reply = self._store.leases.claim(
                queue, worker=self._worker_id, token=token, limit=limit, types_digest=self._types.digest
            )
        crash.at("after-claim")
        self._unanswered = None
        return reply

    def _recover(self) -> None:
        """Take in what a claim without an answer may have brought: given back, it burns no attempt."""
        if self._unanswered is not None:
            queue, token, _ = self._unanswered
            with suppress(DtqError):
                self._run_claims(self._ask(queue, token, 0).claims)

    def _give_tokens_back(self) -> None:
        for queue in list(self._tokens):
            self._store.leases.wake(queue)
            self._tokens.discard(queue)
