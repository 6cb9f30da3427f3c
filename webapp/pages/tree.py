"""JSON as a tree to be folded: cut where it is long, wide or deep, so that no value makes a page slow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import msgspec

NODES = 600
DEEPEST = 16
WIDEST = 100
LONGEST = 2000
LONGEST_NAME = 200
RAW = 4000


@dataclass(frozen=True, slots=True)
class Node:
    """One value under its name; `kind` is object, list, string, number, word or cut, `more` counts what is left out."""

    name: str | None
    kind: str
    text: str = ""
    children: tuple["Node", ...] = ()
    size: int = 0
    more: int = 0


@dataclass(frozen=True, slots=True)
class Tree:
    """A value to show; what is not JSON, or too deep to be read, has no `root` and shows the beginning of its `raw`."""

    root: Node | None
    raw: str
    size: int

    @classmethod
    def of(cls, data: bytes) -> "Tree":
        """The tree of a JSON text."""
        raw = data[:RAW].decode("utf-8", "replace") + ("…" if len(data) > RAW else "")
        try:
            value = msgspec.json.decode(data)
        except (msgspec.MsgspecError, RecursionError):
            return cls(None, raw, len(data))
        return cls(_Builder().node(None, value, 0), raw, len(data))


class _Builder:
    """Makes nodes as long as there may be more."""

    def __init__(self) -> None:
        self._left = NODES

    def node(self, name: str | None, value: Any, depth: int) -> Node:
        self._left -= 1
        match value:
            case dict():
                members = cast("dict[str, Any]", value)
                return self._inner(name, "object", iter(members.items()), len(members), depth)
            case list():
                items = cast("Sequence[Any]", value)
                return self._inner(name, "list", ((str(at), item) for at, item in enumerate(items)), len(items), depth)
            case str():
                return Node(name, "string", value[:LONGEST], size=len(value), more=max(0, len(value) - LONGEST))
            case bool() | None:
                return Node(name, "word", {True: "true", False: "false", None: "null"}[value])
            case _:
                return Node(name, "number", str(value)[:LONGEST])

    def _inner(self, name: str | None, kind: str, items: Iterator[tuple[str, Any]], size: int, depth: int) -> Node:
        if depth >= DEEPEST:
            return Node(name, kind, size=size, more=size)
        children = list[Node]()
        for key, value in islice(items, WIDEST):
            if self._left <= 0:
                break
            children.append(self.node(_name(key), value, depth + 1))
        return Node(name, kind, children=tuple(children), size=size, more=size - len(children))


def _name(key: str) -> str:
    """A name as it is shown: one that is cut says by how much."""
    more = len(key) - LONGEST_NAME
    return f"{key[:LONGEST_NAME]}… ({more:,} more characters)" if more > 0 else key
