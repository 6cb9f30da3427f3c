"""The files that platforms read (Procfile, app.json, …) and docs/deploy.md say what is so."""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from dtq_engine.config import Settings

ROOT = Path(__file__).parents[2]
APP = json.loads((ROOT / "app.json").read_text())
PROCFILE = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
PAGE = (ROOT / "docs" / "deploy.md").read_text()
GIVEN = {"DTQ_SECRET_KEY": "0" * 64, "DTQ_API_KEYS": f"shop:submit:{'0' * 64}"}
"""What the platform makes up, and what it asks for."""


def environ() -> dict[str, str]:
    """The environment that app.json describes."""
    return {name: entry.get("value", GIVEN.get(name)) for name, entry in APP["env"].items()}


def test_the_environment_of_app_json_is_one_that_works():
    assert all(environ().values())
    settings = Settings.from_env(environ())
    assert settings.env == "production"


def test_each_process_that_is_started_has_a_line_in_the_procfile():
    assert set(APP["formation"]) < set(PROCFILE)
    assert set(PROCFILE) == {"web", "worker", "release"}


@pytest.mark.parametrize(("changes", "code"), [({}, 0), ({"DTQ_ENV": "prod"}, 2), ({"DTQ_TASKS": "no.such:app"}, 2)])
def test_the_release_phase_fails_for_wrong_settings_and_nothing_else(changes, code):
    command = PROCFILE["release"].replace("dtq ", f"{sys.executable} -m dtq_engine.cli ", 1)
    inherited = {name: value for name, value in os.environ.items() if not re.match("DTQ_|REDIS_", name)}
    away = {"REDIS_URL": "rediss://:secret@127.0.0.1:1"}
    ran = subprocess.run(
        command.split(),
        cwd=ROOT,
        env=inherited | away | environ() | changes,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "secret" not in ran.stdout + ran.stderr


def test_what_is_installed_there_is_this_package_on_a_python_that_it_is_tested_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    assert requirements == [".[web]"]
    assert "web" in project["optional-dependencies"]
    python = (ROOT / ".python-version").read_text().strip()
    assert f"Programming Language :: Python :: {python}" in project["classifiers"]


def test_the_probe_of_the_page_sees_a_file_that_is_no_longer_touched(tmp_path):
    (probe,) = set(re.findall(r"""test "\$\(find /tmp/dtq-alive -mmin -1\)\"""", PAGE))
    alive = tmp_path / "alive"
    command = probe.replace("/tmp/dtq-alive", str(alive))
    alive.touch()
    assert subprocess.run(["sh", "-c", command]).returncode == 0
    os.utime(alive, (time.time() - 90, time.time() - 90))
    assert subprocess.run(["sh", "-c", command]).returncode == 1
    alive.unlink()
    assert subprocess.run(["sh", "-c", command], capture_output=True).returncode == 1
