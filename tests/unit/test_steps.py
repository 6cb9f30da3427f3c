"""Steps, checkpoints and marks of one execution, without Redis."""

import asyncio
import functools
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec.structs
import pytest

from dtq_engine import ClaimLost, InvalidStep, PermanentError, RedisUnavailable, TaskContext
from dtq_engine.steps import Steps
from tests.unit.contexts import context_of
from tests.unit.test_context import CLAIM


class Kept:
    """What was saved, and the context of an execution that comes next."""

    def __init__(self) -> None:
        self.fields: dict[str, bytes] = {}
        self.calls: list[str] = []

    def save(self, field: str, value: bytes, first: bool) -> bool:
        self.calls.append(field)
        if first and field in self.fields:
            return False
        self.fields[field] = value
        return True

    def next(self) -> TaskContext:
        return context_of(msgspec.structs.replace(CLAIM, saved=dict(self.fields)), save=self.save)


@dataclass
class Order:
    id: int
    at: datetime


def order() -> Order:
    return Order(7, datetime(2026, 1, 1, tzinfo=UTC))


def test_a_step_runs_once_over_all_executions():
    kept, runs = Kept(), list[int]()

    def fetch(number: int, *, times: int) -> list[int]:
        runs.append(number)
        return [number] * times

    for _ in range(3):
        assert kept.next().step("fetch", fetch, 4, times=2) == [4, 4]
    assert (runs, kept.calls) == ([4], ["sfetch"])


@pytest.mark.parametrize("fn", [order, functools.partial(order), lambda: {"a": [1, None, "x"]}, lambda: None])
def test_a_value_is_the_same_in_each_attempt(fn: Any):
    kept = Kept()
    assert kept.next().step("it", fn) == fn()
    assert kept.next().step("it", fn) == fn()


def test_a_step_that_raised_may_be_tried_again_in_the_same_attempt():
    kept = Kept()
    context, answers = kept.next(), iter([0, 0, 7])

    def divide() -> int:
        return 7 // next(answers)

    async def divide_async() -> int:
        return divide()

    with pytest.raises(ZeroDivisionError):
        context.step("it", divide)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(context.step_async("it", divide_async))
    assert (context.step("it", divide), kept.calls) == (1, ["sit"])
    with pytest.raises(InvalidStep, match="begun before"):
        context.step("it", divide)


def test_a_tuple_is_a_list_from_the_first():
    pair: Any = lambda: (1, 2)  # noqa: E731
    assert Kept().next().step("it", pair) == [1, 2]


def test_a_value_that_does_not_keep_to_its_annotation_is_refused():
    def wrong() -> int:
        found: Any = {"a": 1}
        return found

    with pytest.raises(InvalidStep, match="'-> int'"):
        Kept().next().step("it", wrong)


def test_a_value_that_another_build_saved_in_another_type_is_refused():
    kept = Kept()
    kept.next().step("it", order)
    assert kept.next().step("it", lambda: None) == {"id": 7, "at": "2026-01-01T00:00:00Z"}
    with pytest.raises(InvalidStep, match="give it another name"):
        kept.next().step("it", functools.partial(pow_of, 2))


def pow_of(number: int) -> int:
    return number**2


def test_the_annotation_of_a_function_that_no_json_can_be_made_of_is_passed_over():
    def odd() -> list[int] | set[int]:
        return [5]

    assert Kept().next().step("it", odd) == [5]


@pytest.mark.parametrize("value", [object(), float("nan"), {1: 2}, b"x", {1, 2}, order(), "\ud800"])
def test_a_value_that_is_not_json_is_refused(value: object):
    with pytest.raises(InvalidStep, match=r"JSON|Unicode|float"):
        Kept().next().step("it", lambda: value)
    with pytest.raises(InvalidStep, match=r"JSON|Unicode|float"):
        Kept().next().checkpoint(value)


def test_a_name_that_was_used_before_is_refused():
    ctx = Kept().next()
    ctx.step("it", int)
    with pytest.raises(InvalidStep, match="begun before"):
        ctx.step("it", int)
    assert issubclass(InvalidStep, PermanentError)


@pytest.mark.parametrize("name", ["", "x" * 129, "a\nb", "\x00", 5, None])
def test_a_name_that_cannot_be_is_refused(name: Any):
    with pytest.raises(InvalidStep, match="visible characters"):
        Kept().next().step(name, int)
    with pytest.raises(InvalidStep, match="visible characters"):
        Kept().next().once(name)


def test_a_step_that_fails_runs_again():
    kept, runs = Kept(), list[int]()

    def flaky() -> int:
        runs.append(1)
        return 1 // (len(runs) - 1)

    with pytest.raises(ZeroDivisionError):
        kept.next().step("flaky", flaky)
    assert kept.next().step("flaky", flaky) == 1
    assert kept.next().step("flaky", flaky) == 1
    assert len(runs) == 2


def test_too_many_steps_are_refused_before_the_next_one_runs():
    ctx, ran = Kept().next(), list[int]()
    for number in range(9):
        ctx.step(f"{number}", int)
    ctx.checkpoint(1)
    assert ctx.once("mail")
    with pytest.raises(InvalidStep, match="10 steps and marks"):
        ctx.step("more", ran.append, 1)
    with pytest.raises(InvalidStep, match="DTQ_TASK_STEPS"):
        ctx.once("more")
    ctx.checkpoint(2)
    assert ran == []


def test_too_many_bytes_are_refused():
    ctx = Kept().next()
    ctx.step("a", lambda: "x" * 600)
    with pytest.raises(InvalidStep, match="1000 are allowed"):
        ctx.step("b", lambda: "x" * 600)
    ctx.checkpoint("x" * 300)
    ctx.checkpoint("y" * 300)
    with pytest.raises(InvalidStep, match="DTQ_TASK_STEPS_BYTES"):
        ctx.checkpoint("y" * 500)


def test_a_checkpoint_is_found_by_the_next_execution_and_sent_only_when_it_changes():
    kept = Kept()
    ctx = kept.next()
    assert ctx.cursor is None
    ctx.checkpoint({"page": 3})
    ctx.checkpoint({"page": 3})
    assert ctx.cursor == {"page": 3}
    later = kept.next()
    assert later.cursor == {"page": 3}
    later.checkpoint({"page": 3})
    assert kept.calls == ["c"]


def test_a_mark_is_true_once():
    kept = Kept()
    ctx = kept.next()
    assert [ctx.once("mail"), ctx.once("mail"), ctx.once("other"), kept.next().once("mail")] == [
        *(True, False, True, False),
    ]


def test_steps_marks_and_cursor_do_not_share_names():
    kept = Kept()
    ctx = kept.next()
    assert (ctx.step("c", int), ctx.once("c"), ctx.cursor) == (0, True, None)
    ctx.checkpoint("x")
    assert sorted(kept.fields) == ["c", "oc", "sc"]


def test_async_handlers_await_their_steps():
    kept, runs = Kept(), list[str]()

    async def fetch(name: str) -> Order:
        await asyncio.sleep(0)
        runs.append(name)
        return order()

    async def handler(ctx: TaskContext) -> None:
        found = await asyncio.gather(ctx.step_async("a", fetch, "a"), ctx.step_async("b", fetch, "b"))
        assert list(found) == [order(), order()]
        assert await ctx.step_async("sync", int, "4") == 4
        await ctx.checkpoint_async(5)
        assert ctx.cursor == 5
        marks.append(await ctx.once_async("mail"))
        with pytest.raises(InvalidStep, match="step_async"):
            _ = ctx.step("late", fetch, "late")

    marks = list[bool]()
    for _ in range(2):
        asyncio.run(handler(kept.next()))
    assert sorted(runs) == ["a", "b"]
    assert marks == [True, False]


def steps(save: Any, seconds: float = 5, given_up: threading.Event | None = None) -> Steps:
    return Steps(
        {},
        save,
        deadline=time.monotonic() + seconds,
        given_up=given_up or threading.Event(),
        most=10,
        most_bytes=1000,
    )


def test_a_save_is_tried_again_while_redis_is_away():
    answers: list[Any] = [RedisUnavailable("gone"), RedisUnavailable("gone"), True]

    def save(*_: object) -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    steps(save).checkpoint(1)
    assert answers == []


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_save_gives_up_at_the_deadline_or_when_the_execution_is_to_end(cancelled: bool):
    def save(*_: object) -> bool:
        raise RedisUnavailable("gone", may_have_run=True)

    given_up = threading.Event()
    if cancelled:
        given_up.set()
    with pytest.raises(RedisUnavailable, match="nothing was saved") as found:
        steps(save, 60 if cancelled else 0.3, given_up).checkpoint(1)
    assert found.value.may_have_run


def test_a_lost_claim_ends_the_handler():
    def save(*_: object) -> bool:
        raise ClaimLost("gone")

    with pytest.raises(ClaimLost):
        context_of(CLAIM, save=save).step("it", int)
