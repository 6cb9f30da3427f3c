"""The processes in which a worker runs the handlers that ask for one: started when needed, kept warm, ended in time."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from dtq_engine.errors import ConfigurationError
from dtq_engine.model import Block, Outcome, Release
from dtq_engine.worker import outcomes
from dtq_engine.worker.execution import Cause, Execution
from dtq_engine.worker.inflight import End
from dtq_engine.worker.logs import facts, title
from dtq_engine.worker.messages import Begun, Ended, FromChild, Ready, Save, Says, Unfit, Welcome
from dtq_engine.worker.nursery import Nursery
from dtq_engine.worker.offspring import Offspring
from dtq_engine.worker.orders import Orders
from dtq_engine.worker.spawn import Death
from dtq_engine.worker.starts import Starts

log = logging.getLogger("dtq.worker")

Ending = Callable[[Execution, End, BaseException | None], None]

AFTER_ERROR_S = 0.5
STOP_S = 0.15
LOOK_S = 0.05


class Children:
    """At most `most` processes, and the executions that wait for one.

    One thread owns them all; what other threads want of it is put into a queue. `end` hears of each execution's end,
    with the error where that was not judged in the process already.

    An attempt begins when a process calls the handler: from there its time counts, and what goes wrong. Without a
    process that does so, whatever the reason, the task is blocked: nobody can run it here, and it is looked at again.
    """

    def __init__(self, make_welcome: Callable[[], Welcome], most: int, end: Ending) -> None:
        self._make_welcome = make_welcome
        self._most = most
        self._end = end
        self._waiting: deque[Execution] = deque()
        self._starts = Starts()
        self._orders = Orders()
        self._nursery = Nursery(self._orders, self._heard, self._buried)
        self._stopping = False
        self._dismissed = False
        self._over = False
        self._thread = threading.Thread(target=self._work, name="dtq-children", daemon=True)
        self._thread.start()

    def run(self, executions: Sequence[Execution]) -> None:
        """Run these, each as soon as there is a process for it."""
        self._orders.put(partial(self._queue, executions))

    def interrupt(self, execution: Execution) -> None:
        """End an execution for the cause that it carries."""
        self._orders.put(partial(self._interrupt, execution))

    def announce_stop(self) -> None:
        """Let handlers know that the worker shuts down."""
        self._orders.put(self._announce_stop)

    def dismiss(self) -> None:
        """Nothing more is to be run after what is known: let processes end in good order as they get free."""
        self._orders.put(self._dismiss)

    def stop(self, patience_s: float, is_hurried: Callable[[], bool]) -> None:
        """Wait for the end of all processes; those that are left after `patience_s`, or when in a hurry, are killed."""
        self._orders.put(self._finish)
        deadline = time.monotonic() + patience_s
        while self._thread.is_alive() and time.monotonic() < deadline and not is_hurried():
            self._thread.join(LOOK_S)
        self._orders.put(self._nursery.kill_all)
        self._thread.join(STOP_S)

    def _work(self) -> None:
        while not self._over or self._nursery.all:
            try:
                self._nursery.wait()
                self._assign()
            except Exception:
                log.exception("the keeper of the processes failed and goes on")
                time.sleep(AFTER_ERROR_S)
        self._nursery.close()
        self._orders.close()

    # What is asked for.

    def _queue(self, executions: Sequence[Execution]) -> None:
        for execution in executions:
            if execution.cause is None:
                self._waiting.append(execution)
            else:
                self._give_way(execution, execution.cause)

    def _interrupt(self, execution: Execution) -> None:
        assert execution.cause is not None
        for child in self._nursery.all:
            if child.execution is execution:
                child.interrupt(execution.cause)
                return
        if execution in self._waiting:
            # Whatever is being started for it will be there for others.
            self._waiting.remove(execution)
            self._give_way(execution, execution.cause)

    def _give_way(self, execution: Execution, cause: Cause) -> None:
        back = cause is Cause.SHUTDOWN and execution.never_began
        self._end(execution, Release() if back else outcomes.gave_way(execution, cause), None)

    def _announce_stop(self) -> None:
        self._stopping = True
        for child in self._nursery.all:
            if child.execution is not None:
                child.announce_stop()

    def _dismiss(self) -> None:
        self._dismissed = True

    def _finish(self) -> None:
        self._dismissed = self._over = True
        self._waiting.clear()

    # Giving out work.

    def _assign(self) -> None:
        while self._waiting and (child := self._nursery.fit(self._waiting[0].handler)) is not None:
            child.give(self._waiting.popleft(), stopping=self._stopping)
        starting = sum(1 for each in self._nursery.here if not each.ready)
        for _ in range(len(self._waiting) - starting):
            if self._starts.problem is not None and self._starts.are_paused:
                self._block(self._waiting.pop(), self._starts.problem)
            elif not self._make_room() or not self._start():
                break
        if self._dismissed and not self._waiting:
            self._nursery.dismiss()

    def _make_room(self) -> bool:
        here = self._nursery.here
        if len(here) < self._most:
            return True
        worn = next((each for each in here if each.is_idle), None)
        if worn is not None:
            worn.leave()
        return worn is not None

    def _start(self) -> bool:
        try:
            child = Offspring(self._make_welcome())
        except OSError as error:
            self._put_off(error)
            return False
        self._nursery.take_in(child)
        return True

    def _put_off(self, error: BaseException) -> None:
        """No process could be made: the task that has waited longest is blocked, and no attempt of it counts."""
        self._starts.failed(error)
        if self._waiting:
            self._block(self._waiting.popleft(), error)

    def _block(self, execution: Execution, error: BaseException) -> None:
        claim = execution.claim
        log.debug("%s is blocked, as no process for it could be started", title(claim), extra=facts(claim))
        self._end(execution, Block(f"process_not_started:{type(error).__name__}"), None)

    # What comes of it.

    def _heard(self, child: Offspring, message: FromChild) -> None:
        match message:
            case Ready(rss_kib):
                self._starts.worked()
                child.rest(rss_kib)
            case Begun() | Says() | Save():
                child.hear(message)
            case Ended():
                self._ended(child, message)
            case Unfit(problem):
                self._refused(child, ConfigurationError([problem]))

    def _refused(self, child: Offspring, error: ConfigurationError) -> None:
        child.leaving = True
        execution, child.execution = child.execution, None
        if execution is not None:
            self._take_back(execution)
        self._put_off(error)

    def _ended(self, child: Offspring, message: Ended) -> None:
        execution = child.execution
        if execution is None:  # it was killed a moment ago
            return
        child.tasks += 1
        child.rest(message.rss_kib)
        # One that was interrupted may be left in any state.
        if child.interrupted or not child.suits(execution.handler) or not child.process.is_held:
            child.leave()
        self._end(execution, _outcome(execution, message), None)

    def _buried(self, child: Offspring, death: Death) -> None:
        if child.execution is not None:
            self._orphaned(child.execution, child, death)
        elif not child.leaving and child.ready:
            log.warning("process %d, which ran no task, %s", child.process.pid, death)
        elif not child.leaving:
            self._put_off(child.not_started(death))

    def _orphaned(self, execution: Execution, child: Offspring, death: Death) -> None:
        if not child.begun:
            self._take_back(execution)
            # One that was idle until now says nothing about the next.
            if not child.tasks:
                self._put_off(child.not_started(death))
        elif execution.cause is not None:
            self._give_way(execution, execution.cause)
        else:
            error = child.died(death)
            self._end(execution, outcomes.raised(execution, error), error)

    def _take_back(self, execution: Execution) -> None:
        """Its handler was not called: it waits for another process."""
        execution.begun = False
        if execution.cause is not None:
            self._give_way(execution, execution.cause)
        else:
            self._waiting.appendleft(execution)


def _outcome(execution: Execution, message: Ended) -> Outcome:
    """What a process says of an execution, as far as it counts: nothing does that comes after the deadline."""
    cause, outcome = execution.cause, message.outcome
    if cause is not None and (outcome is None or cause is Cause.TIMEOUT):
        return outcomes.gave_way(execution, cause)
    assert outcome is not None
    return outcomes.brought(execution, outcome)
