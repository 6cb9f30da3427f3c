"""Limits as the code says them: what is refused, by name, and which buckets arguments lead to."""

from datetime import date, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from dtq_engine import Dtq, InvalidLimit, InvalidTask, NotJson, published_buckets
from dtq_engine.config import Settings
from dtq_engine.limit_states import parse_declared, parse_override, write_override
from dtq_engine.limits import Numbers


@pytest.fixture
def app() -> Dtq:
    """An app with two limits; it talks to nobody."""
    app = Dtq(Settings(redis_url="redis://nowhere.invalid"))
    app.limit("stripe", max_running=2)
    app.limit("account", max_running=1, rate=(3, 60))
    return app


def task(app: Dtq, **options: Any) -> Any:
    """Register a task with two parameters under these options."""

    def charge(account: int = 3, share: float = 1.0) -> None: ...

    return app.task("charge", **options)(charge)


@pytest.mark.parametrize("value", [0, -1, True, 1.5, 10**9, "3", float("nan")], ids=repr)
def test_a_number_that_cannot_be_one_of_running_tasks_is_named(app, value):
    with pytest.raises(InvalidLimit, match="'x': max_running cannot be"):
        app.limit("x", max_running=value)


@pytest.mark.parametrize(
    "value",
    [
        *(5, (), (1,), (0, 1), (-1, 1), (True, 1), (1.5, 1), ("1", 1), (10**7, 1)),
        *((1, 0), (1, -1), (1, True), (1, "1"), (1, 10**9), (1, float("nan")), (1, float("inf")), (1, 2, 3)),
    ],
    ids=repr,
)
def test_a_rate_that_cannot_be_one_is_named(app, value):
    with pytest.raises(InvalidLimit, match=r"'x': rate cannot"):
        app.limit("x", rate=value)


def test_a_limit_must_limit_something(app):
    with pytest.raises(InvalidLimit, match="limits nothing"):
        app.limit("x")


@pytest.mark.parametrize("name", ["", "a/b", "*", "a b", "a!", None, 3, "x" * 65], ids=repr)
def test_a_name_that_cannot_be_one_is_refused(app, name):
    with pytest.raises(InvalidLimit, match="cannot be called"):
        app.limit(name, max_running=1)


def test_a_limit_is_made_once(app):
    assert app.limit("stripe", max_running=2) == app.limit("stripe", max_running=2)
    with pytest.raises(InvalidLimit, match="is there already"):
        app.limit("stripe", max_running=3)
    app.limit.queue("mail", max_running=2)
    with pytest.raises(InvalidLimit, match="limit of the queue 'mail' is there already"):
        app.limit.queue("mail", max_running=3)
    with pytest.raises(InvalidLimit, match="no queue 'BAD'"):
        app.limit.queue("BAD", max_running=3)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"limit": "strip"}, "no limit 'strip'; did you mean 'stripe'"),
        ({"limit": "x"}, "there are account, stripe"),
        ({"limit": "stripe", "limit_key": "acount"}, "'acount', which is no parameter of its function; did you mean"),
        ({"limit": "stripe", "limit_key": 5}, "limit_key cannot be 5"),
        ({"limit": "stripe", "limit_key": ("a", "b", "c", "d", "e")}, "limit_key cannot be"),
        ({"limit_key": "account"}, "name the limit by limit="),
        ({"limit": 5}, "limit cannot be 5"),
        ({"limit": ()}, "each once"),
        ({"limit": {}}, "each once"),
        ({"limit": ("stripe", "stripe")}, "each once"),
        ({"limit": {"stripe": 3}}, "limit_key cannot be 3"),
        ({"limit": {"stripe": None}, "limit_key": "account"}, "drop limit_key"),
    ],
    ids=repr,
)
def test_what_a_task_cannot_have_for_a_limit_is_named(app, options, problem):
    with pytest.raises(InvalidLimit, match=f"^task 'charge' cannot be registered: .*{problem}"):
        task(app, **options)


def test_a_value_that_cannot_be_shown_is_refused_all_the_same(app):
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    for refused in (lambda: task(app, limit=Odd()), lambda: app.limit("odd", max_running=Odd())):
        with pytest.raises(InvalidLimit, match="something of type Odd"):
            refused()


def test_a_limit_counts_in_one_queue(app):
    task(app, limit="stripe", queue="mail")

    @app.task("other", limit="stripe", queue="mail")
    def other() -> None: ...

    with pytest.raises(InvalidLimit, match="'mail' for other tasks, and 'default' here"):

        @app.task("elsewhere", limit="stripe")
        def elsewhere() -> None: ...

    with pytest.raises(InvalidTask, match="count in the queue mail"):
        other.options(queue="default").prepare()


@pytest.mark.parametrize(
    ("limit", "buckets"),
    [
        ("stripe", ("stripe",)),
        (("stripe", "account"), ("stripe", "account")),
        ({"stripe": None, "account": "account"}, ("stripe", "account/7")),
        ({"account": ("account", "account")}, ("account/7/7",)),
    ],
    ids=repr,
)
def test_arguments_lead_to_buckets(app, limit, buckets):
    assert task(app, limit=limit).prepare(7).limits == buckets


def test_a_limit_stands_for_its_name_and_a_default_for_an_argument(app):
    limit = app.limit("seconds", rate=(1, timedelta(seconds=5)))
    assert limit.numbers == Numbers(None, 1, 5_000)
    assert task(app, limit=limit, limit_key="account").prepare().limits == ("seconds/3",)


class Region(str, Enum):  # noqa: UP042 - which is not the same to `str`
    """A text that `str` shows as something else."""

    NORTH = "north"


class Grade(Enum):
    """A value that is no text by itself."""

    BEST = 1


@pytest.mark.parametrize("value", [Region.NORTH, Grade.BEST, UUID(int=7), date(2026, 1, 31), 10**30, "a b"], ids=repr)
def test_a_default_counts_in_the_bucket_of_the_same_value_passed(app, value):
    def keyed(key: Any = value) -> None: ...

    keyed.__annotations__["key"] = type(value)
    made = app.task("keyed", limit="account", limit_key="key")(keyed)
    assert made.prepare().limits == made.prepare(value).limits


def test_tasks_without_limits_have_no_buckets(app):
    assert task(app).prepare(7).limits == ()


@pytest.mark.parametrize("value", ["x" * 1000, "a b", "ü", "", "a/b", "#x", "*", "\ud800"], ids=ascii)
def test_keys_of_any_length_and_signs_have_short_buckets(app, value):
    @app.task("keyed", limit="account", limit_key="key")
    def keyed(key: str) -> None: ...

    use = keyed.handler.defaults.limits[0]
    assert use.bucket({"key": value}).startswith("account/#")
    assert use.bucket({"key": value}) != use.bucket({"key": value + "!"})
    assert len(use.bucket({"key": value})) == len("account/#") + 24


@pytest.mark.parametrize("value", [None, True, 1.5, [1], {"a": 1}], ids=repr)
def test_a_key_that_is_neither_text_nor_a_whole_number_is_named(app, value):
    @app.task("keyed", limit="account", limit_key="key")
    def keyed(key: Any) -> None: ...

    with pytest.raises(InvalidTask, match="counts by key, which cannot be") as caught:
        keyed.prepare(value)
    assert caught.value.field == "key"


def test_what_workers_publish_leads_to_the_same_buckets(app):
    published = task(app, limit="account", limit_key="account").handler.published().defaults
    assert published_buckets(published, b'{"account": 7}') == ("account/7",)
    assert published_buckets(published, b"{}") == ("account/3",)
    assert published_buckets({}, b"[7]") == ()
    with pytest.raises(NotJson):
        published_buckets(published, b"[7]")


@pytest.mark.parametrize(
    "limits", ["stripe", 5, ("",), ("*",), ("+",), ("a/b/c/d/e/f",), ("ü",), tuple("abcdefghi")], ids=repr
)
def test_buckets_that_nobody_made_are_refused(app, limits):
    with pytest.raises(InvalidTask, match="limits cannot be"):
        app.accept(type(task(app).prepare())(id="a", type="charge", limits=limits))


def test_a_periodic_task_has_the_limits_of_its_type(app):
    app.periodic(every=60, arguments={"account": 9})(task(app, limit="account", limit_key="account"))
    (definition,) = app.registry.periodic()
    assert definition.task("a").limits == ("account/9",)


@pytest.mark.parametrize(
    ("given", "written", "in_force"),
    [
        ({"max_running": 1}, "1/-/-", Numbers(1, 10, 1_000)),
        ({"max_running": "none"}, "0/-/-", Numbers(None, 10, 1_000)),
        ({"rate": (2, 0.5)}, "-/2/500", Numbers(5, 2, 500)),
        ({"max_running": 3, "rate": "none"}, "3/0/0", Numbers(3)),
    ],
    ids=repr,
)
def test_an_override_leaves_to_the_code_what_it_does_not_say(given, written, in_force):
    text = write_override(given.get("max_running"), given.get("rate"))
    assert text == written
    assert parse_override(f"{text} {{}}", Numbers(5, 10, 1_000)) == in_force


def test_what_cannot_be_read_is_no_limit():
    assert parse_declared("nonsense") is None
    assert parse_declared("9" * 400 + "/1/1") is None
    assert parse_override("", Numbers(1)) is None
