"""Tasks as people write them down: options of a command, or a line of a file."""

import difflib
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Literal

import msgspec

from dtq_engine import codec, ids, losses, validate
from dtq_engine.after import parents_by_id
from dtq_engine.cli.values import duration_s, instant
from dtq_engine.engine import Dtq
from dtq_engine.errors import DtqError, InvalidTask, NotJson
from dtq_engine.model import NewTask, Parent
from dtq_engine.options import Defaults, Options, read_options, task_maker
from dtq_engine.strict import refuse_repeated_names
from dtq_engine.unique_keys import literal


class Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One task as a line of NDJSON: `{"type": "reports.build", "payload": {"account_id": 7}}`.

    All but `type` may be left out. `delay`, `expires_in`, `timeout`, `per`, `debounce` and `debounce_max` are seconds
    or durations (`"5m"`); `run_at` is an ISO 8601 time; `unique_key` is the key itself; `after` are ids of tasks that
    were submitted before. `payload` is kept byte for byte.
    """

    type: str
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    queue: str | None = None
    priority: int | None = None
    delay: float | str | None = None
    run_at: str | None = None
    id: str | None = None
    idempotency_key: str | None = None
    expires_in: float | str | None = None
    timeout: float | str | None = None
    max_attempts: int | None = None
    headers: dict[str, str] | None = None
    after: list[str] | None = None
    on_parent_failure: Literal["cancel", "run"] | None = None
    unique: Literal["waiting", "until_done", "no"] | None = None
    unique_key: str | None = None
    at_most: int | None = None
    per: float | str | None = None
    debounce: float | str | None = None
    debounce_max: float | str | None = None


def read_line(line: bytes) -> Line:
    """The task on a line of NDJSON. Raises InvalidTask."""
    try:
        found = msgspec.json.decode(line, type=Line)
        losses.refuse_depth(line)
        refuse_repeated_names(line)
    except msgspec.ValidationError as error:
        raise InvalidTask("line", f"{_field_problem(str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = codec.unreadable(error, line)
        raise InvalidTask("line", f"this is not a JSON object on one line: {problem}") from None
    except NotJson as error:
        raise InvalidTask("line", f"this line is refused: {error}") from None
    return found


def _field_problem(message: str) -> str:
    """What msgspec found, with the field first: "delay: expected float, got array"."""
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", message):
        near = difflib.get_close_matches(found[1], Line.__struct_fields__, n=1)
        return f"{found[1]!r} is not a field of a task; " + (f"did you mean {near[0]!r}?" if near else "remove it")
    what, _, where = message.replace("Object missing required", "the task lacks the").partition(" - at `$")
    sentence = re.sub(r"`([^`]*)`", r"\1", what)
    sentence = sentence[:1].lower() + sentence[1:]
    place = where.strip(".`")
    return f"{place}: {sentence}" if place else sentence


def unapplied(types: Collection[str], app: Dtq, named: str | None, living: Collection[str] = ()) -> str | None:
    """A sentence if a task of these types goes as given, by no handler's options; `named` is the app's path.

    `living` are the types that workers have, for a hint where no app is named.
    """
    if not (unknown := sorted(each for each in types if app.registry.get(each) is None)):
        return None
    if named is None:
        advice = "with --app MODULE:APP the handler's own options and checks are applied."
        if not living or unknown[0] in living:
            return f"Submitted as given; {advice}"
        hint = _near(unknown[0], living)
        return f"Submitted as given: no living worker has a handler of {unknown[0]}{hint} W{advice[1:]}"
    more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
    shown = ", ".join(unknown[:3]) + more
    hint = _near(unknown[0], app.registry.types())
    return f"Submitted as given: {named} has no handler of {shown}, and none starts before a worker has one{hint}"


def living_types(app: Dtq) -> set[str]:
    """The types that living workers have; none if that cannot be asked now."""
    with suppress(DtqError):
        return {name for info in app.store.workers.list() for name in info.types}
    return set()


def _near(name: str, known: Collection[str]) -> str:
    """The end of a sentence about a name that is not among those known: the ones that it may stand for."""
    near = difflib.get_close_matches(name, sorted(known), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else "."


def with_defaults(line: Line, defaults: Line) -> Line:
    """The line, and the defaults where it does not say. Raises InvalidTask for what only makes sense together."""
    given = {name: getattr(line, name) for name in Line.__struct_fields__ if getattr(line, name) is not None}
    if line.delay is not None or line.run_at is not None:
        given = {"delay": None, "run_at": None} | given
    complete = msgspec.structs.replace(defaults, **given)
    if line.on_parent_failure == "run" and not complete.after:
        raise InvalidTask("on_parent_failure", "on_parent_failure is about those in after: name some, or drop it.")
    return complete


def new_task(line: Line, app: Dtq) -> NewTask:
    """The task that a line asks for; what it leaves open is as the app's handler, if it has one, decides.

    Raises InvalidTask.
    """
    payload = bytes(line.payload)
    handler = app.registry.get(line.type)
    if handler is not None:
        handler.bind_payload(payload)
    defaults = Defaults() if handler is None else handler.defaults
    options = replace(_options(line), after=_parents(line, app))
    bind = codec.decode_object if handler is None else handler.bind_payload
    make = task_maker(line.type, defaults, options, app.settings, bind)
    limits = () if handler is None else handler.buckets(payload)
    return make(id=options.id or ids.new_id(), payload=payload, limits=limits)


def _options(line: Line) -> Options:
    return read_options(
        delay=_seconds("delay", line.delay),
        run_at=_instant(line.run_at),
        priority=line.priority,
        queue=line.queue,
        idempotency_key=line.idempotency_key,
        expires_in=_seconds("expires_in", line.expires_in),
        timeout=_seconds("timeout", line.timeout),
        max_attempts=line.max_attempts,
        headers=line.headers,
        id=line.id,
        same={
            "unique": line.unique,
            "unique_key": literal(line.unique_key),
            "at_most": line.at_most,
            "per": _seconds("per", line.per),
            "debounce": _seconds("debounce", line.debounce),
            "debounce_max": _seconds("debounce_max", line.debounce_max),
        },
    )


def _parents(line: Line, app: Dtq) -> tuple[Parent, ...]:
    ids = [validate.check_id(each) for each in line.after or ()]
    return parents_by_id(app, ids, run_anyway=line.on_parent_failure == "run", child=line.id)


def _seconds(field: str, value: float | str | None) -> float | None:
    try:
        return duration_s(value) if isinstance(value, str) else value
    except ValueError as error:
        raise InvalidTask(field, f"{field}: {error}.") from None


def _instant(value: str | None) -> datetime | None:
    try:
        return None if value is None else instant(value)
    except ValueError as error:
        raise InvalidTask("run_at", f"run_at: {error}.") from None
