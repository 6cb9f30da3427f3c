"""What a reader may not see of a task is taken out here, before anything is made of it."""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, cast

import msgspec

from dtq_engine import AttemptError, Task

MASK = "***"
SHORTEST = 3
"""Of what is masked, values of at least this length are masked in error texts too; shorter ones are in many words."""


def masked(task: Task, names: Collection[str]) -> Task:
    """The task with the values of these names masked in its payload and result, at any depth, and in its errors."""
    if not names:
        return task
    secrets = sorted(_secrets(task, names), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, secrets))) if secrets else None
    result = None if task.result is None else _masked_json(task.result, names)
    # A result is known to be cut off by its size, which must go on saying so, and not begin to.
    return replace(
        task,
        payload=_masked_json(task.payload, names),
        result=result,
        result_size=task.result_size if result is None or task.result_truncated else len(result),
        errors=tuple(_masked_error(error, pattern) for error in task.errors),
    )


def hidden(task: Task) -> Task:
    """The task without its payload and result, and without what its errors say."""
    errors = tuple(replace(error, message="", traceback="") for error in task.errors)
    return replace(task, payload=b"null", result=None, result_size=None, errors=errors)


def _masked_json(data: bytes, names: Collection[str]) -> bytes:
    try:
        return msgspec.json.encode(_masked(msgspec.json.decode(data), names))
    except (msgspec.MsgspecError, RecursionError):
        # Cut off, or of a stranger: what cannot be read cannot be searched.
        return msgspec.json.encode(MASK)


def _masked(value: Any, names: Collection[str]) -> Any:
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: MASK if name in names else _masked(inner, names) for name, inner in members.items()}
        case list():
            return [_masked(inner, names) for inner in cast("list[object]", value)]
        case _:
            return value


def _secrets(task: Task, names: Collection[str]) -> Iterator[str]:
    for data in (task.payload, task.result):
        try:
            value = None if data is None else msgspec.json.decode(data)
        except (msgspec.MsgspecError, RecursionError):
            continue
        yield from (text for text in _texts(value, names, inside=False) if len(text) >= SHORTEST)


def _texts(value: Any, names: Collection[str], *, inside: bool) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in cast("dict[str, Any]", value).items():
                yield from _texts(inner, names, inside=inside or name in names)
        case list():
            for inner in cast("list[object]", value):
                yield from _texts(inner, names, inside=inside)
        case None | bool():
            return
        case _ if inside:
            yield str(value)
        case _:
            return


def _masked_error(error: AttemptError, pattern: re.Pattern[str] | None) -> AttemptError:
    if pattern is None:
        return error
    return replace(error, message=pattern.sub(MASK, error.message), traceback=pattern.sub(MASK, error.traceback))
