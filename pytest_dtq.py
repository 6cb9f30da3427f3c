"""pytest's way to dtq's test kit: the fixture `dtq`.

A module of its own, because pytest imports it in every run of every project that has dtq installed: it imports nothing
of dtq before a test asks for the fixture.
"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dtq_engine import Dtq
    from dtq_engine.testing import Kit


def pytest_addoption(parser: pytest.Parser) -> None:
    """The setting `dtq_app`."""
    parser.addini("dtq_app", "the app that the fixture dtq tests, such as shop.tasks:app", default="")


@pytest.fixture
def dtq_app(request: pytest.FixtureRequest) -> "Dtq":
    """The app under test: the one that the setting `dtq_app` names. To choose another way, override this fixture."""
    from dtq_engine import load_app

    path = str(request.config.getini("dtq_app"))
    if not path:
        pytest.fail(
            'The fixture dtq does not know which app to test: set dtq_app = "shop.tasks:app" in pytest\'s settings, '
            "or define a fixture dtq_app that returns the Dtq.",
            pytrace=False,
        )
    root = str(request.config.rootpath)
    if root not in sys.path:
        sys.path.insert(0, root)
    return load_app(path)


@pytest.fixture
def dtq(dtq_app: "Dtq") -> "Iterator[Kit]":
    """The test kit of dtq, on the app that the fixture `dtq_app` gives: see docs/testing-your-tasks.md."""
    from dtq_engine.testing import Kit

    with Kit(dtq_app) as kit:
        yield kit
