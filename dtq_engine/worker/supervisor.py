"""Several workers from one command: starts them, starts again those that die, ends them together."""

import logging
import math
import selectors
import signal
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from dtq_engine.config import Settings
from dtq_engine.errors import ConfigurationError
from dtq_engine.worker.alive import AliveFile
from dtq_engine.worker.post import Post
from dtq_engine.worker.process import EXIT_MISCONFIGURED
from dtq_engine.worker.signals import EXIT_INTERRUPTED, Signals
from dtq_engine.worker.spawn import Death

log = logging.getLogger("dtq.worker")

LOOK_S = 1.0
# A worker ends within a second of its drain time; one that does not is frozen, and killed within that second.
STRAGGLE_S = 0.9
# The exit code of a process that was killed, as a shell has it.
KILLED = 128 + signal.SIGKILL
MAX_ID = 60


class Supervisor:
    """Runs `worker_processes` workers in processes of their own until it is told to stop.

    One that dies is started again, after a time that doubles with each death in a row. A worker that cannot be set up
    at all (exit code 2) ends them all: the others would fail the same way. The first one starts alone, so that this is
    said once. Raises ConfigurationError.
    """

    def __init__(self, settings: Settings, *, for_app: bool = False) -> None:
        if settings.worker_id is not None and len(settings.worker_id) > MAX_ID:
            problem = f"DTQ_WORKER_ID gets a number for each process: shorten it to at most {MAX_ID} characters."
            raise ConfigurationError([problem])
        self._settings = settings
        self._alive_file = AliveFile(settings)
        self._alive_file.check()
        numbers = range(1, settings.worker_processes + 1)
        self._posts = [Post(number, _own(settings, number), for_app=for_app) for number in numbers]
        self._selector = selectors.DefaultSelector()
        self._touched_at = 0.0
        # What signal handlers leave here; only the loop acts.
        self._told_to_stop = False
        self._told_to_hurry = False
        self._aborted = False
        self._leaving = False
        self._deadline = math.inf
        self._code = 0

    def run(self) -> int:
        """Work until SIGTERM or SIGINT, then drain; the exit code.

        0 when all workers ended well, else the code of one that did not (137: it had to be killed); 2 when they
        cannot be set up; 130 after a second SIGINT.
        """
        log.info("starts %d worker processes", len(self._posts))
        with self._woken_by_signals(), Signals(self._stop, self._hurry, self._abort):
            while not self._leaving or any(post.process for post in self._posts):
                self._step()
        log.info("all worker processes have ended")
        return self._code

    @contextmanager
    def _woken_by_signals(self) -> Generator[None]:
        """Let each signal, a child's death included, end the waiting."""
        ours, pythons = socket.socketpair()
        ours.setblocking(False)
        pythons.setblocking(False)
        earlier = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        waker = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
        self._selector.register(ours, selectors.EVENT_READ, partial(_empty, ours))
        try:
            yield
        finally:
            signal.set_wakeup_fd(waker)
            signal.signal(signal.SIGCHLD, earlier)
            self._selector.close()
            ours.close()
            pythons.close()

    def _stop(self) -> None:
        self._told_to_stop = True

    def _hurry(self) -> None:
        self._told_to_hurry = True

    def _abort(self) -> None:
        self._aborted = True

    def _step(self) -> None:
        now = time.monotonic()
        self._follow_orders(now)
        for post in self._posts:
            self._look_at(post, now)
        if not self._leaving:
            self._fill(now)
            self._show_life(now)
        for key, _ in self._selector.select(self._patience(now)):
            key.data()

    def _patience(self, now: float) -> float:
        due = min([self._deadline, *(post.start_at for post in self._posts if post.process is None)])
        return max(0.0, min(LOOK_S, due - now))

    def _follow_orders(self, now: float) -> None:
        if self._aborted:
            self._leave(EXIT_INTERRUPTED)
            self._deadline = now
        elif self._told_to_stop and not self._leaving:
            log.info("told to stop: all worker processes drain, for up to %g s", self._settings.drain_timeout_s)
            self._leave(0)
        if self._told_to_hurry:
            self._told_to_hurry = False
            self._deadline = min(self._deadline, now + self._last_call_s())
            for post in self._posts:
                post.stop(hurry=True)
        if self._deadline <= now:
            self._kill_stragglers()

    def _leave(self, code: int) -> None:
        if self._leaving:
            self._code = self._code or code
            return
        self._leaving, self._code = True, code
        self._deadline = time.monotonic() + self._settings.drain_timeout_s + self._last_call_s()
        for post in self._posts:
            post.stop()

    def _last_call_s(self) -> float:
        """How long a worker may take after it has waited; hooks at its end have a limit of their own."""
        return STRAGGLE_S + max(post.hooks_s for post in self._posts)

    def _kill_stragglers(self) -> None:
        self._deadline = math.inf
        for post in self._posts:
            if post.process is not None:
                log.error("worker process %s has not ended in time and is killed", post)
                post.process.kill()
                # One that was still starting has nothing to put away.
                self._code = self._code or (KILLED if post.is_ready else 0)

    def _fill(self, now: float) -> None:
        for post in self._posts:
            if post.process is None and post.start_at <= now:
                self._start(post)
            if not any(each.has_been_ready for each in self._posts):
                break

    def _start(self, post: Post) -> None:
        try:
            wire = post.start()
        except OSError as error:
            log.error("worker process %d cannot be started and is tried again in %g s: %s",
                      post.number, post.retry(), error)  # fmt: skip
        else:
            self._selector.register(wire, selectors.EVENT_READ, partial(self._hear, post))

    def _hear(self, post: Post) -> None:
        assert post.process is not None
        if not post.hear():
            with suppress(KeyError):
                self._selector.unregister(post.process.wire)

    def _look_at(self, post: Post, now: float) -> None:
        if post.process is None or (death := post.process.ended()) is None:
            return
        with suppress(KeyError):
            self._selector.unregister(post.process.wire)
        if death.code != 0:
            # What its own processes have started in other sessions: nobody else is left to end it.
            post.process.end_kin()
        was_ready, name = post.is_ready, str(post)
        delay_s = post.vacate(now)
        if self._leaving:
            self._ended(name, death, was_ready=was_ready)
        elif death.code == EXIT_MISCONFIGURED and not was_ready:
            log.error("worker process %s cannot be set up, so that all end", name)
            self._leave(EXIT_MISCONFIGURED)
        else:
            log.warning("worker process %s %s; another takes its place in %g s", name, death, delay_s)

    def _ended(self, name: str, death: Death, *, was_ready: bool) -> None:
        log.info("worker process %s %s", name, death)
        # One that was told to stop while it was importing has nothing to put away.
        if death.code != 0 and was_ready and self._code == 0:
            self._code = death.code if death.code > 0 else 128 - death.code

    def _show_life(self, now: float) -> None:
        if now - self._touched_at >= LOOK_S and all(post.progresses(now) for post in self._posts):
            self._touched_at = now
            self._alive_file.touch()


def _own(settings: Settings, number: int) -> Settings:
    """The settings of one worker: what is the supervisor's is taken out."""
    worker_id = None if settings.worker_id is None else f"{settings.worker_id}-{number}"
    return replace(settings, worker_id=worker_id, worker_processes=1, alive_file=None)


def _empty(end: socket.socket) -> None:
    with suppress(BlockingIOError):
        end.recv(4096)
