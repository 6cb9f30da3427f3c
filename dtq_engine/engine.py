"""`Dtq`: an app, its handlers and its Redis, put together."""

import copy
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from dtq_engine import submission, validate
from dtq_engine.config import Settings
from dtq_engine.connection import Connection, connect
from dtq_engine.decorator import Register, registration
from dtq_engine.deduplication import DeduplicationOptions
from dtq_engine.errors import ConfigurationError, DtqError
from dtq_engine.handle import Handle
from dtq_engine.hooks import FailureHook, SubmitHook, TaskHook, WorkerHook
from dtq_engine.isolation import read_isolation
from dtq_engine.limiter import Limiter
from dtq_engine.limits import Named, Parameters, read_uses
from dtq_engine.model import NewTask, Receipt
from dtq_engine.options import Duration, read_defaults
from dtq_engine.registry import Handler, Registry, RetryCallback
from dtq_engine.store import Store
from dtq_engine.task import Submitter
from dtq_engine.timetable import Timetable
from dtq_engine.waiters import Waiters

_NOT_THEIRS = tuple(f"{Path(each).parent}{os.sep}" for each in (__file__, importlib.__file__))


@dataclass(frozen=True, slots=True)
class Session:
    """What one process needs to talk to Redis; nothing is opened before it is used."""

    connection: Connection
    store: Store
    waiters: Waiters

    def submitted(self) -> None:
        """A submit is over, its hooks included: a test may want to run the task now."""

    def close(self) -> None:
        """End the waiting and close the connection; both begin anew when they are needed."""
        self.waiters.close()
        self.connection.close()


def open_session(settings: Settings) -> Session:
    """A session with the Redis that the settings name."""
    connection = connect(settings)
    store = Store(connection, settings)
    return Session(connection, store, Waiters(connection, store))


class Dtq:
    """A task queue app: registers handlers, submits tasks, looks them up.

    Safe to share between threads and to keep across a fork: each process gets its own connections. Making one
    and registering handlers reads no environment and opens no connection.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        """With `settings`, or with those of the environment, which are read when they are first needed.

        Raises ConfigurationError for anything else.
        """
        if settings is not None and not isinstance(settings, Settings):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError([f"Dtq takes Settings, not {settings!r}: pass Settings(redis_url=…), or nothing."])
        self._settings = settings
        self._sessions: dict[int, Session] = {}
        self._open: Callable[[Settings], Session] = open_session
        self.registry = Registry()

    @property
    def settings(self) -> Settings:
        """The settings in force. Raises ConfigurationError, with all problems, if the environment's are wrong."""
        if self._settings is None:
            self._settings = Settings.from_env()
        return self._settings

    def configure(self, settings: Settings) -> None:
        """Put these settings in force, instead of the environment's or earlier ones; open connections are closed."""
        self.close()
        self._settings = settings

    @property
    def store(self) -> Store:
        """The data access layer, for what has no method here: inspecting, pausing, dead letters."""
        return self._session.store

    @property
    def waiters(self) -> Waiters:
        """Where `Handle.result` waits."""
        return self._session.waiters

    @property
    def connection(self) -> Connection:
        """The connection to Redis of this process."""
        return self._session.connection

    def task(
        self,
        name: str,
        *,
        queue: str = "default",
        priority: int = 5,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        retry_base_delay: Duration | None = None,
        retry_max_delay: Duration | None = None,
        retry_jitter: float | None = None,
        retry: RetryCallback | None = None,
        permanent: tuple[type[BaseException], ...] = (),
        expires_in: Duration | None = None,
        keep_result: bool = True, restartable: bool = False, redact: tuple[str, ...] = (),
        process: bool = False, max_tasks: int | None = None, max_memory_mb: int | None = None,
        limit: Named = None, limit_key: Parameters = None,
        **deduplication: Unpack[DeduplicationOptions],
    ) -> Register:  # fmt: skip
        """Register the decorated function as the handler of the task type `name`.

        What is None is left to the settings. `retry` is asked after each failed attempt, with the error and the number
        of the attempt, for the seconds until the next (None: no further one); errors in `permanent` end the task
        at once. `restartable` lets a task with a single attempt be started again if its worker shuts down.
        `redact` names arguments (and members of the result) whose values the web process shows to nobody.
        `process` runs the handler in a process of its own, which can be killed and is kept for further tasks: until it
        has run `max_tasks` (1000) or holds more than `max_memory_mb` MiB after one (None: no limit). `limit` names
        what `app.limit` made, `limit_key` the parameters it counts by. `deduplication` are options as in
        DeduplicationOptions. Raises InvalidHandler or InvalidLimit, which say what to change.
        """
        defaults = read_defaults(
            name, queue=queue, priority=priority, max_attempts=max_attempts, timeout=timeout,
            retry_base_delay=retry_base_delay, retry_max_delay=retry_max_delay, retry_jitter=retry_jitter,
            expires_in=expires_in, keep_result=keep_result, restartable=restartable, redact=redact, same=deduplication,
            taker=self.task, limits=read_uses(name, limit, limit_key),
        )  # fmt: skip
        isolation = read_isolation(name, process=process, max_tasks=max_tasks, max_memory_mb=max_memory_mb)
        make = partial(Handler, name, defaults=defaults, retry=retry, permanent=permanent, isolation=isolation)
        return registration(self, make)

    @property
    def periodic(self) -> Timetable:
        """Decorates tasks that run at times: `@app.periodic("0 3 * * *", tz="Europe/Berlin")` above `@app.task(…)`."""
        return Timetable(self.registry)

    @property
    def limit(self) -> Limiter:
        """Makes limits, to be named by tasks: `app.limit("stripe", max_running=3, rate=(100, 60))`."""
        return Limiter(self.registry)

    def on_worker_start(self, fn: WorkerHook) -> WorkerHook:
        """Call the decorated function as a worker starts, before it takes a task; if it raises, there is no worker.

        It gets the WorkerInfo. A coroutine function runs on the event loop of the async handlers, and so for all of
        `on_…`. All hooks run in the order of registration but those of `on_worker_stop`, which run in the reverse.
        """
        self.registry.hooks.on_worker_start(fn)
        return fn

    def on_worker_stop(self, fn: WorkerHook) -> WorkerHook:
        """Call the decorated function as a worker ends, after its last task; its errors are logged."""
        self.registry.hooks.on_worker_stop(fn)
        return fn

    def around_task(self, fn: TaskHook) -> TaskHook:
        """Run each attempt inside the decorated generator function, which gets the TaskContext and yields once.

        Its errors are the attempt's; it cannot swallow the handler's. An async generator wraps async handlers only.
        """
        self.registry.hooks.around_task(fn)
        return fn

    def around_submit(self, fn: SubmitHook) -> SubmitHook:
        """Send tasks inside the decorated generator function, which gets a list of them and yields it once, or another.

        What it raises before the yield keeps the tasks out and reaches the caller; later errors are logged.
        """
        self.registry.hooks.around_submit(fn)
        return fn

    def on_failure(self, fn: FailureHook) -> FailureHook:
        """Call the decorated function with a Failure after each failed attempt; its errors are logged."""
        self.registry.hooks.on_failure(fn)
        return fn

    def named(self, name: str) -> Submitter[..., Any]:
        """Submit tasks by the name of their type, whether or not this process has the handler.

        Arguments are checked by the handler if it is registered here; otherwise any named JSON arguments will do.
        Raises InvalidTask if `name` cannot be a task type.
        """
        known = self.registry.get(validate.check_type(name))
        return Submitter(self, known or Handler(name, _elsewhere))

    def submit(self, task: NewTask, /) -> Handle[Any]:
        """Submit a task that was made by `prepare` or by hand; raises what `Submitter.submit` raises."""
        return self._handle_of(self.accept(task))

    def submit_many(self, tasks: Iterable[NewTask], /) -> list[Handle[Any] | DtqError]:
        """Submit tasks in bulk, 500 a round trip: for each, in order, its handle or the error that kept it out.

        If Redis goes away half-way, the tasks that were not sent get RedisUnavailable and those whose acceptance is
        unknown SubmitUncertain; if it is away from the start, RedisUnavailable is raised.
        """
        return [each if isinstance(each, DtqError) else self._handle_of(each) for each in self.accept_many(list(tasks))]

    def submit_flow(self, tasks: Iterable[NewTask], /) -> list[Handle[Any]]:
        """Submit tasks that wait for each other (`options(after=…)`), all or none; raises what `Flow.submit` does."""
        receipts = submission.submit_flow(self, tasks)
        self._session.submitted()
        return [self._handle_of(receipt) for receipt in receipts]

    def accept(self, task: NewTask, /) -> Receipt:
        """As `submit`, with the receipt for an answer: for those who pass it on, such as the HTTP API."""
        receipt = submission.submit_one(self, task)
        self._session.submitted()
        return receipt

    def accept_many(self, tasks: Sequence[NewTask], /) -> list[Receipt | DtqError]:
        """As `submit_many`, with receipts for answers."""
        answers = submission.submit_each(self, tasks)
        self._session.submitted()
        return answers

    def handle(self, task_id: str, queue: str | None = None) -> Handle[Any]:
        """The handle of a task submitted before; without its queue, all known queues are asked for it."""
        return Handle(self, validate.check_id(task_id), None if queue is None else validate.check_queue(queue))

    def close(self) -> None:
        """Close this process' connections; they open again when needed."""
        session = self._sessions.pop(os.getpid(), None)
        if session:
            session.close()

    @contextmanager
    def rewired(self, open_session: Callable[[Settings], Session], redis_url: str) -> Generator[None]:
        """Until the context ends, talk to what `open_session` opens instead, under settings that name `redis_url`.

        For tests: afterwards settings, connections and hooks are those of before, whatever was done to them meanwhile.
        """
        earlier, hooks = (self._settings, self._sessions, self._open), copy.copy(self.registry.hooks)
        self._settings, self._sessions, self._open = replace(self.settings, redis_url=redis_url), {}, open_session
        try:
            yield
        finally:
            self.close()
            self._settings, self._sessions, self._open = earlier
            self.registry.hooks = hooks

    @property
    def _session(self) -> Session:
        # Sockets and threads do not survive a fork. No lock guards this, because one that was held while
        # forking would never be released: `setdefault` is atomic, and a session that loses has opened nothing.
        pid = os.getpid()
        return self._sessions.get(pid) or self._sessions.setdefault(pid, self._open(self.settings))

    def _handle_of(self, receipt: Receipt) -> Handle[Any]:
        return Handle(self, receipt.id, receipt.queue, outcome=receipt.outcome)


def load_app(path: str) -> Dtq:
    """The app at `module:attribute` (`:app` if left out), with the working directory on the import path.

    Raises ConfigurationError, which says what is wrong, chained to the error that importing raised.
    """
    module_name, _, attribute = path.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a script without a main guard ends the interpreter
        own = not module_name or (isinstance(error, ImportError) and f"{module_name}.".startswith(f"{error.name}."))
        todo = "; run this in its folder, or name another as module:attribute, such as shop.tasks:app" if own else ""
        raise ConfigurationError([f"{path} cannot be loaded: importing it raised {_brief(error)}{todo}."]) from error
    for name in (attribute or "app").split("."):
        found = getattr(found, name, None)
    if not isinstance(found, Dtq):
        raise ConfigurationError(
            [f"{path} is {'missing' if found is None else 'no Dtq app'}: name a Dtq, such as shop.tasks:app."]
        )
    return found


def _brief(error: BaseException) -> str:
    # A syntax error names its place itself. What we and the import system raise is about the line that called us.
    frames = traceback.extract_tb(None if isinstance(error, SyntaxError) else error.__traceback__)
    own = [each for each in frames if not each.filename.startswith(("<frozen", *_NOT_THEIRS))]
    place = "".join(f" ({Path(each.filename).name}, line {each.lineno})" for each in own[-1:])
    return f"{type(error).__name__}: {error}{place}"


def _elsewhere(**_arguments: Any) -> Any:
    """Stands for a handler that only other processes have."""
