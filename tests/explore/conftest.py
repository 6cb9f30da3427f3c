"""The server that the explorers of one test play on."""

from collections.abc import Callable, Iterator

import pytest

from dtq_engine.embedded import EmbeddedValkey
from tests.explore.world import Server


@pytest.fixture
def server(make_server: Callable[..., EmbeddedValkey]) -> Iterator[Server]:
    """A server of this test's own, which is emptied again and again."""
    server = Server(make_server(save="", appendonly="no").url)
    yield server
    server.close()
