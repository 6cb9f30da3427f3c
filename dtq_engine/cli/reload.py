"""`--reload`: a worker in a process of its own, which is ended in good order and started anew when its code changes."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

import msgspec

from dtq_engine.cli.plan import Imported, Plan
from dtq_engine.logs import configure as log_as
from dtq_engine.worker.process import EXIT_MISCONFIGURED
from dtq_engine.worker.worker import EXIT_STUCK

log = logging.getLogger("dtq.reload")

QUIET_MS = 200
BURST_MS = 2_000
"""Changes are one change until none has come for the first time, or the second is up."""

LOOK_MS = 200
LOOK_S = 0.1
END_S = 5.0
"""How long after its drain time a worker is waited for; it needs a second."""

MISSING = "watchfiles, which tells what changed, is not installed: pip install 'dtq[dev]', or pip install watchfiles."
SHOWN = 3


def can_reload() -> bool:
    """Whether what tells of changes is installed."""
    return find_spec("watchfiles") is not None


class Reloader:
    """Runs a plan, again after each change, until SIGTERM or SIGINT; those are passed on to the worker.

    It does not wait for an app that is not there from the start: its name must be wrong.
    """

    def __init__(self, plan: Plan, folders: Sequence[Path] = ()) -> None:
        """Watches `folders` with all in them; without any, those that the app's modules come from."""
        self._plan = plan
        self._folders = folders
        self._child: Child | None = None
        self._told = False

    def run(self) -> int:
        """Work until told to stop; the exit code of the last worker."""
        log_as(self._plan.settings)
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        code, lives = 0, 0
        with self._signals():
            while not self._told:
                with Child(self._plan, self._folders) as child:
                    self._child = child
                    self._wait(child.needs_attention)
                    lives += 1
                    if lives == 1 and child.is_over and child.is_misnamed():
                        return EXIT_MISCONFIGURED
                    self._after(child)
                    code = self._stop(child)
        return code

    @contextmanager
    def _signals(self) -> Generator[None, None, None]:
        numbers = (signal.SIGTERM, signal.SIGINT)
        earlier = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        # A terminal sends Ctrl-C to both; a worker takes two that come together for one.
        self._told = True
        if self._child is not None:
            self._child.signal(number)

    def _wait(self, until: Callable[[], bool]) -> None:
        while not self._told and not until():
            time.sleep(LOOK_S)

    def _after(self, child: "Child") -> None:
        """Say what happened, and wait for a change if the worker ended by itself."""
        if child.introduced:
            self._plan = msgspec.structs.replace(self._plan, introduce=False)
        if child.code == EXIT_STUCK:  # which asks for a new process, whatever the files say
            return
        if not self._told and not child.has_changed():
            log.info("the worker has ended (exit code %d); it starts again when a file changes", child.code)
            self._wait(child.has_changed)
        if not self._told:
            names = child.changes
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            log.info("%s%s changed: the worker starts anew", ", ".join(names[:SHOWN]), more)

    def _stop(self, child: "Child") -> int:
        """End the worker as SIGTERM does; its exit code."""
        child.signal(signal.SIGTERM)
        deadline = time.monotonic() + self._plan.settings.drain_timeout_s + END_S
        while not child.is_over and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        child.kill()
        # One that was told to end before it could listen has ended as it should.
        return 0 if child.code is None or child.code == -signal.SIGTERM else child.code


class Child:
    """One life of the worker, and the watch over the files that it was made from."""

    def __init__(self, plan: Plan, folders: Sequence[Path]) -> None:
        self._plan = plan
        self._given = folders
        self._began = time.time()
        self._stopped = threading.Event()
        self.changes: list[str] = []
        self.introduced = False
        self._heard = threading.Event()
        self._misnamed = False

    def __enter__(self) -> Self:
        """Start it."""
        report, theirs = os.pipe()
        try:
            command = [sys.executable, "-m", "dtq_engine.cli.reloaded", str(theirs)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[theirs])
        except OSError:
            os.close(report)
            raise
        finally:
            os.close(theirs)
        assert self._process.stdin is not None
        self._leash = self._process.stdin
        with suppress(BrokenPipeError):  # it is dead already, which is seen soon
            self._leash.write(msgspec.json.encode(self._plan) + b"\n")
            self._leash.flush()
        self._watch = threading.Thread(target=self._watch_files, args=(report,), name="dtq-reload", daemon=True)
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make sure that it is gone, and watch no more."""
        self.kill()
        self._stopped.set()
        self._watch.join()
        with suppress(BrokenPipeError):
            self._leash.close()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.code is not None

    @property
    def code(self) -> int | None:
        """Its exit code, or minus the number of the signal that killed it; None while it runs."""
        return self._process.poll()

    def has_changed(self) -> bool:
        """Whether files have changed since it began."""
        return bool(self.changes)

    def needs_attention(self) -> bool:
        """Whether it has ended, or is out of date."""
        return self.is_over or self.has_changed()

    def is_misnamed(self) -> bool:
        """Whether it has ended because there is no such app."""
        self._heard.wait(END_S)
        return self._misnamed

    def signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if not self.is_over:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it now."""
        if not self.is_over:
            self._process.kill()
        self._process.wait()

    def _watch_files(self, report: int) -> None:
        reported = self._reported(report)
        try:
            self._note_changes(self._given or reported)
        except OSError as error:
            log.error("changes of the code cannot be followed: %s", error)

    def _note_changes(self, folders: Sequence[Path]) -> None:
        from watchfiles import PythonFilter, watch  # of the extra `dev`: only who reloads needs it

        changes = watch(
            *folders,
            watch_filter=PythonFilter(),
            debounce=BURST_MS,
            step=QUIET_MS,
            stop_event=self._stopped,
            rust_timeout=LOOK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=bool(self._given),
        )
        for number, found in enumerate(changes):
            names = {_shown(Path(path)) for _, path in found}
            if number == 0:  # from now on it is watched: what came between the worker's start and this?
                names |= {_shown(path) for path in self._newer(folders)}
            if names:
                self.changes = sorted(names)

    def _reported(self, report: int) -> list[Path]:
        """The folders of the app's modules, as the worker found them when it imported them."""
        with os.fdopen(report, "rb") as file:
            told = file.read()
        imported = msgspec.json.decode(told, type=Imported) if told else None
        if imported is not None:
            self.introduced, self._misnamed = imported.worked, imported.misnamed
        self._heard.set()
        if imported is None:  # it ended before it could
            return [Path.cwd()]
        return [path for each in imported.folders if (path := Path(each)).is_dir()]

    def _newer(self, folders: Sequence[Path]) -> Iterator[Path]:
        """Files that changed since the worker began; not those that claim to be from the future."""
        for folder in folders:
            for path in folder.rglob("*.py") if self._given else folder.glob("*.py"):
                with suppress(OSError):
                    if self._began < path.stat().st_mtime <= time.time():
                        yield path


def _shown(path: Path) -> str:
    """A file's name as seen from the working directory."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
