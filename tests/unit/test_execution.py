"""How long an execution has run, and when it is kept for however long that is."""

import time

import pytest

from dtq_engine.config import Settings
from dtq_engine.isolation import Isolation
from dtq_engine.model import Claim, RetryPolicy
from dtq_engine.registry import Handler
from dtq_engine.report import Book, Bounds
from dtq_engine.worker.execution import UNWIND_S, Around, Execution


def work() -> None: ...


def execution(*, isolated: bool, claimed_s_ago: float) -> Execution:
    """One with a timeout of 10 s."""
    claim = Claim("t1", "default", "work", b"{}", "", "1-0", 5, 1, 1, "w1", 0, 0, 10_000, 10_000, 30_000, RetryPolicy())
    handler = Handler("work", work, isolation=Isolation(max_tasks=1, max_rss_kib=None) if isolated else None)
    settings = Settings()
    around = Around(settings, Book(Bounds.of(settings)), lambda _claim, _name, _value, _once: True)
    return Execution(claim, handler, time.monotonic() - claimed_s_ago, around)


@pytest.mark.parametrize("after_s", [5, 11, 300])
def test_while_its_process_starts_it_has_no_deadline_and_is_kept(after_s: float) -> None:
    waiting = execution(isolated=True, claimed_s_ago=after_s)
    assert waiting.deadline > time.monotonic() + 1e9
    assert waiting.ran_ms(time.monotonic()) is None


def test_once_called_it_has_its_time_from_there_and_is_kept_until_it_must_be_dead() -> None:
    called = execution(isolated=True, claimed_s_ago=60)
    called.start_clock()
    assert time.monotonic() + 9 < called.deadline < time.monotonic() + 11
    assert called.ran_ms(time.monotonic()) is None
    assert called.ran_ms(called.deadline + UNWIND_S - 0.1) is None
    assert called.ran_ms(called.deadline + UNWIND_S) == 15_000


@pytest.mark.parametrize("after_s", [5, 11, 300])
def test_what_runs_in_the_worker_itself_has_run_since_its_claim_and_a_thread_that_does_not_return_is_kept(
    after_s: float,
) -> None:
    running = execution(isolated=False, claimed_s_ago=after_s)
    assert running.ran_ms(time.monotonic()) == pytest.approx(after_s * 1000, abs=500)
    running.overdue_since = time.monotonic()
    assert running.ran_ms(time.monotonic()) is None
