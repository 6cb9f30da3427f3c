"""A queue on a real server beside what it has promised: each call is judged, and followed by all the checks."""

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import redis

from dtq_engine.config import Settings
from dtq_engine.connection import connect
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.errors import DtqError, RedisRefused
from tests.explore.calls.base import Call, Place, Seen
from tests.explore.calls.schedule import Advance
from tests.explore.checks import check
from tests.explore.family import follow_parents, note_waiting
from tests.explore.promises import Promises, Violation, expect
from tests.explore.snapshot import FAR, QUEUE, Snapshot, look


@dataclass(frozen=True, slots=True)
class Saved:
    """A world at one moment, to go back to."""

    keys: tuple[tuple[bytes, int, bytes], ...]
    promises: Promises
    now: Snapshot
    last_event: int
    log: Counter[str]


class World:
    """A queue, the promises, and the history of calls so far. `beside`: another queue, with links to and fro."""

    def __init__(self, store: Place, client: Any, settings: Settings) -> None:
        self.store = store
        self.client = client
        self.promises = Promises(settings, store.queue)
        self.beside: World | None = None
        self.history: list[str] = []
        self._last_event = 0
        self._log: Counter[str] = Counter()
        self._noted_s = time.monotonic()
        self.now = self._look()

    def perform(self, call: Call, *, checked: bool = True) -> Any:
        """Send a call, judge its answer, and check all that must hold; raises Violation.

        Not `checked`: damage was done, and what is to repair it is yet to come.
        """
        self.note(repr(call) if self.store.queue == QUEUE else f"{self.store.queue}: {call!r}")
        try:
            answer = call.run(self.store)
        except (RedisRefused, redis.RedisError) as error:
            raise Violation(f"a script failed: {error}") from error
        except DtqError as error:
            answer = error
        self.history[-1] += f"  →  {_brief(answer)}"
        self._judge(call, answer, checked=checked)
        if self.beside is not None:
            self.beside._judge(call if isinstance(call, Advance) else None, answer, checked=checked)
        return answer

    def _judge(self, call: Call | None, answer: Any, *, checked: bool) -> None:
        """See what a call, if it was for this queue too, has made of it, and what its outcome may be."""
        seen = Seen(self.now, self._look())
        self.now = seen.after
        self._note_time()
        if call is not None:
            call.learn(self.promises, answer, seen)
        follow_parents(self.promises, seen.after)
        self.promises.reconcile(seen.after)
        note_waiting(self.promises, seen.after)
        if checked:
            check(seen.after, self.promises, self._log)

    def note(self, text: str) -> None:
        """Add a line to the history for something that is no call."""
        self.history.append(f"{len(self.history) + 1:4} {text}")

    def refresh(self) -> None:
        """Look again after something that was no call."""
        self.now = self._look()

    def save(self) -> Saved:
        """This moment, but for the pulse: going back to it must not look as if Redis had stood still."""
        plain = self.store.connection.client
        pulse = self.store.keys.pulse(QUEUE).encode()
        names = sorted(name for name in plain.keys("*") if name != pulse)
        pipe = plain.pipeline(transaction=False)
        for name in names:
            pipe.pttl(name).dump(name)
        replies = pipe.execute()
        keys = tuple(zip(names, (max(0, ttl) for ttl in replies[::2]), replies[1::2], strict=True))
        return Saved(keys, self.promises.copy(), self.now, self._last_event, self._log.copy())

    def restore(self, saved: Saved) -> None:
        """Go back to a moment that was saved."""
        pipe = self.store.connection.client.pipeline(transaction=False)
        pipe.flushall()
        for name, ttl, value in saved.keys:
            pipe.restore(name, ttl, value)
        pipe.execute()
        self.promises, self.now = saved.promises.copy(), saved.now
        self._last_event, self._log = saved.last_event, saved.log.copy()

    def _note_time(self) -> None:
        """What the calls themselves take passes for all times to live, and on a busy machine that is not nothing."""
        now_s = time.monotonic()
        self.promises.elapsed_ms += round((now_s - self._noted_s) * 1000)
        self._noted_s = now_s

    def _look(self) -> Snapshot:
        beside = FAR if self.store.queue == QUEUE else QUEUE
        snapshot = look(self.client, self.store.keys, self._last_event, self.store.queue, beside)
        for last, kinds in snapshot.events:
            expect(last == self._last_event + len(kinds), "event numbers have no gap", self._last_event, last, kinds)
            self._last_event = last
            self._log.update(kinds)
        return snapshot


def _brief(answer: Any) -> str:
    text = repr(answer)
    return text if len(text) <= 300 else f"{text[:300]}…"


class Server:
    """A server of one's own, emptied for each new world."""

    def __init__(self, url: str) -> None:
        self._settings = Settings(redis_url=url)
        self._connection = connect(self._settings)
        self.client = redis.Redis.from_url(url, protocol=2, decode_responses=True)

    def use_functions(self, use: bool) -> None:
        """Whether what the server could keep as functions is called so, or as scripts."""
        self._connection.abstains_until = 0.0 if use else math.inf

    def new_world(self, **settings: Any) -> World:
        """An empty world with these settings."""
        self.client.flushall()
        chosen = replace(self._settings, **settings)
        return World(Place(self._connection, chosen, QUEUE), self.client, chosen)

    def new_worlds(self, **settings: Any) -> tuple[World, World]:
        """Two queues beside each other, which share their history."""
        near = self.new_world(**settings)
        far = World(Place(self._connection, near.promises.settings, FAR), self.client, near.promises.settings)
        near.beside, far.beside, far.history = far, near, near.history
        near.promises.beside, far.promises.beside = far.promises, near.promises
        return near, far

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()
        self.client.close()


@contextmanager
def own_server(binary: str | None = None) -> Iterator[Server]:
    """Start a server, Valkey or another `binary`, for as long as the context lasts."""
    with TemporaryDirectory(prefix="dtq-explore-") as folder:
        path = None if binary is None else Path(binary)
        with EmbeddedValkey(Path(folder), appendonly=False, binary=path, options={"save": ""}) as valkey:
            server = Server(valkey.url)
            try:
                yield server
            finally:
                server.close()
