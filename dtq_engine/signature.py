"""What a handler's signature says: its parameters by name, their types, and whether it wants the context."""

import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Never, NoReturn, Union, cast

import msgspec

from dtq_engine.context import TaskContext
from dtq_engine.errors import InvalidHandler, InvalidTask
from dtq_engine.fields import has_impossible_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The parameters of the handler of one task type. `types` has them all but the context and `**kwargs`.

    `is_async` says that calling it gives something to await, and `returns` is what comes of that. `is_fed` says that
    its first parameter is left out, into which the result of another task goes.
    """

    task: str
    types: Mapping[str, Any]
    positions: tuple[str, ...]
    required: frozenset[str]
    context: str | None
    takes_others: bool
    others: Any
    returns: Any
    is_async: bool
    defaults: Mapping[str, object] = field(default_factory=dict[str, object])
    """The defaults of the parameters in `types`, `...` where there is none."""
    is_fed: bool = False

    def fed(self) -> "Signature":
        """The parameters without the first one, into which a parent's result goes. Raises InvalidTask without any."""
        if not self.positions:
            if self.takes_others:
                return self  # of a handler that is elsewhere
            raise InvalidTask(
                "payload", f"{self.task} has no parameter for the result of what comes before it: use si()."
            )
        first, *others = self.positions
        types, defaults = (
            {name: value for name, value in each.items() if name != first} for each in (self.types, self.defaults)
        )
        required = self.required - {first}
        return replace(self, types=types, defaults=defaults, positions=tuple(others), required=required, is_fed=True)

    def fill(self, payload: bytes, first: bytes) -> bytes:
        """A payload with the first argument put in. Raises InvalidTask where there is none."""
        if not self.positions:
            raise InvalidTask("payload", f"{self.task} has no parameter for the result of its parents.")
        given = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
        return msgspec.json.encode({self.positions[0]: msgspec.Raw(first), **given})

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
    if inspect.isclass(fn):
        _refuse(task, "it is a class, and an object of it would be no result: register a function that uses it")
    _check_self(task, fn, parameters)
    hints = {name: _any_for_object(hint) for name, hint in _hints(_described(fn), parameters).items()}
    is_async, returns = _result(function, hints.get("return", Any))
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
        returns=_readable(task, returns),
        is_async=is_async,
        defaults={each.name: ... if each.default is each.empty else each.default for each in named},
    )


def underlying(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that runs when `fn` is called: of a partial the function, of an object its `__call__`."""
    while isinstance(fn, functools.partial | staticmethod):
        fn = cast("Any", fn).func if isinstance(fn, functools.partial) else fn.__func__
    return fn if inspect.isroutine(fn) else type(fn).__call__


def _described(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose parameters `inspect.signature` tells: that within an object which stands for a function."""
    while isinstance(fn, functools.partial | staticmethod) or (
        hasattr(fn, "__wrapped__") and not inspect.isroutine(fn)
    ):
        fn = cast("Any", fn).func if isinstance(fn, functools.partial) else cast("Any", fn).__wrapped__
    return underlying(fn)


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


def _any_for_object(hint: Any) -> Any:
    """The same type with Any wherever it says `object`, which to msgspec is a class that it cannot read."""
    if hint is object:
        return Any
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return Annotated[(_any_for_object(args[0]), *hint.__metadata__)]
    if object not in args and not any(map(typing.get_args, args)):
        return hint
    inner = tuple(_any_for_object(each) for each in args)
    return Union[inner] if origin in {Union, types.UnionType} else origin[inner]  # noqa: UP007


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
    if _is_context(hint) or TaskContext in typing.get_args(hint):
        _refuse(
            task,
            f"its parameter {name} is the context, which comes first by position and is annotated with TaskContext "
            f"alone: have it so",
        )
    if name.startswith("__"):
        _refuse(task, f"its parameter {name} begins with two underscores, which names of arguments cannot: rename it")
    if isinstance(hint, str):
        _refuse(task, f"the annotation {hint!r} of {name} cannot be resolved: import it outside of TYPE_CHECKING")
    if _is_opaque(hint):
        _refuse(
            task,
            f"its parameter {name} is annotated with {hint!r}, which cannot be read from JSON: "
            f"use a dataclass, a TypedDict or built-in types",
        )
    _check_keys(task, f"its parameter {name}", hint)


def _is_opaque(hint: Any) -> bool:
    """Whether msgspec cannot read the type, or something within it."""
    try:
        msgspec.json.schema(hint)
        return isinstance(msgspec.inspect.type_info(hint), msgspec.inspect.CustomType)
    except (TypeError, NameError):
        return True


def _check_self(task: str, fn: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    if (
        not parameters
        or parameters[0].name not in {"self", "cls"}
        or parameters[0].annotation is not inspect.Parameter.empty
    ):
        return
    where = getattr(fn, "__qualname__", "").rpartition(".")[0]
    if where and not where.endswith("<locals>"):
        _refuse(task, "it is a method without its object: register a bound one, such as Mailer().send, or a function")
    _refuse(task, f"nobody passes {parameters[0].name}: annotate it with TaskContext if it is to be the context")


def _result(function: Callable[..., Any], returns: Any) -> tuple[bool, Any]:
    """Whether the result is to be awaited, and the type of what comes of it."""
    if inspect.iscoroutinefunction(function):
        return True, returns
    origin = typing.get_origin(returns) or returns
    if not (isinstance(origin, type) and issubclass(origin, Awaitable)):
        return False, returns
    return True, (typing.get_args(returns) or (Any,))[-1]


def _readable(task: str, returns: Any) -> Any:
    """The type that results are read as: any JSON where the annotation cannot be resolved, or no result is promised."""
    if isinstance(returns, str) or returns in {NoReturn, Never}:
        return Any
    if _is_opaque(returns):
        _refuse(
            task,
            f"its result is annotated with {returns!r}, which cannot be read back from JSON: "
            f"return a dataclass, a TypedDict or built-in types, or annotate it with Any",
        )
    _check_keys(task, "its result", returns)
    return returns


def _check_keys(task: str, what: str, hint: Any) -> None:
    if has_impossible_keys(hint):
        _refuse(
            task,
            f"{what} is annotated with {hint!r}, and JSON has only text as keys: use str, or what is written as text, "
            f"such as int, UUID, date or an Enum",
        )


def _refuse(task: str, problem: str) -> NoReturn:
    raise InvalidHandler(f"the handler of {task!r} cannot be used: {problem}.")
