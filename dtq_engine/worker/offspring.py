"""One process that runs handlers, as its worker sees it."""

import math
import threading
import time
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from dtq_engine.errors import ProcessDied
from dtq_engine.registry import Handler
from dtq_engine.worker.execution import Cause, Execution
from dtq_engine.worker.messages import Begun, FromChild, Interrupt, Job, Leave, Save, Says, Stopping, Welcome
from dtq_engine.worker.spawn import CUT_OFF, Death, Spawned
from dtq_engine.worker.uplink import saved

# A process that waits for a task takes it at once, unless it is stopped.
TAKE_S = 10.0
LEAVE_S = 5.0
# From being told to being cancelled, for a handler that looks at `ctx.cancelled`; from there to being killed.
NOTICE_S = 1.0
GRACE_S = 1.0
# A worker that leaves has no more time.
LAST_GRACE_S = 0.15


class Offspring:
    """It imports the app, then runs one execution at a time, then leaves; `kill_at` is when the present step is over.

    `tasks` and `rss_kib` say how worn it is. It is `deaf` once nothing can be said to it any more, and will be dead
    in a moment. Raises OSError if it cannot be started.
    """

    def __init__(self, welcome: Welcome) -> None:
        self.process: Spawned[FromChild] = Spawned("child", welcome, FromChild, leashed=True)
        self.execution: Execution | None = None
        self._start_s = welcome.settings.process_start_timeout_s
        self._app = welcome.app
        self.kill_at = time.monotonic() + self._start_s
        self.idle_since = math.inf
        self.tasks = 0
        self.rss_kib = 0
        self.ready = False
        self.begun = False
        self.interrupted = False
        self.leaving = False
        self.deaf = False
        self.too_slow = False
        self._cut_off = False
        self._oom_kills = oom_kills()

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a task."""
        return self.ready and self.execution is None and not self.leaving and not self.deaf

    def suits(self, handler: Handler) -> bool:
        """Whether it is not too worn for this handler."""
        return handler.isolation is not None and handler.isolation.suits(self.tasks, self.rss_kib)

    def rest(self, rss_kib: int) -> None:
        """It is free, and uses so much memory."""
        self.ready, self.execution, self.rss_kib = True, None, rss_kib
        self.idle_since = time.monotonic()
        if not self.leaving:
            self.kill_at = math.inf

    def give(self, execution: Execution, *, stopping: bool) -> None:
        """Have it run this."""
        self.execution, self.begun, execution.begun = execution, False, True
        self.kill_at = time.monotonic() + TAKE_S
        self._oom_kills = oom_kills()
        claim = execution.claim
        deadline_ms = claim.deadline_ms + execution.elapsed_ms()
        self._send(Job(replace(claim, token="", entry="", deadline_ms=deadline_ms), stopping))

    def begin(self) -> None:
        """It calls the handler: from now on that has its time."""
        self.begun = True
        if not self.interrupted:
            self.kill_at = math.inf
        if self.execution is not None:
            self.execution.start_clock()

    def interrupt(self, cause: Cause) -> None:
        """End the handler in it, and with that it: gently at first, unless it was told before."""
        handler = None if self.execution is None else self.execution.handler
        notice_s = NOTICE_S if cause is Cause.CANCEL and handler is not None and handler.takes_context else 0.0
        grace_s = LAST_GRACE_S if cause is Cause.SHUTDOWN else GRACE_S
        self.interrupted = True
        self.kill_at = min(self.kill_at, time.monotonic() + notice_s + grace_s)
        self._send(Interrupt(cause.name, notice_s))

    def announce_stop(self) -> None:
        """Let the handler know that the worker shuts down."""
        self._send(Stopping())

    def hear(self, message: Begun | Says | Save) -> None:
        """The handler begins, says something of itself, or wants something saved."""
        match message:
            case Begun():
                self.begin()
            case Says(said) if self.execution is not None:
                self.execution.report.take(said)
            case Save() if self.execution is not None:
                # In a thread of its own: Redis may be away, and all processes are looked after in this one.
                threading.Thread(target=self._save, args=(self.execution, message), daemon=True).start()
            case _:  # it was killed a moment ago
                pass

    def _save(self, execution: Execution, wish: Save) -> None:
        answer = saved(execution, wish)
        with suppress(OSError):  # it does not wait for it any more
            self.process.wire.send(answer)

    def leave(self) -> None:
        """Have it end."""
        self.leaving = True
        self.kill_at = time.monotonic() + LEAVE_S
        if self.interrupted:
            # As long as it lives, it can be seen what comes from it.
            self.process.end_kin()
        self._send(Leave())

    def kill_overdue(self, again_s: float) -> None:
        """Kill it, for its present step takes too long; one that starts shows first where it hangs.

        Looked at again after so many seconds.
        """
        if self.ready or self.too_slow:
            self._cut_off = self.deaf
            self.process.kill()
        else:
            self.process.ask()
        self.too_slow = True
        self.kill_at = time.monotonic() + again_s

    def not_started(self, death: Death) -> Exception:
        """What is said when it never came to a handler."""
        if self.too_slow and not self.ready:
            return TimeoutError(
                f"importing {self._app} had not ended after {self._start_s:g} s, and the process was killed: let the "
                f"import do less, or set DTQ_PROCESS_START_TIMEOUT_S."
            )
        return self.died(death)

    def died(self, death: Death) -> ProcessDied:
        """What is said of its death to whoever waited for it."""
        what = "that ran the task" if self.begun else "for a task"
        step = "before the handler was done" if self.begun else "before it came to the handler"
        peak = f"{'at most ' if death.peak_kib <= death.floor_kib else ''}{round(death.peak_kib / 1024)} MiB"
        hint = ""
        if death.signal == "SIGKILL" and oom_kills() > self._oom_kills:
            hint = "; the kernel has killed a process since then because memory ran out: give it more, or it less to do"
        if self._cut_off or death.code == CUT_OFF:
            hint = (
                "; so it ends once it has closed its connection to the worker: let handlers close only what they open"
            )
        return ProcessDied(
            f"The process {what} {death} {step}; the most memory it used was {peak}{hint}.",
            exit_code=None if death.signal else death.code,
            signal=death.signal,
            peak_rss_kib=death.peak_kib,
        )

    def _send(self, message: Job | Interrupt | Stopping | Leave) -> None:
        try:
            self.process.wire.send(message)
        except OSError:
            # Dead, or stopped, or stuck with the rest of a message in its ear.
            self.process.kill()


def oom_kills() -> int:
    """How many processes this system's kernel has killed for want of memory; 0 where it does not say."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0
