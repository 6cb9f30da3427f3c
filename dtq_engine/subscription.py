"""Messages that Redis publishes, over a connection of their own."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import redis

from dtq_engine.links import NotSent
from dtq_engine.refusals import unavailable

CONFIRM_S = 1.9


class Subscription:
    """Messages of some channels, over a connection of its own."""

    def __init__(self, make: Callable[[], Any], channels: Sequence[str]) -> None:
        """With what makes redis-py's subscriber."""
        self._make = make
        self._pubsub: Any = None
        self._channels = tuple(channels)

    def __enter__(self) -> Self:
        try:
            self._pubsub = self._make()
        except NotSent as error:
            raise unavailable(error) from None
        try:
            self._pubsub.subscribe(*self._channels)
            # The confirmations come first: only then does no message pass by unheard.
            for _ in self._channels:
                self._pubsub.get_message(timeout=CONFIRM_S)
        except (redis.RedisError, OSError) as error:
            self._pubsub.close()
            raise unavailable(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pubsub.close()

    def add(self, channel: str) -> None:
        """Listen to one more channel; raises RedisUnavailable when the connection is gone."""
        try:
            self._pubsub.subscribe(channel)
        except (redis.RedisError, OSError) as error:
            raise unavailable(error) from None

    def get(self, timeout_s: float) -> tuple[str, bytes] | None:
        """The next message as channel and data; None when none came. Raises RedisUnavailable."""
        try:
            message = self._pubsub.get_message(timeout=timeout_s)
        except (redis.RedisError, OSError, ValueError, TypeError) as error:
            # The last two are how redis-py trips over a connection that is closed under its reader.
            raise unavailable(error) from None
        if message is None or message["type"] != "message":
            return None
        return message["channel"].decode(), message["data"]
