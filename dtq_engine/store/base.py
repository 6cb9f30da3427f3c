"""What the parts of the store share: the connection, the names, the settings, and how a script is called."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dtq_engine import scripts
from dtq_engine.config import Settings
from dtq_engine.connection import Connection, Patience
from dtq_engine.keys import Keys
from dtq_engine.validate import is_queue

CALL_MAX_BYTES = 4 * 1024 * 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Base:
    """One connection with the names and settings that go with it."""

    connection: Connection
    keys: Keys
    settings: Settings
    context: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "context", _context(self.settings, self.keys))

    def run(self, script: str, queue: str, *args: str | bytes | int, patience: Patience | None = None) -> Any:
        """Run a queue script; its reply as Redis sends it. Raises as `Connection.call` does."""
        return scripts.run(self.connection, script, self.keys.queue(queue), (self.context, *args), patience)

    def queues(self) -> list[str]:
        """The names of all queues, sorted. What else somebody has put among them is passed over."""
        names = (name.decode("utf-8", "replace") for name in self.connection.call("SMEMBERS", self.keys.queues()))
        return sorted(name for name in names if is_queue(name))

    def now_ms(self) -> int:
        """Redis' clock."""
        seconds, micros = self.connection.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000


def _context(settings: Settings, keys: Keys) -> bytes:
    """ARGV[1] of every queue script: the settings that ending a task depends on, in the order of `lua/_lib.lua`."""
    words = (
        round(settings.task_retention_s * 1000),
        settings.keep_succeeded,
        round(settings.result_retention_s * 1000),
        round(settings.idem_ttl_s * 1000),
        int(settings.dlq_enabled),
        settings.dlq_maxlen,
        round(settings.dlq_retention_s * 1000),
        keys.channels(),
    )
    return " ".join(map(str, words)).encode()


def chunks(items: Sequence[T], sizes: Sequence[int], most: int) -> Iterator[Sequence[T]]:
    """Cut `items` into runs of at most `most` items and about 4 MiB; `sizes` has each one's bytes."""
    start, total = 0, 0
    for position, size in enumerate(sizes):
        if position > start and (position - start >= most or total + size > CALL_MAX_BYTES):
            yield items[start:position]
            start, total = position, 0
        total += size
    if start < len(items):
        yield items[start:]
