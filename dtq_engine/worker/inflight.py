"""The executions of one worker: what runs, what has ended here, and how many slots are free."""

import threading
from collections.abc import Sequence
from queue import SimpleQueue

from dtq_engine.model import Block, Claim, Outcome, Raised, Release
from dtq_engine.worker.execution import Execution, Key

End = Outcome | Block | Release
Ended = tuple[Claim, End]


class InFlight:
    """The table of running executions and the count of slots; safe for all threads.

    A slot is taken from the claim until Redis has answered the finalize, so that a worker never holds more
    tasks than it has slots, whatever happens to Redis.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.ended: SimpleQueue[Ended | None] = SimpleQueue()
        self.raised: dict[Key, BaseException] = {}
        # Those whose end Redis refuses for now: they keep their slots and leases.
        self.held: dict[Key, Claim] = {}
        self._running: dict[Key, Execution] = {}
        self._taken = 0
        self._finished = 0
        self._changed = threading.Condition()

    def add(self, executions: Sequence[Execution]) -> None:
        """Take a slot for each of these."""
        with self._changed:
            self._taken += len(executions)
        for execution in executions:
            self._running[execution.key] = execution

    def refuse(self, claim: Claim, why: Block | Raised) -> None:
        """Be done with a claim that nobody here can run; it takes a slot until Redis has answered."""
        with self._changed:
            self._taken += 1
        self.ended.put((claim, why))

    def remove(self, execution: Execution) -> bool:
        """Take an execution off the table, only if it has not ended here yet; whoever did so brings its outcome."""
        # dict.pop is atomic, and this runs for every task: a lock here would cost more than all the rest.
        return self._running.pop(execution.key, None) is not None

    def settle(self, execution: Execution, outcome: End, raised: BaseException | None = None) -> None:
        """End an execution here, only if it has not ended; the finalizer carries the outcome to Redis."""
        if self.remove(execution):
            self.end(execution, outcome, raised)

    def end(self, execution: Execution, outcome: End, raised: BaseException | None = None) -> None:
        """End an execution that was removed; `raised` is for those who are told once Redis has recorded it."""
        if raised is not None:
            self.raised[execution.key] = raised
        self.ended.put((execution.claim, outcome))

    def release(self, count: int) -> None:
        """Free the slots of executions whose end Redis has answered."""
        with self._changed:
            self._taken -= count
            self._finished += count
            self._changed.notify_all()

    def find(self, key: Key) -> Execution | None:
        """The running execution of this claim, if it still runs."""
        return self._running.get(key)

    def running(self) -> list[Execution]:
        """What runs at this moment."""
        return list(self._running.values())

    @property
    def overdue(self) -> int:
        """How many run on though their time is over."""
        return sum(each.overdue_since is not None for each in self.running())

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return self._taken

    @property
    def finished(self) -> int:
        """How many executions have ended here, whatever came of them."""
        return self._finished

    @property
    def free(self) -> int:
        """How many tasks may be claimed."""
        return self.slots - self._taken

    def wait_for_room(self, timeout_s: float, *, wanted: int = 1, patience_s: float = 0.0) -> int:
        """Wait until a slot is free, then up to `patience_s` for `wanted` of them; the number of free slots."""
        with self._changed:
            if self._changed.wait_for(lambda: self.free > 0, timeout_s) and self.free < wanted:
                self._changed.wait_for(lambda: self.free >= wanted, patience_s)
            return self.free

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Wait until no slot is taken; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._taken == 0, max(0.0, timeout_s))
