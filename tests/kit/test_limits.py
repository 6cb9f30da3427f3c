"""Limits in a test: they hold as in production, by the clock that the test moves."""

import pytest

from dtq_engine import Dtq


@pytest.fixture
def ask(dtq_app: Dtq):
    """A task under a rate, with a bucket for each account."""
    dtq_app.limit("account", rate=(2, 60))

    @dtq_app.task("ask", limit="account", limit_key="account")
    def ask(account: int) -> int:
        return account

    return ask


def results(dtq) -> list[int]:
    """Run what is due; the results in order."""
    return [dtq.app.handle(ran.id).result() for ran in dtq.run_all()]


def test_what_is_over_its_rate_runs_once_the_clock_has_come_so_far(dtq, ask):
    for account in (1, 1, 1, 2):
        ask.submit(account)
    assert results(dtq) == [1, 1, 2]
    dtq.advance(59)
    assert dtq.run_all() == []
    dtq.advance(1.1)
    assert results(dtq) == [1]


def test_running_to_the_end_waits_for_rates(dtq, ask):
    before = dtq.now()
    for _ in range(6):
        ask.submit(1)
    assert len(dtq.run_to_end()) == 6
    assert 119 < (dtq.now() - before).total_seconds() < 125


def test_running_to_the_end_waits_for_the_rate_of_a_queue(dtq, dtq_app):
    dtq_app.limit.queue("default", rate=(1, 10))

    @dtq_app.task("slow")
    def slow() -> None: ...

    before = dtq.now()
    for _ in range(4):
        slow.submit()
    assert len(dtq.run_to_end()) == 4
    assert 30 <= (dtq.now() - before).total_seconds() < 35


def test_a_limit_of_running_tasks_lets_them_run_one_after_the_other(dtq, dtq_app):
    dtq_app.limit("one", max_running=1)

    @dtq_app.task("step", limit="one")
    def step(number: int) -> int:
        return number

    for number in range(3):
        step.submit(number)
    assert results(dtq) == [0, 1, 2]
