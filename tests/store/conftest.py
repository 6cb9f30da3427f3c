"""What the store tests share beside the fixtures of all tests."""

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from dtq_engine.cli.root import run
from dtq_engine.config import Settings
from dtq_engine.connection import Connection, connect
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.store import Store
from tests.store.hand import Hand
from tests.support.environ import environ_of
from tests.support.ran import Ran


@pytest.fixture
def make_store(conn: Connection, settings: Settings) -> Callable[..., Store]:
    """A store over the test's connection with other settings: `make_store(max_queue_depth=3)`."""

    def make(**changes: object) -> Store:
        return Store(conn, replace(settings, **changes))  # type: ignore[arg-type]

    return make


@pytest.fixture
def hand(store: Store) -> Hand:
    """A worker that moves only when told to."""
    return Hand(store)


@pytest.fixture
def other(store: Store) -> Hand:
    """Another one."""
    return Hand(store, "w2")


@pytest.fixture
def store_at(settings: Settings) -> Iterator[Callable[..., Store]]:
    """A store over a connection of its own: `store_at(url)`, with further settings by name."""
    opened: list[Store] = []

    def make(url: str, **changes: object) -> Store:
        other = replace(settings, redis_url=url, **changes)  # type: ignore[arg-type]
        opened.append(Store(connect(other), other))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def own_server(make_server: Callable[..., EmbeddedValkey]) -> EmbeddedValkey:
    """A server that this test may stop, empty and break."""
    return make_server()


@pytest.fixture
def dtq(settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command in this process, with this test's settings as its environment: `dtq("list", "--json").json`."""
    for name in [name for name in os.environ if name.startswith("DTQ_")]:
        monkeypatch.delenv(name)
    for name, value in environ_of(settings).items():
        monkeypatch.setenv(name, value)

    def call(*arguments: str, stdin: bytes | None = None) -> Ran:
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = run(arguments)
        shown = capsys.readouterr()
        return Ran(code, shown.out, shown.err)

    return call


@pytest.fixture
def calls(client: Any) -> Callable[[], dict[str, int]]:
    """How often each command was called from outside of scripts, since the last look."""

    def count() -> dict[str, int]:
        stats: dict[str, Any] = client.info("commandstats")
        client.config_resetstat()
        names = ("fcall", "evalsha", "eval", "info", "ping", "script|load")
        return {name: stats[f"cmdstat_{name}"]["calls"] for name in names if f"cmdstat_{name}" in stats}

    return count


@pytest.fixture
def commands(client: Any) -> Callable[[], dict[str, int]]:
    """How often each command was called, from inside of scripts as well, since the last look."""

    def count() -> dict[str, int]:
        stats: dict[str, Any] = client.info("commandstats")
        client.config_resetstat()
        ours = {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}
        return {name: calls for name, calls in ours.items() if name not in {"info", "config|resetstat"}}

    return count
