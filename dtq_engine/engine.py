"""`Dtq`: an app, its handlers and its Redis, put together."""

import importlib
import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dtq_engine import submission, validate
from dtq_engine.config import Settings
from dtq_engine.connection import Connection, connect
from dtq_engine.errors import ConfigurationError, DtqError
from dtq_engine.handle import Handle
from dtq_engine.model import NewTask, Receipt, SubmitOutcome
from dtq_engine.options import Duration, read_defaults
from dtq_engine.registry import Handler, Registry, RetryCallback
from dtq_engine.store import Store
from dtq_engine.task import Register, Submitter, registration
from dtq_engine.waiters import Waiters


class _Session:
    """What one process needs to talk to Redis; nothing is opened before it is used."""

    def __init__(self, settings: Settings) -> None:
        self.connection: Connection = connect(settings)
        self.store = Store(self.connection, settings)
        self.waiters = Waiters(self.connection, self.store)


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
        self._sessions: dict[int, _Session] = {}
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
        keep_result: bool = True,
        restartable: bool = False,
    ) -> Register:
        """Register the decorated function as the handler of the task type `name`.

        What is None is left to the settings. `retry` is asked after each failed attempt, with the error and the number
        of the attempt, for the seconds until the next (None: no further one); errors in `permanent` end the task
        at once. `restartable` lets a task with a single attempt be started again if its worker shuts down.
        Raises InvalidHandler, which says what to change, for a wrong option, function or name.
        """
        defaults = read_defaults(
            name,
            queue=queue,
            priority=priority,
            max_attempts=max_attempts,
            timeout=timeout,
            retry_base_delay=retry_base_delay,
            retry_max_delay=retry_max_delay,
            retry_jitter=retry_jitter,
            expires_in=expires_in,
            keep_result=keep_result,
            restartable=restartable,
        )
        return registration(self, lambda fn: Handler(name, fn, defaults=defaults, retry=retry, permanent=permanent))

    def named(self, name: str) -> Submitter[..., Any]:
        """Submit tasks by the name of their type, whether or not this process has the handler.

        Arguments are checked by the handler if it is registered here; otherwise any named JSON arguments will do.
        Raises InvalidTask if `name` cannot be a task type.
        """
        known = self.registry.get(validate.check_type(name))
        return Submitter(self, known or Handler(name, _elsewhere))

    def submit(self, task: NewTask, /) -> Handle[Any]:
        """Submit a task that was made by `prepare` or by hand; raises what `Submitter.submit` raises."""
        return self._handle_of(submission.submit_one(self.store, self.settings, task))

    def submit_many(self, tasks: Iterable[NewTask], /) -> list[Handle[Any] | DtqError]:
        """Submit tasks in bulk, 500 a round trip: for each, in order, its handle or the error that kept it out.

        One bad task does not stop the others. If Redis goes away half-way, the tasks that were not sent get
        RedisUnavailable and those whose acceptance is unknown SubmitUncertain; if it is away from the start,
        RedisUnavailable is raised.

            for task, answer in zip(tasks, app.submit_many(tasks)):
                if isinstance(answer, DtqError):
                    print(task.id, answer)
        """
        answers = submission.submit_each(self.store, self.settings, list(tasks))
        return [each if isinstance(each, DtqError) else self._handle_of(each) for each in answers]

    def handle(self, task_id: str, queue: str | None = None) -> Handle[Any]:
        """The handle of a task submitted before; without its queue, all known queues are asked for it."""
        return Handle(self, validate.check_id(task_id), None if queue is None else validate.check_queue(queue))

    def close(self) -> None:
        """Close this process' connections; they open again when needed."""
        session = self._sessions.pop(os.getpid(), None)
        if session:
            session.waiters.close()
            session.connection.close()

    @property
    def _session(self) -> _Session:
        # Sockets and threads do not survive a fork. No lock guards this, because one that was held while
        # forking would never be released: `setdefault` is atomic, and a session that loses has opened nothing.
        pid = os.getpid()
        return self._sessions.get(pid) or self._sessions.setdefault(pid, _Session(self.settings))

    def _handle_of(self, receipt: Receipt) -> Handle[Any]:
        return Handle(self, receipt.id, receipt.queue, duplicate=receipt.outcome is not SubmitOutcome.NEW)


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
        raise ConfigurationError([f"{path} cannot be loaded: importing it raised {_brief(error)}."]) from error
    for name in (attribute or "app").split("."):
        found = getattr(found, name, None)
    if not isinstance(found, Dtq):
        raise ConfigurationError(
            [f"{path} is {'missing' if found is None else 'no Dtq app'}: name a Dtq, such as shop.tasks:app."]
        )
    return found


def _brief(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in last)
    return f"{type(error).__name__}: {error}{place}"


def _elsewhere(**_arguments: Any) -> Any:
    """Stands for a handler that only other processes have."""
