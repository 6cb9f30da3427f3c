"""Periodic tasks on real workers: on time, once a tick, whoever leads and whoever dies."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import Dtq, Settings, TaskStatus
from dtq_engine.store import Store
from dtq_engine.worker import Worker
from tests.support.clock import Clock
from tests.support.waiting import wait_until
from tests.worker.processes import Crew, WorkerProcess

WEEK = """
def periodic(name, **options):
    expression = options.pop("cron", None)

    @app.periodic(expression, **options)
    @app.task(name)
    def run(ctx: TaskContext) -> None:
        note(f"{ctx.headers['dtq-periodic']} {ctx.headers['dtq-tick']}")

periodic("berlin.fixed", cron="30 2 * * *", tz="Europe/Berlin")
periodic("berlin.each", cron="0,30 2 * * *", tz="Europe/Berlin", jitter=2)
periodic("berlin.hourly", cron="0 * * * *", tz="Europe/Berlin")
periodic("sydney.fixed", cron="30 2 * * *", tz="Australia/Sydney", catch_up="once")
periodic("sydney.half", cron="*/30 2 * * *", tz="Australia/Sydney")
periodic("six", every=6 * 3600)
"""
BEGIN = datetime(2026, 3, 28, 12, 30, tzinfo=UTC)
END = datetime(2026, 4, 5, 12, 30, tzinfo=UTC)
"""In between the clock of Berlin is put forward (29 March, 01:00Z), and that of Sydney back (4 April, 16:00Z)."""


@pytest.fixture
def quick(quick: Settings) -> Settings:
    """Leases of 1 s, so that dead workers are soon forgotten, and finished tasks that outlast the week."""
    return replace(quick, visibility_timeout_s=1, heartbeat_interval_s=0.25, task_retention_s=30 * 86_400)


@pytest.fixture
def crew(quick: Settings, tmp_path: Path) -> Iterator[Crew]:
    """Worker processes."""
    with Crew(tmp_path, WEEK, quick) as crew:
        yield crew


def leader(members: list[WorkerProcess]) -> WorkerProcess | None:
    """Who said last that it leads."""
    said = [(each.log.count("leads the schedules"), each) for each in members if not each.is_over]
    leading = [each for count, each in said if count]
    return leading[-1] if leading else None


def expected() -> Counter[str]:
    """Each tick of the week, as the handlers note it; counted by hand where a clock is changed."""
    ticks = Counter[str]()

    def add(name: str, *times: datetime) -> None:
        for each in times:
            ticks[f"{name} {each.astimezone(UTC).isoformat().replace('+00:00', 'Z')}"] += BEGIN < each <= END

    days = [BEGIN.replace(hour=0, minute=0) + timedelta(days=number) for number in range(-1, 10)]
    for day in days:
        summer = day.date() > BEGIN.date()  # the first night of summer time is that of the 29th
        if day.day == 29:
            add("berlin.fixed", day.replace(hour=1))
            add("berlin.each", day.replace(hour=1))
        elif summer:
            add("berlin.fixed", day + timedelta(minutes=30))
            add("berlin.each", day, day + timedelta(minutes=30))
        add("berlin.hourly", *(day + timedelta(hours=hour) for hour in range(24)))
        add("six", *(day + timedelta(hours=hour) for hour in range(0, 24, 6)))
        # 02:00 in Sydney is 15:00Z up to the 4th, on which it comes twice, and 16:00Z from then on.
        first = day + timedelta(hours=15 if (day.month, day.day) <= (4, 4) else 16)
        add("sydney.fixed", first + timedelta(minutes=30))
        add("sydney.half", first, first + timedelta(minutes=30))
        if (day.month, day.day) == (4, 4):
            add("sydney.half", first + timedelta(minutes=60), first + timedelta(minutes=90))
    return +ticks


@pytest.mark.timeout(300)
@pytest.mark.drains
def test_a_week_with_two_changes_of_the_clock_and_dying_leaders_has_each_tick_once(
    crew: Crew, store: Store, clock: Clock
) -> None:
    clock.advance((BEGIN - datetime.now(UTC)).total_seconds())
    members = [crew.start() for _ in range(4)]
    names = {line.split()[0] for line in expected()}
    wait_until(lambda: {each.name for each in store.periodic.list()} == names, 15)
    dice, moments, kills = random.Random(5), moments_of(store), 0
    for number, moment in enumerate(moments):
        clock.advance((moment - now(store)).total_seconds())
        if number % 40 == 20 and (doomed := leader(members)) is not None:
            # Somewhere around the tick: before it is seen, while its task comes in, or after.
            time.sleep(dice.uniform(0, 0.03))
            doomed.kill()
            members.remove(doomed)
            kills += 1
            members.append(crew.start(ready=False))
        wait_until(partial(is_done, store, moment), 30)
    assert kills >= 4
    tasks = every_task(store)
    assert Counter(f"{each.headers['dtq-periodic']} {each.headers['dtq-tick']}" for each in tasks) == expected()
    assert {each.status for each in tasks} == {TaskStatus.SUCCEEDED}
    # A worker that was killed between its handler's end and the record of it has its task run again, as any task.
    again = sum(each.attempt - 1 for each in tasks)
    assert again <= kills
    assert set(crew.notes) == set(expected())
    assert len(crew.notes) <= len(tasks) + again


def now(store: Store) -> datetime:
    """The time by the moved clock."""
    return datetime.fromtimestamp(store.agenda.of("default").now_ms / 1000, UTC)


def moments_of(store: Store) -> list[datetime]:
    """A moment right after each tick of the week, in order."""
    ticks = {datetime.fromisoformat(line.split()[1]) for line in expected()}
    return [each + timedelta(seconds=3) for each in sorted(ticks)]


def is_done(store: Store, moment: datetime) -> bool:
    """Whether all ticks up to a moment have been dealt with, and their tasks have ended."""
    passed = all(each.next_ms and each.next_ms > moment.timestamp() * 1000 for each in store.periodic.list())
    return passed and store.inspect.queue("default").depth == 0


def every_task(store: Store) -> list[Any]:
    """All tasks there are."""
    found, cursor = list[Any](), None
    while True:
        page = store.inspect.tasks(queue="default", status=TaskStatus.SUCCEEDED, limit=200, cursor=cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            return found


# Within this process


Start = Callable[..., Any]


@pytest.mark.drains
def test_a_periodic_task_runs_at_its_ticks_without_anybodys_doing(app: Dtq, start: Start) -> None:
    ran: list[float] = []

    @app.periodic(every=1)
    @app.task("beat")
    def beat() -> None:
        ran.append(time.time())

    worker = start()
    wait_until(lambda: len(ran) >= 3, 10)
    worker.stop()
    worker.join(10)
    late = [each % 1 for each in ran]
    assert all(each < 0.5 for each in late), late
    ticks = [int(each) for each in ran]
    assert ticks == list(range(ticks[0], ticks[0] + len(ticks)))


@pytest.mark.drains
def test_a_worker_that_hears_of_a_trigger_runs_it(app: Dtq, start: Start) -> None:
    ran: list[str] = []

    @app.periodic("0 0 1 1 *", arguments={"word": "go"})
    @app.task("yearly")
    def yearly(word: str) -> None:
        ran.append(word)

    start()
    wait_until(app.store.periodic.list)
    receipt = app.store.periodic.trigger("yearly")
    assert app.handle(receipt.id).result(timeout=10) is None
    assert ran == ["go"]


@pytest.mark.drains
def test_what_the_last_worker_takes_along_is_removed_by_the_one_that_leads(
    app: Dtq, quick: Settings, start: Start
) -> None:
    @app.task("plain")
    def plain() -> None: ...

    other = Dtq(quick)

    @other.periodic("0 0 1 1 *")
    @other.task("yearly")
    def yearly() -> None: ...

    start()
    second = Worker(other, quick)
    second.start()
    known = wait_until(app.store.periodic.list, 10)
    assert known[0].is_active
    second.stop()
    assert second.join(10) == 0
    wait_until(lambda: app.store.periodic.get("yearly").removed_ms is not None, 10)
    other.close()


@pytest.mark.drains
def test_what_is_resumed_has_its_tick_at_once_when_that_comes(app: Dtq, start: Start, clock: Clock) -> None:
    ran: list[int] = []

    @app.periodic("0 * * * *")
    @app.task("hourly")
    def hourly() -> None:
        ran.append(1)

    start()
    wait_until(app.store.periodic.list)
    app.store.periodic.pause("hourly")
    clock.advance(3600)
    app.store.periodic.resume("hourly")
    next_ms = app.store.periodic.get("hourly").next_ms
    assert next_ms is not None
    clock.advance((next_ms - app.store.agenda.of("default").now_ms) / 1000)
    wait_until(lambda: ran == [1])
