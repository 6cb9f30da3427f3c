"""Handlers by name, and results on their way back."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NoReturn, TypeVar

import pytest

from dtq_engine.errors import InvalidHandler, NotJson, ResultMismatch
from dtq_engine.options import Defaults
from dtq_engine.registry import Handler, Registry

T = TypeVar("T")


@dataclass
class Report:
    pages: int
    at: datetime


REPORT = Report(3, datetime(2026, 10, 1, tzinfo=UTC))


def returning(kind: Any) -> Handler:
    def handle() -> Any: ...

    handle.__annotations__ = {"return": kind}
    return Handler("demo", handle)


def test_handlers_are_found_by_name():
    registry = Registry()
    handlers = {name: Handler(name, lambda: None) for name in ("b", "a")}
    for each in handlers.values():
        registry.add(each)
    assert registry.types() == ("a", "b")
    assert registry.get("a") is handlers["a"]
    assert registry.get("c") is None


def test_a_name_is_taken_once():
    registry = Registry()
    registry.add(Handler("a", lambda: 1))
    with pytest.raises(InvalidHandler) as refused:
        registry.add(Handler("a", test_handlers_are_found_by_name))
    assert str(refused.value) == (
        "the task name 'a' is taken by tests.unit.test_registry.test_a_name_is_taken_once.<locals>.<lambda>: "
        "give tests.unit.test_registry.test_handlers_are_found_by_name another name."
    )


def test_registering_the_same_function_again_changes_nothing():
    def fn() -> None: ...

    registry = Registry()
    first = Handler("a", fn)
    registry.add(first)
    registry.add(Handler("a", fn))
    assert registry.get("a") is first


def test_the_same_function_with_other_options_is_refused():
    def fn() -> None: ...

    registry = Registry()
    registry.add(Handler("a", fn))
    with pytest.raises(InvalidHandler):
        registry.add(Handler("a", fn, defaults=Defaults(priority=9)))


@pytest.mark.parametrize("permanent", [ValueError, [ValueError], ("ValueError",), (int,), None])
def test_permanent_is_a_tuple_of_exception_classes(permanent):
    with pytest.raises(InvalidHandler, match="tuple of exception classes"):
        Handler("a", lambda: None, permanent=permanent)


def test_a_retry_callback_is_a_function():
    with pytest.raises(InvalidHandler, match="retry must be a function"):
        Handler("a", lambda: None, retry=5)  # type: ignore[arg-type]


def test_none_is_no_result_to_store():
    assert returning(None).encode_result(None) is None
    assert returning(None).decode_result(None) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Any, {"a": [1, None]}),
        (Report, REPORT),
        (list[Report], [REPORT]),
        (int | None, 5),
        (set[int], {1, 2}),
        (Decimal, Decimal("1.10")),
        (tuple[int, str], (1, "a")),
        (list[object], [1, "a"]),
        (NoReturn, None),
        (T, 5),
        (bytes, b"\xff"),
        (str, "ü"),
    ],
)
def test_a_result_comes_back_in_the_type_that_was_promised(kind, value):
    handler = returning(kind)
    assert handler.decode_result(handler.encode_result(value)) == value


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (int, "5", "the result is not what '-> int' promises: expected int, got str"),
        (int, None, "the result is not what '-> int' promises: expected int, got null"),
        (None, 5, "the result is not what '-> None' promises"),
        (dict[str, int], ["not", "a", "dict"], r"the result is not what '-> dict\[str, int\]' promises"),
        (dict[str, list[int]], {"a": [1], "b": [1, "2"]}, r"the result\.b\[1\] is not what"),
        (Report, {"pages": 3, "at": "2026-10-01T00:00:00Z", "on": 1}, "the result has no field on"),
        (set[int], [1, "2"], r"the result\[1\] is not what"),
        (float, float("nan"), "the result is nan"),
        (bytes, "password", "the result is text where bytes are expected"),
    ],
)
def test_a_result_that_breaks_the_promise_is_refused(kind, value, message):
    with pytest.raises(NotJson, match=message):
        returning(kind).encode_result(value)


def test_a_result_of_another_build_is_not_passed_off_as_what_is_promised_here():
    written = returning(str).encode_result("seven")
    with pytest.raises(ResultMismatch, match=r"the result is not what '-> int' promises here .*handle.info\(\).result"):
        returning(int).decode_result(written)
    assert returning(int).decode_result(None) is None


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, {1, 2}, b"x", object(), REPORT, "\ud800", [10**5000]])
def test_a_result_that_is_not_json_is_refused_by_its_place(value):
    with pytest.raises(NotJson, match=r"^the result"):
        returning(Any).encode_result({"x": [value]} if isinstance(value, str) else value)
    with pytest.raises(NotJson, match=r"^the result\.x\[0\]"):
        returning(Any).encode_result({"x": [value]})


def test_a_result_nested_too_deeply_is_refused():
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(NotJson, match="nested"):
        returning(Any).encode_result(deep)
