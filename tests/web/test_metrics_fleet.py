"""The numbers of a fleet of real processes, of which one is killed, against what its handlers have noted themselves."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from dtq_engine import Dtq, Settings
from tests.support.waiting import wait_until
from tests.web.conftest import KEYS
from tests.web.test_metrics import Sample, sampler_of
from tests.web.web_process import WebProcess
from tests.worker.processes import Crew

pytestmark = [pytest.mark.timeout(120), pytest.mark.drains]

JOBS = """
@app.task("good")
def good(ctx: TaskContext) -> None:
    note(f"good started")
    time.sleep(0.02)
    note(f"good done")

@app.task("flaky", max_attempts=3)
def flaky(ctx: TaskContext) -> None:
    note(f"flaky started")
    if ctx.attempt == 1:
        note(f"flaky failed")
        raise ValueError("not yet")
    note(f"flaky done")

@app.task("bad", max_attempts=2)
def bad(ctx: TaskContext) -> None:
    note(f"bad started")
    note(f"bad failed")
    raise ValueError("never")

@app.task("held")
def held(ctx: TaskContext) -> None:
    note(f"held started")
    if ctx.attempt == 1:
        time.sleep(60)
    note(f"held done")
"""
EACH = 40
MOST_ATTEMPTS = {"good": 12, "flaky": 3, "bad": 2}


@pytest.fixture
def quick(web_settings: Settings) -> Settings:
    """Leases of 1 s, retries at once."""
    return replace(
        web_settings,
        visibility_timeout_s=1,
        heartbeat_interval_s=0.2,
        retry_base_delay_s=0,
        retry_max_delay_s=0,
        worker_concurrency=4,
    )


@pytest.fixture
def crew(quick: Settings, tmp_path: Path) -> Iterator[Crew]:
    """Worker processes."""
    with Crew(tmp_path, JOBS, quick) as crew:
        yield crew


@pytest.fixture
def process(quick: Settings, tmp_path: Path) -> Iterator[WebProcess]:
    """A web process with two workers."""
    with WebProcess(tmp_path, quick, workers=2, key=KEYS["metrics"]) as process:
        yield process


def total(value: Sample, name: str, task_type: str, **labels: str) -> float:
    return value(name, queue="default", task_type=task_type, **labels)


def test_after_a_worker_was_killed_the_totals_are_what_the_handlers_have_noted(
    crew: Crew, process: WebProcess, quick: Settings
) -> None:
    app = Dtq(quick)
    app.named("held").submit()
    first = crew.start(worker_id="first")
    wait_until(lambda: "held started" in crew.notes)
    crew.start(worker_id="second")
    for _ in range(EACH):
        for name, most in MOST_ATTEMPTS.items():
            app.named(name).options(max_attempts=most).submit()
    wait_until(lambda: len(crew.notes) > 30)
    first.kill()
    wait_until(lambda: app.store.inspect.queue("default").depth == 0, 60)
    app.close()
    value, noted = sampler_of(process.get("/metrics")[1]), Counter(crew.notes)
    for name in MOST_ATTEMPTS:
        check(value, name, noted)
    assert sum(lost(value, name) for name in (*MOST_ATTEMPTS, "held")) <= quick.worker_concurrency
    assert total(value, "dtq_tasks_succeeded_total", "good") == EACH
    assert (lost(value, "held"), noted["held started"], noted["held done"]) == (1, 2, 1)
    assert total(value, "dtq_tasks_started_total", "held") == 2
    assert total(value, "dtq_task_attempts_total", "held", result="failed") == 1
    assert total(value, "dtq_tasks_succeeded_total", "held") == 1
    assert value("dtq_queue_depth", queue="default") == 0


def check(value: Sample, name: str, noted: Counter[str]) -> None:
    """The numbers of a type, up to what the worker that was killed had under way when it noted it or did not yet."""
    under_way = lost(value, name)
    assert total(value, "dtq_tasks_submitted_total", name) == EACH
    started = total(value, "dtq_tasks_started_total", name)
    assert noted[f"{name} started"] <= started <= noted[f"{name} started"] + under_way
    failed = total(value, "dtq_task_attempts_total", name, result="failed")
    assert noted[f"{name} failed"] <= failed <= noted[f"{name} failed"] + under_way
    done = total(value, "dtq_tasks_succeeded_total", name)
    assert noted[f"{name} done"] - under_way <= done <= noted[f"{name} done"]
    ended = [total(value, "dtq_tasks_completed_total", name, status=each) for each in ("succeeded", "dead_lettered")]
    assert sum(ended) == EACH
    assert total(value, "dtq_task_duration_seconds_count", name) == EACH
    assert total(value, "dtq_task_wait_seconds_count", name) == started


def lost(value: Sample, name: str) -> int:
    return int(total(value, "dtq_leases_expired_total", name))


def test_both_processes_of_gunicorn_give_the_same_numbers(process: WebProcess, crew: Crew, quick: Settings) -> None:
    app = Dtq(quick)
    crew.start(worker_id="only")
    for _ in range(EACH):
        app.named("good").submit()
        assert process.get("/health")[0] == 200
    for _ in range(6):
        process.post("/api/v1/tasks", {"type": "not a type"}, key=KEYS["submit"])
    wait_until(lambda: app.store.inspect.queue("default").depth == 0, 60)
    app.close()
    wait_until(lambda: 'dtq_worker_inflight{worker_id="only"} 0.0' in process.get("/metrics")[1])
    wait_until(lambda: f'dtq_worker_tasks_total{{worker_id="only"}} {EACH}.0' in process.get("/metrics")[1])
    assert len(process.worker_pids) == 2
    with ThreadPoolExecutor(8) as threads:
        texts = set(threads.map(lambda _: process.get("/metrics")[1], range(40)))
    assert len(texts) == 1
    value = sampler_of(texts.pop())
    assert total(value, "dtq_tasks_succeeded_total", "good") == EACH
    assert value("dtq_ingest_rejected_total", reason="invalid_task") == 6
    assert value("dtq_workers_active") == 1
