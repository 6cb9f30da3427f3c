"""When periodic tasks are due, and what is said of wrong ones."""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import product
from zoneinfo import ZoneInfo

import pytest

from dtq_engine import Dtq, Settings
from dtq_engine.errors import ConfigurationError, InvalidHandler
from dtq_engine.periodic import CORRECTION_MS, LATE_MS, CatchUp, Definition, Every, Turn, cron, next_turn
from dtq_engine.timetable import definitions

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE_MS = 60_000


def ms(text: str) -> int:
    """An instant as milliseconds."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def written(tick_ms: int, zone: ZoneInfo = BERLIN) -> str:
    """A tick as the wall clock shows it, with the offset from UTC."""
    return datetime.fromtimestamp(tick_ms / 1000, zone).isoformat(timespec="minutes")


def ticks_of(expression: str, zone: str, start: str, end: str) -> list[int]:
    """All ticks after one instant, up to another."""
    ticks, found, at_ms = cron(expression, zone), list[int](), ms(start)
    while (at_ms := ticks.after(at_ms)) <= ms(end):
        found.append(at_ms)
    return found


def shown(expression: str, start: str, end: str) -> list[str]:
    """The same for Berlin, as its wall clock shows them."""
    return [written(each)[5:] for each in ticks_of(expression, "Europe/Berlin", start, end)]


# By the wall clock: in Berlin 02:00 to 03:00 does not exist on 2026-03-29, and comes twice on 2026-10-25.


def test_a_fixed_time_in_the_skipped_hour_comes_right_after_it():
    assert shown("30 2 * * *", "2026-03-28T12:00Z", "2026-03-30T12:00Z") == ["03-29T03:00+02:00", "03-30T02:30+02:00"]


def test_several_fixed_times_in_the_skipped_hour_are_one_tick():
    assert shown("0,30 2 * * *", "2026-03-28T12:00Z", "2026-03-29T12:00Z") == ["03-29T03:00+02:00"]


def test_a_fixed_time_in_the_doubled_hour_comes_once_the_first_time():
    assert shown("30 2 * * *", "2026-10-24T12:00Z", "2026-10-26T12:00Z") == ["10-25T02:30+02:00", "10-26T02:30+01:00"]


def test_after_the_second_pass_of_the_doubled_hour_has_begun_a_fixed_time_of_it_is_over():
    assert shown("45 2 * * *", "2026-10-25T02:10+01:00", "2026-10-26T12:00Z") == ["10-26T02:45+01:00"]


def test_each_hour_means_each_real_hour():
    assert shown("0 * * * *", "2026-03-29T00:30Z", "2026-03-29T02:30Z") == ["03-29T03:00+02:00", "03-29T04:00+02:00"]
    assert shown("0 * * * *", "2026-10-25T00:30+02:00", "2026-10-25T03:30+01:00") == [
        "10-25T01:00+02:00",
        "10-25T02:00+02:00",
        "10-25T02:00+01:00",
        "10-25T03:00+01:00",
    ]


def test_each_half_hour_of_an_hour_is_left_out_when_that_is_skipped_and_comes_twice_when_that_is_doubled():
    assert shown("*/30 2 * * *", "2026-03-28T12:00Z", "2026-03-29T12:00Z") == []
    assert len(shown("*/30 2 * * *", "2026-10-24T12:00Z", "2026-10-25T12:00Z")) == 4


def by_hand(expression: str, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """What cron does, written plainly for `minute hour * * *`: the ticks after `start`, up to `end`."""
    minute, hour, *_ = expression.split()
    if minute.startswith("*") or hour.startswith("*"):
        at = start.replace(second=0, microsecond=0) + timedelta(minutes=1)
        while at <= end:
            here = at.astimezone(zone)
            if fits(here.minute, minute) and fits(here.hour, hour):
                yield at
            at += timedelta(minutes=1)
        return
    day = start.astimezone(zone).date() - timedelta(days=1)
    while day <= end.astimezone(zone).date():
        at = of_the_clock(datetime.combine(day, time(int(hour), int(minute))), zone)
        if start < at <= end:
            yield at
        day += timedelta(days=1)


def fits(number: int, field: str) -> bool:
    """Whether a number is one of those that a field means: `*`, `*/n` or itself."""
    if field.startswith("*"):
        return number % int(field.removeprefix("*").removeprefix("/") or 1) == 0
    return number == int(field)


def of_the_clock(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first instant at which the wall clock shows this, or the first after it where it never does."""
    while (at := wall.replace(tzinfo=zone).astimezone(UTC)).astimezone(zone).replace(tzinfo=None) != wall:
        wall += timedelta(minutes=1)
    return at


CHANGES = {
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Australia/Lord_Howe": ("2026-04-05", "2026-10-04"),  # by half an hour
    "America/Havana": ("2026-03-08", "2026-11-01"),  # at midnight
    "UTC": ("2026-03-29", "2026-10-25"),
}


# Not here: */20 3 * * * on Lord Howe. cronsim looks for an hour in steps of one, and so passes over the first half of
# those that follow when the clock of that island is put back by half of one.
EXPRESSIONS = ("30 2 * * *", "0 0 * * *", "45 1 * * *", "*/15 * * * *", "0 * * * *", "*/20 3 * * *")
CASES = sorted({*product(EXPRESSIONS, CHANGES)} - {("*/20 3 * * *", "Australia/Lord_Howe")})


@pytest.mark.parametrize(("expression", "zone"), CASES)
def test_around_its_changes_a_zone_has_the_ticks_that_cron_would_make(expression, zone):
    for day in CHANGES[zone]:
        start = datetime.fromisoformat(f"{day}T00:00Z") - timedelta(days=2)
        end = start + timedelta(days=4)
        expected = [round(each.timestamp() * 1000) for each in by_hand(expression, ZoneInfo(zone), start, end)]
        assert ticks_of(expression, zone, start.isoformat(), end.isoformat()) == expected


def test_the_latest_tick_is_the_last_one_that_is_not_over():
    for expression in ("30 2 * * *", "*/7 3 * * *", "0 0 1 1 *"):
        ticks, now = cron(expression, "Europe/Berlin"), ms("2026-10-25T02:10+01:00")
        latest_ms = ticks.latest(ms("2020-01-01T00:00Z"), now)
        assert latest_ms <= now < ticks.after(latest_ms)


def test_every_counts_from_the_epoch():
    every = Every(90_000)
    assert every.after(0) == 90_000
    assert every.after(89_999) == 90_000
    assert every.latest(0, 200_000) == 180_000


# What to do


NOON = ms("2026-11-02T12:00Z")
HOURLY = cron("0 * * * *", "UTC")
HOUR_MS = 60 * MINUTE_MS


def test_nothing_is_to_be_done_before_the_next_tick():
    assert next_turn(HOURLY, CatchUp.SKIP, NOON, NOON + HOUR_MS - 1) is None


@pytest.mark.parametrize("late_ms", [0, 1, LATE_MS])
def test_a_tick_runs_at_its_time_and_up_to_a_minute_late(late_ms):
    assert next_turn(HOURLY, CatchUp.SKIP, NOON - HOUR_MS, NOON + late_ms) == Turn(NOON, runs=True)


def test_of_ticks_that_are_a_little_late_each_runs():
    every = Every(20_000)
    assert next_turn(every, CatchUp.SKIP, NOON, NOON + 50_000) == Turn(NOON + 20_000, runs=True)
    assert next_turn(every, CatchUp.SKIP, NOON + 20_000, NOON + 50_000) == Turn(NOON + 40_000, runs=True)


@pytest.mark.parametrize(("catch_up", "runs"), [(CatchUp.SKIP, False), (CatchUp.ONCE, True)])
def test_ticks_that_were_missed_are_let_go_or_made_up_for_by_the_last_of_them(catch_up, runs):
    late = NOON + LATE_MS + 1
    assert next_turn(HOURLY, catch_up, NOON - 5 * HOUR_MS, late) == Turn(NOON, runs=runs)
    assert next_turn(HOURLY, catch_up, NOON, late) is None


def test_what_was_missed_is_not_made_up_for_beside_a_tick_that_is_due_now():
    assert next_turn(HOURLY, CatchUp.ONCE, NOON - 5 * HOUR_MS, NOON + 1) == Turn(NOON, runs=True)


def test_no_tick_comes_again_when_the_clock_is_put_back_a_little():
    assert next_turn(HOURLY, CatchUp.ONCE, NOON, NOON - CORRECTION_MS) is None


def test_a_clock_that_was_far_ahead_is_believed_once_it_was_put_right():
    now = NOON - CORRECTION_MS - 1
    assert next_turn(HOURLY, CatchUp.ONCE, NOON, now) == Turn(now, runs=False)


def test_jitter_is_the_same_for_all_who_look_at_a_tick_and_differs_between_ticks():
    definition = Definition(name="x", type="x", cron="* * * * *", jitter_ms=30_000)
    ticks = range(NOON, NOON + HOUR_MS, MINUTE_MS)
    starts = [definition.task("a", tick).run_at_ms or 0 for tick in ticks]
    assert starts == [definition.task("b", tick).run_at_ms for tick in ticks]
    delays = [start - tick for start, tick in zip(starts, ticks, strict=True)]
    assert all(0 <= each < 30_000 for each in delays)
    assert max(delays) - min(delays) > 15_000


def test_a_ticks_task_has_an_id_of_its_own_whatever_the_name():
    names = ("a.b", "a:b", "a" * 128, "a" * 127 + "b")
    ids = {Definition(name=name, type="x", every_ms=1).task_id(tick) for name in names for tick in (NOON, NOON + 1)}
    assert len(ids) == 8
    assert all(len(each) <= 64 and each.replace("-", "").replace("_", "").isalnum() for each in ids)


# Registration


@pytest.fixture
def app() -> Dtq:
    return Dtq(Settings())


def refusal(app: Dtq, *args: object, **options: object) -> str:
    """What registering says."""

    @app.task("report")
    def report(days: int = 1, *, title: str = "") -> None: ...

    with pytest.raises(InvalidHandler) as caught:
        app.periodic(*args, **options)(report)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (["61 * * * *"], {}, "'61 * * * *' cannot be read: the minute is"),
        (["* * * *"], {}, "give it five fields"),
        (["* * * * * *"], {}, "give it five fields"),
        (["@daily"], {}, "give it five fields"),
        (["0 0 30 2 *"], {}, "the day-of-month is"),
        ([""], {}, "give it five fields"),
        ([5], {}, "5 is no cron expression"),
        (["* * * * *"], {"tz": "Europe/Berlim"}, "did you mean 'Europe/Berlin'?"),
        (["* * * * *"], {"tz": "../../etc/passwd"}, "is unknown"),
        (["* * * * *"], {"tz": ""}, "is unknown"),
        (["* * * * *"], {"tz": "localtime"}, "may be another on each machine"),
        (["* * * * *"], {"tz": "/localtim"}, "is unknown: use a name"),
        (["* * * * *"], {"tz": "x" * 9_000}, "xx... is unknown"),
        (["* " * 9_000], {}, "... cannot be read"),
        (["* * * * *"], {"name": "x" * 9_000}, "xx... cannot be registered"),
        (["* * * * *"], {"tz": UTC}, "tz cannot be"),
        (["* * * * *"], {"every": 5}, "not both"),
        ([], {}, "say when it runs"),
        ([], {"every": 0}, "every cannot be 0"),
        ([], {"every": -5}, "every cannot be -5"),
        ([], {"every": timedelta(seconds=-1)}, "every cannot be"),
        ([], {"every": math.nan}, "every cannot be nan"),
        ([], {"every": math.inf}, "every cannot be inf"),
        ([], {"every": True}, "every cannot be True"),
        ([], {"every": "5"}, "every cannot be '5'"),
        ([], {"every": 60, "tz": "UTC"}, "drop tz"),
        (["* * * * *"], {"jitter": 0}, "jitter cannot be 0"),
        (["* * * * *"], {"jitter": timedelta(days=-1)}, "jitter cannot be"),
        (["* * * * *"], {"catch_up": "all"}, "catch_up cannot be 'all'"),
        (["* * * * *"], {"catch_up": None}, "catch_up cannot be None"),
        (["* * * * *"], {"arguments": {"days": "many"}}, "argument days"),
        (["* * * * *"], {"arguments": {"dais": 1}}, "did you mean days?"),
        (["* * * * *"], {"arguments": ["days"]}, "use a mapping"),
        (["* * * * *"], {"arguments": {1: 2}}, "use a mapping"),
        (["* * * * *"], {"name": "no spaces"}, ": name cannot be 'no spaces': use 1 to 128 letters"),
    ],
)
def test_what_is_wrong_is_named_at_registration(app, given, options, said):
    assert said in refusal(app, *given, **options)


@pytest.mark.parametrize(
    ("schedule", "debounce", "said"),
    [
        ({"every": 60}, {"debounce": 60}, "which never runs"),
        ({"expression": "*/5 * * * *"}, {"debounce": 301}, "which never runs"),
        ({"every": 60, "jitter": 5}, {"debounce": 1}, "drop one of them"),
        ({"every": 60}, {"debounce": 59}, None),
        ({"every": 60}, {"debounce": 60, "debounce_max": 90}, None),
        ({"expression": "* 3 * * *"}, {"debounce": 90}, None),
    ],
)
def test_a_debounce_that_would_keep_each_tick_from_running_is_refused(app, schedule, debounce, said):
    @app.task("index", **debounce)
    def index() -> None: ...

    options = dict(schedule)
    expression = options.pop("expression", None)
    if said is None:
        assert app.periodic(expression, **options)(index) is index
    else:
        with pytest.raises(InvalidHandler, match=said):
            app.periodic(expression, **options)(index)


def test_a_unique_key_that_cannot_be_made_is_told_with_its_task(app):
    @app.periodic(every=60)
    @app.task("index", unique="waiting", unique_key=lambda: 1 / 0)
    def index() -> None: ...

    with pytest.raises(
        ConfigurationError, match="The periodic task index cannot run: the function that makes the unique"
    ):
        definitions(app.registry, app.settings)


def test_arguments_that_a_handler_needs_must_be_given(app):
    @app.task("mail")
    def mail(to: str) -> None: ...

    with pytest.raises(InvalidHandler, match="needs the argument to: pass it"):
        app.periodic("* * * * *")(mail)


def test_a_function_that_is_no_task_yet_is_told_so(app):
    def plain() -> None: ...

    with pytest.raises(InvalidHandler, match=r"put @app.task\(…\) below it"):
        app.periodic("* * * * *")(plain)


def test_two_schedules_of_a_task_have_names_of_their_own(app):
    @app.periodic("0 0 * * *", arguments={"days": 1})
    @app.periodic("0 0 1 * *", arguments={"days": 30}, name="report-monthly")
    @app.task("report")
    def report(days: int) -> int:
        return days

    assert report(3) == 3
    assert [(each.name, each.type, each.arguments) for each in app.registry.periodic()] == [
        ("report", "report", {"days": 1}),
        ("report-monthly", "report", {"days": 30}),
    ]
    app.periodic("0 0 * * *", arguments={"days": 1})(report)
    with pytest.raises(InvalidHandler, match="'report' is there already"):
        app.periodic("0 1 * * *", arguments={"days": 1})(report)


def test_what_the_type_and_the_settings_decide_goes_into_the_definition():
    app = Dtq(Settings(task_timeout_s=7, max_attempts=3))

    @app.periodic(every=timedelta(minutes=5))
    @app.task("report", queue="reports", priority=9, expires_in=60)
    def report() -> None: ...

    (made,) = definitions(app.registry, app.settings)
    task = made.task("x", 300_000)
    assert (task.queue, task.priority, task.expires_in_ms) == ("reports", 9, 60_000)
    assert (task.timeout_ms, task.retry.max_attempts) == (7_000, 3)
    assert task.headers == {"dtq-periodic": "report", "dtq-tick": "1970-01-01T00:05:00Z"}


def test_a_worker_that_could_not_submit_it_does_not_start():
    app = Dtq(Settings(queues=("other",), worker_queues=("other",)))

    @app.periodic(every=5)
    @app.task("report")
    def report() -> None: ...

    with pytest.raises(ConfigurationError, match="The periodic task report cannot run: queue 'default' is not allowed"):
        definitions(app.registry, app.settings)


def test_days_are_those_of_the_zone():
    tick = cron("0 0 * * *", "Pacific/Auckland").after(ms("2026-11-02T12:00Z"))
    assert datetime.fromtimestamp(tick / 1000, ZoneInfo("Pacific/Auckland")).date() == date(2026, 11, 4)
