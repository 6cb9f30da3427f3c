"""What a task type, a call and the settings decide about a task."""

import inspect
import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dtq_engine import validate
from dtq_engine.config import Settings
from dtq_engine.engine import Dtq
from dtq_engine.errors import ConfigurationError, InvalidHandler, InvalidTask
from dtq_engine.model import NewTask, RetryPolicy
from dtq_engine.task import TaskContext

SETTINGS = Settings(task_timeout_s=100, max_attempts=7, retry_base_delay_s=1, retry_max_delay_s=60, retry_jitter=0.1)
app = Dtq(SETTINGS)


@app.task("plain")
def plain(value: int = 0) -> int:
    return value


@app.task(
    "own",
    queue="reports",
    priority=3,
    max_attempts=5,
    timeout=60,
    retry_base_delay=timedelta(seconds=2),
    retry_max_delay=0.5,
    retry_jitter=0,
    expires_in=3600,
    keep_result=False,
    restartable=True,
)
def own(ctx: TaskContext, value: int = 0) -> int:
    return value


def test_what_nobody_decides_comes_from_the_settings():
    task = plain.prepare(1)
    assert (task.type, task.payload, task.queue, task.priority) == ("plain", b'{"value":1}', "default", 5)
    assert task.retry == RetryPolicy(7, 1000, 60_000, 0.1)
    assert (task.timeout_ms, task.delay_ms, task.run_at_ms, task.expires_in_ms) == (100_000, 0, None, None)
    assert (task.keep_result, task.restartable, task.idempotency_key, task.headers) == (True, False, None, {})


def test_a_task_type_decides_for_its_tasks():
    task = own.prepare()
    assert (task.queue, task.priority, task.timeout_ms, task.expires_in_ms) == ("reports", 3, 60_000, 3_600_000)
    assert task.retry == RetryPolicy(5, 2000, 500, 0)
    assert (task.keep_result, task.restartable) == (False, True)


def test_a_call_decides_for_one_task():
    chosen = own.options(
        id="my-id",
        queue="other",
        priority=9,
        delay=1.5,
        expires_in=timedelta(minutes=1),
        timeout=5,
        max_attempts=1,
        idempotency_key="r-7",
        headers={"traceparent": "00"},
    )
    task = chosen.prepare(2)
    assert (task.id, task.queue, task.priority, task.delay_ms) == ("my-id", "other", 9, 1500)
    assert (task.expires_in_ms, task.timeout_ms, task.retry.max_attempts) == (60_000, 5000, 1)
    assert (task.idempotency_key, task.headers) == ("r-7", {"traceparent": "00"})
    assert task.retry.base_delay_ms == 2000
    assert own.prepare().priority == 3


def test_options_build_on_earlier_options():
    later = plain.options(priority=9, delay=60).options(priority=0)
    assert (later.prepare().priority, later.prepare().delay_ms) == (0, 60_000)


def test_of_delay_and_start_time_the_later_one_wins():
    at = datetime(2026, 10, 1, tzinfo=UTC)
    assert plain.options(delay=60).options(run_at=at).prepare().run_at_ms == 1_790_812_800_000
    assert plain.options(run_at=at).options(delay=60).prepare().run_at_ms is None
    with pytest.raises(InvalidTask, match="exclude each other"):
        plain.options(delay=60, run_at=at)


def test_each_task_has_an_id_of_its_own():
    assert len({plain.prepare().id for _ in range(100)}) == 100


def test_what_is_prepared_is_valid():
    for submitter in (plain, own, own.options(delay=0, priority=0, headers={})):
        validate.check(submitter.prepare(1), SETTINGS)


WRONG: list[dict[str, Any]] = [
    {"delay": math.nan},
    {"delay": -1},
    {"delay": True},
    {"delay": "5"},
    {"run_at": datetime(2026, 10, 1)},  # noqa: DTZ001
    {"run_at": 5},
    {"priority": 10},
    {"priority": True},
    {"priority": 5.0},
    {"queue": "No"},
    {"idempotency_key": ""},
    {"expires_in": 0},
    {"timeout": 0},
    {"timeout": math.inf},
    {"timeout": 90_000},
    {"max_attempts": 0},
    {"max_attempts": 101},
    {"headers": {"a": 1}},
    {"id": "a b"},
]


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_a_wrong_option_of_a_call_is_refused_by_name(options):
    (name,) = options
    with pytest.raises(InvalidTask, match=f"^{name} cannot be ") as refused:
        plain.options(**options)
    assert refused.value.field == name


@pytest.mark.parametrize(
    "options",
    [
        {"queue": "No"},
        {"priority": -1},
        {"max_attempts": "3"},
        {"timeout": math.nan},
        {"retry_base_delay": -1},
        {"retry_max_delay": "1"},
        {"retry_jitter": 1.5},
        {"expires_in": 0},
        {"keep_result": 1},
        {"restartable": None},
    ],
    ids=str,
)
def test_a_wrong_option_of_a_task_type_is_refused_at_registration(options):
    (name,) = options
    with pytest.raises(InvalidHandler, match=f"task 'x' cannot be registered: {name} cannot be "):
        Dtq(SETTINGS).task("x", **options)


@pytest.mark.parametrize("name", ["", "a b", 5, None])
def test_a_wrong_name_is_refused_at_registration(name):
    with pytest.raises(InvalidHandler, match="type cannot be"):
        Dtq(SETTINGS).task(name)


def test_nothing_is_registered_that_was_refused():
    fresh = Dtq(SETTINGS)
    with pytest.raises(InvalidHandler):
        fresh.task("x")(lambda *args: None)
    assert fresh.registry.types() == ()


def test_a_task_is_still_the_function_it_was_made_of():
    assert plain(5) == 5
    assert inspect.unwrap(plain) is plain.handler.fn
    assert inspect.signature(plain) == inspect.signature(plain.handler.fn)
    assert repr(plain) == "<Task plain>"


def test_a_function_can_be_registered_under_two_names():
    fresh = Dtq(SETTINGS)

    @fresh.task("new.name", priority=9)
    @fresh.task("old.name")
    async def fetch(url: str) -> str:
        return url

    new, old = fresh.registry.get("new.name"), fresh.registry.get("old.name")
    assert new is not None
    assert old is not None
    assert new.is_async
    assert new.fn is old.fn
    assert (fetch.name, fetch.prepare("u").priority) == ("new.name", 9)


def test_a_type_without_handler_takes_any_named_json_arguments():
    task = app.named("elsewhere").options(priority=1).prepare(a=[1], self="x")
    assert (task.type, task.payload, task.priority) == ("elsewhere", b'{"a":[1],"self":"x"}', 1)
    assert task.retry.max_attempts == 7
    with pytest.raises(InvalidTask, match="positional"):
        app.named("elsewhere").prepare(1)
    with pytest.raises(InvalidTask, match="of type set"):
        app.named("elsewhere").prepare(a={1})
    assert app.registry.get("elsewhere") is None


def test_a_type_with_handler_is_checked_by_it_under_its_name_too():
    assert app.named("own").prepare(value=1).queue == "reports"
    with pytest.raises(InvalidTask, match="Expected `int`"):
        app.named("own").prepare(value="x")
    with pytest.raises(InvalidTask, match="type cannot be"):
        app.named("a b")


def test_registering_and_choosing_options_read_no_settings(monkeypatch):
    monkeypatch.setenv("DTQ_MAX_ATTEMPTS", "many")
    lazy = Dtq()
    submitter = lazy.task("x")(lambda: None).options(priority=9)
    with pytest.raises(ConfigurationError, match="DTQ_MAX_ATTEMPTS"):
        submitter.prepare()
    monkeypatch.setenv("DTQ_MAX_ATTEMPTS", "3")
    assert submitter.prepare().retry.max_attempts == 3


def test_a_task_made_by_hand_is_a_value():
    task = NewTask(id="a", type="plain")
    assert replace(task, priority=9).priority == 9


@pytest.mark.parametrize(
    ("option", "hint"),
    [("dely", "did you mean delay?"), ("uniqe", "did you mean unique?"), ("colour", "remove it."), ("agter", "after?")],
)
def test_an_option_of_a_call_that_does_not_exist_is_named_with_the_nearest(option, hint):
    wrong: dict[str, Any] = {option: 1}
    with pytest.raises(InvalidTask, match=f"^there is no option {option}; .*{re.escape(hint)}$") as caught:
        plain.options(**wrong)
    assert caught.value.field == option


@pytest.mark.parametrize(
    ("option", "hint"),
    [("tiemout", "did you mean timeout?"), ("proces", "did you mean process?"), ("colour", "remove it.")],
)
def test_an_option_of_a_type_that_does_not_exist_is_named_with_the_nearest(option, hint):
    wrong: dict[str, Any] = {option: 3}
    with pytest.raises(InvalidHandler, match=f"^task 'x' cannot be registered: there is no option .*{re.escape(hint)}"):
        app.task("x", **wrong)
