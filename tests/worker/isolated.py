"""Tasks that run in processes of their own, in a module that such a process can import."""

import asyncio
import atexit
import contextvars
import logging
import logging.handlers
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from dtq_engine import Dtq, PermanentError, ProcessDied, Retry, Snooze, TaskContext

app = Dtq()


class Quota(Exception):
    """An error with more to it than its text."""

    def __init__(self, wait_s: float) -> None:
        super().__init__("over quota")
        self.wait_s = wait_s


def after_quota(error: BaseException, attempt: int) -> float | None:
    """Whether to try again: this looks at the error itself."""
    if isinstance(error, ProcessDied):
        return None if error.signal == "SIGABRT" and error.peak_rss_kib > 0 else 0
    return error.wait_s if isinstance(error, Quota) and attempt == 1 else None


def mark(path: str, text: str = "") -> None:
    """Leave a line in a file."""
    with Path(path).open("a") as file:
        file.write(f"{text}\n")


@app.task("pid", process=True)
def pid() -> int:
    return os.getpid()


@app.task("pid.async", process=True)
async def pid_async(ctx: TaskContext) -> list[Any]:
    await asyncio.sleep(0.01)
    return [os.getpid(), ctx.attempt]


@app.task("context", process=True)
def context(ctx: TaskContext, text: str) -> dict[str, Any]:
    return {
        "task_id": ctx.task_id,
        "queue": ctx.queue,
        "type": ctx.type,
        "attempt": ctx.attempt,
        "max_attempts": ctx.max_attempts,
        "fence": ctx.fence,
        "headers": dict(ctx.headers),
        "worker_id": ctx.worker_id,
        "deadline": ctx.deadline.timestamp(),
        "cancelled": ctx.cancelled,
        "stopping": ctx.stopping,
        "text": text,
    }


@app.task("when-due", process=True)
def when_due(ctx: TaskContext) -> float:
    """How many seconds are left."""
    return ctx.deadline.timestamp() - time.time()


@app.task("unflushed", process=True)
def unflushed(ctx: TaskContext, path: str, how: str = "") -> int:
    """Leave work for the end of the process: a function to call, and records in a buffer."""
    if not buffered.handlers:
        target = logging.FileHandler(path)
        buffered.addHandler(logging.handlers.MemoryHandler(1000, target=target))
        atexit.register(mark, path, f"atexit {how}")
        if how == "hangs":
            atexit.register(time.sleep, 60)
    buffered.warning("buffered")
    if how == "wait":
        time.sleep(60)
    return os.getpid()


buffered = logging.getLogger("buffered")


@app.task("unflushed.once", process=True, max_tasks=1)
def unflushed_once(ctx: TaskContext, path: str) -> int:
    return unflushed(ctx, path)


@app.task("unflushed.large", process=True, max_memory_mb=1)
def unflushed_large(ctx: TaskContext, path: str) -> int:
    return unflushed(ctx, path)


@app.task("thread")
def thread() -> bool:
    return "dtq_engine.worker.children" in sys.modules


@app.task("fail", process=True, max_attempts=1)
def fail(kind: str) -> object:
    match kind:
        case "value":
            raise ValueError("no such address")
        case "permanent":
            raise PermanentError("never")
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "cancelled":
            raise asyncio.CancelledError
        case _:
            return {"a": object()}


@app.task("fail.async", process=True, max_attempts=1)
async def fail_async(kind: str) -> object:
    return fail(kind)


@app.task("listed", process=True, permanent=(ValueError, ProcessDied))
def listed(how: str) -> None:
    if how == "die":
        os._exit(1)
    raise UnicodeError("a kind of ValueError")


@app.task("quota", process=True, retry=after_quota)
def quota(ctx: TaskContext, how: str) -> int:
    if how == "die":
        os.abort()
    if how == "hang":
        time.sleep(60)
    if ctx.attempt == 1:
        raise Quota(0.3)
    return ctx.attempt


@app.task("again", process=True)
def again(ctx: TaskContext, how: str, path: str) -> int:
    if not Path(path).exists():
        Path(path).touch()
        raise Retry(0.1) if how == "retry" else Snooze(0.1)
    return ctx.attempt


@app.task("big", process=True)
def big(size: int) -> str:
    return "x" * size


@app.task("die", process=True)
def die(ctx: TaskContext, how: str) -> int:
    if ctx.attempt == 1:
        if how == "exit":
            os._exit(7)
        if how == "fork":
            # A process that it leaves behind holds the connection open.
            if os.fork() == 0:
                time.sleep(60)
            os._exit(7)
        os.kill(os.getpid(), signal.Signals[how])
        time.sleep(60)
    return ctx.attempt


@app.task("hungry", process=True, max_attempts=1)
def hungry(cgroup: str, mib: int) -> int:
    (Path(cgroup) / "cgroup.procs").write_text(str(os.getpid()))
    return len(bytearray(os.urandom(1) * (mib * 1_048_576)))


@app.task("stubborn", process=True, max_attempts=1)
def stubborn(path: str) -> None:
    ignore_signals()
    mark(path, str(os.getpid()))
    while True:
        try:
            while True:
                pass
        except BaseException:  # nothing stops it from within
            continue


@app.task("rude", process=True, max_attempts=1)
def rude(how: str) -> str:
    """Leave the process in a bad state, and return."""
    match how:
        case "fork":
            os.fork()  # and both return
        case "chdir":
            os.chdir("/")
        case "mask":
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        case "no stdout":
            sys.stdout = cast("Any", object())
        case "closed":
            sys.stdout.close()
            os.close(2)
        case "print":
            for _ in range(10):
                print("x" * 1_048_576)
        case _:
            leave_something(how)
    return how


def leave_something(how: str) -> None:
    """Have something happen in the process later."""
    match how:
        case "alarm":
            signal.setitimer(signal.ITIMER_REAL, 0.3)
        case "thread":
            threading.Thread(target=time.sleep, args=(60,)).start()
        case "exits":
            atexit.register(os._exit, 3)


@app.task("rude.end", process=True, max_attempts=1)
def rude_end(how: str) -> None:
    """End the attempt in an unusual way."""
    match how:
        case "becomes another program":
            os.execv("/bin/sleep", ["sleep", "60"])
        case "exits with 0":
            os._exit(0)
        case "kills its group":
            os.killpg(0, signal.SIGKILL)
        case "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "unspeakable":
            raise Unspeakable
        case "wordy":
            raise ValueError("x" * 50_000_000)
        case "deep":
            deeper()
        case _:
            close_all(how)


def close_all(how: str) -> None:
    """Cut the process off from its worker."""
    if how == "closes all and leaves a thread":
        threading.Thread(target=time.sleep, args=(60,)).start()
    os.closerange(3, 1024)
    if how == "closes all and goes on":
        time.sleep(60)


@app.task("unleash", process=True)
def unleash() -> int:
    """Close the pipe by which the process would end with its worker."""
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one of the folder itself
            if int(each.name) > 2 and each.is_fifo():
                os.close(int(each.name))
    return os.getpid()


@app.task("terminating", process=True, max_attempts=1)
def terminating(context: str = "fork") -> int | None:
    """End a copy of this process as a program does; how it ended."""
    copy = multiprocessing.get_context(context).Process(target=time.sleep, args=(60,), daemon=True)  # type: ignore[attr-defined]
    copy.start()
    copy.terminate()
    copy.join(5)
    ended: int | None = copy.exitcode
    copy.kill()
    return ended


@app.task("saving.copy", process=True, max_attempts=1)
def saving_copy(ctx: TaskContext, path: str) -> int:
    """What a copy is told that wants to save something."""
    copy = os.fork()
    if copy == 0:
        try:
            ctx.progress(1, 2)
            ctx.checkpoint("in a copy")
        except BaseException as error:
            mark(path, f"{type(error).__name__}: {error}")
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])


def deeper() -> None:
    deeper()


class Unspeakable(BaseException):
    def __str__(self) -> str:
        raise ValueError("no words")


@app.task("cwd", process=True)
def cwd() -> list[Any]:
    return [os.getpid(), str(Path.cwd())]


@app.task("deafen", process=True)
def deafen() -> int:
    ignore_signals()
    return os.getpid()


def ignore_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@app.task("native", process=True, max_attempts=1)
def native(path: str) -> None:
    # A process of its own, and code that holds the interpreter's lock.
    helper = subprocess.Popen(["sleep", "60"])
    mark(path, f"{os.getpid()} {helper.pid}")
    re.match(r"(a+)+$", "a" * 60 + "b")


def scatter(path: str) -> None:
    """Start programs in sessions of their own, one without the environment, one that loses its parent; their ids."""
    own = subprocess.Popen(["sleep", "60"], start_new_session=True)
    bare = subprocess.Popen(["sleep", "60"], start_new_session=True, env={})
    orphan = subprocess.check_output(["sh", "-c", "setsid sleep 60 >/dev/null & echo $!"], text=True)
    mark(path, f"{os.getpid()} {own.pid} {bare.pid} {orphan.strip()}")


@app.task("scattering", process=True, max_attempts=1)
def scattering(path: str, how: str) -> None:
    scatter(path)
    match how:
        case "ignore":
            stubborn(f"{path}.too")
        case "die":
            os._exit(7)
        case "wait":
            time.sleep(60)


@app.task("sleepy", process=True)
def sleepy(path: str, seconds: float) -> str:
    mark(path, str(os.getpid()))
    try:
        time.sleep(seconds)
    finally:
        mark(path, "cleaned")
    return "slept"


@app.task("sleepy.async", process=True)
async def sleepy_async(path: str, seconds: float) -> str:
    mark(path, str(os.getpid()))
    try:
        await asyncio.sleep(seconds)
    finally:
        mark(path, "cleaned")
    return "slept"


@app.task("patient", process=True)
def patient(ctx: TaskContext, path: str) -> str:
    mark(path, str(os.getpid()))
    while not (ctx.cancelled or ctx.stopping):
        time.sleep(0.01)
    return "cancelled" if ctx.cancelled else "stopping"


@app.task("twice", process=True, max_tasks=2)
def twice() -> int:
    return os.getpid()


@app.task("leak", process=True, max_memory_mb=100)
def leak(mib: int) -> int:
    kept.append(bytearray(b"x" * (mib * 1_048_576)))
    return os.getpid()


kept: list[bytearray] = []


@app.task("tiny", process=True, max_memory_mb=1)
def tiny() -> int:
    return os.getpid()


@app.task("parent", process=True)
def parent() -> str:
    return pid.submit().id


@app.task("remember", process=True)
def remember(value: int) -> int:
    earlier = remembered.get()
    remembered.set(value)
    return earlier


@app.task("remember.async", process=True)
async def remember_async(value: int) -> int:
    return remember(value)


remembered = contextvars.ContextVar("remembered", default=0)


@app.task("talk", process=True)
def talk() -> None:
    print("said to stdout")
    print("said to stderr", file=sys.stderr)
    logging.getLogger("shop").warning("said to the log")


@app.task("wrapped", process=True)
def wrapped(ctx: TaskContext) -> int:
    return around[ctx.task_id]


around: dict[str, int] = {}


@app.around_task
def keep_pid(ctx: TaskContext) -> Iterator[None]:
    around[ctx.task_id] = os.getpid()
    yield
    del around[ctx.task_id]
