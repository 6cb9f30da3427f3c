"""Calling an app's hooks at the start and the end of a worker."""

import logging
import threading
import time
from collections.abc import Callable

from dtq_engine.errors import HookFailed
from dtq_engine.hooks import Hooks, name_of
from dtq_engine.model import WorkerInfo
from dtq_engine.worker.event_loop import EventLoop

log = logging.getLogger("dtq.worker")

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
                log.exception("the hook %s failed at the worker's start", name_of(hook))
                raise HookFailed(
                    f"The worker cannot start because its hook {name_of(hook)} raised {type(error).__name__}: {error}"
                ) from error
        self._begun = info
        return True

    def end(self, is_hurried: Callable[[], bool]) -> None:
        """Call the stop hooks, the last one first; nobody waits longer than 5 s for them."""
        info, self._begun = self._begun, None
        if info is None or not self._hooks.worker_stop:
            return
        thread = threading.Thread(target=self._stop, args=(info,), name="dtq-stop-hooks", daemon=True)
        thread.start()
        deadline = time.monotonic() + STOP_S
        while thread.is_alive() and time.monotonic() < deadline and not is_hurried():
            thread.join(LOOK_S)
        if thread.is_alive():
            log.error("the stop hooks took too long and are left behind")

    def _stop(self, info: WorkerInfo) -> None:
        for hook in reversed(self._hooks.worker_stop):
            try:
                self._loop.finish(hook(info))
            except Exception:
                log.exception("the hook %s failed at the worker's end", name_of(hook))
