"""The one shape of all background loops: start, stop, step."""

import logging
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.worker.outage import Outage
from dtq_engine.worker.repeats import Repeats

log = logging.getLogger("dtq.worker")


class Loop(ABC):
    """A thread that calls `step` until it is stopped, and survives any error in it.

    An error is logged with its cause, at growing intervals while it lasts, and the loop goes on 0.5 to 1.5 s later.
    Between two steps it rests for `rest_s`, varied by a tenth so that the workers of a fleet do not march in step.
    Tests call `step`.
    """

    name: ClassVar[str]

    def __init__(self, outage: Outage, rest_s: float = 0.0) -> None:
        self._outage = outage
        self._rest_s = rest_s
        self._repeats = Repeats()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.progressed_at = time.monotonic()

    @abstractmethod
    def step(self) -> None:
        """Do one round of the loop's work; it may block for a few seconds."""

    def finish(self) -> None:  # noqa: B027 - most loops hold nothing
        """Put away what the loop holds; called on its own thread after the last step."""

    def start(self) -> None:
        """Begin to step, in a thread that never keeps the process alive."""
        self._thread = threading.Thread(target=self._run, name=f"dtq-{self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the loop to end after the step it is in."""
        self._stopped.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the last step; whether it is over."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    @property
    def stopped(self) -> bool:
        """Whether the loop was asked to end."""
        return self._stopped.is_set()

    def _run(self) -> None:
        while not self.stopped:
            if self._survives(self.step):
                self.progressed_at = time.monotonic()
                self._stopped.wait(self._rest_s * random.uniform(0.9, 1.1))
            else:
                self._stopped.wait(random.uniform(0.5, 1.5))
        self._survives(self.finish)

    def _survives(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except Exception as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: Exception) -> None:
        if self.stopped:
            # Its connection may have been closed under it, so that it ends now and not a block time later.
            log.debug("the %s loop ended with an error", self.name, exc_info=error)
        elif isinstance(error, RedisUnavailable):
            self._outage.began(error)
        elif isinstance(error, DtqError):
            self._complain(f"the {self.name} loop failed and tries again each second: {error}")
        elif self._repeats.is_due(f"{type(error).__name__}: {error}"):
            log.error("the %s loop failed and tries again each second", self.name, exc_info=error)

    def _complain(self, message: str) -> None:
        """Log what does not go away by itself; of one that goes on only now and then."""
        if self._repeats.is_due(message):
            log.error("%s", message)
