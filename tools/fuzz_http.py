"""Tries to break the HTTP API by its own description: schemathesis against gunicorn, on a server of its own.

    python -m tools.fuzz_http --max-examples 100 --seed 7

What is looked for: an answer with 5xx, a status or body that is not documented, and wrong requests that are accepted.
The exit code is schemathesis'. Waiting for tasks that nobody runs is cut short, or most of the time would go there, and
cursors are described as shorter than they may be, because gunicorn itself refuses the longest addresses, with a page.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from dtq_engine.embedded import EmbeddedValkey

ROOT = Path(__file__).parents[1]
KEY = "fuzz-key-of-the-fuzzer"
WAIT_S = "0.05"
CURSOR = 200
READY_S = 30

NOT_CHECKED = (
    # What is valid by its schema can be refused for what it says: a key used before, two fields at odds, a full queue.
    "positive_data_acceptance",
    # The address of `tasks/batch` is that of a task as well, which can be looked at.
    "allow_header_conformance",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-examples", type=int, default=100, help="cases of each kind per endpoint")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=8799)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory, _served(Path(directory), given.port) as url:
        return _fuzz(Path(directory), url, given.max_examples, given.seed)


@contextmanager
def _served(directory: Path, port: int) -> Iterator[str]:
    """The address of the API of a gunicorn that nobody else uses."""
    with EmbeddedValkey(directory / "valkey") as server, (directory / "web.log").open("wb") as log:
        others = {name: value for name, value in os.environ.items() if not name.startswith("DTQ_")}
        environ = others | {"DTQ_REDIS_URL": server.url, "DTQ_API_KEYS": f"fuzzer:admin:{KEY}", "PORT": str(port)}
        environ["DTQ_WEB_WAIT_S"] = WAIT_S
        command = [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "--no-control-socket"]
        process = subprocess.Popen([*command, "webapp:create_app()"], cwd=ROOT, env=environ, stdout=log, stderr=log)
        try:
            _wait_for(f"http://127.0.0.1:{port}/health")
            yield f"http://127.0.0.1:{port}/api/v1"
        finally:
            process.terminate()
            process.wait(20)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            urlopen(url, timeout=1).close()
            return
        except URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _fuzz(directory: Path, url: str, max_examples: int, seed: int) -> int:
    with urlopen(Request(f"{url}/openapi.json", headers={"Authorization": f"Bearer {KEY}"}), timeout=10) as answer:
        description = json.load(answer)
    _shorten_cursors(description)
    (directory / "openapi.json").write_text(json.dumps(description))
    options = ["--url", url, "--header", f"Authorization: Bearer {KEY}", "--max-examples", str(max_examples)]
    options += ["--seed", str(seed), "--exclude-checks", ",".join(NOT_CHECKED), "--suppress-health-check", "all"]
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(directory / "openapi.json"), *options]
    return subprocess.run(
        [*command, "--continue-on-failure", "--warnings", "off"], cwd=directory, check=False
    ).returncode


def _shorten_cursors(description: dict[str, Any]) -> None:
    for methods in description["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter["name"] == "cursor":
                    parameter["schema"] = {"type": "string", "pattern": f"^[A-Za-z0-9_.-]{{1,{CURSOR}}}$"}


if __name__ == "__main__":
    sys.exit(main())
