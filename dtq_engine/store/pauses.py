"""Who paused a queue, why, and for how long."""

from collections.abc import Sequence

import msgspec

from dtq_engine.store.base import Base


class Pause(msgspec.Struct, frozen=True):
    """A pause as it was made; without `until_ms` it lasts until somebody resumes the queue."""

    by: str = ""
    reason: str = ""
    since_ms: float = msgspec.field(default=0, name="since")
    until_ms: float | None = msgspec.field(default=None, name="until")


_decoder = msgspec.json.Decoder(Pause)


class Pauses:
    """Reads the notes that pausing leaves."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def of(self, queues: Sequence[str]) -> dict[str, Pause]:
        """The pauses of those of these queues that are paused; one whose note is damaged says nothing."""
        found = self._base.connection.pipeline([("GET", self._base.keys.paused(queue)) for queue in queues])
        pairs = zip(queues, found, strict=True)
        return {queue: _decode(note) for queue, note in pairs if isinstance(note, bytes)}


def _decode(note: bytes) -> Pause:
    try:
        return _decoder.decode(note)
    except (msgspec.MsgspecError, ValueError):
        return Pause()
