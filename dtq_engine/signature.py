"""What a handler's signature says: its parameters by name, their types, and whether it wants the context."""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import msgspec

from dtq_engine.context import TaskContext
from dtq_engine.errors import InvalidHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The parameters of the handler of one task type. `types` has them all but the context and `**kwargs`."""

    task: str
    types: Mapping[str, Any]
    positions: tuple[str, ...]
    required: frozenset[str]
    context: str | None
    takes_others: bool
    others: Any
    returns: Any

    def as_struct(self) -> type[msgspec.Struct]:
        """A class with a field for each parameter, through which msgspec reads arguments; UNSET where not given."""
        fields = [
            (name, kind) if name in self.required else (name, kind, msgspec.UNSET) for name, kind in self.types.items()
        ]
        try:
            made = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=not self.takes_others)
            msgspec.json.Decoder(made)
        except (TypeError, NameError) as error:
            _refuse(self.task, f"its arguments cannot be read from JSON: {error}")
        return made


def read_signature(task: str, fn: Callable[..., Any]) -> Signature:
    """The signature of a handler. Raises InvalidHandler, which says what to change, if it cannot be used."""
    function = underlying(fn)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        _refuse(task, "it is a generator, which has no result: return a value instead of yielding")
    parameters = _parameters(task, fn)
    hints = {name: Any if hint is object else hint for name, hint in _hints(function, parameters).items()}
    context = parameters.pop(0).name if parameters and _wants_context(parameters[0], hints) else None
    for each in parameters:
        _check(task, each, hints)
    others = [each for each in parameters if each.kind is each.VAR_KEYWORD]
    named = [each for each in parameters if each.kind is not each.VAR_KEYWORD]
    return Signature(
        task=task,
        types={each.name: hints.get(each.name, Any) for each in named},
        positions=tuple(each.name for each in named if each.kind is each.POSITIONAL_OR_KEYWORD),
        required=frozenset(each.name for each in named if each.default is each.empty),
        context=context,
        takes_others=bool(others),
        others=hints.get(others[0].name, Any) if others else Any,
        returns=_readable(hints.get("return", Any)),
    )


def underlying(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that runs when `fn` is called: of a partial the function, of an object its `__call__`."""
    while isinstance(fn, functools.partial):
        fn = cast("Any", fn).func
    return fn if inspect.isroutine(fn) else type(fn).__call__


def _parameters(task: str, fn: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError) as error:
        _refuse(task, f"it has no signature to read ({error}): wrap it in a function")


def _hints(fn: Callable[..., Any], parameters: list[inspect.Parameter]) -> dict[str, Any]:
    """Annotations as types; those that cannot be resolved stay strings."""
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except Exception:  # a name may be imported for the type checker only, or be anything in a string
        namespace = getattr(inspect.unwrap(fn), "__globals__", {})
        written = {each.name: each.annotation for each in parameters if each.annotation is not each.empty}
        written["return"] = getattr(fn, "__annotations__", {}).get("return", Any)
        return {name: _resolve(annotation, namespace) for name, annotation in written.items()}


def _resolve(annotation: Any, namespace: Mapping[str, Any]) -> Any:
    def carrier() -> None: ...

    carrier.__annotations__ = {"it": annotation}
    try:
        return typing.get_type_hints(carrier, dict(namespace), include_extras=True)["it"]
    except Exception:
        return annotation


def _wants_context(first: inspect.Parameter, hints: Mapping[str, Any]) -> bool:
    return first.kind in {first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD} and _is_context(hints.get(first.name))


def _is_context(hint: Any) -> bool:
    return hint is TaskContext or (isinstance(hint, str) and hint.rpartition(".")[2] == TaskContext.__name__)


def _check(task: str, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> None:
    name, hint = parameter.name, hints.get(parameter.name, Any)
    if parameter.kind is parameter.POSITIONAL_ONLY:
        _refuse(task, f"its parameter {name} is positional-only, and arguments are stored by name: drop the '/'")
    if parameter.kind is parameter.VAR_POSITIONAL:
        _refuse(task, f"its parameter *{name} has no name to store arguments by: take a list instead")
    if _is_context(hint):
        _refuse(task, f"its parameter {name} is the context, which comes first by position: move it there")
    if isinstance(hint, str):
        _refuse(task, f"the annotation {hint!r} of {name} cannot be resolved: import it outside of TYPE_CHECKING")
    if _is_opaque(hint):
        _refuse(
            task,
            f"its parameter {name} is annotated with {hint!r}, which cannot be read from JSON: "
            f"use a dataclass, a TypedDict or built-in types",
        )


def _is_opaque(hint: Any) -> bool:
    """Whether msgspec cannot read the type, or something within it."""
    try:
        msgspec.json.schema(hint)
        return isinstance(msgspec.inspect.type_info(hint), msgspec.inspect.CustomType)
    except (TypeError, NameError):
        return True


def _readable(returns: Any) -> Any:
    """The type that results are read as: any JSON where the annotation says nothing msgspec can read."""
    return Any if isinstance(returns, str) or _is_opaque(returns) else returns


def _refuse(task: str, problem: str) -> NoReturn:
    raise InvalidHandler(f"the handler of {task!r} cannot be used: {problem}.")
