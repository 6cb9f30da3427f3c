"""JSON in and out, and what is refused because it would come back as something else."""

import dataclasses
import enum
import math
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtq_engine import codec, losses
from dtq_engine.errors import NotJson

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=15,
)


@dataclasses.dataclass
class Point:
    x: int


class Color(enum.Enum):
    RED = 1


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(values)
def test_a_value_comes_back_equal(value):
    assert codec.decode(codec.encode(value)) == value


@given(values)
def test_types_come_back_too(value):
    assert repr(codec.decode(codec.encode(value))) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [],
        "",
        "naïve 日本 🎉 \x00 \u2028",
        12345678901234567,
        -(2**63),
        2**63,
        2**64,
        10**300,
        0.1 + 0.2,
        5e-324,
        1.7976931348623157e308,
        -0.0,
        nested(200),
        {"": {"a b": [None, True, False]}},
    ],
    ids=lambda value: repr(value)[:30],
)
def test_the_edges_of_json_come_back_exactly(value):
    assert repr(codec.decode(codec.encode(value))) == repr(value)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "the value"),
        ({"a": [1, math.inf]}, "a[1]"),
        ([-math.inf], "[0]"),
        ({"a": b"x"}, "a"),
        ({"a": {1, 2}}, "a"),
        ({"a": {"b": {1: 2}}}, "a.b"),
        ({"a": {(1, 2): 2}}, "a"),
        ({"a": object()}, "a"),
        ({"a": Point(1)}, "a"),
        ([datetime.now(UTC)], "[0]"),
        ([uuid.uuid4()], "[0]"),
        ([Decimal("1.5")], "[0]"),
        ([Color.RED], "[0]"),
        ([1 + 2j], "[0]"),
        (["\ud800"], "[0]"),
        ({"a": {"\udfff": 1}}, "a"),
        pytest.param([10**5000], "[0]", id="5001 digits"),
        ([lambda: None], "[0]"),
    ],
    ids=lambda value: None if type(value) is str else type(value).__name__,
)
def test_what_json_cannot_hold_is_refused_by_its_place(value, path):
    with pytest.raises(NotJson) as refused:
        codec.encode(value)
    assert refused.value.path == path
    assert str(refused.value).startswith(path)


def test_a_tuple_may_stand_for_an_array():
    assert codec.encode(({"a": (1, 2)}, ())) == b'[{"a":[1,2]},[]]'


def test_a_fault_beside_a_tuple_is_still_found():
    with pytest.raises(NotJson, match=r"\[1\]\.a is of type set"):
        codec.encode(((1, 2), {"a": {3}}))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"v": 1e400}', "it holds the number 1e400, which is out of range: send it as a string."),
        (b'{"v": [-1e400]}', "it holds the number -1e400, which is out of range: send it as a string."),
        (b'{"v": %s}' % (b"9" * 5000), f"it holds the number {'9' * 39}…, which is out of range: send it as a string."),
        (rb'{"v": "\ud800"}', r"it holds a lone surrogate such as \ud800, which is not Unicode text: remove it."),
        (rb'{"v": "\udc00x"}', r"it holds a lone surrogate such as \ud800, which is not Unicode text: remove it."),
        (b'{"v": NaN}', "it holds NaN, which JSON has no form for: send null, or a string."),
        (b'{"v": -Infinity}', "it holds -Infinity, which JSON has no form for: send null, or a string."),
        (b'{"v": 1', "it is not JSON: its end is missing."),
        (b'{"v": "\xff"}', "it is not JSON: it is not valid UTF-8."),
        (b"[1]", "it is of the wrong kind: expected object, got array."),
    ],
)
def test_what_cannot_be_read_is_told_in_words_of_ours(data, problem):
    with pytest.raises(NotJson) as refusal:
        codec.decode_object(data)
    assert str(refusal.value) == problem


def test_the_deepest_allowed_value_passes_and_one_level_more_is_refused():
    assert codec.decode(codec.encode(nested(losses.MAX_DEPTH))) == nested(losses.MAX_DEPTH)
    with pytest.raises(NotJson, match="256 levels"):
        codec.encode(nested(losses.MAX_DEPTH + 1))


@pytest.mark.parametrize("depth", [257, 900, 5000, 100_000])
def test_deep_nesting_is_a_clear_error_both_ways(depth):
    with pytest.raises(NotJson, match="nested more than"):
        codec.encode(nested(depth))
    with pytest.raises(NotJson, match="nested more than"):
        codec.decode(b"[" * depth + b"]" * depth)
    with pytest.raises(NotJson, match="nested more than"):
        codec.decode_object(b'{"a":' * depth + b"1" + b"}" * depth)


def test_a_value_that_contains_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotJson, match="contains itself"):
        codec.encode(loop)


def test_brackets_in_text_are_no_nesting():
    tricky = ['[[[{{{"', "\\", '\\"[', "]"] * 200
    assert codec.decode(codec.encode(tricky)) == tricky


@given(st.lists(st.text('[]{}"\\,: a'), min_size=60, max_size=80))
def test_only_real_brackets_count(texts):
    assert codec.decode(codec.encode(texts * 10)) == texts * 10


def test_brackets_in_text_cannot_hide_real_nesting():
    deep: Any = []
    for _ in range(300):
        deep = ["]", deep, "["]
    with pytest.raises(NotJson, match="levels"):
        codec.decode(msgspec.json.encode(deep))


def test_a_wide_value_is_not_deep():
    wide = [{"a": [1]} for _ in range(5000)]
    assert codec.decode(codec.encode(wide)) == wide


@pytest.mark.parametrize(
    "data", [b"", b"{", b"nan", b"NaN", b"1e999", b'"\xff"', b'"\\ud800"', b"[1,]", b"1 2", b"'a'"]
)
def test_bytes_that_are_not_json_are_refused(data):
    with pytest.raises(NotJson):
        codec.decode(data)


@pytest.mark.parametrize("data", [b"[]", b"1", b"null", b'"a"', b"", b'{"a"}'])
def test_only_an_object_is_an_object(data):
    with pytest.raises(NotJson):
        codec.decode_object(data)


@given(st.dictionaries(texts, values, max_size=4))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])  # other tests run beside it
def test_equal_values_have_one_canonical_form(value):
    backwards = dict(reversed(value.items()))
    assert codec.canonical(codec.encode(value)) == codec.canonical(codec.encode(backwards))
    assert codec.decode(codec.canonical(codec.encode(value))) == value


def test_the_canonical_form_knows_no_blanks_and_one_order():
    assert codec.canonical(b' { "b" : [ 1 , 2 ], "a": { "d": 1.0, "c": 2 } } ') == b'{"a":{"c":2,"d":1.0},"b":[1,2]}'


def test_comparing_may_fail_and_is_then_no_equality():
    class Hostile:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = object.__hash__

    assert not losses.is_same(Hostile(), 1)
    with pytest.raises(NotJson, match="Hostile"):
        codec.encode([Hostile()])
