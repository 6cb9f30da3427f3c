"""A worker that a supervisor has started: it ends with the supervisor, and tells it of its progress."""

import logging
import os
import socket
import threading
from contextlib import suppress

import msgspec

from dtq_engine import logs
from dtq_engine.engine import load_app
from dtq_engine.errors import ConfigurationError
from dtq_engine.worker import drain, lifetime
from dtq_engine.worker.messages import Alive, Recruit, Stop, ToMember
from dtq_engine.worker.process import run_to_exit, settle_in
from dtq_engine.worker.signals import Signals
from dtq_engine.worker.wire import Wire
from dtq_engine.worker.worker import EXIT_OK, Worker

log = logging.getLogger("dtq.worker")


def main(end: int, _leash: int, greeting: bytes) -> None:
    """Be a worker, and exit with its code."""
    os.set_inheritable(end, False)
    recruit = msgspec.json.decode(greeting, type=Recruit)
    member = Member(Wire(socket.socket(fileno=end), ToMember), recruit)
    run_to_exit(member.run)


class Member:
    """A worker at the end of a wire.

    It drains when the supervisor says so and, because nobody would restart it or tell it to stop, when that is gone.
    """

    def __init__(self, wire: Wire[ToMember], recruit: Recruit) -> None:
        self._wire = wire
        self._settings = recruit.settings
        self._label = recruit.label
        self._for_app = recruit.for_app
        self._worker: Worker | None = None
        self._hooks_s = 0.0

    def run(self) -> int:
        """Work until told to stop; the worker's exit code. Raises ConfigurationError as it does."""
        with Signals(self._stop, self._hurry):
            threading.Thread(target=self._listen, name="dtq-listen", daemon=True).start()
            logs.configure(self._settings, self._label)
            if self._settings.tasks is None:
                raise ConfigurationError(["DTQ_TASKS is not set."])
            app = load_app(self._settings.tasks)
            if self._for_app:
                app.configure(self._settings)
            worker = Worker(app, self._settings, self._show_life)
            hooks = app.registry.hooks
            self._hooks_s = (drain.FAILURES_S if hooks.failure else 0) + (lifetime.STOP_S if hooks.worker_stop else 0)
            self._worker = worker
            settle_in()
            worker.start()
            return worker.join()

    def _show_life(self) -> None:
        with suppress(OSError):  # the supervisor is gone; the listener has noticed
            self._wire.send(Alive(self._hooks_s))

    def _listen(self) -> None:
        with suppress(EOFError, OSError, msgspec.MsgspecError):
            for order in self._wire.listen():
                self._obey(order)
        log.warning("the supervisor is gone, so that this worker ends as well")
        self._stop()

    def _obey(self, order: Stop) -> None:
        if order.hurry:
            self._hurry()
        else:
            self._stop()

    def _stop(self) -> None:
        if self._worker is None:
            # Importing the app takes as long as it takes, and nothing has been claimed.
            os._exit(EXIT_OK)
        self._worker.stop()

    def _hurry(self) -> None:
        if self._worker is not None:
            self._worker.hurry()
