"""Limits as Redis has them: what living workers declare, what operators say instead, and how each stands."""

import re
from dataclasses import dataclass
from typing import Literal

from dtq_engine.errors import InvalidLimit
from dtq_engine.limits import QUEUE_WIDE, Numbers, Rate, read_max, read_rate

_NUMBERS = re.compile(r"(\d{1,9})/(\d{1,9})/(\d{1,12})")
_OTHERS = re.compile(r"(-|\d{1,9})/(-|\d{1,9})/(-|\d{1,12})")


@dataclass(frozen=True, slots=True)
class Override:
    """An operator's numbers for a limit, with what they leave to the code, and who set them."""

    numbers: Numbers
    by: str = ""
    reason: str = ""
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of a limit: how many tasks of it run (or were called, and start next), and how many wait."""

    key: str
    running: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """A limit of a queue as Redis has it: `declared` by living workers, `override` by an operator, `numbers` in force.

    `buckets` are those that tasks run in or wait for: one without a key, and of a limit with keys those that somebody
    waits for, up to 1,000 of them. What waits for a queue-wide limit waits in the queue, and is not counted here.
    """

    name: str
    queue: str
    numbers: Numbers
    declared: Numbers | None = None
    override: Override | None = None
    buckets: tuple[Bucket, ...] = ()
    is_at_home: bool = True

    @property
    def is_queue_wide(self) -> bool:
        """Whether it is the limit of the whole queue."""
        return self.name == QUEUE_WIDE

    @property
    def waiting(self) -> int:
        """How many tasks wait for it."""
        return sum(each.waiting for each in self.buckets)

    @property
    def running(self) -> int:
        """How many tasks of its buckets run."""
        return sum(each.running for each in self.buckets)

    @property
    def is_shown(self) -> bool:
        """Whether it matters here: tasks of this queue have it, somebody set it, or it is in use."""
        return (
            self.is_at_home or self.override is not None or any(each.waiting or each.running for each in self.buckets)
        )


def parse_declared(text: str) -> Numbers | None:
    """The definition in force of those that workers gave."""
    found = _NUMBERS.match(text)
    return None if found is None else Numbers(*(int(word) or None for word in found.groups()))


def parse_override(text: str, declared: Numbers | None) -> Numbers | None:
    """The numbers in force under an operator's, which leave to the code what is '-'."""
    found = _OTHERS.match(text)
    if found is None:
        return None
    most, starts, window = found.groups()
    code = declared or Numbers()
    rate = (
        (code.starts, code.window_ms) if starts == "-" else (int(starts) or None, int(window.strip("-") or 0) or None)
    )
    return Numbers(code.max_running if most == "-" else int(most) or None, *rate)


def write_override(max_running: int | Literal["none"] | None, rate: Rate | Literal["none"] | None) -> str:
    """An operator's numbers as the script takes them; None leaves one as it is. Raises InvalidLimit."""
    if max_running is None and rate is None:
        raise InvalidLimit("say what is to change: most that may run, or the rate.")
    most = "-" if max_running is None else "0" if max_running == "none" else str(read_max("the limit", max_running))
    if rate is None or rate == "none":
        return f"{most}/-/-" if rate is None else f"{most}/0/0"
    starts, window_ms = read_rate("the limit", rate)
    return f"{most}/{starts}/{window_ms}"
