"""Periodic tasks, as far as the leader is concerned: which there are, and whose tick has come."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from dtq_engine import crash
from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.periodic import Definition, PeriodicTask, next_turn
from dtq_engine.store import Store

log = logging.getLogger("dtq.worker")

AGAIN_MS = 100
FAILED_MS = 3_000

T = TypeVar("T")


class Ticker:
    """Takes over what workers announce, and deals with ticks.

    Several may be at it for a moment while the lead changes: the script lets one of them deal with a tick. What no
    living worker has does not run, and is withdrawn once it was missed at `patience` looks in a row: after an outage or
    a restart of all, workers are not there before their first heartbeat.
    """

    def __init__(self, store: Store, patience: int = 1) -> None:
        self._store = store
        self._patience = patience
        self._queues: frozenset[str] | None = None  # those that have periodic tasks; any may, while nobody has looked
        self._missed: dict[str, int] = {}

    def take_over(self) -> None:
        """Put in force what living workers announce, and withdraw what none of them has any more."""
        self.settle(self._store.agenda.announced())

    def settle(self, announced: Mapping[str, Definition | None]) -> None:
        """The same for what is announced, by name; what cannot be read here stays as it is."""
        known = self._store.periodic.list()
        missing = {task.name for task in known if task.removed_ms is None}.difference(announced)
        self._missed = {name: self._missed.get(name, 0) + 1 for name in missing}
        # Before anything can fail: ticks go on.
        named = {definition.queue for definition in announced.values() if definition is not None}
        self._queues = frozenset(named.union(task.queue for task in known))
        for task in known:
            if task.removed_ms is None:
                self._survive(task.name, partial(self._withdraw_unless, task, announced))
        # Of several under one name the one that still runs, else the one that was removed last.
        ranked = sorted(known, key=lambda each: (each.removed_ms is None, each.removed_ms or 0))
        latest = {task.name: task for task in ranked}
        for definition in announced.values():
            if definition is not None:
                self._survive(definition.name, partial(self._define, definition, latest.get(definition.name)))

    def turn(self, queue: str) -> float | None:
        """Deal with the ticks of a queue that have come; seconds until the next one, None while none is known of."""
        if self._queues is not None and queue not in self._queues:
            return None
        agenda = self._store.agenda.of(queue)
        due = [task for task in agenda.tasks if self._runs(task)]
        waits = [self._survive(task.name, partial(self._deal, task, agenda.now_ms)) for task in due]
        return min(FAILED_MS if each is None else each for each in waits) / 1000 if waits else None

    def _runs(self, task: PeriodicTask) -> bool:
        return task.is_active and task.name not in self._missed

    def _survive(self, name: str, action: Callable[[], T]) -> T | None:
        """One task that cannot be read, written or submitted must not hold up the others."""
        try:
            return action()
        except RedisUnavailable:
            raise
        except DtqError as error:
            log.error("cannot deal with the periodic task %s: %s", name, error)
            return None

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
        if task.name in self._missed:
            if self._missed[task.name] < self._patience:
                return
            log.info("the periodic task %s was removed: no living worker has it", task.name)
        elif definition is not None and definition.queue != task.queue:
            log.info("the periodic task %s moves from the queue %s to %s", task.name, task.queue, definition.queue)
        else:
            return
        self._store.agenda.withdraw(task)
