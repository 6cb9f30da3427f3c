"""The test kit: an app on a Redis within the test's own process, where nothing runs unless the test says so."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from dtq_engine import validate
from dtq_engine.config import Settings
from dtq_engine.connection import over_client
from dtq_engine.engine import Dtq, Session
from dtq_engine.errors import ConfigurationError, InvalidTask
from dtq_engine.model import NewTask, Receipt, SubmitOutcome
from dtq_engine.options import Duration
from dtq_engine.testing.clock import Clock
from dtq_engine.testing.errors import KitMisused
from dtq_engine.testing.run import Ran, is_within_run
from dtq_engine.testing.runner import Runner
from dtq_engine.testing.session import NoWaiting, TestSession, TestStore
from dtq_engine.testing.submissions import AnyTask, Submissions
from dtq_engine.testing.submitted import Submitted

NOWHERE = "redis://nowhere.invalid:6379/0"
"""For whoever makes a connection of their own from the settings: no Redis is ever found there (RFC 6761)."""

LIMIT = 1000
"""More executions in one call than a test needs, and few enough to notice soon that there is no end."""


class Kit:
    """What the fixture `dtq` is: runs the tasks of `app` in this thread, and moves its time.

    While it is entered, the app talks to a Redis of its own in memory, by the same scripts and rules as in production.
    Afterwards the app is as it was before.

    `inline`: whether each submit runs what is due at once, and `advance` what becomes due on the way.
    `raise_failures`: whether a task that fails raises HandlerFailed from `run_all`, or from the submit when inline.
    `limit`: how many executions, or ticks of periodic tasks, there may be in one go; more raise RunawayTasks, and so
    does a chain of over a 25th of that (but never under 30) in which each execution leads to the next.
    """

    def __init__(self, app: Dtq) -> None:
        if not isinstance(app, Dtq):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError([f"The test kit needs a Dtq, not {app!r}: have the fixture dtq_app return one."])
        self.app = app
        self.inline = False
        self.raise_failures = True
        self.limit = LIMIT
        self._clock = Clock()
        self._worker = Runner(app, self._clock)
        self._store: TestStore | None = None
        self._submissions = Submissions(app)
        self._stack = ExitStack()
        self._is_entered = False

    def __enter__(self) -> Self:
        client = _fake_redis()
        self._stack.callback(client.close)

        def open_session(settings: Settings) -> Session:
            connection = over_client(client)
            self._store = store = TestStore(connection, settings, self._clock, self._accepted)
            return TestSession(connection, store, NoWaiting(connection, store, self._clock), self._run_inline)

        self._stack.enter_context(self.app.rewired(open_session, NOWHERE))
        self._stack.callback(self._worker.close)
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_entered = False
        self._stack.close()

    # Running

    def run_all(self, *, limit: int | None = None, raise_failures: bool | None = None) -> list[Ran]:
        """Run all that is due, and what that submits, until nothing is due; the executions, in order.

        Due are waiting tasks, delayed ones and retries whose time has come, and tasks whose worker is gone. Raises
        HandlerFailed at the first execution that fails, unless `raise_failures` is False (None: as the kit says), and
        RunawayTasks if `limit` executions (None: as the kit says) are not enough.
        """
        __tracebackhide__ = True
        return self._runner.run(self._most(limit), raises=self._raises(raise_failures))

    async def run_all_async(self, *, limit: int | None = None, raise_failures: bool | None = None) -> list[Ran]:
        """The same for async tests: async handlers run on the event loop of the test, with its resources."""
        __tracebackhide__ = True
        return await self._runner.run_async(self._most(limit), raises=self._raises(raise_failures))

    def run_to_end(self, *, limit: int | None = None, raise_failures: bool | None = None) -> list[Ran]:
        """As `run_all`, again and again, each time moving the clock to what is due next, until nothing waits."""
        __tracebackhide__ = True
        return self._runner.run_to_end(self._most(limit), raises=self._raises(raise_failures))

    def run_and_crash(self, *, limit: int | None = None, raise_failures: bool | None = None) -> list[Ran]:
        """As `run_all`, on a worker that dies before it can record what became of anything.

        The tasks stay running until their leases expire (`advance` past DTQ_VISIBILITY_TIMEOUT_S, 30 s by default);
        then they run again. Shows whether doing the work twice is harmless.
        """
        __tracebackhide__ = True
        return self._runner.run(self._most(limit), raises=self._raises(raise_failures), crashes=True)

    def run_and_stop(self, *, limit: int | None = None, raise_failures: bool | None = None) -> list[Ran]:
        """As `run_all`, on a worker that shuts down: `ctx.stopping` is True, and a task handed over is the last."""
        __tracebackhide__ = True
        return self._runner.run(self._most(limit), raises=self._raises(raise_failures), stops=True)

    # Time

    def advance(self, duration: Duration) -> None:
        """Let `duration` (seconds or a timedelta) pass: for delays, retries, leases, expiry and all that is kept.

        What becomes due is then available to `run_all`; when inline it runs, each task at its time. Periodic tasks
        have all their ticks on the way. Within a handler the time passes while the handler runs, and so may end it by
        its timeout. Raises KitMisused for a wrong duration, and RunawayTasks for over `limit` ticks.
        """
        __tracebackhide__ = True
        ms = _duration_ms(duration)
        if self._runs_inline:
            self._runner.run_through(ms, self._most(None), raises=self.raise_failures)
        else:
            self._runner.pass_through(ms, self._most(None))

    @property
    def periodic(self) -> bool:
        """Whether `advance` has periodic tasks run at their times; set it to False to keep them out of a test."""
        return self._worker.ticks

    @periodic.setter
    def periodic(self, value: bool) -> None:
        self._worker.ticks = value

    def now(self) -> datetime:
        """The time by Redis' clock, which `advance` moves; Python's own clocks stay as they are."""
        return datetime.fromtimestamp(self._clock.now_ms(self._own_app.store) / 1000, UTC)

    # What was submitted

    def submitted(self, task: AnyTask | None = None) -> list[Submitted]:
        """The tasks that were accepted since the start or `clear`, oldest first: all, or those of one type."""
        return self._submissions.found(self._submissions.wanted(task))

    def assert_submitted(
        self,
        task: AnyTask,
        /,
        *args: Any,
        times: int | None = None,
        options: Mapping[str, Any] | None = None,
        arguments: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> list[Submitted]:
        """Fail unless a task of this type with these arguments and options was submitted, `times` often if given.

        Arguments and options that are not named may be anything. `options` has the names of `Submitter.options`
        (`{"delay": 60}`; of headers a part will do). Arguments that are called times, options or arguments go into
        `arguments`. Returns the tasks that match.
        """
        __tracebackhide__ = True
        wanted = self._submissions.wanted(task, args, {**(arguments or {}), **named}, options or {})
        return self._submissions.expect(wanted, times)

    def assert_not_submitted(
        self,
        task: AnyTask | None = None,
        /,
        *args: Any,
        options: Mapping[str, Any] | None = None,
        arguments: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> None:
        """Fail if such a task was submitted, as in `assert_submitted`; without a type, if any was.

        Raises KitMisused for what could not have been submitted anyway, such as a misspelt type.
        """
        __tracebackhide__ = True
        wanted = self._submissions.wanted(task, args, {**(arguments or {}), **named}, options or {})
        self._submissions.expect_none(wanted, spelt=isinstance(task, str))

    def clear(self) -> None:
        """Forget all tasks and what was submitted; the clock stays."""
        self._own_app.connection.call("FLUSHALL")
        self._submissions.clear()

    # Within

    @property
    def _own_app(self) -> Dtq:
        """The app, as long as it talks to the Redis of this kit. Raises KitMisused before, afterwards and aside."""
        if not self._is_entered:
            raise KitMisused("The kit works within `with Kit(app) as dtq:` only, or as the fixture dtq during a test.")
        if self.app.store is not self._store:
            raise KitMisused("Another kit has been entered for the same app: use that one, or leave it first.")
        return self.app

    @property
    def _runner(self) -> Runner:
        assert self._own_app is not None
        return self._worker

    @property
    def _runs_inline(self) -> bool:
        # What a handler submits runs after it, as in production: not within it, and not within its transaction.
        return self.inline and not is_within_run(self._clock)

    def _raises(self, given: bool | None) -> bool:
        return self.raise_failures if given is None else given

    def _most(self, given: int | None) -> int:
        return _whole(self.limit if given is None else given)

    def _accepted(self, tasks: Sequence[NewTask], receipts: Sequence[Receipt]) -> None:
        new = [each for each in zip(tasks, receipts, strict=True) if each[1].outcome is SubmitOutcome.NEW]
        self._worker.submitted([(receipt.id, task.type) for task, receipt in new])
        self._submissions.add(new)

    def _run_inline(self) -> None:
        __tracebackhide__ = True
        if self._runs_inline:
            self._runner.run(self._most(None), raises=self.raise_failures)


def _fake_redis() -> Any:
    """A client of a new, empty server within this process, which needs no thread and no socket."""
    try:
        import fakeredis  # an extra, which production does not install

        import_module("lupa")  # without it fakeredis knows no scripts, and says so only when the first one is called
    except ImportError as error:
        message = f"The test kit needs fakeredis with Lua ({error}): pip install 'dtq[testing]'."
        raise ConfigurationError([message]) from None
    return fakeredis.FakeRedis(server=fakeredis.FakeServer(version=(7, 0), server_type="redis"), protocol=2)


def _duration_ms(duration: object) -> int:
    try:
        return validate.duration_ms("duration", duration)
    except InvalidTask as error:
        raise KitMisused(f"The clock cannot be moved so: {error}") from None


def _whole(limit: object) -> int:
    if not isinstance(limit, int) or limit < 0:
        raise KitMisused(f"The limit cannot be {limit!r}: use a whole number.")
    return limit
