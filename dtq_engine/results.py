"""The results of a handler: written only if they can be read back as its annotation promises."""

from typing import Any

import msgspec

from dtq_engine import codec, losses
from dtq_engine.errors import NotJson, ResultMismatch
from dtq_engine.fields import Fields
from dtq_engine.places import locate

ROOT = "the result"


class Results:
    """Results of one type, as JSON and back."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        self._fields = Fields(kind)

    def encode(self, value: object) -> bytes | None:
        """A result as JSON, None for None. Raises NotJson, which says where, for what the annotation does not allow."""
        data = codec.write(value, ROOT)
        try:
            arrived = self._decoder.decode(data)
        except msgspec.ValidationError as error:
            losses.refuse_what_is_no_number(value, ROOT)
            place, problem = locate(error, data, self._decoder)
            where = losses.named(ROOT + place)
            raise NotJson(where, f"{where} is not what '-> {self._spelled}' promises: {_plain(problem)}.") from None
        if not losses.is_same(value, arrived):
            if self._fields.any:
                self._fields.refuse_unknown(codec.decode(data), ROOT)
            losses.refuse_loss(value, arrived, ROOT)
        return None if value is None else data

    def decode(self, data: bytes) -> Any:
        """A stored result. Raises ResultMismatch if it is of another type, as another build of the handler wrote it."""
        try:
            return self._decoder.decode(data)
        except msgspec.ValidationError as error:
            place, problem = locate(error, data, self._decoder)
            raise ResultMismatch(
                f"{ROOT}{place} is not what '-> {self._spelled}' promises here ({_plain(problem)}): another build of "
                f"the handler wrote it; deploy the same one here, or read the JSON in handle.info().result."
            ) from None

    @property
    def _spelled(self) -> str:
        if self._kind is type(None):
            return "None"
        return self._kind.__qualname__ if isinstance(self._kind, type) else str(self._kind).replace("typing.", "")


def _plain(problem: str) -> str:
    return problem[:1].lower() + problem[1:].replace("`", "")
