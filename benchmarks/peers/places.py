"""Where each peer is installed, and how one of them is asked to do something."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "peers"
PYTHON = {
    "arq": ("arq", "hiredis"),
    "saq": ("saq[hiredis]", "typing_extensions"),
    "dramatiq": ("dramatiq", "redis", "hiredis"),
    "taskiq": ("taskiq", "taskiq-redis"),
    "huey": ("huey", "redis", "hiredis"),
    "streaq": ("streaq",),
    "rq": ("rq", "hiredis"),
    "celery": ("celery", "redis", "hiredis", "packaging"),
}
"""What pip installs for each; hiredis, which makes redis-py quicker, for all that can use it."""

NODE = {"bullmq": ("bullmq", "ioredis")}
PEERS = ("dtq", "bullmq", *PYTHON)
INSTALL_S = 300.0
ANSWER_S = 120.0


class PeerFailed(Exception):
    """Raised when a peer cannot be installed or does not do what it was asked for; says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One peer, with the command that takes the verbs, where it runs, and its server and file of notes."""

    name: str
    command: tuple[str, ...]
    folder: Path
    url: str
    notes: Path

    def ask(self, verb: str, *words: str | int) -> dict[str, Any]:
        """What a verb answers. Raises PeerFailed."""
        said = run([*self.command, verb, *map(str, words)], ANSWER_S, cwd=self.folder, env=self._environ())
        answer: dict[str, Any] = json.loads(said.splitlines()[-1])
        return answer

    @contextmanager
    def working(self, kind: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A worker of this peer, with all its processes; killed in the end, for not all of them stop well."""
        self.notes.unlink(missing_ok=True)
        log = FOLDER / f"{self.name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self.command, "work", kind],
                cwd=self.folder,
                env=self._environ(),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _environ(self) -> dict[str, str]:
        return os.environ | {"BENCH_URL": self.url, "BENCH_NOTES": str(self.notes), "PYTHONPATH": str(ROOT)}


def installed(name: str, url: str, notes: Path) -> Peer:
    """A peer that is ready to be asked, installed if it was not yet. Raises PeerFailed."""
    if name == "dtq":
        return Peer(name, (sys.executable, "-m", "benchmarks.peers.harness", name), ROOT, url, notes)
    folder = FOLDER / name
    done = folder / "installed"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        install_node(name, folder) if name in NODE else install_python(name, folder)
        done.touch()
    if name in NODE:
        return Peer(name, ("node", str(ROOT / "benchmarks" / "peers" / f"{name}.mjs")), folder, url, notes)
    return Peer(name, (str(folder / "bin" / "python"), "-m", "benchmarks.peers.harness", name), ROOT, url, notes)


def install_python(name: str, folder: Path) -> None:
    """Make an environment of its own and install the peer there."""
    run([sys.executable, "-m", "venv", str(folder)], INSTALL_S)
    run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *PYTHON[name]], INSTALL_S)


def install_node(name: str, folder: Path) -> None:
    """Install the peer into a folder of its own."""
    (folder / "package.json").write_text('{"private": true}')
    run(["npm", "install", "--silent", "--no-audit", "--no-fund", *NODE[name]], INSTALL_S, cwd=folder)


def run(command: list[str], timeout_s: float, **where: Any) -> str:
    """What a command prints. Raises PeerFailed with the last line of its complaint."""
    try:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, **where
        )
    except FileNotFoundError:
        raise PeerFailed(f"there is no {command[0]} here") from None
    except subprocess.TimeoutExpired:
        raise PeerFailed(f"{' '.join(command[-4:])} took more than {timeout_s:.0f} s") from None
    if done.returncode:
        said = [f"exit code {done.returncode}", *(done.stdout + done.stderr).strip().splitlines()]
        raise PeerFailed(next((line for line in reversed(said) if "Error" in line), said[-1]))
    return done.stdout
