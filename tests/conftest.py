"""The fixtures all tests share. Each test has a key prefix of its own on a server that all of them share."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from dtq_engine import Dtq
from dtq_engine.config import Settings
from dtq_engine.connection import Connection, connect
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.store import Store
from tests.support.clock import Clock
from tests.support.kin import kin_end_with_this_process
from tests.support.leaks import Leaks
from tests.support.servers import CHOICES, Flavour, fake_server, plain, real_server

FLAVOUR = Flavour.chosen()

_numbers = itertools.count(1)


# Folders and modules whose tests start whole interpreters, deployments or browsers, or play many histories.
SLOW = (
    "browser",
    "explore",
    "kit",
    "recipes",
    "servers",
    "store/test_cli.py",
    "store/test_feed.py",
    "store/test_outage.py",
    "typing",
    "unit/test_cli_program.py",
    "unit/test_deploy_files.py",
    "web/test_events.py",
    "web/test_fuzz.py",
    "web/test_gunicorn.py",
    "web/test_metrics_fleet.py",
    "web/test_pages_speed.py",
    "web/test_procfile.py",
    "web/test_serving.py",
    "worker/test_cli_dev.py",
    "worker/test_cli_reload.py",
    "worker/test_crash_points.py",
    "worker/test_demo.py",
    "worker/test_leadership.py",
    "worker/test_long_tasks.py",
    "worker/test_outages.py",
    "worker/test_process_tasks.py",
    "worker/test_processes.py",
    "worker/test_restarts.py",
    "worker/test_shutdown.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow; tests that cannot apply to a cluster are skipped there, each with its reason."""
    for item in items:
        place = item.path.relative_to(Path(__file__).parent).as_posix()
        if place.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
        if FLAVOUR.is_cluster and (marker := item.get_closest_marker("not_on_a_cluster")):
            item.add_marker(pytest.mark.skip(reason=f"not on a cluster: {marker.args[0]}"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked `both_servers` on a real server and on fakeredis."""
    if "server_kind" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_servers"):
        kinds = ["real", "fakeredis"] if Flavour() == FLAVOUR else ["real"]
        metafunc.parametrize("server_kind", kinds, indirect=True, scope="function")


@pytest.fixture(scope="session", autouse=True)
def _plain_environment() -> None:
    """Without what chose the server, which is no setting of dtq. Not earlier: pytest's other processes read it too."""
    for name in CHOICES:
        os.environ.pop(name, None)
    # A shell has what it runs in the background ignore Ctrl-C, and that would be inherited by all that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _no_stragglers() -> Iterator[None]:
    """Workers, servers and browsers of tests that were killed do not stay behind."""
    with kin_end_with_this_process():
        yield


@pytest.fixture(scope="session")
def real_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the one real server."""
    with real_server(tmp_path_factory.mktemp("valkey"), FLAVOUR) as url:
        yield url


@pytest.fixture(scope="session")
def fake_url() -> Iterator[str]:
    """The address of the one fakeredis."""
    with fake_server() as url:
        yield url


@pytest.fixture
def server_kind(request: pytest.FixtureRequest) -> str:
    """`real` or `fakeredis`."""
    return getattr(request, "param", "real")


@pytest.fixture
def redis_url(request: pytest.FixtureRequest, server_kind: str) -> str:
    """The address of the server this test runs on."""
    url: str = request.getfixturevalue("real_url" if server_kind == "real" else "fake_url")
    return url


@pytest.fixture
def settings(request: pytest.FixtureRequest, redis_url: str) -> Iterator[Settings]:
    """Default settings with a prefix of this test's own; after the test its keys are checked for leaks.

    Mark a test `drains` if no task may be left waiting or running after it, and `keeps_keys` if it damages keys on
    purpose. Derive others with `dataclasses.replace(settings, …)`; they keep the prefix, and so the check.
    """
    settings = Settings(redis_url=redis_url, prefix=f"t{next(_numbers)}")
    yield settings
    with redis.Redis.from_url(plain(redis_url), protocol=2) as client:
        leaks = Leaks(client, settings.prefix)
        try:
            if not request.node.get_closest_marker("keeps_keys"):
                drained = request.node.get_closest_marker("drains") is not None
                found = leaks.found(drained=drained)
                assert not found, "left in Redis after the test:\n" + "\n".join(found)
        finally:
            leaks.clean()


@pytest.fixture
def leaks(settings: Settings, client: redis.Redis) -> Leaks:
    """The leak check, for tests that want it in the middle."""
    return Leaks(client, settings.prefix)


@pytest.fixture
def client(settings: Settings) -> Iterator[redis.Redis]:
    """A plain client of the test's server, for looking and for doing damage; bytes in, bytes out."""
    with redis.Redis.from_url(plain(settings.redis_url), protocol=2) as client:
        yield client


@pytest.fixture
def conn(settings: Settings) -> Iterator[Connection]:
    """The connection under test."""
    connection = connect(settings)
    yield connection
    connection.close()


@pytest.fixture
def store(conn: Connection, settings: Settings) -> Store:
    """The store under test."""
    return Store(conn, settings)


@pytest.fixture
def clock(client: redis.Redis, settings: Settings) -> Clock:
    """Redis' time, to be moved by `clock.advance(seconds)`."""
    return Clock(client, settings)


@pytest.fixture
def app(settings: Settings) -> Iterator[Dtq]:
    """An app without tasks."""
    app = Dtq(settings)
    yield app
    app.close()


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., EmbeddedValkey]]:
    """Start servers of this test's own, to be stopped, frozen or filled: `make_server(maxmemory="20mb")`."""
    started: list[EmbeddedValkey] = []

    def make(**directives: str) -> EmbeddedValkey:
        options = {name.replace("_", "-"): value for name, value in directives.items()}
        server = FLAVOUR.server(tmp_path / f"server{len(started)}", options=options)
        server.start()
        started.append(server)
        return server

    yield make
    for server in started:
        server.stop()
