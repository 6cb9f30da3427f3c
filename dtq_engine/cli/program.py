"""How this command line is called from another terminal."""

import shlex
import shutil
import sys
from pathlib import Path


def program(folder: Path) -> str:
    """What to type for `dtq` in `folder`: its name where PATH has it, else its path, shortest first."""
    script = Path(sys.executable).parent / "dtq"
    found = shutil.which("dtq")
    if not script.exists():
        return "dtq" if found else f"{shlex.quote(sys.executable)} -m dtq_engine.cli"
    if found and Path(found).samefile(script):
        return "dtq"
    inside = script.is_relative_to(folder)
    return shlex.quote(str(script.relative_to(folder) if inside else script))
