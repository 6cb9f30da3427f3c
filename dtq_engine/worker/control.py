"""Listening for what operators want of running tasks."""

import logging
from collections.abc import Callable

from dtq_engine.connection import Connection
from dtq_engine.errors import RedisUnavailable
from dtq_engine.subscription import Subscription
from dtq_engine.worker.execution import Cause, Key
from dtq_engine.worker.loop import Loop
from dtq_engine.worker.outage import Outage

log = logging.getLogger("dtq.worker")

LISTEN_S = 1.0


class Control(Loop):
    """Carries out cancels as they are published for this worker.

    A message may get lost with a connection; the heartbeat brings cancels as well, so this is for speed.
    """

    name = "control"

    def __init__(
        self, *, connection: Connection, channel: str, interrupt: Callable[[Key, Cause], None], outage: Outage
    ) -> None:
        super().__init__(outage)
        self._connection = connection
        self._channel = channel
        self._interrupt = interrupt
        self._subscription: Subscription | None = None

    def step(self) -> None:
        """Wait up to a second for one message; a subscription that broke is made anew in the next step."""
        subscription = self._subscription or self._subscribe()
        try:
            message = subscription.get(LISTEN_S)
        except RedisUnavailable:
            self.finish()
            raise
        if message is not None:
            self._obey(message[1])

    def finish(self) -> None:
        """Leave the channel."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.__exit__(None, None, None)

    def _subscribe(self) -> Subscription:
        self._subscription = self._connection.listen([self._channel]).__enter__()
        return self._subscription

    def _obey(self, message: bytes) -> None:
        match message.decode("utf-8", "replace").split(" "):
            case ["cancel", task_id, token]:
                self._interrupt((task_id, token), Cause.CANCEL)
            case _:
                log.warning("ignored an unknown message on the control channel: %.100r", message)
