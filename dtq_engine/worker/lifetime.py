"""Calling an app's hooks at the start and the end of a worker."""

import logging
import threading
import time
from collections.abc import Callable

from dtq_engine.around import name_of
from dtq_engine.errors import HookFailed
from dtq_engine.hooks import Hooks
from dtq_engine.model import WorkerInfo
from dtq_engine.worker.event_loop import EventLoop

log = logging.getLogger("dtq.worker")

WorkerStop = Callable[[WorkerInfo], object]

STOP_S = 5.0
LOOK_S = 0.1


class Lifetime:
    """The start hooks once, and the stop hooks once if all of those are through."""

    def __init__(self, hooks: Hooks, loop: EventLoop) -> None:
        self._hooks = hooks
        self._loop = loop
        self._begun: WorkerInfo | None = None

    def begin(self, info: WorkerInfo, given_up: Callable[[], bool]) -> bool:
        """Call the start hooks, in order; whether all are through, which an async one is not once `given_up` says so.

        Raises HookFailed for the first that raises.
        """
        for hook in self._hooks.worker_start:
            try:
                if not self._loop.finish(hook(info), given_up):
                    return False
            except Exception as error:
                name = f"on_worker_start {name_of(hook)}"
                log.debug("the hook %s failed at the worker's start", name, exc_info=True)
                raise HookFailed(
                    f"The worker cannot start because its hook {name} raised {type(error).__name__}: {error}; give it "
                    f"what it needs, or mend it (DTQ_LOG_LEVEL=DEBUG shows where it failed)."
                ) from error
        self._begun = info
        return True

    def end(self, is_hurried: Callable[[], bool]) -> None:
        """Call the stop hooks, the last one first; nobody waits longer than 5 s for them.

        One that takes more than its share of this time is overtaken by the others, and has what they leave of it.
        """
        info, self._begun = self._begun, None
        if info is None:
            return
        hooks = self._hooks.worker_stop[::-1]
        deadline = time.monotonic() + STOP_S
        slow: list[tuple[WorkerStop, threading.Thread]] = []
        for number, hook in enumerate(hooks):
            thread = threading.Thread(target=self._stop, args=(hook, info), name="dtq-stop-hook", daemon=True)
            thread.start()
            now = time.monotonic()
            if not _has_ended(thread, now + (deadline - now) / (len(hooks) - number), is_hurried):
                slow.append((hook, thread))
        for hook, thread in slow:
            if not _has_ended(thread, deadline, is_hurried):
                log.error("the hook on_worker_stop %s took too long and is left behind", name_of(hook))

    def _stop(self, hook: WorkerStop, info: WorkerInfo) -> None:
        try:
            self._loop.finish(hook(info))
        except Exception:
            log.exception("the hook on_worker_stop %s failed at the worker's end", name_of(hook))


def _has_ended(thread: threading.Thread, deadline: float, is_hurried: Callable[[], bool]) -> bool:
    """Wait for a thread until `deadline`, unless there is no time to wait; whether it has ended."""
    while thread.is_alive() and (left := deadline - time.monotonic()) > 0 and not is_hurried():
        thread.join(min(LOOK_S, left))
    return not thread.is_alive()
