"""How much may happen in one call of the kit before it is taken to have no end."""

from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

from dtq_engine.model import AskedSnooze, Claim, Returned
from dtq_engine.testing.errors import RunawayTasks
from dtq_engine.worker.inflight import End

LONGEST_CHAIN = 30
"""How many executions may at least lead from one to the next; whatever never ends has more."""


class Budget:
    """Counts the executions of a call, and how long the chains are in which one leads to the next.

    One that submits a task leads to that of the task, one that snoozes to the next of its own; attempts come to an end
    by themselves. `limit` executions are fine, as an order may send hundreds of mails; in a chain, a 25th of that is.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._longest = max(LONGEST_CHAIN, limit // 25)
        self._chains: dict[str, int] = {}
        """By id of a task, how many executions have led to its next one."""
        self._executions = Counter[str]()
        self._again = Counter[tuple[str, str]]()
        self._running: tuple[str, int] | None = None

    def begin(self, claim: Claim) -> None:
        """An execution begins. Raises RunawayTasks if it is one too many."""
        __tracebackhide__ = True
        chain = self._chains.pop(claim.task_id, 0)
        if chain > self._longest:
            self._run_away(f"{chain} executions have each led to the next")
        if self._executions.total() >= self._limit:
            self._run_away(f"{self._limit} executions were not enough")
        self._executions[claim.type] += 1
        self._running = (claim.type, chain)

    def submitted(self, tasks: Iterable[tuple[str, str]]) -> None:
        """These tasks (id and type) were accepted."""
        if self._running is not None:
            by, chain = self._running
            for task_id, kind in tasks:
                self._chains[task_id] = chain + 1
                self._again[kind, f"submitted by {by}"] += 1

    def end(self, claim: Claim, outcome: End) -> None:
        """The execution has ended so."""
        chain = 0 if self._running is None else self._running[1]
        self._running = None
        if isinstance(outcome, AskedSnooze):
            chain += 1
            self._again[claim.type, "put off by itself"] += 1
        if not isinstance(outcome, Returned):
            self._chains[claim.task_id] = chain

    def _run_away(self, what: str) -> NoReturn:
        __tracebackhide__ = True
        often = ", ".join(f"{number} × {name}" for name, number in self._executions.most_common(3))
        causes = ", ".join(f"{name} was {number} times {how}" for (name, how), number in self._again.most_common(3))
        because = f"; {causes}" if causes else ""
        raise RunawayTasks(
            f"{what} ({often}{because}), and more are due: have the test stop what keeps coming, run a part of it by "
            f"run_all() and advance(), or set a higher limit."
        )
