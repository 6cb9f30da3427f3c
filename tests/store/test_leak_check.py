"""The leak check itself: it is worth what it finds."""

import pytest

from dtq_engine.ids import new_token
from dtq_engine.model import NewTask, Succeed

pytestmark = pytest.mark.both_servers


@pytest.fixture
def busy(store):
    """A store with one task of each living status but BLOCKED, each with side keys; and one that has ended."""
    store.workers.register_queue("default")
    digest = store.workers.announce(["default"], ["mail"])
    payload = b'{"text":"' + b"x" * 100 + b'"}'
    names = ["done", "running", "queued"]
    store.intake.submit([NewTask(id=name, type="mail", payload=payload, idempotency_key=name) for name in names])
    store.intake.submit([NewTask(id="pending", type="mail", payload=payload, delay_ms=60_000)])
    claims = store.leases.claim("default", worker="w", token=new_token(), limit=2, types_digest=digest).claims
    store.leases.finalize([(claims[0], Succeed(b'"' + b"y" * 100 + b'"'))])
    return store


def test_living_and_ended_tasks_are_in_order(busy, leaks):
    assert leaks.found() == []


def test_after_a_drain_no_task_may_live(busy, leaks):
    assert {line.partition(":")[2] for line in leaks.found(drained=True)} >= {
        "task:{default}:running: lives (R) after a drain",
        "task:{default}:queued: lives (Q) after a drain",
        "task:{default}:pending: lives (P) after a drain",
        "schedule:{default}: its member pending is left over",
    }


@pytest.mark.keeps_keys
@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (["SET", "{p}:new:thing", "1"], "new:thing: is on no list of allowed keys"),
        (["PERSIST", "{p}:task:{{default}}:done"], "task:{default}:done: has ended (S) and does not expire"),
        (["PERSIST", "{p}:result:{{default}}:done"], "result:{default}:done: has no living task that names it"),
        (
            ["PERSIST", "{p}:idempotency:{{default}}:done"],
            "idempotency:{default}:done: has no living task and does not expire",
        ),
        (["EXPIRE", "{p}:task:{{default}}:queued", "9"], "task:{default}:queued: lives (Q) but expires"),
        (["ZREM", "{p}:schedule:{{default}}", "pending"], "task:{default}:pending: lives (P) but is in no stream"),
        (["ZADD", "{p}:schedule:{{default}}", "1", "queued"], "schedule:{default}: its member queued is left over"),
        (["XTRIM", "{p}:stream:{{default}}:p5", "MAXLEN", "0"], "task:{default}:queued: lives (Q) but is in no stream"),
        (["XTRIM", "{p}:stream:{{default}}:p5", "MAXLEN", "0"], "pending but gone from the stream"),
        (["DEL", "{p}:task:{{default}}:queued"], "of task queued is left over"),
        (["DEL", "{p}:task:{{default}}:queued"], "payload:{default}:queued: has no living task that names it"),
        (["XADD", "{p}:stream:{{default}}:p3", "*", "i", "queued"], "of task queued is left over"),
        (
            ["XGROUP", "DESTROY", "{p}:stream:{{default}}:p5", "workers"],
            "task:{default}:running: lives (R) but is in no",
        ),
    ],
)
def test_a_damaged_or_forgotten_key_is_found(busy, leaks, client, settings, damage, complaint):
    client.execute_command(*(part.format(p=settings.prefix) for part in damage))
    assert any(complaint in line for line in leaks.found()), leaks.found()


def test_what_was_found_can_be_removed(busy, leaks):
    leaks.clean()
    assert leaks.keys() == []
