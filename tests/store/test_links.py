"""Tasks that wait for others of their queue: told in the very step in which those end."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from dtq_engine import Settings, workflow
from dtq_engine.errors import InvalidTask, InvalidTransition
from dtq_engine.model import Cancel, DeadLetter, Input, NewTask, Parent, Receipt, Reschedule, Succeed, Takes, TaskStatus
from tests.store.hand import Hand, error, ids

pytestmark = pytest.mark.both_servers


def task(task_id: str, *parents: str, queue: str = "default", **fields: object) -> NewTask:
    """A task that waits for these."""
    after = tuple(Parent(each, queue) for each in parents)
    return NewTask(id=task_id, type="mail", queue=queue, after=after, **fields)  # type: ignore[arg-type]


@pytest.fixture
def weave(hand: Hand) -> Callable[..., list[Receipt]]:
    """Submit a workflow."""

    def submit(*tasks: NewTask) -> list[Receipt]:
        return [receipt for batch in workflow.batches(tasks) for receipt in hand.store.intake.submit(batch)]

    return submit


def statuses(hand: Hand, names: Sequence[str]) -> list[str]:
    return [hand.status(each) for each in names]


def reason(hand: Hand, task_id: str) -> str | None:
    return hand.task(task_id).reason


def test_a_child_waits_until_its_parent_has_succeeded(hand, weave):
    weave(task("a"), task("b", "a"))
    assert (hand.status("b"), reason(hand, "b"), hand.task("b").due_ms) == ("blocked", "waits_for_parents", None)
    claim = hand.claim_one("a")
    assert hand.claim() == []
    hand.end(claim, Succeed(b'{"n":1}'))
    child = hand.claim_one("b")
    assert child.inputs == (Input("a", "default", TaskStatus.SUCCEEDED, b'{"n":1}'),)
    assert (hand.end(child), reason(hand, "b")) == ("OK", None)


def test_a_retry_of_the_parent_does_not_matter_to_the_child(hand, weave):
    weave(task("a"), task("b", "a"))
    hand.end(hand.claim_one("a"), Reschedule(error(), 0))
    assert hand.status("b") == "blocked"
    hand.end(hand.claim_one("a"))
    assert hand.claim_one("b")


def test_a_child_of_many_gets_their_results_in_the_order_in_which_it_names_them(hand, weave):
    weave(*(task(each) for each in "cab"), task("last", "a", "b", "c", takes=Takes.LIST))
    claims = {claim.task_id: claim for claim in hand.claim()}
    for name in "cba":
        hand.end(claims[name], Succeed(f'"{name}"'.encode()))
    last = hand.claim_one("last")
    assert ([each.result for each in last.inputs], last.takes) == ([b'"a"', b'"b"', b'"c"'], Takes.LIST)


@pytest.mark.parametrize(
    ("size", "keep_result"), [(10, True), (65, True), (5000, True), (10, False), (5000, False), (0, True)]
)
def test_a_result_travels_whatever_its_size_and_whether_it_is_kept(hand, weave, size, keep_result):
    weave(task("a", keep_result=keep_result), task("b", "a"))
    result = b'"' + b"\n" * size + b'"' if size else None
    hand.end(hand.claim_one("a"), Succeed(result))
    assert hand.claim_one("b").inputs[0].result == result


@pytest.mark.parametrize(
    ("end", "how"), [(DeadLetter(error(), "max_attempts"), "dead_lettered"), (Cancel(error()), "cancelled")]
)
def test_when_a_parent_fails_all_its_descendants_are_cancelled(hand, weave, end, how):
    weave(task("a"), task("b", "a"), task("c", "b"), task("d", "c"), task("x"))
    hand.end_all([claim for claim in hand.claim() if claim.task_id == "a"], end)
    assert statuses(hand, "abcd") == [how, *["cancelled"] * 3]
    assert [reason(hand, each) for each in "bcd"] == [f"parent_failed:{each}" for each in "abc"]
    assert hand.status("x") == "running"


def test_a_parent_that_is_cancelled_or_expires_cancels_its_children(hand, weave, clock):
    weave(task("a"), task("b", "a"), task("c", expires_in_ms=1000), task("d", "c"))
    hand.store.control.cancel("a")
    clock.advance(seconds=2)
    assert hand.claim() == []
    assert statuses(hand, "abcd") == ["cancelled", "cancelled", "expired", "cancelled"]


def test_a_child_may_run_although_its_parent_failed(hand):
    hand.submit("a", "b")
    child = NewTask(
        id="c", type="mail", takes=Takes.LIST, after=tuple(Parent(each, "default", run_anyway=True) for each in "ab")
    )
    hand.store.intake.submit([child])
    first, second = hand.claim()
    hand.end(first, DeadLetter(error(), "max_attempts"))
    assert hand.status("c") == "blocked"
    hand.end(second, Succeed(b"2"))
    assert hand.claim_one("c").inputs == (
        Input("a", "default", TaskStatus.DEAD_LETTERED, None, "max_attempts"),
        Input("b", "default", TaskStatus.SUCCEEDED, b"2"),
    )


def test_a_child_may_be_linked_to_a_parent_that_has_ended(hand):
    hand.end(hand.start("good"), Succeed(b"7"))
    hand.end(hand.start("bad"), DeadLetter(error(), "permanent"))
    hand.store.intake.submit([task("b", "good"), task("c", "bad"), task("d", "good", "bad")])
    assert statuses(hand, "bcd") == ["queued", "cancelled", "cancelled"]
    assert hand.claim_one("b").inputs[0].result == b"7"


def test_a_parent_that_is_not_there_is_named(hand):
    (receipt,) = hand.store.intake.submit([task("b", "ghost")])
    assert (receipt.outcome, receipt.id) == ("orphan", "ghost")
    assert hand.store.inspect.find(["b"]) == [None]


def test_a_workflow_comes_in_as_a_whole_or_not_at_all(make_store, store):
    small = Hand(make_store(max_queue_depth=3))
    batch = workflow.batches([task(each) for each in "abc"] + [task("d", *"abc")])[0]
    assert {receipt.outcome.value for receipt in small.store.intake.submit(batch)} == {"full", "withheld"}
    assert small.store.inspect.queue("default").depth == 0
    assert {receipt.outcome.value for receipt in store.intake.submit(batch)} == {"new"}
    assert {receipt.outcome.value for receipt in store.intake.submit(batch)} == {"exists"}
    store.control.purge("default", delayed=True)


def test_links_in_a_circle_are_refused():
    with pytest.raises(InvalidTask, match="wait for each other in a circle"):
        workflow.batches([task("a", "b"), task("b", "a")])
    with pytest.raises(InvalidTask, match="cannot wait for itself"):
        workflow.check(task("a", "a"), Settings(redis_url="redis://x"))


def test_a_waiting_child_can_be_cancelled_purged_and_reprioritised_but_not_run(hand, weave):
    weave(task("a"), task("b", "a"), task("c", "b"), task("d", "a"))
    with pytest.raises(InvalidTransition, match="waits for its parents"):
        hand.store.control.run_now("d")
    hand.store.control.reprioritise("d", 9)
    hand.store.control.cancel("b")
    assert statuses(hand, "abcd") == ["queued", "cancelled", "cancelled", "blocked"]
    hand.end(hand.claim_one("a"))
    assert hand.task("d").priority == hand.claim_one("d").priority == 9


def test_a_purge_of_what_waits_for_its_time_cancels_waiting_children(hand, weave):
    weave(task("a"), task("b", "a"), task("c", "b"))
    claim = hand.claim_one("a")
    assert hand.store.control.purge("default", delayed=True) == 2
    hand.end(claim)
    assert statuses(hand, "abc") == ["succeeded", "cancelled", "cancelled"]


def test_a_delay_of_a_child_counts_from_the_end_of_its_parents(hand, weave, clock):
    weave(task("a"), task("b", "a", delay_ms=5000))
    clock.advance(seconds=60)
    hand.end(hand.claim_one("a"))
    assert hand.status("b") == "pending"
    clock.advance(seconds=5)
    hand.store.schedule.promote("default")
    assert hand.claim_one("b")


def test_a_waiting_child_expires_in_its_time(hand, weave, clock):
    weave(task("a"), task("b", "a", expires_in_ms=5000), task("c", "b"))
    clock.advance(seconds=6)
    hand.store.schedule.promote("default")
    assert statuses(hand, "abc") == ["queued", "expired", "cancelled"]


def test_a_requeued_parent_brings_its_cancelled_descendants_back(hand, weave):
    weave(task("a"), task("b", "a"), task("c", "b"), task("d", "a"))
    hand.store.control.cancel("d")
    hand.end(hand.claim_one("a"), DeadLetter(error(), "max_attempts"))
    assert statuses(hand, "abcd") == ["dead_lettered", *["cancelled"] * 3]
    hand.store.control.requeue("a")
    assert statuses(hand, "abcd") == ["queued", "blocked", "blocked", "cancelled"]
    for name in "abc":
        hand.end(hand.claim_one(name), Succeed(b"1"))


def test_a_child_with_two_failed_parents_comes_back_with_the_second(hand, weave):
    weave(task("a"), task("b"), task("c", "a", "b"))
    hand.end_all(hand.claim(), DeadLetter(error(), "max_attempts"))
    hand.store.control.requeue("a")
    assert (hand.status("c"), reason(hand, "c")) == ("cancelled", "parent_failed:b")
    hand.store.control.requeue("b")
    assert hand.status("c") == "blocked"
    hand.end_all(hand.claim(), Succeed(b"1"))
    assert [each.result for each in hand.claim_one("c").inputs] == [b"1", b"1"]


def test_a_child_cannot_be_requeued_without_the_parent_that_failed(hand, weave):
    weave(task("a"), task("b", "a"))
    hand.end(hand.claim_one("a"), DeadLetter(error(), "max_attempts"))
    with pytest.raises(InvalidTransition, match="task a, which has failed: requeue that one"):
        hand.store.control.requeue("b")


def test_a_child_that_was_cancelled_itself_waits_again_when_it_is_requeued(hand, weave):
    weave(task("a"), task("b", "a"), task("c"), task("d", "c"))
    hand.store.control.cancel("b")
    hand.store.control.requeue("b")
    assert hand.status("b") == "blocked"
    hand.store.control.cancel("d")
    hand.end_all(hand.claim(), Succeed(b"3"))
    hand.store.control.requeue("d")
    assert {claim.task_id: claim.inputs[0].result for claim in hand.claim()} == {"b": b"3", "d": b"3"}


def test_more_children_than_one_step_can_tell_are_told_by_the_leader(hand, weave, store):
    names = [f"c{n}" for n in range(250)]
    weave(task("a"), *(task(each, "a") for each in names))
    hand.end(hand.claim_one("a"), Succeed(b"1"))
    assert statuses(hand, names).count("queued") == 100
    assert store.schedule.promote("default").outbox == 1
    assert [store.outbox.relay("default") for _ in range(2)] == [1, 0]
    assert statuses(hand, names).count("queued") == 250
    assert ids(hand.claim(1)) == ["c0"]
    store.control.purge("default")


def test_a_long_chain_is_cancelled_in_bounded_steps(hand, weave, store):
    names = [f"t{n}" for n in range(450)]
    weave(task(names[0]), *(task(each, before) for before, each in pairwise(names)))
    store.control.cancel("t0")
    while store.outbox.relay("default"):
        pass
    assert set(statuses(hand, names)) == {"cancelled"}


def test_a_cut_result_is_not_handed_over_as_an_argument(hand, weave):
    weave(task("a"), task("b", "a", takes=Takes.ONE), task("c", "a"))
    hand.end(hand.claim_one("a"), Succeed(b'"cut', 5000))
    assert (hand.status("b"), reason(hand, "b")) == ("cancelled", "parent_result_too_large:a")
    assert hand.claim_one("c").inputs == (Input("a", "default", TaskStatus.SUCCEEDED, None, "cut"),)


def test_inputs_that_are_too_large_together_are_not_carried(hand, weave):
    weave(*(task(each) for each in "abcde"), task("f", *"abcde", takes=Takes.LIST))
    hand.end_all(hand.claim(), Succeed(b'"' + b"x" * 1_000_000 + b'"'))
    assert (hand.status("f"), reason(hand, "f")) == ("cancelled", "inputs_too_large")


@pytest.mark.keeps_keys
def test_what_was_missed_is_made_up_for_by_a_sweep(hand, weave, store, client, clock):
    weave(task("a"), task("b", "a"), task("c"), task("d", "c"), task("e"), task("f", "e"))
    claims = {claim.task_id: claim for claim in hand.claim()}
    client.delete(store.keys.children("default", "a"), store.keys.children("default", "e"))
    client.delete(store.keys.task("default", "c"))
    hand.end(claims["a"], Succeed(b"1"))
    assert statuses(hand, "bdf") == ["blocked"] * 3
    clock.advance(seconds=70)
    store.sweep.run()
    assert statuses(hand, "bdf") == ["queued", "cancelled", "blocked"]
    assert reason(hand, "d") == "parent_failed:c"
    hand.end(claims["e"])
    assert statuses(hand, "f") == ["queued"]


@pytest.mark.parametrize("keep_result", [False, True])
def test_a_sweep_does_not_overtake_a_result_that_a_damaged_key_holds_up(hand, weave, store, client, keep_result):
    weave(task("a", keep_result=keep_result), task("b", "a"))
    claim, index = hand.claim_one("a"), store.keys.index("default", TaskStatus.CANCELLED)
    client.set(index, "damaged")
    assert hand.end(claim, Succeed(b'"made"')) == "OK"
    client.delete(index)
    store.sweep.run()
    assert hand.status("b") == "blocked"
    assert store.outbox.relay("default") == 1
    assert hand.claim_one("b").inputs[0].result == b'"made"'
    assert store.sweep.run() == {}
