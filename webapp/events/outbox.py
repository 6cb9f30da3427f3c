"""What waits to be sent over one socket: bounded, whatever happens and however slow the reader is."""

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dtq_engine import EventGap
from webapp.events.messages import Note, digest, dropped
from webapp.events.query import Mode, Query

LIMIT = 1000
"""How many events wait."""

PATIENCE_S = 5.0
"""How long a reader may be so far behind that events are dropped."""

BATCH = 100

DIGEST_S = 1.0
"""The least time between two digests."""

NAMED = 15
"""How many tasks a digest names at most; more would not fit into a message."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Closing:
    """Why a socket is closed, with one of WebSocket's codes."""

    code: int
    reason: str


RESTART = Closing(1012, "the server restarts: connect again")
TOO_SLOW = Closing(1013, "too slow for what happens: connect again, with since or with filters")


class Outbox(ABC):
    """Between the hub, which puts in, and the one thread that writes to a socket."""

    def __init__(self, query: Query, clock: Clock = time.monotonic) -> None:
        self._query = query
        self._clock = clock
        self._changed = threading.Condition()
        self._woken = False
        self._closing: Closing | None = None

    @property
    def closing(self) -> Closing | None:
        """Why nothing more is to be sent; None as long as more may be."""
        return self._closing

    def put(self, notes: Sequence[Note]) -> None:
        """Take in what was told, as far as it is asked for."""
        wanted = [] if self._closing else [note for note in notes if self._query.wants(note.told)]
        if wanted:
            with self._changed:
                for note in wanted:
                    self._put(note)
                self._changed.notify()

    def say(self, text: str) -> None:
        """Take in a message about the stream itself."""
        with self._changed:
            self._say(text)
            self._changed.notify()

    def close(self, why: Closing) -> None:
        """Let nothing more be sent; the first reason counts."""
        with self._changed:
            self._close(why)
            self._changed.notify()

    def wake(self) -> None:
        """Have `take` return now, as something has happened to the socket itself."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def take(self, timeout_s: float) -> Sequence[Note | str]:
        """What is to be sent now, in order, after a wait of up to `timeout_s` for it; often nothing."""
        ends = self._clock() + timeout_s
        with self._changed:
            while not (self._closing or self._woken) and (left := min(ends - self._clock(), self._wait_s())) > 0:
                self._changed.wait(left)
            self._woken = False
            return () if self._closing else self._take()

    def _close(self, why: Closing) -> None:
        self._closing = self._closing or why

    @abstractmethod
    def _put(self, note: Note) -> None: ...

    @abstractmethod
    def _say(self, text: str) -> None: ...

    @abstractmethod
    def _wait_s(self) -> float:
        """How long until there is something to send, as far as is known; 0 if there is."""

    @abstractmethod
    def _take(self) -> Sequence[Note | str]: ...


class EventBox(Outbox):
    """Each event. When too many wait, the ends of tasks take the places of other events; then the socket is closed."""

    def __init__(self, query: Query, clock: Clock = time.monotonic, limit: int = LIMIT) -> None:
        super().__init__(query, clock)
        self._limit = limit
        self._numbers = itertools.count()
        self._items: OrderedDict[int, Note | str] = OrderedDict()
        # Those of them that may go, so that a full box costs the hub no more than an empty one.
        self._minor: deque[int] = deque()
        self._dropped: Counter[str] = Counter()
        self._behind_since: float | None = None

    def _put(self, note: Note) -> None:
        if len(self._items) < self._limit or self._make_room(note):
            number = next(self._numbers)
            self._items[number] = note
            if not note.is_vital:
                self._minor.append(number)

    def _say(self, text: str) -> None:
        self._items[next(self._numbers)] = text

    def _wait_s(self) -> float:
        return 0 if self._items or self._dropped else float("inf")

    def _take(self) -> Sequence[Note | str]:
        taken: list[Note | str] = [dropped(queue, number) for queue, number in sorted(self._dropped.items())]
        self._dropped.clear()
        for _ in range(min(BATCH, len(self._items))):
            number, item = self._items.popitem(last=False)
            if self._minor and self._minor[0] == number:
                self._minor.popleft()
            taken.append(item)
        if not self._items:
            self._behind_since = None
        return taken

    def _make_room(self, note: Note) -> bool:
        """Whether there is room for it now; if not, it is dropped."""
        now = self._clock()
        self._behind_since = now if self._behind_since is None else self._behind_since
        if now - self._behind_since > PATIENCE_S or (note.is_vital and not self._minor):
            self._close(TOO_SLOW)
            return False
        victim = self._items.pop(self._minor.popleft()) if note.is_vital else note
        assert isinstance(victim, Note), "what is said of the stream is not minor"
        self._dropped[victim.told.queue] += 1
        return victim is not note


class DigestBox(Outbox):
    """What has changed since the last message, at most once a second; it takes no more room however much happens."""

    def __init__(self, query: Query, clock: Clock = time.monotonic) -> None:
        super().__init__(query, clock)
        self._said: list[str] = []
        self._next_at = clock()
        self._clear()

    def _clear(self) -> None:
        self._many = 0
        self._events, self._queues, self._tasks = set[str](), set[str](), set[str]()
        self._unnamed = False

    def _put(self, note: Note) -> None:
        told = note.told
        self._many += 1
        self._queues.add(told.queue)
        if isinstance(told, EventGap):
            self._unnamed = True
        elif told.task_id is not None:
            self._name(told.task_id)
        self._events.add("GAP" if isinstance(told, EventGap) else told.type)

    def _name(self, task_id: str) -> None:
        if task_id in self._tasks or len(self._tasks) < NAMED:
            self._tasks.add(task_id)
        else:
            self._unnamed = True

    def _say(self, text: str) -> None:
        if self._said[-1:] != [text]:
            self._said = [*self._said[-1:], text]

    def _wait_s(self) -> float:
        if self._said:
            return 0
        return max(0.0, self._next_at - self._clock()) if self._many else float("inf")

    def _take(self) -> Sequence[str]:
        said, self._said = self._said, []
        if not self._many or self._clock() < self._next_at:
            return said
        text = digest(self._many, self._events, self._queues, None if self._unnamed else self._tasks)
        self._next_at = self._clock() + DIGEST_S
        self._clear()
        return [*said, text]


def outbox_for(query: Query) -> Outbox:
    """The outbox of a socket whose reader asks for this."""
    return DigestBox(query) if query.mode is Mode.DIGEST else EventBox(query)
