"""The one event loop for async handlers, in a thread of its own."""

import asyncio
import inspect
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

log = logging.getLogger("dtq.worker")

ASK_EVERY_S = 1.0
LOOK_S = 0.2


class EventLoop:
    """An asyncio loop that other threads hand work to, and whose silence they can notice."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._asked_at: float | None = None
        self._answered_at = 0.0
        self._closing = False

    def start(self) -> None:
        """Make the loop and its thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="dtq-event-loop", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], None]) -> None:
        """Run `function` on the loop, soon."""
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            # It was closed a moment ago; nothing that it ran still matters then.
            if not self._closing:
                raise

    def finish(self, result: object, given_up: Callable[[], bool] = lambda: False) -> bool:
        """Run `result` on the loop to its end, if it is a coroutine; False if it was cancelled as `given_up` said so.

        For other threads. Raises what the coroutine raises.
        """
        if not inspect.iscoroutine(result) or self._loop is None:
            return True
        future = asyncio.run_coroutine_threadsafe(result, self._loop)
        while not wait([future], LOOK_S).done:
            if given_up():
                future.cancel()
                return False
        future.result()
        return True

    def silent_s(self) -> float:
        """For how long the loop has not answered; asks it again, at most once a second."""
        now = time.monotonic()
        if self._asked_at is not None:
            return now - self._asked_at
        if self._loop is not None and now - self._answered_at >= ASK_EVERY_S:
            self._asked_at = now
            self.call(self._answer)
        return 0.0

    def current_task(self) -> "asyncio.Task[Any] | None":
        """The task that the loop runs at this moment, for other threads to see what blocks it."""
        return None if self._loop is None else asyncio.current_task(self._loop)

    def stack(self) -> str:
        """Where the loop's thread is at this moment."""
        # A debugger's view of another thread; there is no public name for it.
        frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        frame = frames.get(self._thread.ident or 0) if self._thread else None
        return "".join(traceback.format_stack(frame)[-8:]) if frame else "(the thread has ended)"

    def stop(self) -> None:
        """End the thread when the loop is free; nobody waits for it."""
        self._closing = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _answer(self) -> None:
        self._answered_at = time.monotonic()
        self._asked_at = None

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._closing:
            try:
                loop.run_forever()
            except BaseException:
                # A SystemExit in a task that a handler has started comes out here; the others go on.
                log.exception("an error escaped into the event loop of the async handlers")
        loop.close()
