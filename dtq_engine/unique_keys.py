"""What makes tasks alike: keys made of a call's arguments, as `unique_key` says it.

A key is made from the payload alone, so that a process that does not have the handler makes the same one from what
workers publish.
"""

import inspect
import math
import string
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, cast

from dtq_engine import codec
from dtq_engine.errors import InvalidTask, NotJson
from dtq_engine.model import NewTask
from dtq_engine.validate import shown

UniqueKey = tuple[str, ...] | str | Callable[..., object]
"""A parameter's name or several, a template such as `"report-{account}"`, or a function of parameters by name."""

Bind = Callable[[bytes], Mapping[str, Any]]
"""From a payload to the arguments that a handler gets."""


def literal(key: str | None) -> UniqueKey | None:
    """A key as it is, for those who give the key itself and not what it is made of."""
    return None if key is None else _Literally(key)


def read_key(value: object) -> UniqueKey:
    """What a key is made of, as given. Raises InvalidTask, which names `unique_key`."""
    if isinstance(value, str):
        return _read_text(value)
    said = shown(value)
    names: tuple[object, ...] = cast("Any", value) if isinstance(value, tuple) else ()
    if not isinstance(value, tuple) and callable(value):
        _parameters_of(value)
        return value
    if not names or not all(isinstance(each, str) and each for each in names):
        _refuse(f"unique_key cannot be {said}: use names of parameters, a template or a function of them.")
    return cast("tuple[str, ...]", names)


def names_in(key: UniqueKey) -> tuple[str, ...]:
    """The names of the parameters that a key cannot do without."""
    if isinstance(key, str):
        return tuple(name for _, name in _fields_of(key) if name is not None)
    if not callable(key):
        return key
    named = [each for each in _parameters_of(key) if each.kind is not each.VAR_KEYWORD]
    return tuple(each.name for each in named if each.default is each.empty)


def key_of(key: UniqueKey, task: NewTask, bind: Bind) -> str:
    """The key of a task, as text. An argument that was not passed counts as null. Raises InvalidTask."""
    try:
        if isinstance(key, _Literally):
            made: object = key.key  # payloads that no handler here can read have one too
        elif callable(key):
            made = _call(key, bind(task.payload))
        else:
            arguments = codec.decode_object(task.payload)
            made = _fill(key, arguments) if isinstance(key, str) else {name: arguments.get(name) for name in key}
        text = made if isinstance(made, str) else codec.canonical(codec.write(made, "unique_key")).decode()
    except NotJson as error:
        raise InvalidTask("unique_key", f"{task.type}: no unique key can be made: {error}") from None
    if not text:
        raise InvalidTask(
            "unique_key", f"{task.type}: the unique key of these arguments is empty text: make it differ."
        )
    return text


class _Literally:
    """Stands for a function that gives the same key whatever the arguments are."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self) -> str:
        return self.key


def _read_text(text: str) -> UniqueKey:
    """A parameter's name, or a template; one without parameters would make all tasks of a type alike."""
    if text.isidentifier():
        return (text,)
    if all(name is None for _, name in _fields_of(text)):
        _refuse(
            f"unique_key cannot be {text!r}: name a parameter, or put one in braces, as in 'report-{{account}}'; where "
            f"all tasks of a type shall be alike, use a function without parameters."
        )
    return text


def _fields_of(template: str) -> list[tuple[str, str | None]]:
    """A template as pairs of text and the name that follows it, None at the end."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        _refuse(f"unique_key cannot be {template!r}, as no template reads so ({error}): write a brace as {{{{ or }}}}.")
    if not template:
        _refuse("unique_key cannot be empty text: name the parameters that make tasks alike.")
    for _, name, form, conversion in parsed:
        if name is not None and (not name.isidentifier() or form or conversion):
            _refuse(f"unique_key cannot be {template!r}: between its braces only names of parameters may stand.")
    return [(text, name) for text, name, _, _ in parsed]


def _parameters_of(function: Callable[..., object]) -> list[inspect.Parameter]:
    """What a function is called with; it must be callable by name, and answer at once."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        _refuse(f"unique_key cannot be {function!r}, which has no signature to read: wrap it in a function.")
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    if inspect.iscoroutinefunction(function) or not all(each.kind in by_name for each in parameters):
        _refuse(
            f"unique_key cannot be {function!r}: use a plain function that takes parameters of the handler by name."
        )
    return parameters


def _fill(template: str, arguments: Mapping[str, Any]) -> str:
    """A template with the arguments in it: text as it is, other values as JSON."""
    parts: list[str] = []
    for text, name in _fields_of(template):
        parts.append(text)
        if name is not None:
            value = arguments.get(name)
            parts.append(value if isinstance(value, str) else codec.canonical(codec.write(value)).decode())
    return "".join(parts)


def _call(function: Callable[..., object], arguments: Mapping[str, Any]) -> object:
    """What a key's function makes of the arguments that it takes: text, or a number or tuple, to be written as JSON."""
    parameters = _parameters_of(function)
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        taken = {each.name for each in parameters}
        absent = {each.name: None for each in parameters if each.default is each.empty}
        arguments = absent | {name: value for name, value in arguments.items() if name in taken}
    try:
        made = function(**arguments)
        hash(made)
    except InvalidTask:
        raise
    except Exception as error:
        _refuse(f"the function that makes the unique key raised {type(error).__name__}: {error}.", error)
    if made is None or (isinstance(made, float) and math.isnan(made)):
        _refuse(f"the function that makes the unique key returned {made}: return text, a number or a tuple of them.")
    return made


def _refuse(problem: str, cause: BaseException | None = None) -> NoReturn:
    raise InvalidTask("unique_key", problem) from cause
