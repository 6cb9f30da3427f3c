"""The processes that run handlers, one by one: what they say, when they are overdue, and how they die."""

import logging
import selectors
import time
from collections.abc import Callable
from functools import partial

import msgspec

from dtq_engine.copies import in_copies
from dtq_engine.registry import Handler
from dtq_engine.worker.messages import FromChild
from dtq_engine.worker.offspring import Offspring
from dtq_engine.worker.orders import Orders
from dtq_engine.worker.spawn import Death, kill_all

log = logging.getLogger("dtq.worker")

IDLE_S = 60.0
LOOK_S = 0.5
# A process closes its socket a moment before it is dead.
DYING_LOOK_S = 0.01
DYING_S = 1.0


class Nursery:
    """Waits for all of them at once, in one thread, and for `orders` from others.

    `heard` is told each message, `buried` each death, when the process is no longer in `all`.
    """

    def __init__(
        self, orders: Orders, heard: Callable[[Offspring, FromChild], None], buried: Callable[[Offspring, Death], None]
    ) -> None:
        self.all: list[Offspring] = []
        self._heard = heard
        self._buried = buried
        self._looked_at = 0.0
        self._selector = selectors.DefaultSelector()
        self._selector.register(orders, selectors.EVENT_READ, orders.carry_out)
        in_copies(self._let_go)

    @property
    def here(self) -> list[Offspring]:
        """Those that stay."""
        return [each for each in self.all if not each.leaving and not each.deaf]

    def fit(self, handler: Handler) -> Offspring | None:
        """The process that was used last of those that suit, so that what is too many gets old."""
        idle = [each for each in self.here if each.is_idle and each.suits(handler)]
        return max(idle, key=lambda each: each.idle_since, default=None)

    def dismiss(self) -> None:
        """Have those leave that run nothing."""
        for child in self.here:
            if child.execution is None:
                child.leave()

    def take_in(self, child: Offspring) -> None:
        """Look after this one as well."""
        self.all.append(child)
        self._selector.register(child.process.wire, selectors.EVENT_READ, partial(self._hear, child))

    def kill_all(self) -> None:
        """End them, whatever they do."""
        kill_all([child.process for child in self.all])
        for child in self.all:
            # How their executions end is no longer theirs to say.
            child.leaving, child.execution = True, None
            self._lose(child)

    def wait(self) -> None:
        """Until something has happened, or is due; deal with it."""
        for key, _ in self._selector.select(self._patience()):
            key.data()
        self._look()

    def close(self) -> None:
        """Wait no more."""
        self._selector.close()

    def _let_go(self) -> None:
        # Who holds these ends as well would keep a handler going when its worker is gone.
        for child in self.all:
            child.process.close()

    def _patience(self) -> float | None:
        if any(each.deaf for each in self.all):
            return DYING_LOOK_S
        due = min((each.kill_at for each in self.all), default=None)
        return None if due is None else max(0.0, min(LOOK_S, due - time.monotonic()))

    def _hear(self, child: Offspring) -> None:
        try:
            for message in child.process.wire.read():
                self._heard(child, message)
        except (EOFError, OSError):
            self._lose(child)
        except msgspec.MsgspecError as error:
            log.error("process %d broke its connection (%s) and is killed", child.process.pid, error)
            child.process.kill()
            self._lose(child)

    def _look(self) -> None:
        now = time.monotonic()
        everywhere = now - self._looked_at >= LOOK_S
        for child in list(self.all):
            if child.is_idle and now - child.idle_since >= IDLE_S:
                child.leave()
            overdue = child.kill_at <= now
            if overdue:
                child.kill_overdue(DYING_S)
            # Death is looked for too: something that a handler has forked may hold the socket open.
            if (child.deaf or everywhere or overdue) and (death := child.process.ended()) is not None:
                self._bury(child, death)
        if everywhere:
            self._looked_at = now

    def _lose(self, child: Offspring) -> None:
        if not child.deaf:
            child.deaf = True
            child.kill_at = min(child.kill_at, time.monotonic() + DYING_S)
            self._selector.unregister(child.process.wire)

    def _bury(self, child: Offspring, death: Death) -> None:
        # What it said last may still lie in its socket.
        while not child.deaf and child.process.wire.has_more():
            self._hear(child)
        self._lose(child)
        self.all.remove(child)
        child.process.close()
        if child.interrupted or child.execution is not None or death.code != 0:
            child.process.end_kin()
        self._buried(child, death)
