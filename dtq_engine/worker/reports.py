"""Sending what executions say of themselves to Redis: in the background, and before their outcome is recorded."""

import logging
import threading
from collections.abc import Collection, Iterable

from dtq_engine.errors import DtqError, RedisUnavailable
from dtq_engine.model import Claim, Said
from dtq_engine.report import Book, Report
from dtq_engine.store import Store
from dtq_engine.worker.loop import Loop
from dtq_engine.worker.outage import Outage

log = logging.getLogger("dtq.worker")

REST_S = 0.5


class Reporter:
    """Sends what the reports of a book have to say, all of a queue in one call."""

    def __init__(self, store: Store, book: Book) -> None:
        self._store = store
        self._book = book
        # What was said last must not be overtaken by what was said before.
        self._sending = threading.Lock()

    def send(self) -> None:
        """Send all that is new. Raises RedisUnavailable; it is said again the next time then."""
        if reports := self._book.all():
            with self._sending:
                self._send(reports)

    def conclude(self, claims: Iterable[Claim]) -> None:
        """Send the last of what these executions said, which end; raises as `send` does, to be called again then."""
        if reports := self._book.of(claims):
            for report in reports:
                report.closed = True
            with self._sending:
                self._send(reports)
            self._book.remove(reports)

    def _send(self, reports: Collection[Report]) -> None:
        queues: dict[str, list[tuple[Report, Said]]] = {}
        for report in reports:
            if (said := report.said()) is not None:
                queues.setdefault(report.claim.queue, []).append((report, said))
        try:
            for queue in list(queues):
                self._send_to(queue, queues[queue])
                del queues[queue]
        finally:
            for report, said in (each for items in queues.values() for each in items):
                report.untold(said)

    def _send_to(self, queue: str, items: Collection[tuple[Report, Said]]) -> None:
        lost: Collection[tuple[str, str]] = ()
        try:
            lost = self._store.reports.report(queue, [(report.claim, said) for report, said in items])
        except RedisUnavailable:
            raise
        except DtqError as error:
            # Its tasks go on, and their outcomes count, whatever keeps the queue from hearing of them.
            log.error("what tasks of the queue %s say of themselves is lost: %s", queue, error)
        for report, said in items:
            report.told(said)
        self._book.remove(report for report, _ in items if report.claim.key in lost)


class Reports(Loop):
    """Sends twice a second, if there is anything to send."""

    name = "reports"

    def __init__(self, reporter: Reporter, outage: Outage) -> None:
        super().__init__(outage, REST_S)
        self._reporter = reporter

    def step(self) -> None:
        """Send what is new."""
        self._reporter.send()
