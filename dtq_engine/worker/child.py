"""A process that runs handlers for a worker, one at a time, in its main thread, where they can be interrupted.

It never speaks to the queue: claims come without their tokens, and outcomes go back to the worker. It runs them by an
executor as the worker's own, so that hooks, errors and retry callbacks are those of any other task.
"""

import asyncio
import contextvars
import errno
import faulthandler
import fcntl
import importlib
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, NoReturn

import msgspec

from dtq_engine import logs
from dtq_engine.codec import describe_error
from dtq_engine.copies import SIGNALS, Disowned
from dtq_engine.engine import Dtq, load_app
from dtq_engine.errors import ConfigurationError
from dtq_engine.model import Block, Claim, Outcome, Raised, Release
from dtq_engine.report import Bounds, Listener
from dtq_engine.worker.execution import Around, Cause
from dtq_engine.worker.executor import Executor
from dtq_engine.worker.inflight import InFlight
from dtq_engine.worker.messages import (
    Begun,
    Ended,
    Interrupt,
    Job,
    Leave,
    Ready,
    Saved,
    Stopping,
    ToChild,
    Unfit,
    Welcome,
)
from dtq_engine.worker.spawn import ASKED, CUT_OFF, kib
from dtq_engine.worker.uplink import Uplink
from dtq_engine.worker.wire import Wire

log = logging.getLogger("dtq.worker")

PRESS_S = 0.1
# They have a limit of a second, but a busy machine may not keep to it.
CALLBACK_S = 10.0
# When memory runs out, the kernel shall take the process that uses it up, not the worker, which holds all tasks.
OOM_SCORE = 500


def main(end: int, leash: int, greeting: bytes) -> None:
    """Serve the worker at the other end of this socket until it has no more work."""
    fasten(leash)
    os.set_inheritable(end, False)
    welcome = msgspec.json.decode(greeting, type=Welcome)
    if sys.stdout is not None:
        # Lines go out as they are written: the process may be killed at any moment.
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if sys.stderr is not None:
        faulthandler.enable()
        # Until the app is imported, the worker asks by this signal where that hangs.
        faulthandler.register(ASKED)
    logs.configure(welcome.settings, f"{welcome.label} pid {os.getpid()}".lstrip())
    volunteer()
    try:
        Child(Wire(socket.socket(fileno=end), ToChild), welcome).run()
    except OSError as error:
        end_cut_off(error)


def end_cut_off(error: OSError) -> NoReturn:
    """End this process, which cannot speak to its worker any more, whatever runs in it."""
    log.error("this process ends because it cannot speak to its worker any more (%s)", error)
    os._exit(CUT_OFF)


def fasten(leash: int) -> None:
    """Have the kernel end this process and its group with the worker, even while native code runs here.

    The worker holds the other end of this pipe, and nothing is ever written to it: all that can happen is its end.
    """
    os.set_inheritable(leash, False)
    if hasattr(fcntl, "F_SETSIG"):  # elsewhere it is SIGIO, which ends a process as well unless that handles it
        fcntl.fcntl(leash, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(leash, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(leash, fcntl.F_SETFL, fcntl.fcntl(leash, fcntl.F_GETFL) | os.O_ASYNC)


def volunteer() -> None:
    """Be the first that the kernel takes when memory runs out."""
    score = Path("/proc/self/oom_score_adj")
    with suppress(OSError, ValueError):
        score.write_text(str(max(OOM_SCORE, int(score.read_text()))))


def rss_kib() -> int:
    """The memory that this process uses; where the system does not say, the most it has used."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024
    except OSError:
        return kib(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


class Child:
    """The main thread runs handlers; another listens to the worker meanwhile."""

    def __init__(self, wire: Wire[ToChild], welcome: Welcome) -> None:
        self._wire = wire
        self._welcome = welcome
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._inflight = InFlight(1)
        self._uplink = Uplink(wire, Bounds.of(welcome.settings))
        self._runner = asyncio.Runner()
        self._task: asyncio.Task[None] | None = None
        self._cause: Cause | None = None
        self._interrupted = False
        self._over = threading.Event()
        self._home = ""

    def run(self) -> None:
        """Run what the worker sends until it sends no more."""
        self._listen_to_signals()
        self._disowned = Disowned(self._on_term)
        try:
            app = self._load()
        except ConfigurationError as error:
            self._wire.send(Unfit(str(error)))
            return
        settings = self._welcome.settings
        self._around = Around(settings, self._uplink.book, self._uplink.save)
        self._executor = Executor(app.registry, self._inflight, self._around)
        Listener(self._uplink.book, settings.task_logs).listen()
        faulthandler.unregister(ASKED)
        with suppress(OSError):  # it may be gone
            self._home = str(Path.cwd())
        self._wire.send(Ready(rss_kib()))
        threading.Thread(target=self._listen, name="dtq-listen", daemon=True).start()
        while (job := self._jobs.get()) is not None:
            if app.registry.get(job.claim.type) is None:
                self._wire.send(Unfit(f"importing {self._welcome.app} registers no task {job.claim.type} here."))
                return
            outcome = self._outcome_of(job)
            self._uplink.conclude()
            self._flush()
            self._wire.send(Ended.of(outcome, rss_kib()))
        self._runner.close()

    def _forget_the_one_before(self) -> None:
        """Undo what a handler may have made of the process, as far as it hinders the next one."""
        self._listen_to_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        signal.setitimer(signal.ITIMER_REAL, 0)
        with suppress(OSError):  # somebody has removed the folder
            os.chdir(self._home)

    def _listen_to_signals(self) -> None:
        # Whoever signals all processes of a machine means the worker: it drains, and decides about this one.
        for number in SIGNALS:
            signal.signal(number, self._on_term)

    def _load(self) -> Dtq:
        app = load_app(self._welcome.app)
        for module in self._welcome.modules:
            importlib.import_module(module)
        app.configure(self._welcome.app_settings)
        return app

    def _outcome_of(self, job: Job) -> Outcome | None:
        """How a job ended; None if it gave way to an interrupt."""
        claim = job.claim
        if job.stopping:
            self._around.stopping.set()
        self._forget_the_one_before()
        self._wire.send(Begun())
        try:
            if self._cause is not None:
                return None
            self._run(claim)
        except BaseException as error:
            # It was interrupted where no handler is any more; anything else is an error of ours.
            return self._ended(0) or (None if self._cause else Raised(describe_error(error)))
        finally:
            self._over.set()
        ended = self._ended(CALLBACK_S)
        if ended is None and self._cause is None:
            return Raised(describe_error(TimeoutError("how the handler ended is not known: its retry callback hung.")))
        return ended

    def _run(self, claim: Claim) -> None:
        # In a context of its own, so that no task sees the context variables of the one before it.
        context = contextvars.copy_context()
        coroutine = context.run(self._executor.run_here, claim)
        if coroutine is not None:
            self._runner.run(self._hold(coroutine), context=context)

    async def _hold(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.current_task()
        try:
            await coroutine
        finally:
            self._task = None

    def _ended(self, patience_s: float) -> Outcome | None:
        left = [each for each in self._inflight.running() if self._inflight.remove(each)]
        try:
            # A retry callback may still be asked about it.
            ended = None if left else self._inflight.ended.get(timeout=patience_s)
        except Empty:
            ended = None
        self._inflight.raised.clear()
        self._inflight.release(self._inflight.taken)
        return None if ended is None or isinstance(ended[1], Block | Release) else ended[1]

    def _listen(self) -> None:
        try:
            for message in self._wire.listen():
                self._take(message)
        except OSError as error:
            if error.errno == errno.EBADF:  # a handler has closed it
                end_cut_off(error)
        except (EOFError, msgspec.MsgspecError):
            pass
        # The worker is gone, and with it the right to go on; what the handler has started goes too.
        os.killpg(os.getpgrp(), signal.SIGKILL)

    def _take(self, message: ToChild) -> None:
        match message:
            case Job():
                self._cause, self._interrupted = None, False
                self._over.clear()
                self._jobs.put(message)
            case Interrupt(cause, notice_s):
                self._cause = Cause[cause]
                for execution in self._inflight.running():
                    self._executor.interrupt(execution.key, self._cause)
                threading.Thread(target=self._press, args=(notice_s,), name="dtq-press", daemon=True).start()
            case Stopping():
                self._around.stopping.set()
            case Saved():
                self._uplink.heard(message)
            case Leave():
                self._jobs.put(None)

    def _press(self, notice_s: float) -> None:
        self._over.wait(notice_s)
        main = threading.main_thread().ident
        assert main is not None
        # Again and again: Python overlooks a signal that comes as a thread is about to block.
        while not self._over.is_set():
            signal.pthread_kill(main, signal.SIGTERM)
            self._over.wait(PRESS_S)

    def _on_term(self, _number: int, _frame: FrameType | None) -> None:
        if self._cause is None or self._interrupted or not self._inflight.running():
            return
        self._interrupted = True
        if self._task is None:
            raise asyncio.CancelledError(self._cause.value)
        self._task.get_loop().call_soon_threadsafe(self._task.cancel, self._cause.value)

    def _flush(self) -> None:
        # A handler may have closed it, or put anything in its place.
        with suppress(Exception):
            sys.stdout.flush()
