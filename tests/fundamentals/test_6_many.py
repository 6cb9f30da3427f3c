"""Chapter 6: many tasks at once, and from async programs."""

import asyncio

import pytest

from dtq_engine import DtqError, Handle, InvalidTask, NewTask


@pytest.fixture
def square(app):
    @app.task("math.square")
    def square(number: int) -> int:
        return number * number

    return square


def test_thousands_of_tasks_go_out_in_a_few_round_trips(app, square, start_worker):
    handles = app.submit_many(square.prepare(number) for number in range(1200))
    start_worker()
    assert [handle.result(timeout=30) for handle in handles] == [number * number for number in range(1200)]


def test_each_task_has_an_answer_of_its_own_and_a_bad_one_does_not_stop_the_others(app, square):
    tasks = [
        square.prepare(1),
        NewTask(id="made by hand", type="math.square"),  # blanks are not allowed in an id
        square.options(priority=9).prepare(2),
    ]
    answers = app.submit_many(tasks)
    assert isinstance(answers[0], Handle)
    assert isinstance(answers[1], InvalidTask)
    assert isinstance(answers[2], Handle)
    for task, answer in zip(tasks, answers, strict=True):
        if isinstance(answer, DtqError):
            assert task.id == "made by hand"
        else:
            answer.cancel()


def test_a_wrong_argument_is_refused_where_the_call_is_prepared(square):
    with pytest.raises(InvalidTask, match="argument number"):
        square.prepare("three")


def test_an_async_program_awaits_the_submit_and_not_the_network(square, start_worker):
    async def fan_out() -> list[Handle[int]]:
        return list(await asyncio.gather(*(square.submit_async(number) for number in range(10))))

    handles = asyncio.run(fan_out())
    start_worker()
    assert [handle.result(timeout=10) for handle in handles] == [number * number for number in range(10)]
