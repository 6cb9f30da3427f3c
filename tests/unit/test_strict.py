"""JSON from strangers: what is wrong with it is said with the name of the field."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import pytest

from dtq_engine.errors import InvalidTask, NotJson
from dtq_engine.strict import Reader


class Wrap(StrEnum):
    """How something is wrapped."""

    PLAIN = "plain"
    GIFT = "gift"


Code = Annotated[str, msgspec.Meta(pattern="^[A-Z]{3}$", description="Three letters `A` to `Z`.")]


class Order(msgspec.Struct, forbid_unknown_fields=True):
    """What is read here."""

    item: str
    number: Annotated[int, msgspec.Meta(ge=1)] = 1
    parts: list[dict[str, int]] = []
    wrap: Wrap | None = None
    codes: dict[str, list[Code]] = {}
    most: Annotated[int, msgspec.Meta(ge=1)] | Literal["all"] = "all"
    word: Annotated[str, msgspec.Meta(pattern="^w$")] = "w"


reader = Reader(Order, "the order")


def test_what_fits_is_read():
    assert reader.read(b'{"item": "tea", "number": 2}') == Order("tea", 2)


@pytest.mark.parametrize(
    ("data", "field", "says"),
    [
        (b"{}", "item", "the order lacks the field item: add it."),
        (b'{"itm": "tea"}', "itm", "the order has no field itm; did you mean item?"),
        (
            b'{"item": "tea", "xyz": 1}',
            "xyz",
            "the order has no field xyz; it takes item, number, parts, wrap, codes, most, word.",
        ),
        (b'{"item": 7}', "item", "item: expected str, got int."),
        (b'{"item": "tea", "number": 0}', "number", "number: expected int >= 1."),
        (b'{"item": "tea", "parts": [{}, {"a": "b"}]}', "parts[1][...]", "parts[1][...]: expected int, got str."),
        (b'{"item": "tea", "wrap": "wool"}', "wrap", "wrap: it takes 'plain' or 'gift', not 'wool'."),
        (
            b'{"item": "tea", "codes": {"a": ["ABC", "AB"]}}',
            "codes[...][1]",
            "codes[...][1]: it takes three letters A to Z.",
        ),
        (b'{"item": "tea", "most": "none"}', "most", "most: it takes a number or 'all', not 'none'."),
        (b'{"item": "tea", "word": "v"}', "word", "word: expected str matching regex '^w$'."),
        (b"[]", "body", "the order: expected object, got array."),
    ],
)
def test_what_does_not_fit_is_said_with_the_field(data, field, says):
    with pytest.raises(InvalidTask) as caught:
        reader.read(data)
    assert (caught.value.field, str(caught.value)) == (field, says)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "its end is missing"),
        (b'{"item": "tea",}', "trailing comma"),
        (b'{"item": "tea", "item": "tea"}', "'item' twice"),
        (b'{"item": "tea", "parts": [{"a": 1, "a": 1}]}', "'a' twice"),
        (b'{"item": "\xff"}', "UTF-8"),
        (b'{"item": NaN}', "NaN"),
        (b'{"item": "tea", "number": 1e999}', "1e999"),
        (b'{"item": "\\ud800"}', "surrogate"),
        (b'{"item": ' + b"[" * 500 + b"]" * 500 + b"}", "nested"),
        (b'{"item": ' + b"[" * 100_000, "nested"),
    ],
)
def test_what_is_no_json_or_ambiguous_is_refused_as_such(data, says):
    with pytest.raises(NotJson, match=says):
        reader.read(data)


@pytest.mark.parametrize("data", [b'{"%s": 1}', b'{"item": "tea", "wrap": "%s"}'])
def test_an_endless_name_or_value_is_not_repeated_whole(data):
    with pytest.raises(InvalidTask) as caught:
        reader.read(data % (b"x" * 100_000))
    assert len(str(caught.value)) < 200
