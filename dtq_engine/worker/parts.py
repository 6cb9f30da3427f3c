"""The parts of a worker, each made with what it needs of the others."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from dtq_engine.config import Settings
from dtq_engine.connection import connect
from dtq_engine.model import WorkerInfo
from dtq_engine.registry import Registry
from dtq_engine.report import Book, Bounds
from dtq_engine.store import Store
from dtq_engine.timetable import definitions
from dtq_engine.worker.attendance import Absences, Attendance
from dtq_engine.worker.control import Control
from dtq_engine.worker.execution import Around
from dtq_engine.worker.executor import Executor
from dtq_engine.worker.failures import Failures
from dtq_engine.worker.finalize import Finalizer
from dtq_engine.worker.fleet import Fleet
from dtq_engine.worker.heartbeat import Heartbeat
from dtq_engine.worker.housekeeper import Housekeeper
from dtq_engine.worker.inflight import InFlight
from dtq_engine.worker.known_types import KnownTypes
from dtq_engine.worker.lifetime import Lifetime
from dtq_engine.worker.loop import Loop
from dtq_engine.worker.outage import Outage
from dtq_engine.worker.poll import Poll
from dtq_engine.worker.reaper import Reaper
from dtq_engine.worker.reports import Reporter, Reports
from dtq_engine.worker.scheduler import Scheduler, ScheduleWatch
from dtq_engine.worker.server import look
from dtq_engine.worker.watchdog import Watchdog

if TYPE_CHECKING:  # only a worker with tasks that run in processes imports it
    from dtq_engine.worker.children import Children, Ending

REAP_MOST_S = 5.0
POLL_LIVES_S = 15.0
LOOP_LIVES_S = 15.0


class Parts:
    """Composition without logic. `describe` says how the worker is, `give_up` ends it for a reason.

    `make_children` and `show_life` are what the executor and the watchdog want of them.
    """

    def __init__(
        self,
        *,
        worker_id: str,
        registry: Registry,
        settings: Settings,
        describe: Callable[[], WorkerInfo],
        give_up: Callable[[str], None],
        make_children: "Callable[[Ending], Children]",
        show_life: Callable[[], None],
    ) -> None:
        self._settings = settings
        self.connection = connect(settings)
        # What blocks in Redis has connections of its own, which are closed to end it.
        self.waiting = connect(settings)
        self.store = Store(self.connection, settings)
        self.outage = Outage(settings.visibility_timeout_s)
        self.periodic = definitions(registry, settings)
        self.types = KnownTypes(
            self.store, settings.worker_queues, registry.published(), self.periodic, registry.declared()
        )
        self.fleet = Fleet(self.store.workers.list, registry.schemas())
        self.inflight = InFlight(settings.worker_concurrency)
        self.book = Book(Bounds.of(settings))
        self.reporter = Reporter(self.store, self.book)
        self.reports = Reports(self.reporter, self.outage)
        around = Around(settings, self.book, self.store.steps.save)
        self.executor = Executor(registry, self.inflight, around, make_children)
        self.failures = Failures(registry.hooks, self.executor.event_loop)
        self.lifetime = Lifetime(registry.hooks, self.executor.event_loop)
        self.scheduler = Scheduler(self.store, self.outage, 2 * settings.heartbeat_interval_s)
        self.schedule_watch = ScheduleWatch(self.scheduler, self.store, self.waiting, self.outage)
        absences = Absences(self.store.crew, self.outage, 2 * settings.heartbeat_interval_s)
        self.housekeeper = Housekeeper(self.scheduler, self.store, absences, self.outage)
        self.finalizer = self._make_finalizer(registry)
        self.watchdog = self._make_watchdog(give_up, show_life)
        self.heartbeat = self._make_heartbeat(worker_id, describe)
        self.control = self._make_control(worker_id)
        self.poll = self._make_poll(worker_id)
        self.reaper = self._make_reaper(worker_id, registry)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All loops, in the order to start them."""
        keepers = (self.heartbeat, self.control, self.finalizer, self.watchdog, self.reports)
        return (*keepers, self.scheduler, self.schedule_watch, self.housekeeper, self.reaper, self.poll)

    def is_alive(self) -> bool:
        """Whether poll and heartbeat got round lately, and the event loop does."""
        if self.executor.event_loop.silent_s() >= LOOP_LIVES_S:
            return False
        now = time.monotonic()
        beat_lives_s = 3 * self._settings.heartbeat_interval_s + 5
        return now - self.poll.progressed_at < POLL_LIVES_S and now - self.heartbeat.progressed_at < beat_lives_s

    def queues_to_reap(self) -> Iterable[str]:
        """The worker's own queues, and for the leader those that no live worker serves."""
        yield from self._settings.worker_queues
        if self.scheduler.leads:
            served = {queue for info in self.store.workers.list() for queue in info.queues}
            served.update(self._settings.worker_queues)
            yield from (queue for queue in self.scheduler.queues if queue not in served)

    def _make_finalizer(self, registry: Registry) -> Finalizer:
        return Finalizer(
            store=self.store,
            inflight=self.inflight,
            fleet=self.fleet,
            failures=self.failures,
            reporter=self.reporter,
            outage=self.outage,
            registry=registry,
            max_lease_expiries=self._settings.max_lease_expiries,
        )

    def _make_watchdog(self, give_up: Callable[[str], None], show_life: Callable[[], None]) -> Watchdog:
        return Watchdog(
            inflight=self.inflight,
            executor=self.executor,
            give_up=give_up,
            is_alive=self.is_alive,
            show_life=show_life,
            outage=self.outage,
        )

    def _make_heartbeat(self, worker_id: str, describe: Callable[[], WorkerInfo]) -> Heartbeat:
        interval_s = self._settings.heartbeat_interval_s
        return Heartbeat(
            store=self.store,
            inflight=self.inflight,
            types=self.types,
            attendance=Attendance(self.store.crew, worker_id, self._settings.worker_queues),
            describe=describe,
            interrupt=self.executor.interrupt,
            outage=self.outage,
            interval_s=interval_s,
            ttl_s=max(self._settings.visibility_timeout_s, 3 * interval_s),
        )

    def _make_control(self, worker_id: str) -> Control:
        return Control(
            connection=self.connection,
            channel=self.store.keys.control_channel(worker_id),
            interrupt=self.executor.interrupt,
            outage=self.outage,
        )

    def _make_poll(self, worker_id: str) -> Poll:
        return Poll(
            worker_id=worker_id,
            queues=self._settings.worker_queues,
            waiting=self.waiting,
            store=self.store,
            inflight=self.inflight,
            types=self.types,
            run=self.executor.run,
            may_claim=self.watchdog.lets_claim,
            outage=self.outage,
        )

    def _make_reaper(self, worker_id: str, registry: Registry) -> Reaper:
        return Reaper(
            worker_id=worker_id,
            store=self.store,
            registry=registry,
            failures=self.failures,
            queues=self.queues_to_reap,
            server=partial(look, self.connection),
            outage=self.outage,
            rest_s=min(REAP_MOST_S, self._settings.visibility_timeout_s / 4),
            max_lease_expiries=self._settings.max_lease_expiries,
        )
