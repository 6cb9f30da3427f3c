"""Messages to tasks in other queues: carried over by the leader, as often as it takes, to the same effect."""

import pytest

from dtq_engine import workflow
from dtq_engine.model import DeadLetter, Input, NewTask, Parent, Succeed, TaskStatus
from tests.store.hand import Hand, error

pytestmark = pytest.mark.both_servers


def task(task_id: str, *parents: str, queue: str = "default", far: str = "default", **fields: object) -> NewTask:
    after = tuple(Parent(each, far) for each in parents)
    return NewTask(id=task_id, type="mail", queue=queue, after=after, **fields)  # type: ignore[arg-type]


@pytest.fixture
def far(store):
    """A worker of the other queue."""
    return Hand(store, queue="far")


@pytest.fixture
def flow(store, hand, far):
    """A task, and one in the other queue that waits for it."""
    for batch in workflow.batches([task("a"), task("b", "a", queue="far")]):
        store.intake.submit(batch)


def test_a_child_in_another_queue_is_told_with_the_result(hand, far, flow, store):
    hand.end(hand.claim_one("a"), Succeed(b"7"))
    assert far.status("b") == "blocked"
    assert (store.outbox.relay("default"), store.outbox.relay("default")) == (1, 0)
    assert far.claim_one("b").inputs == (Input("a", "default", TaskStatus.SUCCEEDED, b"7"),)


def test_the_leader_is_woken_for_a_message(hand, flow, store, client):
    client.delete(store.keys.wake_schedule("default"))
    hand.end(hand.claim_one("a"))
    assert client.llen(store.keys.wake_schedule("default")) == 1
    assert store.schedule.promote("default").outbox == 1
    store.outbox.relay("default")


def test_news_that_come_again_or_too_late_change_nothing(hand, far, flow, store):
    hand.end(hand.claim_one("a"), DeadLetter(error(), "permanent"))
    old = store.connection.call("XRANGE", store.keys.outbox("default"), "-", "+")[0][1]
    store.outbox.relay("default")
    assert far.task("b").reason == "parent_failed:a"
    store.control.requeue("a")
    store.outbox.relay("default")
    assert far.status("b") == "blocked"
    for _ in range(2):
        store.connection.call("XADD", store.keys.outbox("default"), "*", *old)
    store.outbox.relay("default")
    assert far.status("b") == "blocked"
    hand.end(hand.claim_one("a"), Succeed(b"1"))
    store.outbox.relay("default")
    assert far.status("b") == "queued"


def test_a_failure_goes_through_all_queues_and_a_requeue_too(hand, far, store):
    tasks = [task("a"), task("b", "a", queue="far"), task("c", "b", far="far"), task("d", "c", queue="far")]
    for batch in workflow.batches(tasks):
        store.intake.submit(batch)
    store.control.cancel("a")
    for queue in ("default", "far", "default"):
        store.outbox.relay(queue)
    assert [far.status("b"), hand.status("c"), far.status("d")] == ["cancelled"] * 3
    store.control.requeue("a")
    for queue in ("default", "far", "default"):
        store.outbox.relay(queue)
    assert [far.status("b"), hand.status("c"), far.status("d")] == ["blocked"] * 3


def test_a_parent_in_another_queue_is_asked_whether_it_lives_or_has_ended(hand, far, store):
    hand.submit("lives", "gone")
    hand.end(hand.claim_one("lives"), Succeed(b"1"))
    far.submit("x", "y")
    store.intake.submit([task("b", "x", far="far"), task("c", "y", far="far"), task("d", "lives", queue="far")])
    claims = {claim.task_id: claim for claim in far.claim()}
    far.end(claims["x"], Succeed(b"2"))
    assert (store.outbox.relay("default"), store.outbox.relay("far")) == (2, 1)
    assert (hand.status("b"), hand.status("c"), far.status("d")) == ("queued", "blocked", "queued")
    far.end(claims["y"], Succeed(b"3"))
    store.outbox.relay("far")
    assert hand.status("c") == "queued"


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_sweep_does_not_overtake_a_result_that_is_on_its_way(hand, far, store, is_kept):
    for batch in workflow.batches([task("a", keep_result=is_kept), task("b", "a", queue="far")]):
        store.intake.submit(batch)
    claims = {claim.task_id: claim for claim in hand.claim()}
    hand.end(claims["a"], Succeed(b"7"))
    store.sweep.run()
    store.outbox.relay("far")
    store.outbox.relay("default")
    store.outbox.relay("far")
    assert far.claim_one("b").inputs == (Input("a", "default", TaskStatus.SUCCEEDED, b"7"),)
    assert store.connection.call("XLEN", store.keys.outbox("far")) == 0


def test_who_comes_after_a_result_has_gone_is_told_so_though_others_wait_to_be_told(hand, far, store):
    hand.submit("a", keep_result=False)
    for batch in workflow.batches([task("y"), task("z", "y", queue="far")]):
        store.intake.submit(batch)
    claims = {claim.task_id: claim for claim in hand.claim()}
    hand.end(claims["a"], Succeed(b"7"))
    store.intake.submit([task("b", "a", queue="far")])
    hand.end(claims["y"], Succeed(b"8"))
    store.outbox.relay("far")
    assert far.claim_one("b").inputs == (Input("a", "default", TaskStatus.SUCCEEDED, None),)
    store.outbox.relay("default")
    store.outbox.relay("far")


def test_a_parent_that_never_comes_is_waited_for_for_a_minute(hand, far, store, clock):
    store.intake.submit([task("b", "ghost", far="far")])
    assert (store.outbox.relay("default"), hand.status("b")) == (0, "blocked")
    clock.advance(seconds=61)
    assert (store.outbox.relay("default"), hand.status("b")) == (1, "cancelled")
    assert hand.task("b").reason == "parent_failed:ghost"


def test_what_starts_comes_last_so_that_a_submit_that_is_cut_short_starts_nothing(hand, far, store, clock):
    tasks = [task("a"), task("b", "a", queue="far"), task("c", "b", far="far")]
    calls = workflow.batches(tasks)
    assert [[each.id for each in call] for call in calls] == [["b"], ["c", "a"]]
    store.intake.submit(calls[0])
    assert (far.claim(), hand.claim()) == ([], [])
    store.sweep.run()
    clock.advance(seconds=61)
    store.sweep.run()
    store.outbox.relay("far")
    assert far.task("b").reason == "parent_failed:a"


@pytest.mark.keeps_keys
def test_a_message_that_cannot_arrive_stays_and_what_nobody_can_read_goes(hand, far, flow, store, client):
    hand.end(hand.claim_one("a"), Succeed(b"7"))
    outbox, band = store.keys.outbox("default"), store.keys.stream("far", 5)
    client.xadd(outbox, {"junk": "x"})
    client.xadd(outbox, {"k": "tell", "p": "no reference", "c": "far b"})
    client.xadd(outbox, {"k": "of a newer release"})
    client.delete(band)
    client.set(band, "x")
    store.outbox.relay("default")
    assert (far.status("b"), client.xlen(outbox)) == ("blocked", 2)
    client.delete(band)
    store.outbox.relay("default")
    assert (far.status("b"), client.xlen(outbox)) == ("queued", 1)


@pytest.mark.keeps_keys
def test_an_outbox_that_holds_something_else_makes_way(hand, far, flow, store, client):
    client.set(store.keys.outbox("default"), "x")
    assert store.schedule.promote("default").outbox == 0
    hand.end(hand.claim_one("a"))
    store.outbox.relay("default")
    assert far.status("b") == "queued"
