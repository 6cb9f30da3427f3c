"""Calling a handler: its arguments read, the app's hooks around it, its result written."""

import inspect
from functools import partial
from typing import Any

from dtq_engine import crash
from dtq_engine.errors import InvalidTask, NotJson, PermanentError
from dtq_engine.model import Claim, Returned, Takes
from dtq_engine.registry import Registry
from dtq_engine.worker import outcomes
from dtq_engine.worker.execution import Execution


class BadResult(PermanentError):
    """Raised when a handler returned what JSON cannot hold, or something else than its annotation promises."""


class Calls:
    """Calls the handlers of one registry; up to `max_result_bytes` of a result are kept whole.

    Hooks wrap all of it, so that they see payloads and results that will not do as well.
    """

    def __init__(self, registry: Registry, max_result_bytes: int) -> None:
        self._registry = registry
        self._max_result_bytes = max_result_bytes

    def run(self, execution: Execution) -> Returned:
        """Call a sync handler; raises what it raises, or a hook, and BadPayload and BadResult."""
        context, hooks = execution.context, self._registry.hooks
        if hooks.sync_task and context is not None:
            return hooks.run(context, partial(self._call, execution))
        return self._call(execution)

    async def run_async(self, execution: Execution) -> Returned:
        """The same for an async handler."""
        context, hooks = execution.context, self._registry.hooks
        if hooks.task and context is not None:
            return await hooks.run_async(context, partial(self._call_async, execution))
        return await self._call_async(execution)

    def _call(self, execution: Execution) -> Returned:
        return self._returned(execution, execution.handler.fn(*_context(execution), **_arguments(execution)))

    async def _call_async(self, execution: Execution) -> Returned:
        return self._returned(execution, await execution.handler.fn(*_context(execution), **_arguments(execution)))

    def _returned(self, execution: Execution, value: object) -> Returned:
        _refuse_coroutine(execution, value)
        try:
            encoded = execution.handler.encode_result(value)
        except NotJson as error:
            raise BadResult(f"the result of the task {execution.claim.type} cannot be kept: {error}") from error
        return outcomes.returned(execution.claim, encoded, self._max_result_bytes)


def _refuse_coroutine(execution: Execution, value: object) -> None:
    if inspect.iscoroutine(value):
        value.close()  # or Python would warn that it was never awaited
        raise BadResult(
            f"the handler of the task {execution.claim.type} returned a coroutine that nobody awaited: "
            f"have the decorator around it be an async function as well."
        )


def _context(execution: Execution) -> tuple[Any, ...]:
    return (execution.context,) if execution.handler.takes_context else ()


def fed(claim: Claim) -> bytes | None:
    """The first argument of a call, where it is what the task's parents returned: null for one that failed."""
    results = [b"null" if each.result is None else each.result for each in claim.inputs]
    match claim.takes:
        case Takes.ONE:
            return results[0] if results else b"null"
        case Takes.LIST:
            return b"[%s]" % b",".join(results)
        case Takes.NOTHING:
            return None


def _arguments(execution: Execution) -> dict[str, Any]:
    crash.at("before-handler")
    try:
        return execution.handler.bind_payload(execution.claim.payload, fed(execution.claim))
    except (InvalidTask, NotJson) as error:
        raise outcomes.BadPayload(f"the payload does not fit the task {execution.claim.type}: {error}") from error
