"""The worker's life, from start to exit."""

import logging
import math
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dtq_engine.config import Settings
from dtq_engine.engine import Dtq
from dtq_engine.errors import ConfigurationError
from dtq_engine.model import WorkerInfo
from dtq_engine.report import Listener
from dtq_engine.worker import checks
from dtq_engine.worker.alive import AliveFile
from dtq_engine.worker.drain import Drain
from dtq_engine.worker.memory import resident_kib
from dtq_engine.worker.parts import Parts
from dtq_engine.worker.server import ServerFacts, look
from dtq_engine.worker.signals import Signals

if TYPE_CHECKING:
    from dtq_engine.worker.children import Children, Ending

log = logging.getLogger("dtq.worker")

EXIT_OK = 0
EXIT_STUCK = 75
LOOK_S = 0.5


class Worker:
    """Claims tasks of its queues and runs their handlers until it is told to stop.

    `run` does it all in this thread. `start`, `stop` and `join` are for a worker within another program.
    `show_life` is called once a second while the worker makes progress, instead of touching the alive file.
    """

    def __init__(self, app: Dtq, settings: Settings, show_life: Callable[[], None] | None = None) -> None:
        self.id = settings.worker_id or _new_id()
        self._app = app
        self._settings = settings
        self._alive_file = AliveFile(settings)
        self._types = app.registry.types()
        self._schemas = app.registry.schemas()
        self.parts = Parts(
            worker_id=self.id,
            registry=app.registry,
            settings=settings,
            describe=self.describe,
            give_up=self._give_up,
            make_children=self._make_children,
            show_life=show_life or self._alive_file.touch,
        )
        self._periodic = {each.name: each.digest for each in self.parts.periodic}
        # Plain flags and a SimpleQueue: a signal handler must not touch a lock that its own thread may hold.
        self._leaving = False
        self._hurried = False
        self._orders: SimpleQueue[None] = SimpleQueue()
        self._ended = threading.Event()
        self._code = EXIT_OK
        self._started_ms = 0
        self._listener = Listener(self.parts.book, settings.task_logs)

    def run(self) -> int:
        """Work until SIGTERM, SIGINT or `stop`, drain, and return the exit code; raises as `start` does.

        0, or 75 when stuck threads made the worker give up and a new process should take its place. Handlers
        may still run after that: end the process by `os._exit`.
        """
        with Signals(self.stop, self.hurry):
            self.start()
            return self.join()

    def start(self) -> None:
        """Begin to work; returns as soon as Redis answers and all loops run, or `stop` was called.

        Raises ConfigurationError when there is nothing to run, or this Redis will not do, and HookFailed.
        """
        if not self._types:
            raise ConfigurationError(["The app has no tasks: let DTQ_TASKS name the module that registers them."])
        self._alive_file.check()
        if self._app.registry.isolates:
            from dtq_engine.worker import origin  # as `_make_children` does

            origin.check(self._app, self._settings)
        server = checks.once_reachable(self._meet, self._is_leaving)
        if server is None or not self._call_hooks() or not checks.once_reachable(self._introduce, self._is_leaving):
            self._abandon()
            return
        self._listener.listen()
        for loop in self.parts.loops:
            loop.start()
        self._announce(server)
        threading.Thread(target=self._live, name="dtq-life", daemon=True).start()

    def stop(self) -> None:
        """Ask the worker to drain and end; any thread and any signal handler may do so."""
        self._leaving = True
        self._orders.put(None)

    def hurry(self) -> None:
        """Have a worker that was told to stop wait for running tasks no longer."""
        self._hurried = True

    def join(self, timeout_s: float | None = None) -> int:
        """Wait for the end that `stop` asks for; the exit code. Raises TimeoutError."""
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        # In short waits: Python overlooks a signal that comes as the main thread is about to block in a lock.
        while not self._ended.wait(min(LOOK_S, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                raise TimeoutError(f"the worker {self.id} still runs")
        return self._code

    def describe(self) -> WorkerInfo:
        """What the worker says of itself at this moment."""
        return self._describe(self.parts.store.now_ms())

    def _describe(self, seen_ms: int) -> WorkerInfo:
        return WorkerInfo(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=self._settings.worker_queues,
            concurrency=self._settings.worker_concurrency,
            release=self._settings.release,
            types=self._types,
            in_flight=self.parts.inflight.taken,
            finished=self.parts.inflight.finished,
            state="draining" if self._leaving else "running",
            started_ms=self._started_ms,
            seen_ms=seen_ms,
            schemas=self._schemas,
            periodic=self._periodic,
            memory_kib=resident_kib(),
            overdue=self.parts.inflight.overdue,
        )

    def _meet(self) -> ServerFacts:
        with self.parts.outage.exchange():
            server = look(self.parts.connection)
        checks.check_server(server, self._settings)
        self._started_ms = self.parts.store.now_ms()
        return server

    def _call_hooks(self) -> bool:
        """Before anyone hears of this worker: what its hooks prepare may take minutes, or fail."""
        self.parts.executor.start()
        try:
            return self.parts.lifetime.begin(self._describe(self._started_ms), self._is_leaving)
        except BaseException:
            self._abandon()
            raise

    def _introduce(self) -> bool:
        self.parts.types.announce()
        self._look_for_namesakes()
        self.parts.heartbeat.step()
        return True

    def _abandon(self) -> None:
        """End before anything was claimed."""
        self.parts.lifetime.end(self._is_hurried)
        self.parts.executor.stop()
        self._ended.set()

    def _look_for_namesakes(self) -> None:
        # Refusing would keep a killed worker from coming back under its name before its entry is gone.
        me = self.describe()
        for info in self.parts.store.workers.list():
            same_host = info.host == me.host
            if info.id == self.id and not (same_host and (info.pid == me.pid or _is_gone(info.pid))):
                log.warning(
                    "another worker is called %s (host %s, process %d): give each its own DTQ_WORKER_ID",
                    info.id,
                    info.host,
                    info.pid,
                )

    def _live(self) -> None:
        self._orders.get()
        try:
            Drain(self.parts, self._settings.drain_timeout_s, self._is_hurried).run()
            log.info("worker %s has ended", self.id)
        finally:
            self._listener.leave()
            self._ended.set()

    def _is_leaving(self) -> bool:
        return self._leaving

    def _is_hurried(self) -> bool:
        return self._hurried

    def _give_up(self, reason: str) -> None:
        log.error("worker %s gives up so that a new process can take its place: %s", self.id, reason)
        self._code = EXIT_STUCK
        self.stop()

    def _make_children(self, end: "Ending") -> "Children":
        # Imported for those only that have tasks which run in processes.
        from dtq_engine.worker import origin
        from dtq_engine.worker.children import Children

        return Children(partial(origin.welcome, self._app, self._settings), self._settings.worker_concurrency, end)

    def _announce(self, server: ServerFacts) -> None:
        address = urlsplit(self._settings.redis_url)
        log.info(
            "worker %s is ready: %d slots, queues %s, %d task types, %s at %s%s",
            self.id,
            self._settings.worker_concurrency,
            ",".join(self._settings.worker_queues),
            len(self._types),
            server.title,
            address.netloc.rpartition("@")[2] or address.path,
            f", release {self._settings.release}" if self._settings.release else "",
        )


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is somebody else's
        return False
    return False


def _new_id() -> str:
    host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname()).strip("-._")[:40] or "worker"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
