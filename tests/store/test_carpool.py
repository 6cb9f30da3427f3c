"""Tasks of many threads that ride in one call: each gets its own answer, whatever befalls the call."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from dtq_engine.errors import QueueFull, RedisUnavailable, SubmitUncertain
from dtq_engine.model import NewTask, Receipt, SubmitOutcome, TaskStatus
from dtq_engine.store.carpool import Carpool
from tests.support.waiting import wait_until


class Road:
    """Stands for the calls to Redis: the first one takes until it is let go."""

    def __init__(self, error=None):
        self.calls = []
        self.under_way = threading.Event()
        self.go = threading.Event()
        self.error = error

    def send(self, queue, tasks):
        self.calls.append([task.id for task in tasks])
        if len(self.calls) == 1:
            self.under_way.set()
            assert self.go.wait(10)
        if self.error is not None:
            raise self.error
        return [Receipt(task.id, queue, SubmitOutcome.NEW, TaskStatus.QUEUED) for task in tasks]


def ride(road, tasks, most=500):
    """What became of each task, of which the first is on its way when the others come."""
    carpool = Carpool(road.send, most)
    with ThreadPoolExecutor(len(tasks)) as threads:
        first = threads.submit(carpool.submit, tasks[0])
        assert road.under_way.wait(10)
        others = [threads.submit(carpool.submit, task) for task in tasks[1:]]
        queues = {task.queue for task in tasks[1:]} & {tasks[0].queue}
        waiting = [task for task in tasks[1:] if task.queue in queues]
        wait_until(lambda: sum(len(carpool._stops[queue].waiting) for queue in queues) == len(waiting))
        road.go.set()
        return [future.exception() or future.result() for future in (first, *others)]


def new(task_id, **fields):
    return NewTask(id=task_id, type="mail", **fields)


def test_those_who_come_while_a_call_is_under_way_go_together_in_the_next():
    road = Road()
    answers = ride(road, [new(f"t{number}") for number in range(20)])
    assert [answer.id for answer in answers] == [f"t{number}" for number in range(20)]
    assert [len(call) for call in road.calls] == [1, 19]


def test_a_call_carries_no_more_than_it_may():
    road = Road()
    ride(road, [new(f"t{number}") for number in range(8)], most=3)
    assert [len(call) for call in road.calls] == [1, 3, 3, 1]


def test_large_payloads_are_spread_over_calls():
    road = Road()
    ride(road, [new(f"t{number}", payload=b"x" * 2_000_000) for number in range(5)])
    assert [len(call) for call in road.calls] == [1, 2, 2]


def test_each_queue_has_calls_of_its_own():
    road = Road()
    carpool = Carpool(road.send, 500)
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(carpool.submit, new("t1"))
        assert road.under_way.wait(10)
        assert carpool.submit(new("t2", queue="other")).id == "t2"
        road.go.set()
        assert slow.result().id == "t1"


@pytest.mark.parametrize("error", [RedisUnavailable("away"), SubmitUncertain("t0")])
def test_when_redis_goes_away_nobody_waits_for_it_again(error):
    road = Road(error)
    answers = ride(road, [new(f"t{number}") for number in range(5)])
    assert [type(answer) for answer in answers] == [type(error), *[RedisUnavailable] * 4]
    assert len(road.calls) == 1
    assert len({id(answer) for answer in answers}) == 5


def test_of_an_uncertain_call_each_learns_about_its_own_task():
    class Later(Road):
        def send(self, queue, tasks):
            receipts = super().send(queue, tasks)
            if len(self.calls) > 1:
                raise SubmitUncertain(tasks[0].id, [task.id for task in tasks[1:]])
            return receipts

    answers = ride(Later(), [new(f"t{number}") for number in range(4)])
    assert [answer.task_ids for answer in answers[1:]] == [("t1",), ("t2",), ("t3",)]


def test_another_error_is_everybodys_and_the_next_call_goes():
    road = Road(ValueError("odd"))
    answers = ride(road, [new(f"t{number}") for number in range(3)])
    assert [str(answer) for answer in answers] == ["odd"] * 3
    road.error = None
    assert len(road.calls) == 2


def test_an_interrupt_of_the_driver_leaves_the_others_uncertain():
    road = Road(KeyboardInterrupt())
    road.go.set()
    carpool = Carpool(road.send, 500)
    with pytest.raises(KeyboardInterrupt):
        carpool.submit(new("t1"))
    road.error = None
    assert carpool.submit(new("t2")).id == "t2"


def test_many_threads_each_get_what_became_of_their_own_task(app, settings):
    app.configure(replace(settings, max_queue_depth=30))

    def submit(number):
        try:
            return app.submit(new(f"t{number}", idempotency_key=f"k{number % 40}"))
        except QueueFull:
            return None

    with ThreadPoolExecutor(40) as threads:
        handles = list(threads.map(submit, range(80)))
    accepted = {handle.id for handle in handles if handle and not handle.duplicate}
    assert len(accepted) == app.store.inspect.queue("default").depth == 30
    assert {handle.id for handle in handles if handle and handle.duplicate} <= accepted
