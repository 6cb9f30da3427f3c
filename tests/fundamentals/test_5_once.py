"""Chapter 5: submitting the same thing twice, on purpose or not."""

import pytest

from dtq_engine import IdempotencyMismatch, TaskStatus


@pytest.fixture
def bill(app):
    runs = []

    @app.task("bill")
    def bill(account_id: int) -> int:
        runs.append(account_id)
        return len(runs)

    return bill


def test_a_repeated_idempotency_key_makes_no_second_task(bill, start_worker):
    october = bill.options(idempotency_key="bill-7-2026-10")
    first, second = october.submit(7), october.submit(7)
    assert second.id == first.id
    assert (first.duplicate, second.duplicate) == (False, True)
    start_worker()
    assert (first.result(timeout=10), second.result(timeout=10)) == (1, 1)


def test_the_key_is_remembered_after_the_task_has_ended(bill, start_worker):
    october = bill.options(idempotency_key="bill-7-2026-10")
    first = october.submit(7)
    start_worker()
    assert first.result(timeout=10) == 1
    again = october.submit(7)
    assert (again.id, again.status()) == (first.id, TaskStatus.SUCCEEDED)


def test_the_same_key_for_something_else_is_an_error(bill):
    october = bill.options(idempotency_key="bill-7-2026-10")
    first = october.submit(7)
    with pytest.raises(IdempotencyMismatch, match="use a new key for a new task"):
        october.submit(8)
    first.cancel()


def test_an_id_of_ones_own_makes_a_submit_safe_to_repeat(bill):
    mine = bill.options(id="bill-7-2026-10")
    first, second = mine.submit(7), mine.submit(7)
    assert first.id == second.id == "bill-7-2026-10"
    assert second.duplicate
    first.cancel()
