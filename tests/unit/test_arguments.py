"""Arguments on their way through JSON: bound by name, checked at both ends, unchanged."""

import math
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtq_engine.context import TaskContext
from dtq_engine.errors import InvalidTask
from dtq_engine.registry import Handler


class Color(Enum):
    RED = "red"


class Options(TypedDict):
    depth: int
    name: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Item:
    name: str
    price: Decimal
    tags: list[str] = field(default_factory=list)


@dataclass
class Order:
    id: uuid.UUID
    at: datetime
    items: list[Item]
    ratio: float | None = None


@dataclass(eq=False)
class Incomparable:
    ratio: float | None


class Point(msgspec.Struct):
    x: int


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str
    born_on: date | None = None


class Row(msgspec.Struct, array_like=True):
    left: int
    right: int = 0


class Circle(msgspec.Struct, tag="circle"):
    radius: int


class Square(msgspec.Struct, tag="square"):
    side: int


@dataclass
class Tree:
    name: str
    children: "list[Tree]" = field(default_factory=list)


@dataclass
class Doubled:
    count: int

    def __post_init__(self) -> None:
        self.count *= 2


@dataclass
class Upload:
    data: bytes


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Ratio(float):
    pass


class Money(Decimal):
    pass


class Moment(datetime):
    pass


class Level(IntEnum):
    LOW = 1


class Tone(StrEnum):
    DARK = "dark"


def build(ctx: TaskContext, account_id: int, *, month: str = "2026-10") -> None: ...


BUILD = Handler("reports.build", build)


def handler_of(kind: Any) -> Handler:
    def handle(value: Any) -> None: ...

    handle.__annotations__ = {"value": kind}
    return Handler("demo", handle)


def through(kind: Any, value: Any) -> Any:
    handler = handler_of(kind)
    return handler.bind_payload(handler.encode_arguments((value,), {}))["value"]


def refusal(handler: Handler, *args: Any, **kwargs: Any) -> InvalidTask:
    with pytest.raises(InvalidTask) as refused:
        handler.encode_arguments(args, kwargs)
    assert handler.name in str(refused.value)
    return refused.value


def test_arguments_are_stored_by_name_without_context_and_defaults():
    assert BUILD.encode_arguments((7,), {}) == b'{"account_id":7}'
    assert BUILD.encode_arguments((7,), {"month": "2026-11"}) == b'{"account_id":7,"month":"2026-11"}'
    assert BUILD.encode_arguments((), {"account_id": 7}) == b'{"account_id":7}'


def test_a_payload_is_bound_to_keyword_arguments():
    assert BUILD.bind_payload(b'{"month":"x","account_id":7}') == {"account_id": 7, "month": "x"}
    assert BUILD.bind_payload(b'{"account_id":7}') == {"account_id": 7}


@pytest.mark.parametrize(
    ("args", "kwargs", "name", "message"),
    [
        ((), {}, "account_id", "needs the argument account_id"),
        ((7, 8), {}, "payload", "takes at most 1 positional argument, and 2 were given"),
        ((7,), {"account_id": 8}, "account_id", "twice"),
        ((7,), {"mnth": "x"}, "mnth", "did you mean month?"),
        ((7,), {"zzz": "x"}, "zzz", "it takes account_id, month"),
        ((7,), {"ctx": "x"}, "ctx", "no argument ctx"),
        (("7",), {}, "account_id", "Expected `int`, got `str`"),
        ((7.5,), {}, "account_id", "Expected `int`, got `float`"),
        ((True,), {}, "account_id", "Expected `int`, got `bool`"),
        ((None,), {}, "account_id", "Expected `int`, got `null`"),
        ((math.nan,), {}, "account_id", "account_id is nan, which JSON has no form for"),
        ((7,), {"month": {1}}, "month", "Expected `str`, got `array`"),
        ((7,), {"month": object()}, "month", "month is of type object"),
        ((7,), {"month": "\ud800"}, "month", "surrogate"),
    ],
)
def test_a_wrong_argument_is_named(args, kwargs, name, message):
    error = refusal(BUILD, *args, **kwargs)
    assert error.field == name
    assert message in str(error)


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (b"{}", "account_id"),
        (b'{"account_id":"7"}', "account_id"),
        (b'{"account_id":7,"mnth":"x"}', "mnth"),
        (b'{"account_id":7,"ctx":1}', "ctx"),
        (b"[]", "payload"),
        (b"", "payload"),
        (b"\xff", "payload"),
        (b'{"account_id":7', "payload"),
        (b'{"account_id":' + b"[" * 9000, "account_id"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_by_name(payload, name):
    with pytest.raises(InvalidTask) as refused:
        BUILD.bind_payload(payload)
    assert refused.value.field == name


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (datetime, datetime(2026, 10, 1, 12, 0, 0, 123456, UTC)),
        (datetime, datetime(2026, 10, 1, 12)),  # noqa: DTZ001
        (date, date(2026, 10, 1)),
        (timedelta, timedelta(days=1, microseconds=5)),
        (uuid.UUID, uuid.UUID(int=5)),
        (Decimal, Decimal("1.10")),
        (Literal["a", 1], "a"),
        (Color, Color.RED),
        (Options, {"depth": 1}),
        (Options, {"depth": 1, "name": "x"}),
        (Pair, Pair(1, "x")),
        (Point, Point(5)),
        (Item, Item("a", Decimal("9.99"), ["x"])),
        (Order, Order(uuid.UUID(int=5), datetime(2026, 10, 1, tzinfo=UTC), [Item("a", Decimal(1))])),
        (bytes, b"\x00\xff"),
        (set[int], {1, 2}),
        (tuple[int, str], (1, "a")),
        (dict[int, str], {1: "a"}),
        (list[datetime], [datetime(2026, 10, 1, tzinfo=UTC)]),
        (int | None, None),
        (float, 1),
        (int, 2**63),
        (int, 10**30),
        (Any, {"a": [1, None, {"b": []}]}),
        (object, [1]),
        (dict[str, Any], {}),
    ],
)
def test_a_value_of_the_annotated_type_comes_back_equal(kind, value):
    back = through(kind, value)
    assert back == value
    assert type(back) is type(value) or (kind, type(value)) == (float, int)


@given(st.integers(), st.text(st.characters(exclude_categories=["Cs"])))
def test_numbers_and_texts_come_back_equal(number, text):
    payload = BUILD.encode_arguments((number,), {"month": text})
    assert BUILD.bind_payload(payload) == {"account_id": number, "month": text}


def test_an_array_may_be_given_as_a_tuple():
    assert through(list[int], (1, 2)) == [1, 2]
    assert through(Any, {"a": (1, (2,))}) == {"a": [1, [2]]}


def test_a_rich_type_may_be_given_as_its_json():
    assert through(datetime, "2026-10-01T00:00:00Z") == datetime(2026, 10, 1, tzinfo=UTC)
    assert through(Item, {"name": "a", "price": "9.99"}) == Item("a", Decimal("9.99"))
    assert through(list[uuid.UUID], ["00000000-0000-0000-0000-000000000005"]) == [uuid.UUID(int=5)]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Any, b"x", "value is of type bytes"),
        (Any, {"a": {1}}, r"value\.a is of type set"),
        (Any, datetime(2026, 10, 1, tzinfo=UTC), "value is of type datetime"),
        (Any, Item("a", Decimal(1)), "value is of type Item"),
        (Any, {1: "a"}, "value has the key 1"),
        (Any, [math.inf], r"value\[0\] is inf"),
        (dict[str, Any], {"a": {1}}, r"value\.a is of type set"),
        (list[int], {1, 2}, "value is of type set"),
        (float | None, math.nan, "value is nan"),
        (list[float | None], [1.0, math.nan], r"value\[1\] is nan"),
        (Order, Order(uuid.UUID(int=5), datetime(2026, 10, 1, tzinfo=UTC), [], math.inf), r"value\.ratio is inf"),
        (Incomparable, Incomparable(math.nan), r"value\.ratio is nan"),
        (str, uuid.UUID(int=5), "value is of type UUID"),
    ],
)
def test_what_would_arrive_as_something_else_is_refused(kind, value, message):
    with pytest.raises(InvalidTask, match=message):
        through(kind, value)


def test_an_object_that_cannot_be_compared_is_still_sent():
    assert through(Incomparable, Incomparable(1.5)).ratio == 1.5


def test_an_error_deep_inside_names_the_argument_and_the_place():
    error = refusal(
        handler_of(Order), {"id": str(uuid.UUID(int=5)), "at": "2026-10-01T00:00:00Z", "items": [{"name": "a"}]}
    )
    assert error.field == "value"
    assert "value.items[0]" in str(error)
    assert "price" in str(error)


def test_depth_200_passes_and_more_than_the_limit_is_refused():
    value: Any = []
    for _ in range(199):
        value = [value]
    assert through(Any, value) == value
    for _ in range(900):
        value = [value]
    with pytest.raises(InvalidTask, match="nested"):
        through(Any, value)


def test_other_keyword_arguments_are_passed_on():
    def collect(ctx: TaskContext, first: int, **others: int) -> None: ...

    handler = Handler("demo", collect)
    payload = handler.encode_arguments((1,), {"b": 2, "self": 3})
    assert handler.bind_payload(payload) == {"first": 1, "b": 2, "self": 3}
    assert refusal(handler, 1, b="x").field == "b"
    assert refusal(handler, 1, ctx=2).field == "ctx"


def test_default_values_are_the_workers():
    def greet(name: str = "you", size: int = 5) -> None: ...

    handler = Handler("demo", greet)
    assert handler.encode_arguments((), {}) == b"{}"
    assert handler.bind_payload(b"{}") == {}


def test_a_handler_without_parameters_takes_an_empty_payload():
    handler = Handler("demo", lambda: None)
    assert handler.bind_payload(handler.encode_arguments((), {})) == {}
    assert "takes no positional arguments, and 1 was given" in str(refusal(handler, 1))
    assert "it takes none" in str(refusal(handler, a=1))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Options, {"depth": 1, "nane": "x"}, "value has no field nane; did you mean name?"),
        (Point, {"x": 1, "zzz": 2}, "value has no field zzz; it takes x."),
        (list[Item], [{"name": "a", "price": "1", "tag": []}], "value[0] has no field tag; did you mean tags?"),
        (Item | None, {"name": "a", "price": "1", "tag": []}, "value has no field tag; did you mean tags?"),
        (dict[str, Point], {"a": {"x": 1}, "b": {"x": 1, "y": 1}}, "value.b has no field y; it takes x."),
        (tuple[int, Point], [1, {"x": 1, "y": 1}], "value[1] has no field y; it takes x."),
        (Annotated[Point, msgspec.Meta(title="P")], {"x": 1, "y": 1}, "value has no field y; it takes x."),
        (Renamed, {"firstName": "a", "born_on": None}, "value has no field born_on; did you mean bornOn?"),
        (Row, [1, 2, 3], "value has more than 2 elements: leave out the others."),
        (Circle | Square, {"type": "square", "side": 1, "radius": 1}, "value has no field radius; it takes side."),
        (
            Tree,
            {"name": "a", "children": [{"name": "b", "child": []}]},
            "value.children[0] has no field child; did you",
        ),
    ],
)
def test_a_name_that_no_field_has_is_refused_at_submit_and_by_the_worker(kind, value, message):
    handler = handler_of(kind)
    error = refusal(handler, value)
    assert error.field == "value"
    assert message in str(error)
    with pytest.raises(InvalidTask) as refused:
        handler.bind_payload(msgspec.json.encode({"value": value}))
    assert refused.value.field == "value"
    assert message in str(refused.value)


def test_other_keyword_arguments_of_a_class_are_looked_at_too():
    def collect(**others: Point) -> None: ...

    handler = Handler("demo", collect)
    assert "a has no field y" in str(refusal(handler, a={"x": 1, "y": 2}))
    assert handler.bind_payload(b'{"a":{"x":1}}') == {"a": Point(1)}


@pytest.mark.parametrize("value", ["hello", "password", "aGVsbG8=", ""])
def test_text_is_not_taken_for_bytes_that_somebody_has_encoded(value):
    for kind, uploaded, place in (
        (bytes, value, "value"),
        (list[bytes], [value], "value[0]"),
        (Upload, {"data": value}, "value.data"),
    ):
        error = refusal(handler_of(kind), uploaded)
        assert error.field == "value"
        assert place in str(error)
        assert "pass bytes" in str(error)


def test_bytes_are_base64_in_json_and_nothing_else_is():
    handler = handler_of(bytes)
    assert handler.bind_payload(b'{"value":"aGVsbG8="}') == {"value": b"hello"}
    for text in (b"hello", b"aGVsbG8", b"ab_-", b"aGVs bG8="):
        with pytest.raises(InvalidTask, match=r"argument value: expected bytes, which are base64 \(RFC 4648\) in JSON"):
            handler.bind_payload(b'{"value":"%s"}' % text)


ODD = timezone(timedelta(hours=1, seconds=30))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (datetime, datetime(2026, 1, 1, tzinfo=ODD), "value is 1:00:30 away from UTC"),
        (list[datetime], [datetime(2026, 1, 1, tzinfo=ODD)], "value[0] is 1:00:30 away from UTC"),
        (time, time(1, tzinfo=ODD), "value is 1:00:30 away from UTC"),
        (Doubled, Doubled(1), "value.count would arrive as 4"),
        (float, 2**60 + 1, "which no float is equal to"),
        (dict[int, str], {1: "a", "1": "b"}, "value would arrive as {1: 'b'}"),
        (dict[bytes, int], {"YQ==": 1}, "value has the key 'YQ=='"),
    ],
)
def test_what_json_would_change_is_refused(kind, value, message):
    error = refusal(handler_of(kind), value)
    assert error.field == "value"
    assert message in str(error)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (str, Text("a")),
        (Any, {"a": [Text("a"), Whole(1), Ratio(1.5)]}),
        (int, Whole(7)),
        (float, Ratio(1.5)),
        (Decimal, Money("1.10")),
        (datetime, Moment(2026, 10, 1, tzinfo=UTC)),
        (dict[str, int], {Text("a"): 1}),
        (dict[int, int], {Whole(1): 1}),
        (str, Tone.DARK),
        (int, Level.LOW),
        (Any, [Tone.DARK, Level.LOW]),
        (Decimal, Decimal("Infinity")),
    ],
)
def test_a_value_of_a_derived_class_arrives_as_an_equal_one_of_the_plain_class(kind, value):
    assert through(kind, value) == value


def test_not_a_number_may_be_a_decimal():
    assert through(Decimal, Decimal("NaN")).is_nan()


@pytest.mark.parametrize(
    ("kind", "value", "place"),
    [
        (Any, {"lines": [{"amount": object()}]}, "value.lines[0].amount is of type object"),
        (Any, [{"a": {1: 2}}], "value[0].a has the key 1"),
        (Any, [{"a": {(1, 2): 2}}], "value[0].a has the key (1, 2)"),
        (Any, [{"a": {None: 2}}], "value[0].a has the key None"),
        (Any, [{"a": Color.RED}], "value[0].a is of type Color"),
        (Any, [Moment(2026, 1, 1, tzinfo=UTC)], "value[0] is of type Moment"),
        (list[Item], [Item("a", Decimal(1), cast("list[str]", [object()]))], "value[0].tags[0] is of type object"),
        (dict[str, int], {"a": 1, "b": "x", "c": 2}, "argument value.b: Expected `int`, got `str`"),
        (dict[int, int], {1: 1, "x": 2}, "argument value.x: Expected `int`, got `str` as a key"),
        (dict[str, list[Point]], {"a": [], "b": [Point(1), {"x": "1"}]}, "argument value.b[1].x: Expected `int`"),
        (dict[str, dict[str, int]], {"a": {"b": 1}, "c": {"d": "1"}}, "argument value.c.d: Expected `int`"),
        (
            list[Item],
            [Item("a", Decimal(1)), Item(cast("str", 5), Decimal(1))],
            "argument value[1].name: Expected `str`",
        ),
        (Point, Point(cast("int", math.nan)), "value.x is nan"),
    ],
)
def test_each_error_names_the_place(kind, value, place):
    error = refusal(handler_of(kind), value)
    assert error.field == "value"
    assert place in str(error)


@pytest.mark.parametrize(("kind", "value"), [(set[list[int]], [[1]]), (frozenset[Item], [{"name": "a", "price": "1"}])])
def test_a_set_of_what_no_set_can_hold_is_refused_at_submit(kind, value):
    assert "argument value[0]: Expected a hashable value" in str(refusal(handler_of(kind), value))
