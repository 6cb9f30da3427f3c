"""The rules for users of Redis in docs/deploy.md: they allow all that dtq does, and no more."""

import re
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

import dtq_engine
from dtq_engine import Dtq, Handover, PermanentError, Retry, Settings, TaskContext
from dtq_engine.cli.root import run
from dtq_engine.connection import connect
from dtq_engine.errors import RedisUnavailable
from dtq_engine.ids import new_token
from dtq_engine.worker import Worker
from tests.support.environ import environ_of
from tests.support.waiting import wait_until
from webapp import create_app

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
RULES = re.findall(r"^user dtq on >SECRET (.*)$", PAGE.read_text(), re.MULTILINE)[0].split()
LUA = Path(dtq_engine.__file__).with_name("lua")

pytestmark = pytest.mark.not_on_a_cluster("each node of a cluster has its own users")


class Guarded:
    """A server with the users of the page, and its log of what they were refused."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._place = url.removeprefix("redis://")
        self.admin = redis.Redis.from_url(url, protocol=2)
        version = tuple(int(part) for part in self.admin.info("server")["redis_version"].split(".")[:2])
        rules = [rule for rule in RULES if version >= (7, 2) or rule != "+client|setinfo"]
        self.admin.execute_command("ACL", "SETUSER", "dtq", "reset", "on", ">secret", *rules)

    def settings(self) -> Settings:
        """Settings with the address of this user."""
        return Settings(
            redis_url=f"redis://dtq:secret@{self._place}",
            visibility_timeout_s=2,
            heartbeat_interval_s=0.5,
            drain_timeout_s=1,
            worker_queues=("default", "other"),
            retry_base_delay_s=0,
        )

    def refused(self) -> list[str]:
        """What was refused so far, and is forgotten by this."""
        log = self.admin.execute_command("ACL", "LOG")
        self.admin.execute_command("ACL", "LOG", "RESET")
        entries = [dict(zip(each[::2], each[1::2], strict=True)) if isinstance(each, list) else each for each in log]
        return [f"{_text(each, 'username')}: {_text(each, 'reason')} {_text(each, 'object')}" for each in entries]


def _text(entry: dict[Any, Any], name: str) -> str:
    value = entry.get(name, entry.get(name.encode()))
    return value.decode() if isinstance(value, bytes) else str(value)


@pytest.fixture
def guarded(make_server) -> Iterator[Guarded]:
    guarded = Guarded(make_server().url)
    yield guarded
    guarded.admin.close()


@contextmanager
def working(app: Dtq, settings: Settings) -> Iterator[Worker]:
    worker = Worker(app, settings)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()
        worker.join(10)


def tasks_of(settings: Settings) -> Dtq:
    """An app whose tasks end in all ways."""
    app = Dtq(settings)

    @app.task("ok")
    def ok(text: str) -> str:
        return text

    @app.task("bad", max_attempts=2)
    def bad(ctx: TaskContext) -> None:
        ctx.log("again")
        ctx.step(f"step {ctx.attempt}", int)
        if ctx.attempt == 1:
            raise Retry(0.1)
        raise PermanentError("no")

    @app.task("long", timeout=10, max_attempts=1)
    def long(ctx: TaskContext) -> None:
        wait_until(lambda: ctx.cancelled or ctx.stopping, 10)
        if ctx.cancelled:
            raise TimeoutError("cancelled")

    newer_tasks_of(app)
    return app


def newer_tasks_of(app: Dtq) -> None:
    """Tasks that use what stands on the core: limits, ticks, steps, progress, logs, results of others."""
    app.limit("shop", max_running=1, rate=(1000, 60))
    app.limit.queue("default", max_running=50)

    @app.periodic(every=1, name="tick")
    @app.task("saves", limit="shop", unique="until_done")
    def saves(ctx: TaskContext, rows: int = 3) -> int:
        for row in range(ctx.cursor or 0, rows):
            ctx.once(str(row))
            ctx.step(f"row {row}", int)
            ctx.progress(row + 1, rows, note="rows")
            ctx.log(f"row {row}")
            ctx.checkpoint(row)
        return rows

    @app.task("hands.over", max_attempts=2)
    def hands_over(ctx: TaskContext) -> str:
        if ctx.once("handed over"):
            raise Handover
        return "done"


def do_what_is_newer(app: Dtq) -> None:
    """Workflows, tasks that are alike, and all that is looked at afterwards."""
    ok, saves, store = app.named("ok"), app.named("saves"), app.store
    first = ok.options(id="parent").prepare(text="a")
    second = ok.options(id="child", after=[first]).prepare(text="b")
    other = ok.options(id="other-queue", queue="other", after=[first], on_parent_failure="run").prepare(text="c")
    assert app.submit_flow([first, second, other])[1].result(timeout=10) == "b"
    assert len(store.trees.tree("child").nodes) == 3
    saved = saves.options(unique="no", id="saved").submit(rows=3)
    assert saved.result(timeout=10) == 3
    assert store.reports.logs("saved")
    ok.options(debounce=5).submit(text="late")
    ok.options(at_most=1, per=60).submit(text="rare")
    assert app.named("hands.over").submit().result(timeout=10) == "done"
    wait_until(lambda: any(each.last_task for each in store.periodic.list()), 10)


def do_all_there_is(app: Dtq) -> None:
    """Submit in all ways, and wait for tasks that end in all ways."""
    large = "x" * 200
    ok, bad, long = app.named("ok"), app.named("bad"), app.named("long")
    assert ok.options(headers={"trace": large}).submit(text=large).result(timeout=10) == large
    ok.options(idempotency_key="k").submit(text="a")
    assert ok.options(idempotency_key="k").submit(text="a").duplicate
    late = ok.options(delay=0.2).submit(text="late")
    running = long.submit()
    dead = bad.submit()
    wait_until(lambda: running.status() == "running", 10)
    running.cancel()
    assert late.result(timeout=10) == "late"
    wait_until(lambda: running.status().is_final and dead.status().is_final, 10)
    app.named("unknown").submit()
    ok.options(expires_in=0.001, run_at=datetime.now(UTC) + timedelta(seconds=0.1)).submit(text="too late")
    app.store.control.discard(dead.id)


def keep_house(app: Dtq) -> None:
    """What a leader and reapers do now and then."""
    store = app.store
    for queue in store.inspect.queues():
        store.schedule.promote(queue)
        store.schedule.trim(queue)
        store.schedule.reclaim(queue, reaper="reaper", token=new_token())
        store.workers.retire(queue, idle_ms=0)
    store.sweep.run()


COMMANDS = (
    "submit ok text=hello --id t-1", "status t-1", "list", "list --status queued", "queues", "workers", "events",
    "audit", "pause default --for 1m", "resume default", "submit ok text=hello --delay 1h --id t-2", "run-now t-2",
    "submit ok text=hello --delay 1h --id t-3", "reprioritise t-3 --priority 9", "cancel t-3", "requeue t-3",
    "dlq list", "dlq requeue --all --yes", "dlq discard --all --yes", "purge default --delayed --yes", "result t-1",
    "doctor", "doctor --repair", "logs saved", "tree child", "requeue saved", "requeue --type hands.over --yes",
    "limits list", "limits set default shop --max-running 1", "limits set default --rate 5/1s",
    "limits clear default shop", "limits clear default", "periodic list", "periodic pause tick",
    "periodic resume tick", "periodic trigger tick", "submit ok text=x --wait", "submit ok text=x --after t-1",
)  # fmt: skip
ADDRESSES = (
    "/ready", "/metrics", "/api/v1/tasks", "/api/v1/queues", "/api/v1/queues/default", "/api/v1/workers",
    "/api/v1/dlq", "/api/v1/stats", "/api/v1/events", "/api/v1/audit", "/api/v1/types", "/api/v1/tasks/t-1",
    "/api/v1/tasks/saved/logs", "/api/v1/tasks/child/tree", "/api/v1/limits", "/api/v1/queues/default/limits",
    "/api/v1/periodic", "/api/v1/tasks/t-1/result?wait=1", "/", "/tasks", "/tasks?q=ok", "/tasks/saved", "/tasks/child",
    "/queues", "/queues/default", "/dead-letters", "/workers", "/periodic", "/activity", "/system",
)  # fmt: skip


POSTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tasks", {"type": "ok", "payload": {"text": "hi"}}),
    ("tasks", {"type": "ok", "payload": {"text": "hi"}, "after": ["t-1"]}),
    ("tasks", {"type": "ok", "payload": {"text": "hi"}, "unique": "waiting", "unique_key": "k"}),
    ("tasks/batch", {"tasks": [{"type": "ok", "payload": {"text": "a"}}, {"type": "saves"}]}),
    ("queues/default/limits/shop/set", {"max_running": 1}),
    ("queues/default/limits/shop/clear", {}),
    ("queues/default/periodic/tick/pause", {"reason": "night"}),
    ("queues/default/periodic/tick/resume", {}),
    ("queues/default/periodic/tick/trigger", {}),
    ("queues/default/pause", {"for_seconds": 1}),
    ("queues/default/resume", {}),
    ("dlq/requeue", {"all": True}),
    ("dlq/purge", {"all": True}),
    ("queues/default/purge", {"delayed": True}),
)


def type_all(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the command line."""
    for name, value in environ_of(settings).items():
        monkeypatch.setenv(name, value)
    for command in COMMANDS:
        assert run(command.split()) in {0, 1}, command


def browse(settings: Settings) -> None:
    """Every page of the API."""
    app = Dtq(replace(settings, open=True, secret_key="s" * 32))
    client = create_app(app).test_client()
    for address in ADDRESSES:
        assert client.get(address).status_code == 200, address
    for path, body in POSTS:
        assert client.post(f"/api/v1/{path}", json=body).status_code in {200, 202}, path
    signing_in = {"name": "ann", "password": "wrong"}
    assert client.post("/login", json=signing_in, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 401
    with closing(app.store.feed()) as feed:
        feed.next(0.1)
        app.named("ok").submit(text="told")
        wait_until(lambda: feed.next(0.1), 10)
    app.close()


def test_the_rules_of_the_page_allow_all_that_dtq_does(guarded, monkeypatch):
    settings = guarded.settings()
    app = tasks_of(settings)
    with working(app, settings):
        do_all_there_is(app)
        do_what_is_newer(app)
        type_all(settings, monkeypatch)
        browse(settings)
        keep_house(app)
    app.close()
    assert guarded.refused() == []


def test_the_rules_of_the_page_allow_nothing_else(guarded):
    with redis.Redis.from_url(guarded.settings().redis_url, protocol=2) as user:
        user.get("dtq:mine")
        for forbidden in (["GET", "other"], ["SET", "other:dtq:", "1"], ["PUBLISH", "other", "x"]):
            with pytest.raises(redis.exceptions.NoPermissionError):
                user.execute_command(*forbidden)
        for forbidden in (["KEYS", "dtq:*"], ["FLUSHALL"], ["CONFIG", "GET", "*"], ["SHUTDOWN"], ["ACL", "LIST"]):
            with pytest.raises(redis.exceptions.NoPermissionError):
                user.execute_command(*forbidden)


def test_what_the_rules_leave_out_is_said_and_is_not_taken_for_nothing(guarded):
    guarded.admin.execute_command("ACL", "SETUSER", "dtq", "-hkeys")
    app = Dtq(guarded.settings())
    ok = app.named("ok")
    ok.options(after=[ok.submit(text="a")], id="waits").submit(text="b")
    with pytest.raises(RedisUnavailable, match="hkeys"):
        app.store.trees.tree("waits")
    app.close()


def words(quote: str, paths: Iterable[Path]) -> set[str]:
    """All that could be a command in these files, however it comes to be called."""
    return {word.lower() for path in paths for word in re.findall(f"{quote}([A-Z]{{3,}}){quote}", path.read_text())}


def test_the_rules_name_whatever_is_a_command_anywhere(guarded):
    known = {
        name.decode() for name in connect(replace(guarded.settings(), redis_url=guarded.url)).call("COMMAND", "LIST")
    }
    named = {rule.removeprefix("+").partition("|")[0] for rule in RULES}
    engine = [path for path in LUA.parent.rglob("*.py") if path.name not in {"cluster.py", "kit.py"}]
    of_clusters_levels_of_logs_and_the_default_user = {"asking", "debug", "fcall", "function"}
    assert words("'", LUA.glob("*.lua")) & known - named == set()
    assert words('"', engine) & known - named == of_clusters_levels_of_logs_and_the_default_user


def test_the_rules_name_every_command_of_the_scripts_and_each_is_used():
    named = {rule.removeprefix("+") for rule in RULES if rule.startswith("+")}
    calls = "".join(path.read_text() for path in LUA.glob("*.lua"))
    handed_on = {name for name in named if f"'{name.upper()}'" in calls}
    of_scripts = {
        f"{command}|{sub}".lower() if command in {"XGROUP", "XINFO"} else command.lower()
        for command, sub in re.findall(r"redis\.p?call\('([A-Z]+)'(?:, '([A-Z]+)')?", calls)
    }
    assert of_scripts - named == set()
    sources = "".join(path.read_text() for path in LUA.parent.rglob("*.py"))
    of_python = {name for name in named - of_scripts if f'"{name.upper()}"' in sources}
    by_redis_py = {"select", "client|setinfo", "subscribe", "unsubscribe"}
    assert named - of_scripts - handed_on - of_python == by_redis_py
