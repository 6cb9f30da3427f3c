"""Workflows as they are submitted: what is refused leaves nothing behind, and takes nothing along that was there."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from dtq_engine import workflow
from dtq_engine.errors import QueueFull
from dtq_engine.model import Deduplication, NewTask, Parent, SubmitOutcome, TaskStatus, Unique
from dtq_engine.store.carpool import Carpool
from tests.store.test_carpool import Road
from tests.support.waiting import wait_until


def task(task_id, *parents, queue="default", far="default", **fields):
    return NewTask(id=task_id, type="mail", queue=queue, after=tuple(Parent(each, far) for each in parents), **fields)


@pytest.mark.parametrize(
    "wanted",
    [
        Deduplication(unique=Unique.UNTIL_DONE, key="k"),
        Deduplication(at_most=1, per_ms=60_000, key="k"),
        Deduplication(debounce_ms=1000, key="k"),
    ],
    ids=["unique", "throttled", "debounced"],
)
def test_a_workflow_of_one_task_may_be_one_for_which_another_stands(app, store, wanted):
    (first,) = app.submit_flow([task("a", deduplication=wanted)])
    (second,) = app.submit_flow([task("b", deduplication=wanted, payload=b'{"n":2}')])
    assert (second.id, second.duplicate) == (first.id, True)
    is_replaced = wanted.debounce_ms is not None
    assert store.inspect.get("a").payload == (b'{"n":2}' if is_replaced else b"{}")
    store.control.purge("default", delayed=True)


def test_what_is_alone_in_its_call_does_not_depend_on_the_others_that_ride_along(store):
    (alone,), (orphan,) = workflow.batches([task("a")]), workflow.batches([task("b", "ghost")])
    road = Road()

    def send(queue, tasks):
        road.send(queue, tasks)
        return store.intake.send(store.intake.pack(queue, tasks))

    carpool = Carpool(send, 500)
    with ThreadPoolExecutor(3) as threads:
        threads.submit(carpool.submit, task("first"))
        assert road.under_way.wait(10)
        riders = [threads.submit(carpool.submit, each) for each in (*alone, *orphan)]
        wait_until(lambda: len(carpool._stops["default"].waiting) == 2)
        road.go.set()
        receipts = [rider.result(10) for rider in riders]
    assert [len(call) for call in road.calls] == [1, 2]
    assert {receipt.id: receipt.outcome for receipt in receipts} == {
        "a": SubmitOutcome.NEW,
        "ghost": SubmitOutcome.ORPHAN,
    }
    assert {receipt.id: receipt.accepted for receipt in receipts} == {"a": True, "ghost": False}
    store.control.purge("default")


def test_what_a_refused_workflow_had_brought_is_taken_back_and_what_was_there_before_stays(app, settings, store):
    flow = [task("a"), task("b", "a", queue="far")]
    app.submit_flow(flow)
    app.configure(replace(settings, max_queue_depth=1))
    with pytest.raises(QueueFull):
        app.submit_flow([*flow, task("c", "a", queue="other"), task("d")])
    assert [store.inspect.get(each).status for each in "abc"] == [
        TaskStatus.QUEUED,
        TaskStatus.BLOCKED,
        TaskStatus.CANCELLED,
    ]
    assert store.inspect.find(["d"]) == [None]
    for queue in ("default", "far"):
        store.control.purge(queue, delayed=True)
