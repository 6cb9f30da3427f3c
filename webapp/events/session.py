"""One event socket, from its handshake to its end."""

import itertools
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from simple_websocket import ConnectionClosed  # type: ignore[import-untyped]
from wsproto.utilities import LocalProtocolError

from dtq_engine import Event, EventGap, EventReplay, RedisUnavailable, Store
from webapp.events.hub import Hub, NotReading
from webapp.events.messages import Note, hello
from webapp.events.outbox import Closing, Outbox, outbox_for
from webapp.events.query import Query

SEND_S = 10.0
"""How long a reader may take nothing off before the connection is broken off."""

IDLE_S = 5.0
"""How often a socket on which nothing happens is looked at."""

BUFFER = 65_536
"""How many bytes may wait in the kernel."""

REPLY_S = 0.5
"""How long a reader has to answer a close before the connection goes."""

SILENCE = Closing(1008, "nothing is to be sent over this socket")
FAILED = Closing(1011, "the web process failed in a way that its log explains")
NO_REDIS = Closing(1013, "Redis does not answer: connect again")

GONE = (ConnectionClosed, LocalProtocolError, OSError)
"""What writing to a connection raises when it is over."""

T = TypeVar("T")

_log = logging.getLogger("dtq.web")


class Bell(threading.Event):
    """simple-websocket's own event, which is set when something came in or the connection ended; it rings here too."""

    def __init__(self) -> None:
        super().__init__()
        self.ring: Callable[[], None] = lambda: None

    def set(self) -> None:
        """Set it, and ring."""
        super().set()
        self.ring()


class Reader(threading.Thread):
    """simple-websocket's thread that reads; it must not keep the process from ending."""

    def __init__(self, target: Callable[[], None]) -> None:
        super().__init__(target=target, daemon=True)


OPTIONS: Mapping[str, Any] = {
    "max_message_size": 4096,
    "ping_interval": 25,
    "thread_class": Reader,
    "event_class": Bell,
}
"""How simple-websocket is to serve."""


class Wire:
    """The connection under a socket, with what simple-websocket needs of it.

    Two threads write, and each write is whole: one sends events, the other answers pings. A write that its reader
    does not let through within SEND_S breaks the connection off, since the rest would begin within a message.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(SEND_S)
        # Linux would let megabytes wait there for a slow reader, unseen by us.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        self._connection = connection
        self._writing = threading.Lock()
        self.recv = connection.recv
        self.close = connection.close
        self.fileno = connection.fileno

    def send(self, data: bytes) -> int:
        """Write all of it. Raises OSError."""
        with self._writing:
            try:
                self._connection.sendall(data)
            except OSError:
                self.abort()
                raise
        return len(data)

    def abort(self) -> None:
        """Break the connection off: whoever reads or writes is told so at once, and what waits is thrown away."""
        with suppress(OSError):
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.end()

    def end(self) -> None:
        """End the connection after what has been written."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


class Session:
    """Sends to one reader what they asked for, until either side closes."""

    def __init__(self, server: Any, wire: Wire, query: Query, hub: Hub, store: Store) -> None:
        """With simple-websocket's server, whose thread and event are ours, as its types cannot say."""
        self._server = server
        self._wire = wire
        self._query = query
        self._hub = hub
        self._store = store
        self._outbox: Outbox = outbox_for(query)
        self._seen: dict[str, int] = {}
        server.event.ring = self._outbox.wake

    def run(self) -> None:
        """Serve it; returns when it is over, whatever the reason."""
        self._hub.enter(self._outbox, self._wire.abort)
        try:
            self._begin()
            while self._server.connected and not self._outbox.closing:
                for each in self._while_open(self._outbox.take(IDLE_S)):
                    self._tell(each)
                if self._server.receive(timeout=0) is not None:
                    self._outbox.close(SILENCE)
        except (RedisUnavailable, NotReading):
            self._outbox.close(NO_REDIS)
        except GONE:
            self._wire.abort()
        except Exception:
            _log.exception("an event socket failed")
            self._outbox.close(FAILED)
        finally:
            # In this order: saying goodbye may take as long as any other message, and then the hub breaks it off.
            self._end()
            self._hub.leave(self._outbox)

    def _begin(self) -> None:
        """Say from where on all is told, tell what the logs have after `since`, and join those who hear the rest."""
        query, store = self._query, self._store
        if query.since is None:
            self._seen = query.wanted(self._hub.join(self._outbox))
            self._say_hello(self._seen)
            return
        ends = query.wanted(store.events.last(store.inspect.queues()))
        replay = store.replay({queue: query.since.get(queue, 0) for queue in ends})
        self._say_hello(replay.positions)
        for gap in replay.rewind(ends):
            self._server.send(Note(gap).text)
        self._replay(replay, ends)
        self._replay(replay, query.wanted(self._hub.join(self._outbox)))
        self._seen = replay.positions

    def _say_hello(self, positions: Mapping[str, int]) -> None:
        for text in hello(positions):
            self._server.send(text)

    def _replay(self, replay: EventReplay, numbers: Mapping[str, int]) -> None:
        replay.aim(numbers)
        while not (replay.done or self._outbox.closing):
            for told in self._while_open(filter(self._query.wants, replay.read())):
                self._server.send(Note(told).text)

    def _while_open(self, items: Iterable[T]) -> Iterator[T]:
        return itertools.takewhile(lambda _: not self._outbox.closing, items)

    def _tell(self, each: Note | str) -> None:
        if isinstance(each, str):
            self._server.send(each)
        elif self._is_news(each.told):
            self._server.send(each.text)

    def _is_news(self, told: Event | EventGap) -> bool:
        """Whether it was not read from the log before this socket joined the others, as nothing is without a number."""
        if isinstance(told, Event) and told.event_id < 0:
            return True
        number, seen = (told.event_id if isinstance(told, Event) else told.before - 1), self._seen.get(told.queue, 0)
        begins_anew = isinstance(told, EventGap) and told.before <= told.after
        if number <= seen and not begins_anew:
            return False
        self._seen[told.queue] = number
        return True

    def _end(self) -> None:
        if self._outbox.closing and self._server.connected:
            with suppress(*GONE):
                self._server.close(self._outbox.closing.code, self._outbox.closing.reason)
        # A reader answers a close and ends the connection. Who does not is not waited for any longer: gunicorn would
        # do so, for 2 s each, in the one thread that takes new connections.
        self._server.thread.join(REPLY_S)
        self._wire.end()
        self._server.thread.join(REPLY_S)
        self._wire.close()
