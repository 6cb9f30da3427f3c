"""Periodic tasks, as far as the leader is concerned: which there are, and whose tick has come."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from dtq_engine import crash
from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.periodic import Definition, PeriodicTask, next_turn
from dtq_engine.store import Store

log = logging.getLogger("dtq.worker")

AGAIN_MS = 100
FAILED_MS = 3_000


class Ticker:
    """Takes over what workers announce, and deals with ticks.

    Several may be at it for a moment while the lead changes: the script lets one of them deal with a tick.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: frozenset[str] = frozenset()

    def take_over(self) -> None:
        """Put in force what living workers announce, and withdraw what none of them has any more."""
        self.settle(self._store.agenda.announced())

    def settle(self, announced: Mapping[str, Definition | None]) -> None:
        """The same for what is announced, by name; what cannot be read here stays as it is."""
        known = self._store.periodic.list()
        for task in known:
            if task.removed_ms is None:
                self._withdraw_unless(task, announced)
        # Of several under one name the one that still runs, else the one that was removed last.
        ranked = sorted(known, key=lambda each: (each.removed_ms is None, each.removed_ms or 0))
        latest = {task.name: task for task in ranked}
        for definition in announced.values():
            if definition is not None:
                self._define(definition, latest.get(definition.name))
        named = {definition.queue for definition in announced.values() if definition is not None}
        self._queues = frozenset(named.union(task.queue for task in known))

    def turn(self, queue: str) -> float | None:
        """Deal with the ticks of a queue that have come; seconds until the next one, None while none is known of."""
        if queue not in self._queues:
            return None
        agenda = self._store.agenda.of(queue)
        waits = [self._survive(task, agenda.now_ms) for task in agenda.tasks if task.is_active]
        return min(waits) / 1000 if waits else None

    def _survive(self, task: PeriodicTask, now_ms: int) -> int:
        """One task that cannot be read or submitted must not hold up the others."""
        try:
            return self._deal(task, now_ms)
        except RedisUnavailable:
            raise
        except DtqError as error:
            log.error("cannot deal with the periodic task %s: %s", task.name, error)
            return FAILED_MS

    def _deal(self, task: PeriodicTask, now_ms: int) -> int:
        """Milliseconds until there is something to do for it again."""
        ticks = task.definition.ticks
        while (turn := next_turn(ticks, task.definition.catch_up, task.at_ms, now_ms)) is not None:
            if not self._store.agenda.deal(task, turn):
                return AGAIN_MS  # another leader or an operator was faster
            if turn.runs:
                crash.at("after-tick")
            task = replace(task, at_ms=turn.tick_ms)
        return ticks.after(task.at_ms) - now_ms

    def _define(self, definition: Definition, known: PeriodicTask | None) -> None:
        if known is not None and known.removed_ms is None and known.digest == definition.digest:
            return
        moved = known if known is not None and known.queue != definition.queue else None
        if self._store.agenda.define(definition, moved):
            log.info("the periodic task %s runs from now on: %s", definition.name, definition.schedule)

    def _withdraw_unless(self, task: PeriodicTask, announced: Mapping[str, Definition | None]) -> None:
        definition = announced.get(task.name)
        if task.name not in announced:
            log.info("the periodic task %s was removed: no living worker has it", task.name)
        elif definition is not None and definition.queue != task.queue:
            log.info("the periodic task %s moves from the queue %s to %s", task.name, task.queue, definition.queue)
        else:
            return
        self._store.agenda.withdraw(task)
