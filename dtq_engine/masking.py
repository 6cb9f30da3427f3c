"""Values that nobody may see, by the names that a task type redacts: taken out of JSON, and out of texts."""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

import msgspec

MASK = "***"
SHORTEST = 3
"""Values of at least this length are masked wherever they stand, in texts too; shorter ones are in many words."""


class Masks:
    """What is to be masked of one task: the values of these names in its payload and result, at any depth."""

    def __init__(self, names: Collection[str], sources: Sequence[bytes | None]) -> None:
        self._names = names
        secrets = {secret for source in sources for secret in _secrets(source, names)} if names else set[str]()
        longest_first = sorted(secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if secrets else None

    def text(self, text: str) -> str:
        """The text without the values."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def json(self, data: bytes) -> bytes:
        """JSON without the values: those of the names, and the same values elsewhere."""
        try:
            return msgspec.json.encode(self._masked(msgspec.json.decode(data)))
        except (msgspec.MsgspecError, RecursionError):
            # Cut off, or of a stranger: what cannot be read cannot be searched.
            return msgspec.json.encode(MASK)

    def _masked(self, value: Any) -> Any:
        match value:
            case dict():
                members = cast("dict[str, Any]", value)
                return {
                    self.text(name): MASK if name in self._names else self._masked(inner)
                    for name, inner in members.items()
                }
            case list():
                return [self._masked(inner) for inner in cast("list[object]", value)]
            case str():
                return self.text(value)
            case int() | float() if not isinstance(value, bool):
                return MASK if self._pattern is not None and self._pattern.fullmatch(str(value)) else value
            case _:
                return value


def _secrets(data: bytes | None, names: Collection[str]) -> Iterator[str]:
    try:
        value = None if data is None else msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return
    for text in _texts(value, names, inside=False):
        # An error may quote a value as Python or JSON writes it.
        yield from (each for each in (text, repr(text)[1:-1], json.dumps(text)[1:-1]) if len(text) >= SHORTEST)


def _texts(value: Any, names: Collection[str], *, inside: bool) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in cast("dict[str, Any]", value).items():
                yield from _texts(inner, names, inside=inside or name in names)
        case list():
            for inner in cast("list[object]", value):
                yield from _texts(inner, names, inside=inside)
        case None | bool():
            return
        case _ if inside:
            yield str(value)
        case _:
            return
