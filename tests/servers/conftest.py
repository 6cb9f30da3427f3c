"""Deployments other than one server: clusters, sentinels, TLS. Each test file starts its own."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dtq_engine.config import Settings
from dtq_engine.connection import connect
from dtq_engine.ids import new_token
from dtq_engine.store import Store


@pytest.fixture
def store_at() -> Iterator[Callable[..., Store]]:
    """A store at an address, under a prefix of its own: `store_at(url, prefix="t1")`."""
    opened: list[Store] = []
    fresh = "t" + "".join(filter(str.isalnum, new_token()))

    def make(url: str, prefix: str = fresh, *, redis_tls_verify: bool = True) -> Store:
        settings = replace(Settings(), redis_url=url, prefix=prefix, redis_tls_verify=redis_tls_verify)
        opened.append(Store(connect(settings), settings))
        return opened[-1]

    yield make
    for store in opened:
        store.close()
