"""Starting processes: fresh interpreters, never forks of one that has threads."""

import os
import secrets
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from dtq_engine.config import KIN_MARK, marked_environ
from dtq_engine.worker.kin import end_kin
from dtq_engine.worker.wire import Wire

T = TypeVar("T")

BOOT = Path(__file__).with_name("boot.py")
# The other side reads as long as it lives; one that does not for so long is stopped or stuck.
SEND_S = 2.0
UNKNOWN = -1
# To a process that takes too long to start: it shows where it is.
ASKED = signal.SIGUSR2
# How a process ends that a handler has cut off from its worker.
CUT_OFF = os.EX_IOERR


@dataclass(frozen=True, slots=True)
class Death:
    """How a process ended: `code` is its exit code, or minus the number of the signal that killed it.

    `peak_kib` is the most memory that it used. A process begins with the peak of the one that started it, `floor_kib`:
    a lower one of its own cannot be told. 255 stands for an exit code that somebody else has collected.
    """

    code: int
    peak_kib: int
    floor_kib: int

    @property
    def signal(self) -> str | None:
        """The signal that killed it, by name; None if it ended by itself."""
        if self.code >= 0:
            return None
        try:
            return signal.Signals(-self.code).name
        except ValueError:  # a real-time signal has no name
            return f"signal {-self.code}"

    def __str__(self) -> str:
        return f"was killed by {self.signal}" if self.signal else f"ended with exit code {self.code}"


class Spawned(Generic[T]):
    """A process that this one has started, and the wire to it.

    With `leashed` it leads a process group of its own, which signals to this one's group do not reach, and which
    ends with this process, however that ends. Raises OSError if the system has no room for it.
    """

    def __init__(self, role: str, greeting: msgspec.Struct, kinds: Any, *, leashed: bool = False) -> None:
        ours, theirs = socket.socketpair()
        self.leashed = leashed
        self._environ = marked_environ(secrets.token_hex(8))
        self._leash: list[int] = []
        self._floor_kib = peak_kib()
        try:
            self._process = self._start(role, theirs.fileno())
            ours.settimeout(SEND_S)
            self.wire: Wire[T] = Wire(ours, kinds)
        except BaseException:
            ours.close()
            self._let_go()
            raise
        finally:
            theirs.close()
        self._death: Death | None = None
        # A process that died so soon is found dead by whoever looks.
        with suppress(OSError):
            self.wire.send(greeting)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_here(self) -> bool:
        """Whether its end has not been seen yet."""
        return self._death is None

    @property
    def is_held(self) -> bool:
        """Whether it holds its leash, which a handler may have closed: without, it may outlive this process."""
        poll = select.poll()
        for each in self._leash:
            poll.register(each, 0)  # that nobody reads from it is told without being asked for
        return not poll.poll(0)

    def ask(self) -> None:
        """Have it show on stderr where it is, if it has come far enough for that; else this ends it."""
        if self._death is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, ASKED)

    def kill(self) -> None:
        """End it, and with a leash all that it has started, in its group and outside."""
        kill_all([self])

    def send_signal(self, number: signal.Signals) -> None:
        """Send it, and with a leash its group, a signal."""
        with suppress(ProcessLookupError, PermissionError):
            if self.leashed:
                os.killpg(self.pid, number)
            elif self._death is None:
                os.kill(self.pid, number)

    @property
    def mark(self) -> str:
        """What the mark of all that it starts begins with."""
        return self._environ[KIN_MARK]

    def end_kin(self) -> None:
        """End what it has started and what has left its group; without a leash, what those that it leashed have.

        It may be dead.
        """
        end_kin([self.mark if self.leashed else f"{self.mark}/"], [] if self._death else [self.pid])

    def ended(self) -> Death | None:
        """How it ended; None while it runs. What it left behind in its group is ended then."""
        if self._death is None:
            try:
                pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            except ChildProcessError:  # code of the application that waits for any child has collected it
                self._die(Death(255, 0, 0))
            else:
                if pid:
                    peak = kib(usage.ru_maxrss)
                    self._die(Death(os.waitstatus_to_exitcode(status), peak, self._floor_kib))
        return self._death

    def close(self) -> None:
        """Let go of the wire."""
        self.wire.close()
        self._let_go()

    def _start(self, role: str, end: int) -> "subprocess.Popen[bytes]":
        if self.leashed:
            self._leash = list(os.pipe())
        leash = self._leash[:1]
        process = subprocess.Popen(
            [sys.executable, *_flags(), "-P", str(BOOT), role, str(end), str(leash[0] if leash else UNKNOWN)],
            stdin=subprocess.DEVNULL,
            pass_fds=[end, *leash],
            process_group=0 if self.leashed else None,
            env=self._environ,
        )
        for each in leash:
            os.close(each)
            self._leash.remove(each)
        return process

    def _die(self, death: Death) -> None:
        self._death = death
        self._process.returncode = death.code
        if self.leashed:
            self.send_signal(signal.SIGKILL)

    def _let_go(self) -> None:
        for each in self._leash:
            os.close(each)
        self._leash = []


def kill_all(processes: "Sequence[Spawned[Any]]") -> None:
    """End these, and of those with a leash all that they have started, in their groups and outside."""
    here = [each for each in processes if each.is_here]
    leashed = [each for each in here if each.leashed]
    for each in leashed:
        # So that it starts nothing while it is looked for what it has started.
        each.send_signal(signal.SIGSTOP)
    if leashed:
        end_kin([each.mark for each in leashed], [each.pid for each in leashed])
    for each in here:
        each.send_signal(signal.SIGKILL)


def import_path() -> list[str]:
    """Where this process finds modules, for another to find them there."""
    # Whatever else somebody has put there is passed over by imports as well.
    places: list[object] = list(sys.path)
    return [each for each in places if isinstance(each, str)]


def peak_kib() -> int:
    """The most memory that this process has used so far."""
    import resource  # not on every system, and only those that start processes need it

    return kib(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def kib(maxrss: int) -> int:
    """`ru_maxrss` in KiB: macOS counts bytes."""
    return maxrss // 1024 if sys.platform == "darwin" else maxrss


def _flags() -> list[str]:
    """How this interpreter was called, as far as it changes what code does."""
    optimized = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    return [*optimized, *(f"-W{each}" for each in sys.warnoptions)]
