"""What the README shows, taken apart to be run as it stands."""

import os
import re
import signal
import subprocess
from pathlib import Path

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
CONSOLE_LINES = [
    line.removeprefix("$ ").partition("  #")[0].strip()
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]
EXAMPLE = PYTHON_BLOCKS[0]
DEV = "dtq dev reports:app"
TOUR = CONSOLE_LINES[CONSOLE_LINES.index(DEV) + 1 :]
"""The lines to be typed in another terminal."""


def follow_readme(programs: Path, folder: Path) -> dict[str, str]:
    """Do in `folder` what the README says, with the programs of one environment; what each line of the tour printed."""
    (folder / "reports.py").write_text(EXAMPLE)
    inherited = {name: value for name, value in os.environ.items() if not re.match(r"(DTQ_|REDIS_|PYTHON)", name)}
    environ = inherited | {"PATH": f"{programs}:{os.environ['PATH']}"}
    said = folder / "said"
    with said.open("wb") as file:
        dev = subprocess.Popen(DEV.split(), cwd=folder, env=environ, stdout=file, stderr=file)
    try:
        (export,) = wait_until(lambda: re.findall(r"^ +(export .*)$", said.read_text(), re.MULTILINE), 60)
        return {line: _typed(f"{export}\n{line}", folder, environ) for line in TOUR}
    finally:
        dev.send_signal(signal.SIGINT)
        assert dev.wait(30) == 0, said.read_text()


def _typed(lines: str, folder: Path, environ: dict[str, str]) -> str:
    ran = subprocess.run(["sh", "-ec", lines], cwd=folder, env=environ, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, (lines, ran.stdout, ran.stderr)
    return ran.stdout
