"""The place of one worker under a supervisor, which one process after the other holds."""

import math
import time
from contextlib import suppress

import msgspec

from dtq_engine.config import Settings
from dtq_engine.worker.messages import FromMember, Recruit, Stop
from dtq_engine.worker.spawn import Spawned, import_path
from dtq_engine.worker.wire import Wire

# Never at once: a signal to all processes ends a worker a moment before the supervisor hears of it.
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
HEALTHY_S = 30.0
SILENT_S = 10.0


class Post:
    """Starts its process from `start_at` on; `hooks_s` is what the app's hooks may add to the time it takes to end."""

    def __init__(self, number: int, settings: Settings, *, for_app: bool = False) -> None:
        self.number = number
        self.process: Spawned[FromMember] | None = None
        self.start_at = 0.0
        self.hooks_s = 0.0
        self.is_ready = False
        self.has_been_ready = False
        self._settings = settings
        self._for_app = for_app
        self._ready_at = math.inf
        self._heard_at = 0.0
        self._deaths = 0

    def __str__(self) -> str:
        return f"{self.number} (pid {self.process.pid})" if self.process else str(self.number)

    def start(self) -> Wire[FromMember]:
        """Start a process; the wire to it. Raises OSError."""
        greeting = Recruit(path=import_path(), settings=self._settings, label=str(self.number), for_app=self._for_app)
        self.process = Spawned("member", greeting, FromMember)
        self.is_ready, self._ready_at = False, math.inf
        return self.process.wire

    def hear(self) -> bool:
        """Take in what it says; whether it may say more."""
        assert self.process is not None
        try:
            heard = self.process.wire.read()
        except (EOFError, OSError, msgspec.MsgspecError):
            return False
        for message in heard:
            self._heard_at, self.hooks_s = time.monotonic(), message.hooks_s
            if not self.is_ready:
                self.is_ready = self.has_been_ready = True
                self._ready_at = self._heard_at
        return True

    def stop(self, *, hurry: bool = False) -> None:
        """Have it drain."""
        if self.process is not None:
            with suppress(OSError):  # it has ended, or does not listen, and is killed in time
                self.process.wire.send(Stop(hurry))

    def vacate(self, now: float) -> float:
        """The process has ended: when another may start, in seconds from now."""
        if self.process is not None:
            self.process.close()
        self.process = None
        if now - self._ready_at >= HEALTHY_S:
            self._deaths = 0
        self.is_ready = False
        return self.retry()

    def retry(self) -> float:
        """Wait longer with each start in a row that came to nothing; the seconds."""
        delay_s = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0**self._deaths)
        self._deaths += 1
        self.start_at = time.monotonic() + delay_s
        return delay_s

    def progresses(self, now: float) -> bool:
        """Whether it is there and has shown life lately."""
        return self.is_ready and now - self._heard_at < SILENT_S
