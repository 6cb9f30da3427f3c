"""Which functions can be handlers, and what their signatures say."""

import functools
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pytest

from dtq_engine.context import TaskContext
from dtq_engine.errors import InvalidHandler
from dtq_engine.registry import Handler
from tests.unit import postponed


def refusal(fn: Any) -> str:
    with pytest.raises(InvalidHandler) as refused:
        Handler("demo", fn)
    assert "'demo'" in str(refused.value)
    return str(refused.value)


def test_parameters_are_known_by_name_and_position():
    def build(account_id: int, name: str = "x", *, month: str, year: int = 2026) -> None: ...

    signature = Handler("demo", build).signature
    assert signature.types == {"account_id": int, "name": str, "month": str, "year": int}
    assert signature.positions == ("account_id", "name")
    assert signature.required == {"account_id", "month"}
    assert not signature.takes_others


def test_the_context_is_a_first_parameter_annotated_as_such():
    def with_context(ctx: TaskContext, a: int) -> None: ...
    def by_position_only(ctx: TaskContext, /, a: int) -> None: ...
    def without(ctx: int, a: int) -> None: ...

    assert Handler("demo", with_context).takes_context
    assert Handler("demo", by_position_only).takes_context
    assert not Handler("demo", without).takes_context
    assert set(Handler("demo", with_context).signature.types) == {"a"}


def test_annotations_may_be_postponed():
    handler = Handler("demo", postponed.build)
    assert handler.takes_context
    assert handler.signature.types == {"account_id": int, "spec": postponed.Spec}


def test_the_context_may_be_imported_for_the_type_checker_only():
    handler = Handler("demo", postponed.checked_only)
    assert handler.takes_context
    assert handler.signature.types == {"account_id": int}


def test_another_name_that_only_the_type_checker_knows_is_refused():
    assert "cannot be resolved: import it outside of TYPE_CHECKING" in refusal(postponed.unresolved)


def test_an_unknown_return_type_means_any_json():
    assert Handler("demo", postponed.unknown_result).decode_result(b'{"a":1}') == {"a": 1}


def test_positional_only_parameters_are_refused():
    def positional(a: int, /, b: int) -> None: ...

    assert "a is positional-only, and arguments are stored by name: drop the '/'" in refusal(positional)


def test_star_args_are_refused():
    def variadic(*numbers: int) -> None: ...

    assert "*numbers has no name to store arguments by: take a list instead" in refusal(variadic)


def test_a_context_that_does_not_come_first_is_refused():
    def late(a: int, ctx: TaskContext) -> None: ...
    def keyword(*, ctx: TaskContext) -> None: ...

    assert "comes first" in refusal(late)
    assert "comes first" in refusal(keyword)


def test_generators_are_refused():
    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    assert "return a value instead of yielding" in refusal(generator)
    assert "return a value instead of yielding" in refusal(async_generator)


def test_types_that_json_cannot_make_are_refused():
    class Opaque: ...

    def opaque(thing: Opaque) -> None: ...

    assert "thing is annotated with" in refusal(opaque)


def test_unions_that_cannot_be_told_apart_are_refused():
    class A(msgspec.Struct):
        a: int

    class B(msgspec.Struct):
        b: int

    def ambiguous(thing: A | B) -> None: ...

    assert "cannot be read from JSON" in refusal(ambiguous)


def test_builtins_without_a_signature_are_refused():
    assert "wrap it in a function" in refusal(dict)


@pytest.mark.parametrize("thing", [5, None, "name"])
def test_what_cannot_be_called_is_refused(thing):
    assert refusal(thing)


def test_lambdas_partials_methods_and_callable_objects_can_be_handlers():
    class Mailer:
        def send(self, to: str) -> str:
            return to

        async def __call__(self, to: str) -> str:
            return to

    def add(a: int, b: int) -> int:
        return a + b

    assert Handler("demo", lambda a: a).bind_payload(b'{"a":[1]}') == {"a": [1]}
    assert Handler("demo", Mailer().send).bind_payload(b'{"to":"x"}') == {"to": "x"}
    assert Handler("demo", functools.partial(add, b=1)).bind_payload(b'{"a":1}') == {"a": 1}
    assert Handler("demo", Mailer()).is_async


def test_callable_objects_and_partials_may_have_postponed_annotations():
    assert Handler("demo", postponed.Builder()).signature.types == {"spec": postponed.Spec}
    assert Handler("demo", functools.partial(postponed.build, account_id=7)).takes_context


def test_a_decorated_function_keeps_its_signature():
    def logged(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return wrapper

    @logged
    def build(ctx: TaskContext, a: int) -> None: ...

    assert Handler("demo", build).takes_context
    assert Handler("demo", build).signature.types == {"a": int}


def test_coroutine_functions_are_async():
    async def fetch(url: str) -> str:
        return url

    assert Handler("demo", fetch).is_async
    assert not Handler("demo", lambda: None).is_async


def test_limits_in_annotations_are_kept():
    def book(seats: Annotated[int, msgspec.Meta(ge=1, le=9)]) -> None: ...

    with pytest.raises(Exception, match="seats"):
        Handler("demo", book).encode_arguments((0,), {})


class Mailer:
    def send(self, to: str) -> str:
        return to

    async def send_later(self, to: str) -> str:
        return to

    @staticmethod
    def post(to: str) -> str:
        return to

    @classmethod
    def mail(cls, to: str) -> str:
        return to


@pytest.mark.parametrize("method", [Mailer.send, Mailer.send_later])
def test_a_method_without_its_object_is_refused(method):
    assert "a method without its object: register a bound one" in refusal(method)


def test_methods_that_need_no_object_can_be_handlers():
    for method in (
        Mailer.post,
        Mailer.mail,
        Mailer().send,
        Mailer.__dict__["post"],
        functools.partial(Mailer.send, Mailer()),
    ):
        assert Handler("demo", method).signature.types == {"to": str}


def test_a_first_parameter_that_nobody_passes_is_refused():
    def bound(self, to: str) -> None: ...  # as Celery's bind=True has it

    assert "annotate it with TaskContext" in refusal(bound)


@pytest.mark.parametrize("thing", [Mailer, postponed.Spec])
def test_classes_are_refused(thing):
    assert "it is a class" in refusal(thing)


class Own: ...


@pytest.mark.parametrize(
    "kind",
    [Own, list[Own], dict[str, Own], Own | None, Path, Iterator[int], type[int], complex, str | UUID, TaskContext],
)
def test_a_result_that_could_never_be_read_back_is_refused(kind):
    def handle() -> Any: ...

    handle.__annotations__ = {"return": kind}
    assert "which cannot be read back from JSON: return a dataclass" in refusal(handle)


class Grid(TypedDict):
    cells: list[dict[tuple[int, int], int]]
    parent: "Grid | None"


@pytest.mark.parametrize(
    "kind", [dict[tuple[int, int], int], dict[bool, int], dict[str, dict[None, int]], dict[frozenset[int], int], Grid]
)
@pytest.mark.parametrize("name", ["value", "return"])
def test_keys_that_could_never_be_sent_are_refused(name, kind):
    def handle(value: Any) -> Any: ...

    handle.__annotations__ |= {name: kind}
    assert "and JSON has only text as keys: use str, or what is written as text" in refusal(handle)


@pytest.mark.parametrize(
    "kind",
    [
        dict[str, int],
        dict[float, int],
        dict[date, int],
        dict[UUID, int],
        dict[Any, int],
        dict[int | None, int],
        dict[tuple[int, int] | str, int],
        dict[Literal[1, 2], int],
    ],
)
def test_keys_that_are_written_as_text_are_fine(kind):
    def handle(value: Any) -> None: ...

    handle.__annotations__["value"] = kind
    assert Handler("demo", handle).signature.types == {"value": kind}


def test_a_function_that_promises_something_to_await_is_async():
    def later(to: str) -> Awaitable[int]:
        raise NotImplementedError

    def soon(to: str) -> Coroutine[Any, Any, int]:
        raise NotImplementedError

    for function in (later, soon):
        handler = Handler("demo", function)
        assert handler.is_async
        assert handler.signature.returns is int


def test_an_object_that_stands_for_a_function_keeps_its_signature():
    class Logged:
        def __init__(self, fn: Any) -> None:
            functools.update_wrapper(self, fn)
            self.fn = fn

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self.fn(*args, **kwargs)

    @Logged
    def build(ctx: TaskContext, a: int) -> list[int]:
        return [a]

    for each in (build, functools.lru_cache(build)):
        handler = Handler("demo", each)
        assert handler.takes_context
        assert handler.signature.types == {"a": int}
        assert handler.signature.returns == list[int]


def test_object_means_any_json_wherever_it_stands():
    def build(rows: list[dict[str, object]], more: object | None = None) -> dict[str, object]:
        return rows[0]

    signature = Handler("demo", build).signature
    assert signature.types["rows"] == list[dict[str, Any]]
    assert signature.returns == dict[str, Any]


def test_a_context_that_may_be_none_is_refused():
    def optional(ctx: TaskContext | None, a: int) -> None: ...

    assert "annotated with TaskContext alone" in refusal(optional)


def test_names_that_json_arguments_cannot_have_are_refused():
    def dunder(__a: int) -> None: ...

    assert "__a begins with two underscores" in refusal(dunder)
