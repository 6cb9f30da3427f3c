"""An app is loaded by its address, and what is wrong with the address is said in a sentence."""

import sys

import pytest

from dtq_engine.engine import Dtq, load_app
from dtq_engine.errors import ConfigurationError


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working directory with modules in it; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


APP = "from dtq_engine.engine import Dtq\napp = Dtq()\nclass box: inner = app\n"


def test_an_app_is_loaded_from_the_working_directory(project):
    project("shop_tasks.py", APP)
    assert isinstance(load_app("shop_tasks:app"), Dtq)
    assert load_app("shop_tasks") is load_app("shop_tasks:app") is load_app("shop_tasks:box.inner")


def test_an_app_is_loaded_from_a_package(project):
    project("shop_pkg/__init__.py", "")
    project("shop_pkg/tasks.py", APP)
    assert isinstance(load_app("shop_pkg.tasks:app"), Dtq)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("no_such_module:app", "no_such_module:app cannot be loaded: .*No module named 'no_such_module'"),
        ("shop_tasks:nothing", "shop_tasks:nothing is missing: name a Dtq"),
        ("shop_tasks:box", "shop_tasks:box is no Dtq app: name a Dtq"),
        ("shop_broken:app", r"cannot be loaded: importing it raised ZeroDivisionError: .* \(shop_broken.py, line 2\)"),
        ("shop_syntax:app", "cannot be loaded: importing it raised SyntaxError"),
        ("shop_exit:app", "cannot be loaded: importing it raised SystemExit"),
        (
            "shop_typo:app",
            r"raised InvalidHandler: .*there is no option tiemout.* \(shop_typo.py, line 3\)",
        ),
        ("shop_lines:app", r"importing it raised ValueError: two lines \(shop_lines.py, line 1\)\.$"),
        ("shop_lost:app", r"No module named 'no_such_thing' \(shop_lost.py, line 2\)"),
        ("no_such_module:app", r"'no_such_module'; run this in its folder, or name another as module:attribute"),
        ("", "cannot be loaded"),
        (":::", "cannot be loaded: .*; run this in its folder, or name another as module:attribute"),
        (":app", "cannot be loaded"),
        ("..:app", "cannot be loaded"),
    ],
)
def test_a_wrong_address_is_a_configuration_error(project, path, sentence):
    project("shop_tasks.py", APP)
    project("shop_broken.py", "\n1 / 0\n")
    project("shop_syntax.py", "def\n")
    project("shop_exit.py", "raise SystemExit(0)\n")
    project("shop_typo.py", f"{APP}app.task('x', tiemout=3)(print)\n".replace("\nclass box: inner = app", ""))
    project("shop_lines.py", "raise ValueError('two\\nlines')\n")
    project("shop_lost.py", "\nimport no_such_thing\n")
    with pytest.raises(ConfigurationError, match=sentence):
        load_app(path)


@pytest.mark.parametrize("wrong", [5, "redis://127.0.0.1:6379", {"redis_url": "redis://127.0.0.1:6379"}])
def test_an_app_takes_settings_and_nothing_else(wrong):
    with pytest.raises(ConfigurationError, match="Dtq takes Settings"):
        Dtq(wrong)
