"""What a handler sees of its execution."""

import threading
from datetime import UTC, datetime

from dtq_engine.model import Claim, RetryPolicy
from tests.unit.contexts import context_of

CLAIM = Claim(
    task_id="t-1",
    queue="reports",
    type="reports.build",
    payload=b"{}",
    token="k",
    entry="1-1",
    priority=5,
    attempt=2,
    fence=7,
    worker="w1",
    created_ms=0,
    started_ms=0,
    deadline_ms=1_790_812_800_500,
    timeout_ms=1000,
    lease_ms=1000,
    retry=RetryPolicy(max_attempts=3),
    headers={"tenant": "acme"},
)


def test_a_context_tells_of_its_execution():
    ctx = context_of(CLAIM)
    assert (ctx.task_id, ctx.queue, ctx.type, ctx.worker_id) == ("t-1", "reports", "reports.build", "w1")
    assert (ctx.attempt, ctx.max_attempts, ctx.fence, ctx.headers) == (2, 3, 7, {"tenant": "acme"})
    assert ctx.deadline == datetime(2026, 10, 1, 0, 0, 0, 500_000, UTC)
    assert repr(ctx) == "<TaskContext reports.build t-1 attempt 2/3>"


def test_a_cancel_and_a_stop_show_at_once():
    stopping = threading.Event()
    ctx = context_of(CLAIM, stopping)
    assert (ctx.cancelled, ctx.stopping) == (False, False)
    ctx.cancel()
    stopping.set()
    assert (ctx.cancelled, ctx.stopping) == (True, True)
