"""What task types and calls say of tasks that are alike, and the keys that are made of it."""

import functools
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from dtq_engine import Deduplication, Dtq, InvalidHandler, InvalidTask, NewTask, Settings, Unique
from dtq_engine.deduplication import Rule, read_published, read_rule
from dtq_engine.model import Parent
from dtq_engine.registry import Handler
from dtq_engine.unique_keys import literal
from dtq_engine.validate import check

SETTINGS = Settings(redis_url="redis://nowhere")


def build(account: int, month: str | None = None, *, tags: list[str] | None = None) -> None:
    """Build a report."""


def made(*args: Any, by: Any = build, **options: Any) -> NewTask:
    """The task of a call, of a type with these options."""
    return Dtq(SETTINGS).task("reports.build", **options)(by).prepare(*args)


def key_of(*args: Any, **options: Any) -> str | None:
    """The key of a call."""
    wanted = made(*args, **options).deduplication
    assert wanted is not None
    return wanted.key


def test_a_task_says_nothing_where_nothing_is_said():
    assert made(7).deduplication is None
    assert made(7, unique="no").deduplication is None


def test_the_options_of_a_type_are_those_of_its_tasks():
    assert made(7, unique="until_done").deduplication == Deduplication(unique=Unique.UNTIL_DONE)
    assert made(7, at_most=3, per=timedelta(minutes=1)).deduplication == Deduplication(at_most=3, per_ms=60_000)
    debounced = Deduplication(debounce_ms=1_500, debounce_max_ms=60_000)
    assert made(7, debounce=1.5, debounce_max=60).deduplication == debounced


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (("account",), '{"account":7}'),
        (("month", "account"), '{"account":7,"month":"05"}'),
        (("account", "tags"), '{"account":7,"tags":null}'),
        ("report-{account}-{month}", "report-7-05"),
        ("{account}{tags}", "7null"),
        ("account", '{"account":7}'),
        ("{{{account}}}", "{7}"),
        (lambda: "all", "all"),
        (lambda account: account, "7"),
        (lambda month, account: f"{month}/{account}", "05/7"),
        (lambda **arguments: "+".join(sorted(arguments)), "account+month"),
        (lambda tags: "none" if tags is None else "some", "none"),
        (lambda account, other=1: (account, other), "[7,1]"),
        (lambda account: UUID(int=account), '"00000000-0000-0000-0000-000000000007"'),
    ],
)
def test_a_key_is_made_of_the_arguments(key, expected):
    assert key_of(7, "05", unique="waiting", unique_key=key) == expected


@pytest.mark.parametrize("key", [None, ("account", "month")])
def test_arguments_make_the_same_key_by_position_and_by_name(key):
    task = Dtq(SETTINGS).task("t", unique="waiting", unique_key=key)(build)
    first, second = task.prepare(7, "05"), task.prepare(month="05", account=7)
    assert first.deduplication == second.deduplication


def test_a_function_gets_what_the_handler_would_get():
    def pay(account: UUID) -> None: ...

    key = key_of(UUID(int=7), by=pay, unique="waiting", unique_key=lambda account: account.hex)
    assert key == UUID(int=7).hex


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"unique": "always"}, "unique cannot be 'always'"),
        ({"unique": True}, "unique cannot be True"),
        ({"unique": ["waiting"]}, "unique cannot be"),
        ({"unique_key": ("account",)}, "unique_key alone means nothing"),
        ({"unique": "waiting", "unique_key": ("acount",)}, "did you mean account"),
        ({"unique": "waiting", "unique_key": "report-{acount}"}, "did you mean account"),
        ({"unique": "waiting", "unique_key": lambda acount: acount}, "did you mean account"),
        ({"unique": "waiting", "unique_key": ()}, "unique_key cannot be"),
        ({"unique": "waiting", "unique_key": ("",)}, "unique_key cannot be"),
        ({"unique": "waiting", "unique_key": ["account"]}, "use names of parameters"),
        ({"unique": "waiting", "unique_key": 7}, "use names of parameters"),
        ({"unique": "waiting", "unique_key": "zz"}, "unique_key names zz, which is no parameter"),
        ({"unique": "waiting", "unique_key": "acount"}, "did you mean account"),
        ({"unique": "waiting", "unique_key": "report-7"}, "name a parameter, or put one in braces"),
        ({"unique": "waiting", "unique_key": "{{account}}"}, "name a parameter, or put one in braces"),
        ({"unique": "waiting", "unique_key": ""}, "cannot be empty text"),
        ({"unique": "waiting", "unique_key": "{account"}, "no template"),
        ({"unique": "waiting", "unique_key": "{account.id}"}, "only names of parameters"),
        ({"unique": "waiting", "unique_key": "{}"}, "only names of parameters"),
        ({"unique": "waiting", "unique_key": "{0}"}, "only names of parameters"),
        ({"unique": "waiting", "unique_key": "{account!r}"}, "only names of parameters"),
        ({"unique": "waiting", "unique_key": lambda account, /: account}, "by name"),
        ({"unique": "waiting", "unique_key": int}, "unique_key cannot be"),
        ({"at_most": 1}, "give both"),
        ({"per": 60}, "give both"),
        ({"at_most": 0, "per": 60}, "at_most cannot be 0"),
        ({"at_most": 10_001, "per": 60}, "from 1 to 10000"),
        ({"at_most": 1.0, "per": 60}, "at_most cannot be 1.0"),
        ({"at_most": 1, "per": 0}, "per cannot be 0"),
        ({"at_most": 1, "per": -1}, "per cannot be -1"),
        ({"at_most": 1, "per": float("nan")}, "per cannot be nan"),
        ({"at_most": 1, "per": float("inf")}, "per cannot be inf"),
        ({"at_most": 1, "per": "60"}, "per cannot be '60'"),
        ({"debounce": 0}, "debounce cannot be 0"),
        ({"debounce_max": 5}, "debounce_max bounds debounce"),
        ({"debounce": 5, "debounce_max": 4}, "at least as much"),
        ({"debounce": 5, "unique": "waiting"}, "debounce excludes"),
        ({"debounce": 5, "at_most": 1, "per": 1}, "debounce excludes"),
    ],
)
def test_what_cannot_be_is_named_at_registration(options, problem):
    with pytest.raises(InvalidHandler, match=r"task 'reports.build' cannot be registered: .*") as raised:
        made(7, **options)
    assert problem in str(raised.value)


def test_an_unknown_option_is_none():
    with pytest.raises(InvalidHandler, match=r"no option uniqe; did you mean unique\?"):
        Dtq(SETTINGS).task("t", uniqe="waiting")  # type: ignore[call-arg]


def test_what_cannot_be_is_named_in_a_call():
    task = Dtq(SETTINGS).task("t", unique="waiting")(build)
    for options, field in (
        ({"debounce": 5}, "debounce"),
        ({"unique_key": ("acount",)}, "unique_key"),
        ({"at_most": 0, "per": 1}, "at_most"),
        ({"unique": "sometimes"}, "unique"),
    ):
        with pytest.raises(InvalidTask) as raised:
            task.options(**options)
        assert raised.value.field == field


async def eventually(account: int) -> int:
    return account


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda account: None, "returned None"),
        (lambda account: [account], "unhashable"),
        (lambda account: {"a": account}, "unhashable"),
        (lambda account: "", "is empty text"),
        (lambda account: object(), "no unique key can be made"),
        (lambda account: float("nan"), "returned nan"),
        (lambda account: account / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_function_that_makes_no_key_is_named_at_submit(function, problem):
    with pytest.raises(InvalidTask, match=problem) as raised:
        made(7, unique="waiting", unique_key=function)
    assert raised.value.field == "unique_key"


def test_a_key_is_not_made_by_a_coroutine():
    with pytest.raises(InvalidHandler, match="plain function"):
        made(7, unique="waiting", unique_key=eventually)


def test_an_empty_argument_makes_no_empty_key():
    def send(to: str) -> None: ...

    with pytest.raises(InvalidTask, match="empty text"):
        made("", by=send, unique="waiting", unique_key="{to}")


def test_a_call_goes_over_its_type():
    task = Dtq(SETTINGS).task("t", unique="until_done", unique_key=("account",))(build)
    assert task.options(unique="waiting").prepare(7).deduplication == Deduplication(
        unique=Unique.WAITING, key='{"account":7}'
    )
    whole = task.options(unique_key=lambda: "all")
    assert whole.prepare(7).deduplication == Deduplication(unique=Unique.UNTIL_DONE, key="all")
    assert task.options(unique="no").prepare(7).deduplication is None
    debounced = task.options(unique="no", debounce=5)
    assert debounced.prepare(7).deduplication == Deduplication(debounce_ms=5_000, key='{"account":7}')
    assert task.options(unique="no").options(at_most=1, per=1).prepare(7).deduplication == Deduplication(
        at_most=1, per_ms=1_000, key='{"account":7}'
    )
    assert task.options(unique="no").options(unique="waiting", priority=9).prepare(7).deduplication is not None


def test_a_type_may_be_unique_and_throttled():
    wanted = made(7, unique="until_done", at_most=1, per=60).deduplication
    assert wanted == Deduplication(unique=Unique.UNTIL_DONE, at_most=1, per_ms=60_000)


def test_by_name_any_parameter_may_make_the_key():
    task = Dtq(SETTINGS).named("elsewhere").options(unique="waiting", unique_key="{any}")
    assert task.prepare(any=[1, 2]).deduplication == Deduplication(unique=Unique.WAITING, key="[1,2]")


@pytest.mark.parametrize(
    ("wanted", "more", "field"),
    [
        (Deduplication(unique="until_done"), {}, "unique"),  # type: ignore[arg-type]
        (Deduplication(unique=Unique.WAITING, key=""), {}, "unique_key"),
        (Deduplication(unique=Unique.WAITING, key="\ud800"), {}, "unique_key"),
        (Deduplication(unique=Unique.WAITING, key=7), {}, "unique_key"),  # type: ignore[arg-type]
        (Deduplication(at_most=1), {}, "at_most"),
        (Deduplication(at_most=1, per_ms=0), {}, "per_ms"),
        (Deduplication(at_most=1, per_ms=1.5), {}, "per_ms"),  # type: ignore[arg-type]
        (Deduplication(debounce_ms=5, unique=Unique.WAITING), {}, "debounce"),
        (Deduplication(debounce_max_ms=5), {}, "debounce_max"),
        (Deduplication(debounce_ms=5), {"delay_ms": 1}, "debounce"),
        (Deduplication(debounce_ms=5), {"run_at_ms": 1}, "debounce"),
        (Deduplication(debounce_ms=5), {"after": (Parent("b", "default"),)}, "debounce"),
        ("unique", {}, "deduplication"),
    ],
)
def test_a_task_made_by_hand_is_checked_before_it_is_sent(wanted, more, field):
    with pytest.raises(InvalidTask) as raised:
        check(NewTask(id="a", type="t", deduplication=wanted, **more), SETTINGS)
    assert raised.value.field == field


@pytest.mark.parametrize("key", [None, ("account",), "account", "report-{account}"])
def test_who_has_not_the_handler_makes_the_same_key_from_what_is_published(key):
    options = {"unique": "until_done", "unique_key": key, "at_most": 1, "per": 5}
    handler = Dtq(SETTINGS).task("reports.build", **options)(build).handler
    rule = read_published("reports.build", handler.published().defaults["deduplication"])
    assert rule is not None
    make = rule.maker(functools.partial(NewTask, type="reports.build"))
    assert make(id="a", payload=b'{"account":7}').deduplication == made(7, **options).deduplication


def test_a_key_that_a_function_makes_is_asked_for_elsewhere():
    handler = Dtq(SETTINGS).task("t", unique="waiting", unique_key=lambda account: account)(build).handler
    rule = read_published("t", handler.published().defaults["deduplication"])
    assert rule is not None
    with pytest.raises(InvalidTask, match="give a unique_key"):
        rule.maker(functools.partial(NewTask, type="t"))(id="a", payload=b'{"account":7}')
    for key in ("{mine}", "account"):
        given = read_rule(unique_key=literal(key))
        assert given is not None
        wanted = given.over(rule).maker(functools.partial(NewTask, type="t"))(id="a", payload=b"{}").deduplication
        assert wanted == Deduplication(unique=Unique.WAITING, key=key)


@pytest.mark.parametrize("found", [None, 7, "x", {"unique": "later"}, {"key": 7}, []])
def test_what_another_release_publishes_and_cannot_be_read_here_is_none(found):
    assert read_published("t", found) is None


def test_a_type_that_says_nothing_publishes_nothing():
    assert "deduplication" not in Handler("t", build).published().defaults


def test_registering_one_function_twice_in_one_way_is_fine():
    app = Dtq(SETTINGS)
    for _ in range(2):
        app.task("t", unique="waiting", unique_key=("account",))(build)
    with pytest.raises(InvalidHandler, match="is taken"):
        app.task("t", unique="until_done", unique_key=("account",))(build)


def test_a_rule_that_is_off_leaves_the_key_only():
    given = Rule(off=True, debounce_ms=5)
    assert given.over(Rule(unique=Unique.WAITING, key="k", at_most=1, per_ms=1)) == Rule(
        off=True, debounce_ms=5, key="k"
    )
