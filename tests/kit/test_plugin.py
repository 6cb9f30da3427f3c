"""The plug-in in projects: how it finds the app, what it costs, and what it leaves behind."""

from pathlib import Path

import pytest

from tests.kit.project import run_pytest, run_pytest_as_installed

TASKS = """
from dtq_engine import Dtq

app = Dtq()
bare = Dtq()
calls = []


@app.task("add")
def add(a: int, b: int) -> int:
    calls.append(app.settings.redis_url)
    return a + b
"""
ADDS = """
from shop.tasks import add


def test_add(dtq):
    handle = add.submit(1, 2)
    dtq.run_all()
    assert handle.result() == 3
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an app in shop.tasks, and no settings for pytest."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "tasks.py").write_text(TASKS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def set_app(project: Path, app: str) -> None:
    (project / "pytest.ini").write_text(f"[pytest]\ndtq_app = {app}\n")


def test_the_setting_names_the_app_from_wherever_pytest_is_started(project):
    set_app(project, "shop.tasks:app")
    (project / "tests").mkdir()
    (project / "tests" / "test_it.py").write_text(
        "def test_it(dtq):\n    assert dtq.app.registry.types() == ('add',)\n"
    )
    assert (
        "1 passed"
        in run_pytest_as_installed(project / "tests", "-W", "error", "--strict-config", "--strict-markers").stdout
    )


@pytest.mark.parametrize(
    ("app", "sentence"),
    [
        ("", 'The fixture dtq does not know which app to test: set dtq_app = "shop.tasks:app" in pytest\'s settings'),
        ("shop.nothing:app", "shop.nothing:app cannot be loaded: importing it raised ModuleNotFoundError"),
        ("shop.tasks:calls", "shop.tasks:calls is no Dtq app: name a Dtq, such as shop.tasks:app."),
        ("shop.tasks:bare", "The app has no tasks that could run: import the modules that register them"),
    ],
)
def test_without_a_good_app_the_test_says_what_to_do(project, app, sentence):
    set_app(project, app)
    (project / "test_it.py").write_text("def test_it(dtq):\n    dtq.app.named('add').submit()\n    dtq.run_all()\n")
    assert sentence in run_pytest(project).stdout


def test_a_fixture_that_returns_no_app_is_told_so(project):
    (project / "test_it.py").write_text(
        "import pytest\n@pytest.fixture\ndef dtq_app():\n    return 7\ndef test_it(dtq): ...\n"
    )
    assert "The test kit needs a Dtq, not 7: have the fixture dtq_app return one." in run_pytest(project).stdout


@pytest.mark.parametrize("module", ["fakeredis", "lupa"])
def test_without_fakeredis_or_its_lua_the_test_says_how_to_get_them(project, module):
    set_app(project, "shop.tasks:app")
    (project / f"{module}.py").write_text(f"raise ImportError('no {module}')")
    (project / "test_it.py").write_text(ADDS)
    said = f"The test kit needs fakeredis with Lua (no {module}): pip install 'dtq[testing]'."
    assert said in run_pytest(project).stdout


def test_wrong_settings_are_named_as_at_the_start_of_a_worker(project):
    set_app(project, "shop.tasks:app")
    (project / "test_it.py").write_text(ADDS)
    assert (
        "DTQ_MAX_ATEMPTS is not a setting; did you mean DTQ_MAX_ATTEMPTS?"
        in run_pytest(project, DTQ_MAX_ATEMPTS="3").stdout
    )


def test_a_run_without_the_fixture_does_not_even_import_dtq(project):
    set_app(project, "shop.tasks:app")
    (project / "test_it.py").write_text(
        "import sys\n\n\ndef test_it():\n"
        "    assert 'pytest_dtq' in sys.modules\n"
        "    assert sys.modules.keys().isdisjoint({'dtq_engine', 'redis', 'fakeredis', 'msgspec', 'click'})\n"
    )
    assert "1 passed" in run_pytest(project).stdout


def test_no_test_sees_the_tasks_of_another_nor_a_real_redis(project):
    """The settings name a Redis that nobody answers at: whoever tried it would fail."""
    set_app(project, "shop.tasks:app")
    (project / "test_it.py").write_text("""
import pytest
from shop.tasks import add, app, calls
from dtq_engine import RedisUnavailable, Settings


@pytest.mark.parametrize("number", range(4))
def test_it(dtq, number):
    dtq.assert_not_submitted()
    assert dtq.run_all() == []
    assert app.store.inspect.queues() == []
    add.options(id="same").submit(number, 1)
    dtq.inline = dtq.raise_failures = bool(number % 2)
    dtq.run_all()
    assert app.handle("same").result() == number + 1
    assert calls.pop() == "redis://nowhere.invalid:6379/0"
    app.around_task(lambda context: pytest.fail(str(number)))
    app.configure(Settings(prefix=f"t{number}"))
    assert number != 2, "a test that fails is cleaned up after as well"


def test_afterwards():
    assert app.settings.redis_url == "redis://127.0.0.1:1/0"
    assert not app.registry.hooks.task
    with pytest.raises(RedisUnavailable):
        add.submit(1, 2)
""")
    done = run_pytest(project, DTQ_REDIS_URL="redis://127.0.0.1:1/0")
    assert "1 failed, 4 passed" in done.stdout, done.stdout


@pytest.mark.alone
def test_xdist_runs_tests_side_by_side(project):
    set_app(project, "shop.tasks:app")
    for number in range(4):
        (project / f"test_{number}.py").write_text(ADDS)
    assert "4 passed" in run_pytest_as_installed(project, "-n", "2").stdout


def test_a_failure_shows_the_line_of_the_test_and_the_handler_but_nothing_between(project):
    set_app(project, "shop.tasks:app")
    (project / "test_it.py").write_text("""
from shop.tasks import app


@app.task("fail")
def fail() -> None:
    raise ValueError("here")


def test_queued(dtq):
    fail.submit()
    dtq.run_all()


def test_inline(dtq):
    dtq.inline = True
    fail.submit()


def test_missing(dtq):
    dtq.assert_submitted(fail)
""")
    shown = run_pytest(project, "-p", "no:logging").stdout
    assert 'raise ValueError("here")' in shown
    assert "fail failed in attempt 1 of 12" in shown
    assert "dtq_engine/testing" not in shown
    assert "AssertionError: fail() was not submitted." in shown


def test_the_plugin_can_be_switched_off(project):
    (project / "test_it.py").write_text("def test_it(): ...\n")
    assert "1 passed" in run_pytest_as_installed(project, "-p", "no:dtq").stdout
