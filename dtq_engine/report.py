"""What an execution says of itself, its progress and its log lines: gathered in memory, sent by whoever runs it.

A handler may say a million things a second. Of its progress only the latest counts; of its lines as many wait as are
kept at all, and the oldest give way. Lines are numbered as they come, so that who reads them sees which are missing.
"""

import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from dtq_engine.config import Settings
from dtq_engine.copies import in_copies
from dtq_engine.errors import InvalidReport
from dtq_engine.model import Claim, Said
from dtq_engine.store.progress import MOST, pack_line

NOTE_MAX = 200
"""Characters of a note that are kept."""

Key = tuple[str, str]
Amount = tuple[float, float | None, str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many lines wait of one execution, how many bytes of each, and how many in all."""

    lines: int
    line_bytes: int
    all_bytes: int

    @classmethod
    def of(cls, settings: Settings) -> "Bounds":
        """What the settings say."""
        return cls(settings.task_log_lines, settings.task_log_line_bytes, settings.task_log_bytes)


class Book:
    """The reports of executions that have something to say; `opened` is called when one is the first."""

    def __init__(self, bounds: Bounds, opened: Callable[[], None] = lambda: None) -> None:
        self.bounds = bounds
        self.lock = threading.Lock()
        self._opened = opened
        self._reports: dict[Key, Report] = {}
        in_copies(self._unlock)

    def _unlock(self) -> None:
        # Another thread may have held it; what a copy says is heard by nobody, but must not hang.
        self.lock = threading.Lock()

    def enter(self, report: "Report") -> None:
        """From now on this one has something to say."""
        self._reports[report.claim.key] = report
        self._opened()

    def all(self) -> "list[Report]":
        """The reports that are open."""
        return list(self._reports.values()) if self._reports else []

    def of(self, claims: Iterable[Claim]) -> "list[Report]":
        """The reports of these executions, of those that have one."""
        return [self._reports[claim.key] for claim in claims if claim.key in self._reports] if self._reports else []

    def remove(self, reports: "Iterable[Report]") -> None:
        """Nothing more is to be heard of these."""
        for report in reports:
            report.closed = True
            self._reports.pop(report.claim.key, None)


class Report:
    """What one execution has said and nobody has been told yet; safe for all threads.

    Nothing is kept once it is `closed`.
    """

    __slots__ = ("_book", "_bytes", "_entered", "_lines", "_number", "_started", "_told", "amount", "claim", "closed")

    def __init__(self, claim: Claim, started: float, book: Book) -> None:
        """`started`: the monotonic time at which the execution started."""
        self.claim = claim
        self.amount: Amount | None = None
        self.closed = False
        self._started = started
        self._book = book
        self._told: Amount | None = None
        self._entered = False
        self._lines: deque[tuple[int, bytes]] | None = None
        self._number = 0
        self._bytes = 0

    def progress(self, done: float, total: float | None, note: str) -> None:
        """It is so far. Raises InvalidReport for what is no amount."""
        try:
            sound = 0 <= done <= MOST and (total is None or 0 <= total <= MOST)
        except (TypeError, ValueError):
            sound = False
        if not sound or not isinstance(note, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidReport(_problem(done, total, note))
        self.amount = (done, total, note)
        if not self._entered:
            self._enter()

    def log(self, level: str, logger: str, message: str) -> None:
        """It has logged this."""
        bounds = self._book.bounds
        line = pack_line(self._now_ms(), level, logger, message, bounds.line_bytes)
        with self._book.lock:
            self._add(self._number + 1, line)
        if not self._entered:
            self._enter()

    def take(self, said: Said) -> None:
        """It has said this in another process."""
        if said.progress is not None:
            self.amount = said.progress[:3]
        with self._book.lock:
            for number, line in said.lines:
                if number > self._number:
                    self._add(number, line)
        if not self._entered:
            self._enter()

    def said(self) -> Said | None:
        """What nobody has been told yet; None if that is nothing."""
        amount, progress = self.amount, None
        if amount is not None and amount is not self._told:
            done, total, note = amount
            progress = (_plain(done), None if total is None else _plain(total), note[:NOTE_MAX], self._now_ms())
            self._told = amount
        with self._book.lock:
            lines = tuple(self._lines or ())
        return Said(progress, lines) if progress is not None or lines else None

    def told(self, said: Said) -> None:
        """All of it has arrived."""
        if said.lines:
            with self._book.lock:
                while self._lines and self._lines[0][0] <= said.lines[-1][0]:
                    self._drop()

    def untold(self, said: Said) -> None:
        """It may not have arrived, and is to be said again."""
        if said.progress is not None:
            self._told = None

    def is_in(self, book: Book) -> bool:
        """Whether this is where it says what it says."""
        return self._book is book

    def _enter(self) -> None:
        self._entered = True
        if not self.closed:
            self._book.enter(self)

    def _add(self, number: int, line: bytes) -> None:
        bounds = self._book.bounds
        self._number = number
        if self.closed or not bounds.lines:
            return
        self._lines = self._lines if self._lines is not None else deque()
        self._lines.append((number, line))
        self._bytes += len(line)
        while len(self._lines) > bounds.lines or (self._bytes > bounds.all_bytes and len(self._lines) > 1):
            self._drop()

    def _drop(self) -> None:
        assert self._lines is not None
        self._bytes -= len(self._lines.popleft()[1])

    def _now_ms(self) -> int:
        # The start is by Redis' clock; adding the time that passed here keeps to that clock.
        return self.claim.started_ms + round((time.monotonic() - self._started) * 1000)


class Speaker(Protocol):
    """An execution, whose report is made when it is first asked for."""

    @property
    def report(self) -> Report:
        """What it says of itself."""
        ...


speaker: contextvars.ContextVar[Speaker | None] = contextvars.ContextVar("dtq_speaker", default=None)
"""The execution that runs here: in its handler, and in what that starts by asyncio or `asyncio.to_thread`."""


class Listener(logging.Handler):
    """Keeps the log records of handlers with their tasks; on the root logger while a worker runs."""

    def __init__(self, book: Book, level: str) -> None:
        """`level`: of the least severe records that are kept; OFF for none."""
        super().__init__(logging.CRITICAL + 1 if level == "OFF" else level)
        self._is_off = level == "OFF" or not book.bounds.lines
        self._book = book

    def listen(self) -> None:
        """Begin."""
        if not self._is_off:
            logging.getLogger().addHandler(self)

    def leave(self) -> None:
        """End."""
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record, if it is of a handler that runs here."""
        execution = speaker.get()
        if execution is None or not execution.report.is_in(self._book):
            return
        try:
            text = record.getMessage()
            if record.exc_info:
                text += "\n" + _formatter.formatException(record.exc_info)
            execution.report.log(record.levelname, record.name, text)
        except Exception:
            self.handleError(record)


_formatter = logging.Formatter()


def level_name(level: str | int) -> str:
    """A level as the standard library calls it. Raises InvalidReport for one that there is not."""
    name = logging.getLevelName(level) if isinstance(level, int) else str(level).upper()
    if name not in logging.getLevelNamesMapping():
        raise InvalidReport(f"{level!r:.80} is no level of a log line: use debug, info, warning, error or critical.")
    return name


def _plain(amount: float) -> float:
    """An amount of any kind as one that JSON knows."""
    return amount if type(amount) is int else float(amount)


def _problem(done: object, total: object, note: object) -> str:
    if not isinstance(note, str):
        return f"The note of a progress must be text, not {note!r:.80}."
    wrong = "done" if not _is_amount(done) else "total"
    value = done if wrong == "done" else total
    return f"{wrong} of a progress cannot be {value!r:.80}: use a number from 0 to {MOST:.0e}."


def _is_amount(value: object) -> bool:
    try:
        return bool(0 <= value <= MOST)  # type: ignore[operator]
    except (TypeError, ValueError):
        return False
