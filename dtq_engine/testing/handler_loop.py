"""The event loop of a test's async handlers."""

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

UNWIND_S = 1.0
AGAIN_S = 0.01
MOST_SWALLOWED = 100


class HandlerLoop:
    """One loop for all async handlers of a test, as a worker has one; whoever waits for a handler runs it meanwhile."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running = threading.Lock()

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine to its end, in this thread unless an event loop runs here already."""
        if not _is_in_loop():
            return self._run(coroutine)
        outcome: Future[None] = Future()
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._run_into, outcome, coroutine), name="dtq-async")
        thread.start()
        thread.join()
        return outcome.result()

    def close(self) -> None:
        """Cancel what handlers have left behind, and give it a moment to end; then again, should it swallow that."""
        if self._loop is not None:
            self.run(_unwind())
            self._loop.close()
            self._loop = None

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        # A handler may have another thread submit and run tasks while the loop is busy with the handler itself.
        if not self._running.acquire(blocking=False):
            return asyncio.run(coroutine)
        try:
            self._loop = self._loop or asyncio.new_event_loop()
            return self._loop.run_until_complete(coroutine)
        finally:
            self._running.release()

    def _run_into(self, outcome: "Future[None]", coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            self._run(coroutine)
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)


async def _unwind() -> None:
    loop = asyncio.get_running_loop()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    # What swallows a cancel gets more of them: a task that waits when its loop is closed ends as garbage, with noise.
    for patience_s in (UNWIND_S, *[AGAIN_S] * MOST_SWALLOWED):
        for task in left:
            task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=patience_s)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
