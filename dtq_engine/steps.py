"""Long tasks that a restart does not set back: what an execution has saved, later ones of its task find."""

import inspect
import threading
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any, get_type_hints

from dtq_engine import codec
from dtq_engine.errors import InvalidStep, NotJson, RedisUnavailable, ResultMismatch
from dtq_engine.ids import new_token
from dtq_engine.results import Results

NAME_MAX = 128
PAUSE_S = 0.2

STEP, MARK, CURSOR = "s", "o", "c"
"""What the fields begin with that `Keys.steps` has."""

Save = Callable[[str, bytes, bool], bool]
"""(field, value, only if it is the first) -> whether it is kept, as `store.steps.save` does."""


class Steps:
    """What the executions of one task have saved, as one of them sees it; safe for several threads.

    `save` sends to Redis. While that is away it is tried again until `deadline`, or `given_up` is set.
    `most` steps and marks and `most_bytes` of all are kept.
    """

    def __init__(
        self,
        saved: Mapping[str, bytes],
        save: Save,
        *,
        deadline: float,
        given_up: threading.Event,
        most: int,
        most_bytes: int,
    ) -> None:
        self._saved = dict(saved)
        self._save = save
        self._deadline = deadline
        self._given_up = given_up
        self._most = most
        self._most_bytes = most_bytes
        self._begun: set[str] = set()
        self._lock = threading.Lock()

    @property
    def cursor(self) -> Any:
        """Where to go on; None if nobody has said so."""
        raw = self._saved.get(CURSOR)
        return None if raw is None else codec.decode(raw)

    def begin(self, name: str) -> bytes | None:
        """What a step came to in an earlier execution; None if it is to be run now. Raises InvalidStep."""
        _check_name(name)
        with self._lock:
            if name in self._begun:
                raise InvalidStep(
                    f"The step {name!r} was begun before in this attempt: give each step a name of its own."
                )
            self._begun.add(name)
            found = self._saved.get(STEP + name)
            if found is None:
                # Before it runs, and not after: its work would be lost.
                self._check_room(STEP + name, 0)
            return found

    def fail(self, name: str) -> None:
        """A step that was begun has raised: it may be begun again, in this attempt too."""
        with self._lock:
            self._begun.discard(name)

    def end(self, name: str, fn: Callable[..., Any], value: object) -> Any:
        """Save what a step came to; its value as later attempts will read it. Raises InvalidStep and more."""
        values = _values(fn)
        try:
            data = values.encode(value) or b"null"
        except NotJson as error:
            raise InvalidStep(f"The value of the step {name!r} cannot be kept: {error}") from error
        self._keep(STEP + name, data)
        return values.decode(data)

    def checkpoint(self, cursor: object) -> None:
        """Save where to go on. Raises InvalidStep, ClaimLost and more."""
        try:
            data = codec.encode(cursor, "cursor")
        except NotJson as error:
            raise InvalidStep(f"The cursor of a checkpoint is not JSON: {error}") from error
        if data != self._saved.get(CURSOR):
            self._keep(CURSOR, data)

    def once(self, key: str) -> bool:
        """Whether no execution of the task has asked this before. Raises InvalidStep, ClaimLost and more."""
        _check_name(key)
        if MARK + key in self._saved:
            return False
        return self._keep(MARK + key, new_token().encode(), first=True)

    def _check_room(self, field: str, size: int) -> None:
        if field not in self._saved and field != CURSOR and len(self._saved) - (CURSOR in self._saved) >= self._most:
            raise InvalidStep(
                f"This task has saved {self._most} steps and marks: make fewer and larger ones, use ctx.checkpoint, or "
                f"raise DTQ_TASK_STEPS."
            )
        total = size + sum(len(name) + len(value) for name, value in self._saved.items() if name != field)
        if total > self._most_bytes:
            raise InvalidStep(
                f"This task would save {total} bytes, and {self._most_bytes} are allowed: save where the data is and "
                f"not the data, or raise DTQ_TASK_STEPS_BYTES."
            )

    def _keep(self, field: str, value: bytes, *, first: bool = False) -> bool:
        with self._lock:
            self._check_room(field, len(field) + len(value))
        kept = self._send(field, value, first)
        with self._lock:
            self._saved[field] = value
        return kept

    def _send(self, field: str, value: bytes, first: bool) -> bool:
        while True:
            try:
                return self._save(field, value, first)
            except RedisUnavailable as error:
                left_s = self._deadline - monotonic()
                if left_s <= 0 or self._given_up.wait(min(PAUSE_S, max(0.0, left_s))):
                    raise RedisUnavailable(
                        f"Redis was away until this execution had to end, so that nothing was saved: {error}",
                        may_have_run=error.may_have_run,
                    ) from error


def decoded(name: str, fn: Callable[..., Any], data: bytes) -> Any:
    """A step's value in the type that the function is annotated to return. Raises InvalidStep if it is another."""
    try:
        return _values(fn).decode(data)
    except ResultMismatch:
        raise InvalidStep(
            f"The step {name!r} was saved by a build in which it returned something else: give it another name where "
            f"it changes, or requeue the task without its steps."
        ) from None


def _values(fn: Callable[..., Any]) -> Results:
    while isinstance(fn, partial):
        fn = fn.func
    try:
        kind = get_type_hints(fn).get("return", Any)
    except (TypeError, NameError, AttributeError):
        kind = Any  # a class, or annotations that cannot be read here
    try:
        return Results(kind)
    except TypeError:
        return Results(Any)  # a type that has no JSON form, such as a type variable


def refuse_awaitable(name: str, value: object) -> None:
    """Raise InvalidStep for what an async function returns, which nobody would await."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise InvalidStep(f"The step {name!r} is async: use `await ctx.step_async({name!r}, …)`.")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX or not name.isprintable():
        raise InvalidStep(
            f"The name of a step or mark cannot be {name!r:.160}: use 1 to {NAME_MAX} visible characters."
        )
