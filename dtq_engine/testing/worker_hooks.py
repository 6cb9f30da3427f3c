"""An app's hooks about workers, called in the thread of the test."""

import inspect
import os
import socket
from collections.abc import Callable

from dtq_engine.engine import Dtq
from dtq_engine.model import WorkerInfo
from dtq_engine.testing.handler_loop import HandlerLoop
from dtq_engine.worker.event_loop import EventLoop
from dtq_engine.worker.failures import Failures, Told
from dtq_engine.worker.lifetime import Lifetime


class WorkerHooks:
    """The hooks at the start and end of the worker that a test stands for, and those that hear of failures."""

    def __init__(self, app: Dtq, worker_id: str, loop: HandlerLoop) -> None:
        self.failures = _AtOnce(app.registry.hooks, _OnDemand(loop))
        self._lifetime = Lifetime(app.registry.hooks, _OnDemand(loop))
        self._app = app
        self._worker_id = worker_id
        self._begun = False

    def begin(self) -> None:
        """Call the start hooks, before the first task. Raises HookFailed."""
        if not self._begun:
            self._begun = True
            self._lifetime.begin(self._describe(), lambda: False)

    def end(self) -> None:
        """Call the stop hooks, if the start hooks were called."""
        self._lifetime.end(lambda: False)

    def _describe(self) -> WorkerInfo:
        settings, now_ms = self._app.settings, self._app.store.now_ms()
        return WorkerInfo(
            id=self._worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=settings.worker_queues,
            concurrency=1,
            release=settings.release,
            types=self._app.registry.types(),
            in_flight=0,
            state="running",
            started_ms=now_ms,
            seen_ms=now_ms,
            schemas=self._app.registry.schemas(),
        )


class _OnDemand(EventLoop):
    """An event loop that runs while something is to be finished on it."""

    def __init__(self, loop: HandlerLoop) -> None:
        super().__init__()
        self._handlers = loop

    def finish(self, result: object, given_up: Callable[[], bool] = lambda: False) -> bool:  # noqa: ARG002
        if inspect.iscoroutine(result):
            self._handlers.run(result)
        return True


class _AtOnce(Failures):
    """Calls the hooks about a failure before the run goes on."""

    def _put(self, told: Told) -> None:
        self._waiting.put(told)
        self._waiting.put(None)
        self._work()
