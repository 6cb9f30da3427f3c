"""The web process under test: an app over the test's own keys, and clients of several roles."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from dtq_engine import Dtq, Settings
from dtq_engine.embedded import EmbeddedValkey
from tests.web.contract import ContractClient
from webapp import create_app

KEYS = {role: f"{role}-key-{'0' * 20}" for role in ("submit", "viewer", "operator", "admin", "metrics")}


@pytest.fixture
def web_settings(settings: Settings) -> Settings:
    """The settings of the web process: one key of each role."""
    return replace(settings, api_keys=tuple(f"{role}-program:{role}:{key}" for role, key in KEYS.items()))


@pytest.fixture
def make_web(web_settings: Settings) -> Iterator[Callable[..., Flask]]:
    """Make web processes: `make_web(open=True)` changes settings."""
    apps: list[Dtq] = []

    def make(**changes: Any) -> Flask:
        app = Dtq(replace(web_settings, **changes))
        apps.append(app)
        web = create_app(app)
        web.test_client_class = ContractClient
        return web

    yield make
    for app in apps:
        app.close()


@pytest.fixture
def web(make_web: Callable[..., Flask]) -> Flask:
    """The web process."""
    return make_web()


def client_of(web: Flask, role: str | None) -> FlaskClient:
    """A client that shows the key of a role; None: no key."""
    client = web.test_client()
    if role is not None:
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {KEYS[role]}"
    return client


@pytest.fixture
def api(web: Flask) -> FlaskClient:
    """A client that may do everything."""
    return client_of(web, "admin")


@pytest.fixture
def as_role(web: Flask) -> Callable[[str | None], FlaskClient]:
    """Clients of the web process by role."""
    return lambda role: client_of(web, role)


@pytest.fixture
def own_server(make_server: Callable[..., EmbeddedValkey]) -> EmbeddedValkey:
    """A server that this test may stop."""
    return make_server()
