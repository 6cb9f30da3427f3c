"""Where JSON does not fit a type: msgspec names fields and positions, but of an object's members only `[...]`."""

import re
from typing import Any

import msgspec

_PLACE = re.compile(r" - at (?P<key>`key` in )?`\$(?P<place>.*)`$", re.DOTALL)
_STEP = re.compile(r"\[\.\.\.\]|\[\d+\]|\.[^.\[]+")
_MEMBER = "[...]"


def locate(error: msgspec.ValidationError, data: bytes, decoder: "msgspec.json.Decoder[Any]") -> tuple[str, str]:
    """The path to what `decoder` would not read in `data`, such as `.lines[3].amount`, and what is wrong there."""
    text = str(error)
    found = _PLACE.search(text)
    if found is None:
        return "", text
    place = found["place"] + (_MEMBER if found["key"] else "")
    if _MEMBER in place:
        place = _with_members(place, data, decoder)
    return place, text[: found.start()] + (" as a key" if found["key"] else "")


def _with_members(place: str, data: bytes, decoder: "msgspec.json.Decoder[Any]") -> str:
    """The same path with the names of members."""
    root: Any = msgspec.json.decode(data)
    node, path = root, ""
    for step in _STEP.findall(place):
        name = _culprit(root, node, decoder) if step == _MEMBER else step[1:].rstrip("]")
        node = _inner(node, name)
        path += f".{name}" if step == _MEMBER else step
    return path


def _inner(node: Any, name: str) -> Any:
    return node[int(name) if isinstance(node, list) else name]


def _culprit(root: object, node: dict[str, object], decoder: "msgspec.json.Decoder[Any]") -> str:
    """The first member of `node`, somewhere in `root`, that cannot be read; the others are taken out on the way."""
    members = list(node.items())
    while len(members) > 1:
        half = len(members) // 2
        node.clear()
        node.update(members[:half])
        members = members[half:] if _fits(root, decoder) else members[:half]
    node.clear()
    node.update(members)
    return members[0][0]


def _fits(root: object, decoder: "msgspec.json.Decoder[Any]") -> bool:
    try:
        decoder.decode(msgspec.json.encode(root))
    except msgspec.ValidationError:
        return False
    return True
