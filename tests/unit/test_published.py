"""What workers publish of a handler: JSON Schemas that say the same as the handler's own check."""

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from dtq_engine.context import TaskContext
from dtq_engine.errors import InvalidHandler, InvalidTask
from dtq_engine.options import Defaults
from dtq_engine.registry import Handler


class Color(Enum):
    RED = "red"


class Options(TypedDict):
    depth: int
    name: NotRequired[str]


@dataclass
class Item:
    name: str
    price: Decimal
    parts: list["Item"] = field(default_factory=list)


class Point(msgspec.Struct):
    x: Annotated[int, msgspec.Meta(ge=0, description="to the right")]


class Stranger:
    """Nothing that JSON could hold."""


def handler_of(kind: Any) -> Handler:
    def handle(value: Any) -> None: ...

    handle.__annotations__ = {"value": kind}
    return Handler("demo", handle)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (int, 5, "5"),
        (int | None, None, "x"),
        (float, 1.5, []),
        (Literal["a", 1], "a", "b"),
        (Color, "red", "blue"),
        (datetime, "2026-10-01T12:00:00Z", 5),
        (uuid.UUID, str(uuid.UUID(int=5)), 5),
        (Decimal, "1.10", []),
        (Options, {"depth": 1}, {"name": "x"}),
        (Item, {"name": "a", "price": "1", "parts": [{"name": "b", "price": "2"}]}, {"name": "a"}),
        (Item, {"name": "a", "price": "1"}, {"name": "a", "price": "1", "parts": [{"name": "b"}]}),
        (Point, {"x": 0}, {"x": -1}),
        (Annotated[str, msgspec.Meta(min_length=2, pattern="^a")], "ab", "a"),
        (Annotated[list[int], msgspec.Meta(max_length=2)], [1, 2], [1, 2, 3]),
        (dict[str, int], {"a": 1}, {"a": "1"}),
        (tuple[int, str], [1, "a"], [1]),
    ],
)
def test_the_schema_and_the_handler_judge_alike(kind: Any, good: Any, bad: Any) -> None:
    handler = handler_of(kind)
    schema = handler.published().parameters
    Draft202012Validator.check_schema(schema)
    fits = Draft202012Validator(schema).is_valid
    for value, is_good in ((good, True), (bad, False)):
        assert fits({"value": value}) is is_good
        if is_good:
            handler.encode_arguments((value,), {})
        else:
            with pytest.raises(InvalidTask) as refused:
                handler.encode_arguments((value,), {})
            assert refused.value.field == "value"
    assert not fits({})
    assert not fits({"value": good, "other": 1})


def test_the_context_and_default_values_are_not_asked_for() -> None:
    def build(ctx: TaskContext, account: int, *, month: str = "2026-10") -> str:
        """Build the report of a month."""
        return month

    published = Handler("reports.build", build, defaults=Defaults(queue="reports", timeout_ms=60_000)).published()
    assert published.parameters == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "reports.build",
        "type": "object",
        "properties": {"account": {"type": "integer"}, "month": {"type": "string"}},
        "required": ["account"],
        "additionalProperties": False,
    }
    assert published.result["type"] == "string"
    assert published.description == "Build the report of a month."
    assert published.defaults["queue"] == "reports"
    assert published.defaults["timeout_ms"] == 60_000
    assert "max_attempts" not in published.defaults


def test_other_keyword_arguments_are_allowed_by_their_type() -> None:
    def collect(first: int, **others: int) -> None: ...

    fits = Draft202012Validator(Handler("demo", collect).published().parameters).is_valid
    assert fits({"first": 1, "b": 2})
    assert not fits({"first": 1, "b": "x"})


def test_a_parameter_type_may_have_any_name() -> None:
    class Arguments(msgspec.Struct):
        x: int

    fits = Draft202012Validator(handler_of(Arguments).published().parameters).is_valid
    assert fits({"value": {"x": 1}})
    assert not fits({"value": {"x": "1"}})


@pytest.mark.parametrize("kind", [Stranger, list[Stranger], dict[str, Stranger | None], tuple[int, Stranger]])
def test_a_type_that_json_cannot_make_is_refused_however_deep_it_lies(kind: Any) -> None:
    with pytest.raises(InvalidHandler, match="its parameter value"):
        handler_of(kind)


def test_a_field_whose_type_cannot_be_resolved_is_refused_with_a_sentence() -> None:
    @dataclass
    class Broken:
        it: "NowhereDefined"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidHandler, match="its parameter value"):
        handler_of(Broken)
