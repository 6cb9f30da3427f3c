"""Redis is away, empty, read-only, busy or full: healthy workers run no task twice, and go on by themselves."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from dtq_engine import Dtq, Handle, MemoryFull, Settings, TaskStatus
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.errors import RedisUnavailable
from dtq_engine.worker.outage import Outage
from dtq_engine.worker.scheduler import LOCK_MS
from tests.support.leaks import Leaks
from tests.support.servers import plain
from tests.support.waiting import wait_until
from tests.worker.processes import Crew, WorkerProcess

pytestmark = pytest.mark.keeps_keys  # nothing is left on the shared server: each test has one of its own

JOBS = """
@app.task("quick")
def quick() -> str:
    note("quick")
    return "done"

@app.task("hold")
def hold(name: str) -> str:
    note(name)
    wait_for("go")
    return "held"

@app.task("hold_async")
async def hold_async(name: str) -> str:
    note(name)
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return "held"

@app.task("obey")
async def obey() -> None:
    note("obey")
    await asyncio.sleep(60)
"""

LEASE_S = 1.5
AWAY_S = 2 * LEASE_S
BUSY_SHARE = 0.1


class Site:
    """A server of the test's own, the app on it, and its workers."""

    def __init__(self, server: EmbeddedValkey, settings: Settings, crew: Crew) -> None:
        self.server = server
        self.app = Dtq(settings)
        self.crew = crew
        self.client: Any = redis.Redis.from_url(plain(server.url), protocol=2)

    def status(self, handle: Handle[Any]) -> TaskStatus | None:
        try:
            return handle.status()
        except RedisUnavailable:
            return None

    def succeeds(self, handle: Handle[Any], timeout: float = 10) -> None:
        wait_until(lambda: self.status(handle) is TaskStatus.SUCCEEDED, timeout)

    def works(self, timeout: float = 10) -> None:
        """A new task is accepted and done, without anybody's help."""
        self.succeeds(self.app.named("quick").submit(), timeout)

    def is_clean(self) -> None:
        assert Leaks(self.client, self.app.settings.prefix).found(drained=True) == []


@pytest.fixture
def site(make_server: Callable[..., EmbeddedValkey], quick: Settings, tmp_path: Path) -> Iterator[Site]:
    """A server that writes all to its disk before it answers, and leases of 1.5 s."""
    server = make_server(appendfsync="always", busy_reply_threshold="50", key_load_delay="0")
    settings = replace(quick, redis_url=server.url, visibility_timeout_s=LEASE_S, heartbeat_interval_s=LEASE_S / 5)
    with Crew(tmp_path, JOBS, settings) as crew:
        site = Site(server, settings, crew)
        yield site
        site.app.close()
        site.client.close()


@contextmanager
def frozen(site: Site) -> Iterator[None]:
    """The server is stopped in the middle of whatever it does; its connections stay."""
    os.kill(site.server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(site.server.pid, signal.SIGCONT)


@contextmanager
def crashed(site: Site) -> Iterator[None]:
    """The server is killed, and comes back on the same port with the same data."""
    os.kill(site.server.pid, signal.SIGKILL)
    site.server.stop()
    try:
        yield
    finally:
        site.server.start()


@contextmanager
def read_only(site: Site) -> Iterator[None]:
    """The server has become a replica, as after a failover, and refuses to write."""
    site.client.replicaof("127.0.0.1", "1")
    try:
        yield
    finally:
        site.client.replicaof("NO", "ONE")


@contextmanager
def busy(site: Site) -> Iterator[None]:
    """The server runs somebody's endless script."""
    with redis.Redis.from_url(plain(site.server.url), socket_timeout=60) as other:

        def hog() -> None:
            with pytest.raises(redis.RedisError):
                other.eval("while true do end", 0)

        thread = threading.Thread(target=hog)
        thread.start()
        try:
            yield
        finally:
            site.client.script_kill()
            thread.join(5)


@contextmanager
def is_idle_meanwhile(*processes: WorkerProcess) -> Iterator[None]:
    """The workers use less than a tenth of a core each."""
    before, since = [process.cpu_s for process in processes], time.monotonic()
    yield
    elapsed = time.monotonic() - since
    shares = [(process.cpu_s - used) / elapsed for process, used in zip(processes, before, strict=True)]
    print(f"shares of a core while Redis was away: {', '.join(f'{share:.3f}' for share in shares)}")
    assert max(shares) < BUSY_SHARE, shares


@pytest.mark.parametrize("away", [frozen, crashed])
def test_while_redis_is_away_for_two_leases_workers_wait_and_nothing_starts_twice(
    site: Site, tmp_path: Path, away: Callable[[Site], Any]
) -> None:
    doomed = site.crew.start(worker_concurrency=1)
    lost = site.app.named("hold").submit(name="lost")
    wait_until(lambda: site.crew.notes)
    healthy = [site.crew.start(worker_concurrency=3, ready=False) for _ in range(2)]
    for process in healthy:
        process.wait_until_ready()
    names = [f"task{number}" for number in range(4)]
    handles = [site.app.named(("hold", "hold_async")[n % 2]).submit(name=name) for n, name in enumerate(names)]
    wait_until(lambda: len(site.crew.notes) == 5)
    with away(site):
        doomed.kill()
        with is_idle_meanwhile(*healthy):
            time.sleep(AWAY_S)
    # Its second start shows that reapers are at work again, and so that they left the others alone.
    wait_until(lambda: site.crew.notes.count("lost") == 2, 15)
    (tmp_path / "go").touch()
    for handle in [lost, *handles]:
        site.succeeds(handle)
    assert [site.crew.notes.count(name) for name in names] == [1] * 4
    assert [site.app.store.inspect.get(handle.id).attempt for handle in handles] == [1] * 4
    wait_until(lambda: [process.log.count("Redis is back") for process in healthy] == [1, 1])
    site.works()
    site.is_clean()


@pytest.mark.parametrize(("lease_s", "beat_s", "stall_s"), [(2, 0.5, 2.2), (1, 0.25, 2.0), (1, 0.25, 1.2)])
def test_while_redis_stalls_again_and_again_for_about_a_lease_nothing_starts_twice(
    site: Site, tmp_path: Path, lease_s: float, beat_s: float, stall_s: float
) -> None:
    for _ in range(3):
        site.crew.start(
            worker_concurrency=6,
            worker_queues=("default", "second", "third"),
            visibility_timeout_s=lease_s,
            heartbeat_interval_s=beat_s,
        )
    handles = [
        site.app.named(("hold", "hold_async")[number % 2]).options(queue=queue).submit(name=f"{queue}{number}")
        for queue in ("default", "second", "third")
        for number in range(6)
    ]
    wait_until(lambda: len(site.crew.notes) == len(handles))
    for pause_s in (0.1, 0.5, 0.9, 0.3, 0.7):
        time.sleep(pause_s)  # at another moment of the rounds of heartbeats and reapers each time
        with frozen(site):
            time.sleep(stall_s)
    time.sleep(1.5 * lease_s)
    (tmp_path / "go").touch()
    for handle in handles:
        site.succeeds(handle)
    assert len(site.crew.notes) == len(set(site.crew.notes)) == len(handles)
    site.is_clean()


@pytest.mark.parametrize("first", ["a heartbeat", "a reaper"])
def test_reapers_hold_off_for_one_lease_from_the_moment_that_redis_is_back(first: str) -> None:
    now = 100.0
    outage = Outage(30, clock=lambda: now)
    outage.saw_server("a", 1000)
    outage.began(RedisUnavailable("away"))
    now += 20  # a frozen server answers long after the last call that failed
    if first == "a heartbeat":
        outage.ended()
    outage.saw_server("a", 1020)
    now += 29
    assert not outage.over
    now += 2
    assert outage.over


@pytest.mark.parametrize(
    "trouble", [pytest.param(read_only, marks=pytest.mark.not_on_a_cluster("REPLICAOF is refused there")), busy]
)
def test_a_server_that_refuses_to_work_is_waited_for(
    site: Site, tmp_path: Path, trouble: Callable[[Site], Any]
) -> None:
    process = site.crew.start()
    handle = site.app.named("hold").submit(name="held")
    wait_until(lambda: site.crew.notes)
    with trouble(site):
        (tmp_path / "go").touch()
        with is_idle_meanwhile(process):
            wait_until(lambda: "Redis is unavailable" in process.log)
            time.sleep(1)  # long beside a tick of CPU time, which is 10 ms
    site.succeeds(handle)
    site.works()
    assert site.crew.notes == ["held", "quick"]
    assert "Traceback" not in process.log
    wait_until(lambda: "Redis is back" in process.log)
    assert process.log.count("Redis is unavailable") == process.log.count("Redis is back") == 1
    site.is_clean()


def test_a_server_that_is_still_loading_its_data_is_waited_for(site: Site, tmp_path: Path) -> None:
    process = site.crew.start()
    handle = site.app.named("hold").submit(name="held")
    wait_until(lambda: site.crew.notes)
    for number in range(20):
        site.client.set(f"ballast{number}", os.urandom(1024))
    site.client.bgrewriteaof()
    wait_until(lambda: site.client.info("persistence")["aof_rewrite_in_progress"] == 0)
    with crashed(site):
        (tmp_path / "go").touch()
        # Each key takes a twentieth of a second to load.
        before = time.monotonic()
        site.server._options |= {"key-load-delay": "50000", "loading-process-events-interval-bytes": "1024"}
    assert time.monotonic() - before > 1
    site.succeeds(handle)
    site.works()
    assert site.crew.notes == ["held", "quick"]
    assert "Traceback" not in process.log
    site.is_clean()


def test_an_emptied_server_is_used_again_without_a_restart(site: Site, tmp_path: Path) -> None:
    process = site.crew.start()
    handle = site.app.named("hold").submit(name="held")
    wait_until(lambda: site.crew.notes)
    site.client.flushall()
    site.works()
    delayed = site.app.named("quick").options(delay=0.1).submit()
    site.succeeds(delayed)
    (tmp_path / "go").touch()
    wait_until(lambda: "no longer there" in process.log or "lost its lease" in process.log)
    wait_until(lambda: [info.pid for info in site.app.store.workers.list()] == [process.pid])
    assert site.app.store.inspect.find([handle.id]) == [None]
    site.is_clean()


def test_forgotten_scripts_and_functions_are_sent_again(site: Site, tmp_path: Path) -> None:
    site.crew.start()
    handle = site.app.named("hold").submit(name="held")
    wait_until(lambda: site.crew.notes)
    site.client.script_flush()
    site.client.function_flush()
    (tmp_path / "go").touch()
    site.succeeds(handle)
    site.works()
    site.is_clean()


def test_lost_consumer_groups_cost_no_task_and_start_none_twice(site: Site, tmp_path: Path) -> None:
    process = site.crew.start(worker_concurrency=2)
    held = [site.app.named("hold").submit(name=name) for name in ("one", "two")]
    wait_until(lambda: len(site.crew.notes) == 2)
    waiting = site.app.named("quick").submit()
    for key in site.client.scan_iter(match="*:stream:{default}:p*"):
        assert site.client.xgroup_destroy(key, "workers")
    leases = f"{site.app.settings.prefix}:stream:{{default}}:p5"
    wait_until(lambda: site.client.xinfo_groups(leases) and site.client.xpending(leases, "workers")["pending"] == 2)
    (tmp_path / "go").touch()
    for handle in [*held, waiting]:
        site.succeeds(handle)
    assert sorted(site.crew.notes) == ["one", "quick", "two"]
    assert "Traceback" not in process.log
    site.is_clean()


@pytest.mark.alone
def test_a_cancel_arrives_although_the_control_connection_was_cut(site: Site) -> None:
    site.crew.start()
    handle = site.app.named("obey").submit()
    wait_until(lambda: site.crew.notes)
    assert site.client.client_kill_filter(_type="pubsub") >= 1
    handle.cancel()
    wait_until(lambda: site.status(handle) is TaskStatus.CANCELLED, 3)
    wait_until(site.client.pubsub_channels)
    again = site.app.named("obey").submit()
    wait_until(lambda: len(site.crew.notes) == 2)
    before = time.monotonic()
    again.cancel()
    wait_until(lambda: site.status(again) is TaskStatus.CANCELLED, 3)
    assert time.monotonic() - before < LEASE_S / 5, "by the new connection, and not by a heartbeat"
    site.is_clean()


def test_on_a_full_server_all_goes_on_but_submits_are_refused(site: Site, tmp_path: Path) -> None:
    process = site.crew.start()
    held, cancelled = site.app.named("hold").submit(name="held"), site.app.named("obey").submit()
    queued = [site.app.named("hold").options(queue="elsewhere").submit(name="never") for _ in range(2)]
    delayed = site.app.named("quick").options(delay=1).submit()
    wait_until(lambda: len(site.crew.notes) == 2)
    site.client.config_set("maxmemory", "1mb")
    try:
        with pytest.raises(MemoryFull):
            site.app.named("quick").submit()
        lock, token = site.app.store.keys.leader(), site.client.get(site.app.store.keys.leader())
        site.succeeds(delayed)
        beat = max(info.seen_ms for info in site.app.store.workers.list())
        wait_until(lambda: max(info.seen_ms for info in site.app.store.workers.list()) > beat + LEASE_S * 1000)
        assert site.client.get(lock) == token
        assert site.client.pttl(lock) > LOCK_MS * 0.5
        cancelled.cancel()
        wait_until(lambda: site.status(cancelled) is TaskStatus.CANCELLED)
        queued[0].cancel()
        (tmp_path / "go").touch()
        site.succeeds(held)
        assert "Traceback" not in process.log
    finally:
        site.client.config_set("maxmemory", "0")
    queued[1].cancel()
    site.works()
    assert sorted(site.crew.notes) == ["held", "obey", "quick", "quick"]
    assert held.info().attempt == 1
    site.is_clean()
