"""What every call of the explorer is: values to send, and what its answer must have been."""

from dataclasses import dataclass
from typing import Any, Protocol

from dtq_engine.config import Settings
from dtq_engine.connection import Connection
from dtq_engine.store import Store
from tests.explore.promises import Promises
from tests.explore.snapshot import Snapshot


class Place(Store):
    """A store, and the queue that is played with."""

    def __init__(self, connection: Connection, settings: Settings, queue: str) -> None:
        super().__init__(connection, settings)
        self.queue = queue
        self.settings = settings


@dataclass(frozen=True, slots=True)
class Seen:
    """The queue before and after a call. The call ran at some time between the two."""

    before: Snapshot
    after: Snapshot

    def surely_past(self, at_ms: int) -> bool:
        """Whether the call, whenever it ran, saw this instant as past."""
        return at_ms <= self.before.now_ms

    def maybe_past(self, at_ms: int) -> bool:
        """Whether the call may have seen it as past."""
        return at_ms <= self.after.now_ms

    @property
    def took_ms(self) -> int:
        """The longest time that can have passed between any two of them; idle times are not exact to the ms."""
        return self.after.now_ms - self.before.now_ms + 50


class Call(Protocol):
    """One call of the store. Its repr is its line in a history."""

    def run(self, place: Place) -> Any:
        """Send it; what the store answers."""
        ...

    def learn(self, promises: Promises, answer: Any, seen: Seen) -> None:
        """Judge the answer, and note what it promises. `answer` is the error if it raised one of dtq's."""
        ...
