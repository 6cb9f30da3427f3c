"""What is printed for another terminal works there as it stands."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dtq_engine import Dtq, Settings
from dtq_engine.cli.plan import introduction
from dtq_engine.cli.program import program
from examples.demonstration import to_try
from examples.workload import ROOT


@pytest.fixture
def python(tmp_path, monkeypatch) -> Path:
    """The interpreter of a virtual environment that is not on PATH."""
    scripts = tmp_path / "a b" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "dtq").write_text("#!/bin/sh\n")
    (scripts / "dtq").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(scripts / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return scripts / "python"


def test_a_program_that_is_not_on_the_path_is_called_by_its_place(python, tmp_path):
    assert program(tmp_path) == "'a b/bin/dtq'"
    assert program(tmp_path / "elsewhere") == shlex.quote(str(python.parent / "dtq"))


def test_a_program_on_the_path_is_called_by_its_name(python, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(python.parent))
    assert program(tmp_path) == "dtq"


def test_another_program_of_that_name_is_not_taken_for_it(python, monkeypatch, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "dtq").write_text("#!/bin/sh\n")
    (other / "dtq").chmod(0o755)
    monkeypatch.setenv("PATH", str(other))
    assert program(tmp_path) == "'a b/bin/dtq'"


def test_without_a_script_the_module_is_run(python, tmp_path):
    (python.parent / "dtq").unlink()
    assert program(tmp_path) == f"{shlex.quote(str(python))} -m dtq_engine.cli"


def test_the_commands_of_the_demonstration_can_be_found_from_where_it_was_started(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for folder in (ROOT, tmp_path):
        lines = to_try("redis://127.0.0.1:1/0", folder)
        shown = [f"{line} --help" if " dtq " in f" {Path(line.split()[0]).name} " else line for line in lines]
        ran = subprocess.run(["sh", "-ec", "\n".join(shown)], cwd=folder, capture_output=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr


def test_the_introduction_of_dev_names_the_program_that_is_there(python, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert "\n  'a b/bin/dtq' list\n" in introduction(Dtq(Settings()), Settings(tasks="shop:app"))
