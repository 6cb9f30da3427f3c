"""What a process that runs handlers sends to its worker beside outcomes: what they say, and what they save."""

import itertools
import threading
import time
from contextlib import suppress
from queue import SimpleQueue

from dtq_engine.errors import ClaimLost, DtqError, RedisUnavailable
from dtq_engine.model import Claim
from dtq_engine.report import Book, Bounds
from dtq_engine.worker.execution import Execution
from dtq_engine.worker.messages import Save, Saved, Says, ToChild
from dtq_engine.worker.wire import Wire

REST_S = 0.5


class Uplink:
    """The process's side. Its thread starts with the first handler that says something."""

    def __init__(self, wire: Wire[ToChild], bounds: Bounds) -> None:
        self.book = Book(bounds, self._opened)
        self._wire = wire
        self._numbers = itertools.count(1)
        self._asked: dict[int, SimpleQueue[Saved]] = {}
        self._telling = threading.Lock()
        self._spoken = threading.Event()
        self._thread: threading.Thread | None = None

    def save(self, _claim: Claim, field: str, value: bytes, first: bool) -> bool:
        """Have the worker save something; raises as `store.steps.save`."""
        number, answers = next(self._numbers), SimpleQueue[Saved]()
        self._asked[number] = answers
        try:
            self._wire.send(Save(number, field, value, first))
            answer = answers.get()
        finally:
            del self._asked[number]
        if answer.lost is not None:
            raise ClaimLost(answer.lost)
        if answer.away is not None:
            raise RedisUnavailable(answer.away)
        if answer.failed is not None:
            raise DtqError(answer.failed)
        return answer.kept

    def heard(self, answer: Saved) -> None:
        """The worker has answered; a handler that was interrupted does not wait for it any more."""
        if (answers := self._asked.get(answer.number)) is not None:
            answers.put(answer)

    def conclude(self) -> None:
        """Tell the last of what the handler said, which has ended."""
        if reports := self.book.all():
            for report in reports:
                report.closed = True
            self._tell()
            self.book.remove(reports)

    def _tell(self) -> None:
        with self._telling:
            for report in self.book.all():
                if (said := report.said()) is not None:
                    self._wire.send(Says(said))
                    report.told(said)

    def _opened(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="dtq-uplink", daemon=True)
            self._thread.start()
        self._spoken.set()

    def _work(self) -> None:
        while True:
            self._spoken.wait()
            self._spoken.clear()
            while self.book.all():
                with suppress(OSError):  # the worker is gone, and this process soon
                    self._tell()
                time.sleep(REST_S)


def saved(execution: Execution, wish: Save) -> Saved:
    """The worker's side: save it for the execution, and say what became of it."""
    try:
        return Saved(wish.number, execution.save(wish.field, wish.value, wish.first))
    except ClaimLost as error:
        return Saved(wish.number, lost=str(error))
    except RedisUnavailable as error:
        return Saved(wish.number, away=str(error))
    except Exception as error:
        return Saved(wish.number, failed=f"{type(error).__name__}: {error}")
