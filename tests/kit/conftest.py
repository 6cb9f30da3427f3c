"""What the tests of the kit share: an app without tasks, which each test gives its own."""

import threading
from collections.abc import Iterator

import pytest

from dtq_engine import Dtq, Settings


@pytest.fixture
def dtq_app() -> Dtq:
    """In a project the setting `dtq_app` names the app."""
    return Dtq(Settings())


@pytest.fixture(autouse=True)
def _no_thread_stays_behind() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(2)
        assert not thread.is_alive(), f"{thread.name} still runs"
