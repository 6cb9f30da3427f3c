"""What a worker and the processes it starts say to each other."""

import msgspec

from dtq_engine.config import Settings
from dtq_engine.model import AskedRetry, AskedSnooze, Claim, HandedOver, Misfit, Outcome, Raised, Returned, Said

Kept = Returned | Raised | AskedRetry | AskedSnooze | HandedOver | Misfit
"""The outcomes that a handler alone decides; the others are the worker's to know."""


class Greeting(msgspec.Struct, tag=True, kw_only=True):
    """The first message to any process: where modules are found, and how to log and name itself there."""

    path: list[str]
    settings: Settings
    label: str = ""


# To a process that runs handlers, and back.


class Welcome(Greeting, tag=True, kw_only=True):
    """The first message to a process that runs handlers: which app to import, and the settings of that app."""

    app: str
    modules: list[str]
    app_settings: Settings


class Job(msgspec.Struct, tag=True):
    """Run a handler. The claim is without its token: nobody but the worker may end the task."""

    claim: Claim
    stopping: bool


class Interrupt(msgspec.Struct, tag=True):
    """Let the handler know that it is to give way, for the named cause, and make it so after `notice_s`."""

    cause: str
    notice_s: float


class Stopping(msgspec.Struct, tag=True):
    """The worker shuts down, and waits for the handler for a while."""


class Saved(msgspec.Struct, tag=True):
    """What became of the `Save` of this number: whether it is kept, or why that is not known."""

    number: int
    kept: bool = False
    lost: str | None = None
    away: str | None = None
    failed: str | None = None


class Leave(msgspec.Struct, tag=True):
    """End, once the handler is done."""


class Ready(msgspec.Struct, tag=True):
    """The app is imported; the process uses so much memory."""

    rss_kib: int


class Unfit(msgspec.Struct, tag=True):
    """The app cannot be imported; the sentence says why."""

    problem: str


class Begun(msgspec.Struct, tag=True):
    """The handler is about to be called."""


class Save(msgspec.Struct, tag=True):
    """Save this for later executions of the task, and say what became of it under this number."""

    number: int
    field: str
    value: bytes
    first: bool


class Says(msgspec.Struct, tag=True):
    """The handler says this of itself."""

    said: Said


class Ended(msgspec.Struct, tag=True):
    """How the handler ended: one of the outcomes, or none if it gave way to an interrupt."""

    rss_kib: int
    returned: Returned | None = None
    raised: Raised | None = None
    retry: AskedRetry | None = None
    snooze: AskedSnooze | None = None
    handover: HandedOver | None = None
    misfit: Misfit | None = None

    @classmethod
    def of(cls, outcome: Outcome | None, rss_kib: int) -> "Ended":
        """The message about an outcome."""
        match outcome:
            case Returned():
                return cls(rss_kib, returned=outcome)
            case Raised():
                return cls(rss_kib, raised=outcome)
            case AskedRetry():
                return cls(rss_kib, retry=outcome)
            case AskedSnooze():
                return cls(rss_kib, snooze=outcome)
            case HandedOver():
                return cls(rss_kib, handover=outcome)
            case Misfit():
                return cls(rss_kib, misfit=outcome)
            case _:
                return cls(rss_kib)

    @property
    def outcome(self) -> Kept | None:
        """What `of` was given, if it was one that the handler decides."""
        return self.returned or self.raised or self.retry or self.snooze or self.handover or self.misfit


ToChild = Job | Interrupt | Stopping | Saved | Leave
FromChild = Ready | Unfit | Begun | Says | Save | Ended


# To a worker that a supervisor has started, and back.


class Recruit(Greeting, tag=True, kw_only=True):
    """The first message to such a worker; with `for_app` the app itself is to take the settings over."""

    for_app: bool = False


class Stop(msgspec.Struct, tag=True):
    """Drain and end; said again with `hurry`, without waiting for handlers."""

    hurry: bool = False


class Alive(msgspec.Struct, tag=True):
    """The worker runs, and makes progress; once a second. Hooks may add so much to the time that it takes to end."""

    hooks_s: float


ToMember = Stop
FromMember = Alive
