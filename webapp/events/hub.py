"""One reader of Redis for all event sockets of a process."""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from dtq_engine import DtqError, EventFeed
from webapp.events.messages import REDIS_AWAY, REDIS_BACK, Note
from webapp.events.outbox import RESTART, Outbox

TICK_S = 0.5
LINGER_S = 30.0
"""How long it goes on after the last socket: a page that is loaded anew comes back at once."""

PAUSE_S = 0.5
"""How long, about, it waits before it asks a Redis again that did not answer."""

READY_S = 1.9
"""How long a new socket waits for Redis."""

FAREWELL_S = 0.7
"""How long sockets have to say goodbye when the process is to end."""

_log = logging.getLogger("dtq.web")


class NotReading(Exception):
    """Raised when a socket cannot join, since Redis does not answer."""


class Hub:
    """Hands what happens to the outboxes of all sockets. Its threads start with the first one, after any fork.

    What it has told, and who is to hear what comes, change under one lock: so whoever joins gets each later event
    once, and none that `join` names as past.
    """

    def __init__(self, make_feed: Callable[[], EventFeed], stopping: threading.Event) -> None:
        """With what makes a feed, and what is set when the process is to end."""
        self._make_feed = make_feed
        self._stopping = stopping
        self._changed = threading.Condition()
        self._sockets: dict[Outbox, Callable[[], None]] = {}
        self._listening: set[Outbox] = set()
        self._positions: Mapping[str, int] | None = None
        self._away = False
        self._used_at = 0.0
        self._reader: threading.Thread | None = None
        self._watcher: threading.Thread | None = None

    @property
    def stopping(self) -> bool:
        """Whether the process is to end."""
        return self._stopping.is_set()

    def ready(self) -> bool:
        """Start to read, if nobody did so yet; whether Redis answers, for which it waits a little."""
        with self._changed:
            self._ensure_threads()
            answered = self._changed.wait_for(lambda: self._positions is not None or self._away, READY_S)
            return answered and not self._away

    def enter(self, outbox: Outbox, abort: Callable[[], None]) -> None:
        """Count a socket in; `abort` breaks it off if it does not come to its end when the process does."""
        with self._changed:
            self._sockets[outbox] = abort
            self._ensure_threads()
            if self.stopping:
                outbox.close(RESTART)

    def join(self, outbox: Outbox) -> Mapping[str, int]:
        """Let an outbox hear all that comes after these events, one of each queue. Raises NotReading."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._positions is not None, READY_S):
                raise NotReading
            self._listening.add(outbox)
            if self._away:
                outbox.say(REDIS_AWAY)
            return dict(self._positions or {})

    def leave(self, outbox: Outbox) -> None:
        """Count a socket out. Harmless to repeat."""
        with self._changed:
            self._listening.discard(outbox)
            self._sockets.pop(outbox, None)
            self._changed.notify_all()

    def _ensure_threads(self) -> None:
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="dtq-events-end", daemon=True)
            self._watcher.start()
        if self._reader is None and not self.stopping:
            self._used_at, self._away = time.monotonic(), False
            self._reader = threading.Thread(target=self._read, name="dtq-events", daemon=True)
            self._reader.start()

    # Reading

    def _read(self) -> None:
        feed = self._make_feed()
        try:
            while not self._is_over():
                self._step(feed)
        finally:
            feed.close()

    def _is_over(self) -> bool:
        """Whether the reader ends now; decided under the lock, so that a new socket starts another."""
        with self._changed:
            if self._sockets:
                self._used_at = time.monotonic()
            over = self.stopping or time.monotonic() - self._used_at > LINGER_S
            if over:
                self._reader = self._positions = None
            return over

    def _step(self, feed: EventFeed) -> None:
        try:
            told = feed.next(TICK_S)
        except DtqError as error:
            self._lose(f"event sockets hear nothing: {error}")
        except Exception:
            # Whatever it was must not leave the sockets without a reader.
            _log.exception("the reader of events failed")
            feed.close()
            self._lose("event sockets hear nothing until the reader has begun anew")
        else:
            self._tell([Note(each) for each in told], feed.positions)

    def _tell(self, notes: Sequence[Note], positions: Mapping[str, int]) -> None:
        with self._changed:
            if self._away:
                _log.info("event sockets hear again what happens")
                self._say(REDIS_BACK)
            if notes or self._away or self._positions is None:
                self._away, self._positions = False, dict(positions)
                self._changed.notify_all()
            if notes:
                for outbox in self._listening:
                    outbox.put(notes)

    def _lose(self, why: str) -> None:
        with self._changed:
            if not self._away:
                _log.warning("%s", why)
                self._away = True
                self._say(REDIS_AWAY)
        self._stopping.wait(PAUSE_S * random.uniform(0.5, 1.5))

    def _say(self, text: str) -> None:
        for outbox in self._listening:
            outbox.say(text)

    # The end

    def _watch(self) -> None:
        """Wait for the end of the process, and let no socket hold it up."""
        self._stopping.wait()
        with self._changed:
            for outbox in self._sockets:
                outbox.close(RESTART)
            self._changed.wait_for(lambda: not self._sockets, FAREWELL_S)
            for abort in self._sockets.values():
                abort()
