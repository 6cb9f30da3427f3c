"""The API is typed: both checkers accept what is right in strict mode and refuse what is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"],
        [BIN / "pyright", "--pythonpath", sys.executable],
    ],
    ids=["mypy", "pyright"],
)
@pytest.mark.timeout(180)
def test_right_calls_are_accepted_and_wrong_ones_refused(command):
    checked = subprocess.run(
        [*command, *(Path(__file__).with_name(name) for name in ("calls.py", "handlers.py"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
