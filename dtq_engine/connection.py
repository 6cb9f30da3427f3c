"""How dtq talks to Redis, whatever kind of deployment it is.

redis-py's own retries are off, because a script must be sent again under our rules: `Connection.call` resends
until its patience ends and says whether the call may have been executed. Driver errors end here.
"""

import math
import random
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Semaphore
from typing import Any

from redis.crc import key_slot
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from dtq_engine.addresses import REPLY_TIMEOUT_S, linked, names_user, over_pool
from dtq_engine.cluster import ClusterLink
from dtq_engine.config import Settings
from dtq_engine.errors import MemoryFull, RedisRefused, RedisUnavailable
from dtq_engine.links import REFUSED, Command, Link, NotSent, ReplyLost
from dtq_engine.refusals import damaged, unavailable
from dtq_engine.subscription import Subscription

BLOCKING_GRACE_S = 2.0
SEAT_S = 1.5
MISSED_S = 1.0
"""After how long an exchange that fails has shown that Redis is away, and not only that a connection was closed."""

UNLIMITED = 1_000_000
LOOK_S = 0.05
NOT_OFFERED = ("Function not found", "unknown command")
"""How a server begins to say that it does not have a function, or none at all."""

NOT_NOW = (BusyLoadingError, ReadOnlyError, ClusterDownError, MasterDownError, TryAgainError)
NOT_NOW_PREFIXES = ("BUSY", "UNBLOCKED", "MOVED", "ASK", "NOREPLICAS", "CLUSTERDOWN", "MISCONF")


class NotOffered(Exception):
    """Raised when a script or function was called that the server does not have, or does not let us call.

    With `may_have_run` it had it when the same was sent before.
    """

    may_have_run = False


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call is sent again, in seconds: while it surely was not executed, and once it may have been."""

    unsent_s: float = 1.5
    sent_s: float = 1.9


class Connection:
    """The one way to Redis. Thread-safe; opens no socket before the first call; not to be used after a fork.

    `abstains_until` is the monotonic time before which no function is called, only scripts; never, for a user by name.
    """

    def __init__(self, link: Link, database: int, seats: Semaphore | None = None) -> None:
        """With `seats` for all that goes on at the same time, and so for its sockets; blocking calls take none."""
        self.database = database
        self._link = link
        self._seats = seats or Semaphore(UNLIMITED)
        self._answered_at = self._missed_at = self.abstains_until = 0.0
        self._closings = 0

    @property
    def client(self) -> Any:
        """redis-py's client, for what is not offered here. Raises RedisUnavailable if a cluster cannot be found."""
        try:
            return self._link.client
        except NotSent as error:
            raise unavailable(error) from None

    @property
    def is_cluster(self) -> bool:
        """Whether keys are spread over slots, so that one command may only touch one queue."""
        return isinstance(self._link, ClusterLink)

    def nodes(self) -> "list[Connection]":
        """One connection to each node that holds keys of its own, for what no key leads to."""
        try:
            return [Connection(link, self.database, self._seats) for link in self._link.nodes()]
        except NotSent as error:
            raise unavailable(error) from None

    def call(
        self, *command: str | bytes | int | float, patience: Patience | None = None, may_have_run: bool = False
    ) -> Any:
        """Send a command that may be sent again, until it is answered or `patience` ends.

        Raises RedisUnavailable (its `may_have_run` tells whether it can have been executed, as one that was sent
        in another way before may have been), MemoryFull when the server has no memory for it, RedisDamaged when
        a key has the wrong type, and NotOffered for a script or function that is not there.
        """
        patience = patience or Patience()
        started, pause = time.monotonic(), 0.01
        while True:
            try:
                return self._exchange(command, REPLY_TIMEOUT_S)
            except NotSent as error:
                cause: Exception = error
            except ReplyLost as error:
                cause, may_have_run = error, True
            except (NotOffered, RedisUnavailable) as error:
                error.may_have_run = may_have_run  # what was refused this time may have been done before
                raise
            limit = patience.sent_s if may_have_run else patience.unsent_s
            if time.monotonic() - started + pause > limit:
                raise unavailable(cause, may_have_run) from None
            time.sleep(pause * random.uniform(0.75, 1.25))
            pause = min(0.5, pause * 2)

    def once(self, *command: str | bytes | int | float, timeout_s: float = REPLY_TIMEOUT_S) -> Any:
        """Send a command a single time, waiting `timeout_s` for the reply; raises as `call` does."""
        return self._once(command, timeout_s, self._exchange)

    def _once(self, command: Command, timeout_s: float, exchange: Callable[[Command, float], Any]) -> Any:
        try:
            return exchange(command, timeout_s)
        except NotSent as error:
            raise unavailable(error) from None
        except ReplyLost as error:
            raise unavailable(error, may_have_run=True) from None

    def _exchange(self, command: Command, timeout_s: float) -> Any:
        with self._seat():
            return self._exchange_now(command, timeout_s)

    @contextmanager
    def _seat(self) -> Generator[None]:
        """One's turn to exchange something. Raises RedisUnavailable if others find meanwhile that it is away."""
        if not self._seats.acquire(blocking=False):
            self._wait_for_seat()
        began = time.monotonic()
        try:
            yield
            self._answered_at = time.monotonic()
        except (NotSent, ReplyLost):
            if (now := time.monotonic()) - began > MISSED_S:
                self._missed_at = now
            raise
        finally:
            self._seats.release()

    def _wait_for_seat(self) -> None:
        # Who waits while others are answered is in a crowd; while nobody is, Redis is away.
        came = time.monotonic()
        while (left := (heard := max(came, self._answered_at)) + SEAT_S - time.monotonic()) > 0:
            if self._seats.acquire(timeout=left):
                if self._missed_at <= max(heard, self._answered_at):
                    return
                self._seats.release()
                break
        raise unavailable(NotSent("all connections are busy, and none is answered"))

    def _exchange_now(self, command: Command, timeout_s: float) -> Any:
        try:
            return self._link.exchange(command, timeout_s)
        except NOT_NOW as error:
            raise NotSent(str(error)) from error
        except REFUSED as error:
            raise (NotOffered(str(error)) if _is_not_offered(command, error) else _refused(error)) from error
        except OutOfMemoryError as error:
            raise MemoryFull("Redis has reached its maxmemory: free some memory or raise the limit.") from error
        except ResponseError as error:
            if str(error).startswith(NOT_NOW_PREFIXES):
                raise NotSent(str(error)) from error
            if str(error).startswith(("WRONGTYPE", "DAMAGED")):
                raise damaged(error, command, self._type_of) from error
            if _is_not_offered(command, error):
                raise NotOffered(str(error)) from error
            raise RedisRefused(
                f"Redis refused a command of dtq ({error}): check its version and configuration."
            ) from error

    def _type_of(self, key: str) -> str:
        try:
            return str(self._link.exchange(("TYPE", key), REPLY_TIMEOUT_S).decode())
        except (NotSent, ReplyLost, ResponseError):
            return "none"

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Send reads in one go; an item that fails is its exception in the list. Raises RedisUnavailable."""
        if not commands:
            return []
        try:
            with self._seat():
                found = self._link.exchange_all(commands)
        except (NotSent, ReplyLost) as error:
            raise unavailable(error) from None
        # Rights that are missing must not look like a key that is not there, or damaged.
        if (refusal := next((each for each in found if isinstance(each, REFUSED)), None)) is not None:
            raise _refused(refusal)
        return found

    def pop(self, keys: Sequence[str]) -> str | None:
        """Pop one token from the first of these lists that has any: that key's name, else None."""
        for group in _groups(keys, self.is_cluster):
            reply = self.call("LMPOP", len(group), *group, "LEFT")
            if reply:
                return str(reply[0].decode())
        return None

    def blpop(self, keys: Sequence[str], timeout_s: float) -> str | None:
        """As `pop`, but wait up to `timeout_s` seconds (more than 0) for a token to come."""
        groups = _groups(keys, self.is_cluster)
        if len(groups) > 1:
            return self._pop_patiently(keys, timeout_s)
        command = ("BLPOP", *groups[0], f"{timeout_s:.3f}")
        reply = self._once(command, timeout_s + BLOCKING_GRACE_S, self._exchange_now)
        return None if reply is None else str(reply[0].decode())

    def _pop_patiently(self, keys: Sequence[str], timeout_s: float) -> str | None:
        """BLPOP over several slots is refused: ask them all again and again, in one go."""
        ends, closings = time.monotonic() + timeout_s, self._closings
        while True:
            lengths = self.pipeline([("LLEN", key) for key in keys])
            full = [key for key, length in zip(keys, lengths, strict=True) if isinstance(length, int) and length]
            if full and (found := self.pop(full)) is not None:
                return found
            if (left := ends - time.monotonic()) <= 0:
                return None
            time.sleep(min(LOOK_S, left))
            if self._closings != closings:
                raise RedisUnavailable("The connection was closed while it waited.")

    def listen(self, channels: Sequence[str]) -> Subscription:
        """Messages of these channels, from the moment the context is entered."""
        return Subscription(self._link.pubsub, channels)

    def ping(self) -> None:
        """Raise RedisUnavailable unless Redis answers now."""
        self.once("PING")

    def info(self, section: str) -> dict[str, str]:
        """A section of INFO by name; empty where the server does not offer it. Raises RedisUnavailable."""
        try:
            reply = self.call("INFO", section)
        except RedisRefused:
            return {}
        return dict(line.split(":", 1) for line in reply.decode().splitlines() if ":" in line)

    def close(self) -> None:
        """Close all sockets; who waits on one is told that Redis is unavailable."""
        self._closings += 1
        self._link.close()


def _groups(keys: Sequence[str], is_cluster: bool) -> list[list[str]]:
    """Those that one command may name."""
    if not is_cluster:
        return [list(keys)] if keys else []
    by_slot: dict[int, list[str]] = {}
    for key in keys:
        by_slot.setdefault(key_slot(key.encode()), []).append(key)
    return list(by_slot.values())


def _is_not_offered(command: Command, error: Exception) -> bool:
    if command[0] == "FCALL":
        return isinstance(error, NoPermissionError) or str(error).startswith(NOT_OFFERED)
    return isinstance(error, NoScriptError)


def _refused(error: Exception) -> RedisUnavailable:
    return RedisUnavailable(f"Redis refused this user ({error}): check the name, password and rights.")


def connect(settings: Settings) -> Connection:
    """A connection as `settings.redis_url` says; no socket is opened yet."""
    link, database = linked(settings)
    connection = Connection(link, database, Semaphore(settings.redis_connections))
    if names_user(settings):
        # Where there are users, others may load functions too, under any name, and have them run with our rights.
        connection.abstains_until = math.inf
    return connection


def over_client(client: Any) -> Connection:
    """A connection over a client that exists already, such as fakeredis'."""
    return Connection(*over_pool(client))
