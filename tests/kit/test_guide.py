"""What docs/testing-your-tasks.md shows works as shown, in a project that has dtq and pytest installed."""

import re
from pathlib import Path

import pytest

from tests.kit.project import run_pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "testing-your-tasks.md").read_text()
FILES = dict(re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", GUIDE, re.DOTALL))


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text(FILES[name])


def test_every_snippet_names_its_file():
    assert len(re.findall(r"```(?:python|toml)\n", GUIDE)) == len(FILES)


@pytest.mark.parametrize("way", ["pyproject.toml", "conftest.py"])
def test_the_examples_pass_whichever_way_the_app_is_named(tmp_path, way):
    tests = [name for name in FILES if name.startswith("test_")]
    write(tmp_path, "tasks.py", *tests, way)
    if way == "pyproject.toml":
        (tmp_path / "conftest.py").write_text(FILES["conftest.py"].partition("@pytest.fixture\n")[0] + AUTOUSE)
    else:
        (tmp_path / "pytest.ini").write_text("[pytest]\n")

    done = run_pytest(tmp_path, "-W", "error")
    number = sum(FILES[name].count("def test_") for name in tests)
    assert f"{number} passed" in done.stdout, done.stdout + done.stderr


AUTOUSE = "@pytest.fixture(autouse=True)\n" + FILES["conftest.py"].rpartition("@pytest.fixture(autouse=True)\n")[2]
