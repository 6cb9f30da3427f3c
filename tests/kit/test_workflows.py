"""Workflows: written as chains, groups and links of one's own, run by the kit as workers would run them."""

from dataclasses import replace

import pytest

from dtq_engine import (
    CancelOutcome,
    FlowHandle,
    InvalidTask,
    TaskContext,
    TaskFailed,
    TaskNotFound,
    TaskStatus,
    chain,
    group,
)
from dtq_engine.model import NewTask, Parent


@pytest.fixture
def add(dtq_app):
    @dtq_app.task("add")
    def add(a: int, b: int = 0) -> int:
        return a + b

    return add


@pytest.fixture
def total(dtq_app):
    @dtq_app.task("total", queue="sums")
    def total(values: list[int | None]) -> int:
        return sum(value or 0 for value in values)

    return total


@pytest.fixture
def fail(dtq_app):
    @dtq_app.task("fail", max_attempts=1)
    def fail(value: int = 0) -> int:
        raise ValueError("it did not work")

    return fail


def test_each_call_of_a_chain_gets_the_result_of_the_one_before(dtq, add):
    flow = chain(add.s(1, 2), add.s(10), add.s(b=100), add.si(7))
    handle = flow.submit()
    dtq.run_all()
    assert [task.result(0) for task in handle.tasks] == [3, 13, 113, 7]
    assert (handle.result(0), handle.last.result(0)) == (7, 7)


def test_a_chain_that_grows_part_by_part_is_as_good_as_one_made_at_once(dtq, add):
    first = add.s(1)
    flow = first.then(add.s(1))
    for _ in range(2_000):
        flow = flow.then(add.s(1))
    assert len(flow.prepare()) == 2_002
    handle = first.then(add.s(1)).then(group(add.s(10), add.s(20)).then(add.si(7))).then(add.s(1)).submit()
    dtq.run_all()
    assert [task.result(0) for task in handle.tasks] == [1, 2, 12, 22, 7, 8]


def test_what_follows_a_group_gets_the_list_of_its_results_whatever_queues_they_are_in(dtq, add, total):
    members = add.s(1), add.options(queue="far").s(2), chain(add.s(3), add.s(4))
    flow = chain(add.s(1), group(*members), total.s(), add.s(5))
    handle = flow.submit()
    dtq.run_all()
    assert handle.result(0) == (2 + 3 + 8) + 5
    assert {task.queue for task in handle.tasks} == {"default", "far", "sums"}


def test_a_group_alone_answers_with_all_results(dtq, add):
    handle = group(add.s(1), add.s(2), add.s(3)).submit()
    dtq.run_all()
    assert handle.result(0) == [1, 2, 3]


def test_groups_within_a_group_make_one_list(dtq, add, total):
    nested = group(group(add.s(1), add.s(2)), chain(add.s(3), group(add.s(10), add.s(20))), add.s(4))
    handle, summed = nested.submit(), nested.then(total.s()).submit()
    dtq.run_all()
    assert handle.result(0) == [1, 2, 13, 23, 4]
    assert summed.result(0) == sum([1, 2, 13, 23, 4])


def test_a_group_behind_a_group_gets_the_list_in_each_member(dtq, add, total):
    handle = group(add.s(1), add.s(2)).then(group(total.s(), total.s())).submit()
    dtq.run_all()
    assert handle.result(0) == [3, 3]


def test_a_workflow_of_one_task_is_that_task(dtq, add):
    handle = add.s(4).submit()
    dtq.run_all()
    assert (handle.result(0), handle.tree().nodes[0].children) == (4, ())


def test_a_shape_of_ones_own_is_made_of_tasks_that_name_those_they_wait_for(dtq, dtq_app, add):
    seen = {}

    @dtq_app.task("join")
    def join(ctx: TaskContext, word: str) -> str:
        seen.update({each.task_id: each.value for each in ctx.inputs})
        return word

    first, second = add.options(id="first").prepare(1), add.options(id="second", queue="far").prepare(2)
    third = join.options(after=[first, second], id="third").prepare("x")
    last = join.options(after=third, id="last").prepare("y")
    handles = dtq_app.submit_flow([last, third, second, first])
    dtq.run_all()
    assert [handle.result(0) for handle in handles] == ["y", "x", 2, 1]
    assert seen == {"first": 1, "second": 2, "third": "x"}
    assert [child.id for child in handles[3].children] == ["third"]


def test_a_task_may_wait_for_others_that_were_submitted_before(dtq, dtq_app, add):
    far, near = add.options(queue="far").submit(1), add.submit(2)
    dtq.run_all()
    late = add.options(after=[far, near]).submit(3)
    later = add.options(after=late.id, queue="far").submit(4)
    assert (late.status(), later.status()) == ("blocked", "blocked")
    dtq.run_all()
    assert (late.result(0), later.result(0)) == (3, 4)


@pytest.mark.parametrize("queue", ["default", "far"])
def test_when_one_fails_for_good_what_comes_behind_it_is_cancelled(dtq, add, fail, total, queue):
    handle = chain(group(add.s(1), fail.options(queue=queue).s()), total.s(), add.s(1)).submit()
    dtq.run_all(raise_failures=False)
    failed = handle.tasks[1]
    assert [task.status() for task in handle.tasks] == ["succeeded", "dead_lettered", "cancelled", "cancelled"]
    assert handle.tasks[2].info().reason == f"parent_failed:{failed.id}"
    with pytest.raises(TaskFailed, match="cancelled"):
        handle.result(0)


def test_a_task_may_run_although_one_before_it_failed(dtq, dtq_app, add, fail, total):
    seen: list[tuple[bool, str | None]] = []

    @dtq_app.task("report")
    def report(ctx: TaskContext, values: list[int | None]) -> list[int | None]:
        seen.extend((each.failed, each.reason) for each in ctx.inputs)
        return values

    handle = chain(group(add.s(1), fail.s()), report.options(on_parent_failure="run").s()).submit()
    dtq.run_all(raise_failures=False)
    assert handle.result(0) == [1, None]
    assert seen == [(False, None), (True, "max_attempts")]


def test_a_workflow_is_cancelled_as_a_whole(dtq, add, total):
    handle = chain(group(add.s(1), add.s(2)), total.s()).submit()
    answers = handle.cancel("not wanted")
    assert set(answers.values()) <= {CancelOutcome.CANCELLED, CancelOutcome.FINISHED}
    dtq.run_all()
    assert {task.status() for task in handle.tasks} == {TaskStatus.CANCELLED}


def test_a_workflow_is_cancelled_although_some_of_its_tasks_are_gone(dtq, dtq_app, add):
    handle = chain(add.s(1), add.s(2)).submit()
    dtq_app.store.control.cancel(handle.tasks[0].id, queue="default")
    dtq.advance(dtq_app.settings.task_retention_s + 1)
    later = add.submit(3)
    both: FlowHandle[int] = FlowHandle([*handle.tasks, later], [later], as_list=False)
    assert both.cancel() == {later.id: CancelOutcome.CANCELLED}


def test_a_requeued_task_brings_back_what_waited_for_it_in_all_queues(dtq, dtq_app, add, total):
    works: list[int] = []

    @dtq_app.task("flaky", max_attempts=1)
    def flaky() -> int:
        if not works:
            raise ValueError("not yet")
        return 5

    handle = group(flaky.s(), add.s(1)).then(total.s()).then(add.s(10)).submit()
    dtq.run_all(raise_failures=False)
    works.append(1)
    assert handle.last.status() == "cancelled"
    dtq_app.store.control.requeue(handle.tasks[0].id)
    dtq.run_all()
    assert handle.result(0) == 16


def test_a_workflow_submitted_again_with_ids_of_ones_own_runs_once(dtq, add):
    flow = chain(add.options(id="one").s(1), add.options(id="two").s(2), add.options(id="three", queue="far").s(3))
    for _ in range(2):
        handle = flow.submit()
    assert len(dtq.run_all()) == 3
    handle = flow.submit()
    assert (dtq.run_all(), handle.result(0)) == ([], 6)


def test_what_cannot_be_a_workflow_is_refused_before_anything_is_sent(dtq, dtq_app, add, total):
    @dtq_app.task("nothing")
    def nothing() -> None: ...

    @dtq_app.task("one")
    def one(value: int) -> int:
        return value

    def ring(*ids: str) -> list[NewTask]:
        """Tasks of which each waits for the one before it, and the first one for the last."""
        pairs = zip(ids, (ids[-1], *ids), strict=False)
        return [replace(add.options(id=each).prepare(1), after=(Parent(before, "default"),)) for each, before in pairs]

    for make, words in (
        (chain, "at least one part"),
        (group, "at least one part"),
        (lambda: chain(add.s(1), "add"), "cannot be part of a chain"),  # type: ignore[arg-type]
        (lambda: chain(add.s(1), nothing.s()).submit(), "use si"),
        (lambda: chain(add.s(1), add.s(1, 2)).submit(), "at most 1 positional"),
        (lambda: chain(add.s(1), add.s("x")).submit(), "argument b"),
        (lambda: chain(add.s(1), add.options(idempotency_key="k").s()).submit(), "part of a workflow"),
        (group(add.options(id="a").s(1), add.options(id="a").s(2)).submit, "one id"),
        (lambda: chain(add.s(1), add.options(after=add.prepare(1)).s()).submit(), "use si"),
        (lambda: chain(add.prepare(1)).submit(), "submit_flow"),
        (lambda: chain(one.s(1), one.s(2)).submit(), "behind the result of what comes before it, and 1 was given.*si"),
        (lambda: dtq_app.submit_flow(add.prepare(1)), "pass a list of prepared tasks"),
        (lambda: dtq_app.submit_flow(chain(add.s(1))), "pass a list of prepared tasks"),
        (lambda: dtq_app.submit_flow([7]), "task cannot be 7"),
        (lambda: add.options(id="self", after="self"), "cannot wait for itself"),
        (lambda: dtq_app.submit_flow(ring("a", "b")), "in a circle"),
        (lambda: dtq_app.submit_flow(ring("a", "b", "c")), "in a circle"),
        (lambda: add.options(after=3), "after"),
        (lambda: add.options(on_parent_failure="ignore"), "'cancel' or 'run'"),
        (lambda: add.options(after=add.prepare(1)).submit(1), "not there"),
        (lambda: add.options(after=add.options(queue="far").prepare(1)).submit(1), "not there"),
        (lambda: dtq_app.submit_flow([add.options(after=add.options(queue="far").prepare(1)).prepare(1)]), "not there"),
    ):
        with pytest.raises(InvalidTask, match=words):
            make()
    with pytest.raises(TaskNotFound, match="parents first"):
        add.options(after="ghost")
    assert dtq.submitted() == []


def test_a_chain_of_prepared_tasks_is_linked_too(dtq, dtq_app, add):
    handles = dtq_app.submit_flow(chain(add.prepare(1), add.prepare(2)).prepare())
    assert [handle.status() for handle in handles] == ["queued", "blocked"]
    dtq.run_all()
    assert [handle.result(0) for handle in handles] == [1, 2]


def test_a_result_that_does_not_fit_the_next_one_fails_that_one(dtq, dtq_app, add):
    @dtq_app.task("word", max_attempts=1)
    def word() -> str:
        return "no number"

    handle = chain(word.s(), add.s(1)).submit()
    dtq.run_all(raise_failures=False)
    assert handle.last.status() == "dead_lettered"
    assert "argument a" in handle.last.info().errors[-1].message
