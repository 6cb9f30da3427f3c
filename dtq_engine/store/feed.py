"""The events of all queues as they happen: each once, in its queue's order, over any loss of connection.

What is published is the fast way, and may be lost; the logs are the truth. They are read whenever a number is
missing, after each reconnect, and every two seconds.
"""

import heapq
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from dtq_engine.connection import Connection
from dtq_engine.errors import RedisDamaged, RedisRefused, RedisUnavailable
from dtq_engine.keys import Keys
from dtq_engine.store.events import Event, Events, decode_message
from dtq_engine.subscription import Subscription

LOOK_S = 2.0
FIRST_LOOK_S = 0.2
"""How soon after a channel was added its log is read: until then what is published there may pass by unheard."""

NOWHERE = ""
"""No queue: a subscription needs a channel even if there is no queue yet."""


@dataclass(frozen=True, slots=True)
class EventGap:
    """Events of a queue that can no longer be told: those after the number `after` and before `before`.

    Where `before` is not the larger one, the queue's numbering has begun anew, as it does when Redis lost its data.
    """

    queue: str
    after: int
    before: int


Told = Event | EventGap


class EventReplay:
    """Reads the logs of queues on from the event that each position names; not thread-safe."""

    def __init__(self, events: Events, positions: Mapping[str, int]) -> None:
        self._events = events
        self.positions = dict(positions)
        self._goals: dict[str, int] = {}

    def aim(self, numbers: Mapping[str, int]) -> None:
        """Read these queues up to these events, unless they have been passed already."""
        self._goals |= numbers

    def rewind(self, ends: Mapping[str, int]) -> list[Told]:
        """Go back where a log ends before its position: its numbering has begun anew."""
        at = self.positions
        gaps = [EventGap(queue, at[queue], end + 1) for queue, end in ends.items() if end < at[queue]]
        self.positions |= {gap.queue: gap.before - 1 for gap in gaps}
        return list(gaps)

    @property
    def done(self) -> bool:
        """Whether all has been read up to where it was aimed at."""
        return not self._behind()

    def read(self) -> list[Told]:
        """The next events, some at a time, oldest first. Raises RedisUnavailable."""
        behind = self._behind()
        found = self._events.after(behind)
        # The log orders by time, and a clock may be set back; within a queue only the number counts.
        found.sort(key=lambda event: (event.queue, event.event_id))
        by_queue = [list(events) for _, events in groupby(found, key=lambda event: event.queue)]
        told = [each for event in heapq.merge(*by_queue, key=lambda event: event.ts_ms) for each in self.take(event)]
        return told + list(self._missing(behind))

    def take(self, event: Event) -> Iterator[Told]:
        """An event if it is news, after the gap if there is one before it."""
        position = self.positions.get(event.queue, 0)
        if event.event_id <= position:
            return
        if event.event_id > position + 1:
            yield EventGap(event.queue, position, event.event_id)
        self.positions[event.queue] = event.event_id
        yield event

    def _behind(self) -> dict[str, int]:
        at = {queue: self.positions.setdefault(queue, 0) for queue in self._goals}
        return {queue: position for queue, position in at.items() if position < self._goals[queue]}

    def _missing(self, behind: Mapping[str, int]) -> Iterator[Told]:
        """Where nothing was read although something should be there, it is lost."""
        for queue, position in behind.items():
            if self.positions[queue] == position:
                self.positions[queue] = self._goals[queue]
                yield EventGap(queue, position, self._goals[queue] + 1)


class EventFeed:
    """What happens from the first `next` on, over a connection of its own; for one thread."""

    def __init__(self, connection: Connection, keys: Keys, events: Events, queues: Callable[[], Sequence[str]]) -> None:
        """With what names all queues."""
        self._connection = connection
        self._keys = keys
        self._events = events
        self._queues = queues
        self._replay: EventReplay | None = None
        self._times: dict[str, int] = {}
        self._subscription: Subscription | None = None
        self._channels: dict[str, str] = {}
        self._look_at = 0.0

    @property
    def positions(self) -> Mapping[str, int]:
        """The number of the last event of each queue that has been told, or came before the first."""
        return self._replay.positions if self._replay else {}

    def next(self, timeout_s: float) -> list[Told]:
        """What has happened, after a wait of up to `timeout_s` if nothing has; often nothing.

        Raises RedisUnavailable; the next call connects anew and goes on where this one was.
        """
        try:
            told = self._next(timeout_s)
        except RedisUnavailable:
            self.close()
            raise
        self._times |= {each.queue: each.ts_ms for each in told if isinstance(each, Event) and each.event_id >= 0}
        return told

    def close(self) -> None:
        """Let go of the connection; the next call makes another."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.__exit__(None, None, None)

    def _next(self, timeout_s: float) -> list[Told]:
        subscription = self._subscription or self._subscribe()
        replay = self._replay or self._begin()
        if not replay.done:
            return replay.read()
        if time.monotonic() >= self._look_at:
            return self._look(subscription, replay)
        message = subscription.get(timeout_s)
        return [] if message is None else self._hear(replay, *message)

    def _subscribe(self) -> Subscription:
        self._channels = {self._keys.events_channel(queue): queue for queue in (NOWHERE, *self._known())}
        self._subscription = self._connection.listen(list(self._channels)).__enter__()
        self._look_at = 0.0
        return self._subscription

    def _begin(self) -> EventReplay:
        queues = [queue for queue in self._channels.values() if queue != NOWHERE]
        self._replay = EventReplay(self._events, self._events.last(queues))
        return self._replay

    def _look(self, subscription: Subscription, replay: EventReplay) -> list[Told]:
        """Compare with the ends of all logs, of new queues too."""
        self._look_at = time.monotonic() + LOOK_S
        queues = self._known()
        for queue in queues:
            channel = self._keys.events_channel(queue)
            if channel not in self._channels:
                subscription.add(channel)
                self._channels[channel] = queue
                self._look_at = time.monotonic() + FIRST_LOOK_S
            replay.positions.setdefault(queue, 0)
        ends = self._events.last(queues)
        replay.aim(ends)
        return replay.rewind(ends)

    def _known(self) -> Sequence[str]:
        """All queues; where their list is damaged, those that have been on it."""
        try:
            return self._queues()
        except (RedisDamaged, RedisRefused):
            return list(self.positions)

    def _hear(self, replay: EventReplay, channel: str, message: bytes) -> list[Told]:
        queue = self._channels.get(channel, NOWHERE)
        events = decode_message(queue, message)
        if not events:
            return []
        if events[0].event_id < 0:
            return list(events)
        first, last, position = events[0].event_id, events[-1].event_id, replay.positions.get(queue, 0)
        gaps: list[Told] = []
        if last <= position:
            # A number that was told before: it was read from the log as well, unless it is later than that one was.
            if events[0].ts_ms <= self._times.get(queue, events[0].ts_ms):
                return []
            gaps = replay.rewind({queue: first - 1})
        elif first > position + 1:
            replay.aim({queue: last})
            return []
        return gaps + [each for event in events for each in replay.take(event)]
