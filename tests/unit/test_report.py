"""What an execution says of itself, on its way from the handler to whoever sends it."""

import os
import signal
import time
from typing import Any

import pytest

from dtq_engine import InvalidReport
from dtq_engine.model import Claim, RetryPolicy
from dtq_engine.report import Book, Bounds, Report


def report(*, lines: int = 10, all_bytes: int = 10_000, book: Book | None = None) -> Report:
    """That of an execution that begins now."""
    claim = Claim("t1", "default", "work", b"{}", "", "1-0", 5, 1, 1, "w1", 0, 0, 10_000, 10_000, 30_000, RetryPolicy())
    book = book or Book(Bounds(lines=lines, line_bytes=1_000, all_bytes=all_bytes))
    return Report(claim, time.monotonic(), book)


def messages(of: Report) -> list[bytes]:
    """The lines that nobody has been told yet."""
    said = of.said()
    return [] if said is None else [line.partition(b"\n")[2] for _, line in said.lines]


class Safe(str):
    """Text of a class of its own, as web frameworks have it."""

    __slots__ = ()


def test_a_note_may_be_text_of_any_class() -> None:
    of = report()
    of.progress(1, 2, Safe("half"))
    said = of.said()
    assert said is not None
    assert said.progress is not None
    assert said.progress[:3] == (1, 2, "half")
    assert type(said.progress[2]) is str


@pytest.mark.parametrize(
    ("amounts", "problem"),
    [
        ((-1, None, ""), "done of a progress cannot be -1"),
        (("1", None, ""), "done of a progress cannot be '1'"),
        ((1, float("nan"), ""), "total of a progress cannot be nan"),
        ((1, None, 3), "The note of a progress must be text, not 3"),
        ((1, 2, None), "The note of a progress must be text, not None"),
    ],
)
def test_what_is_no_progress_is_named(amounts: tuple[Any, Any, Any], problem: str) -> None:
    of = report()
    with pytest.raises(InvalidReport, match=problem):
        of.progress(*amounts)
    assert of.said() is None


def test_of_lines_the_latest_wait_as_many_as_are_kept() -> None:
    of = report(lines=2)
    for word in "abc":
        of.log("INFO", "", word)
    assert messages(of) == [b"b", b"c"]
    full = report(all_bytes=100)
    for word in "abc":
        full.log("INFO", "", word * 50)
    assert messages(full) == [b"c" * 50]


def test_what_did_not_arrive_is_said_again_and_what_arrived_is_not() -> None:
    of = report()
    of.progress(1, None, "")
    of.log("INFO", "", "a")
    first = of.said()
    assert first is not None
    of.untold(first)
    again = of.said()
    assert again is not None
    assert again.progress is not None
    assert again.lines == first.lines
    of.log("INFO", "", "b")
    of.told(again)
    assert messages(of) == [b"b"]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_copy_of_the_process_says_nothing_but_does_not_hang() -> None:
    book = Book(Bounds(lines=10, line_bytes=1_000, all_bytes=10_000))
    of = report(book=book)
    with book.lock:  # as another thread may, at the moment of the fork
        copy = os.fork()
        if copy == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)
            of.log("INFO", "", "from a copy")
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 0
    assert messages(of) == []
