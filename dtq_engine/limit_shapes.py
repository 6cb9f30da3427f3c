"""The JSON of limits."""

import msgspec

from dtq_engine.instants import at
from dtq_engine.limit_states import LimitState

KEYS_SHOWN = 20


class LimitKeyShape(msgspec.Struct):
    """A key of a limit that somebody waits for: how many of its tasks run and wait."""

    key: str
    running: int
    waiting: int


class LimitShape(msgspec.Struct, kw_only=True):
    """A limit of a queue; its name is `*` if it is that of the whole queue, whose waiting tasks are not counted here.

    At most `max_running` run at once, and `rate_starts` start in any `rate_ms` (null: no such limit), as an operator
    has said where `set` is true. `running` and `waiting` count tasks; of a limit with keys only those of the keys that
    somebody waits for, up to 1,000, of which `keys` has the 20 with most waiting.
    """

    name: str
    queue: str
    max_running: int | None
    rate_starts: int | None
    rate_ms: int | None
    set: bool
    set_by: str | None
    set_reason: str | None
    set_at: str | None
    running: int
    waiting: int
    keys: list[LimitKeyShape]


class LimitsShape(msgspec.Struct):
    """`dtq limits list`: by queue and name."""

    limits: list[LimitShape]


class LimitVerbShape(msgspec.Struct):
    """`dtq limits set` and `clear`: `outcome` is `set` or `cleared`."""

    queue: str
    name: str
    outcome: str


def limit_shape(state: LimitState) -> LimitShape:
    """A limit for `--json`."""
    keyed = sorted((each for each in state.buckets if each.key), key=lambda each: (-each.waiting, each.key))
    override = state.override
    return LimitShape(
        name=state.name,
        queue=state.queue,
        max_running=state.numbers.max_running,
        rate_starts=state.numbers.starts,
        rate_ms=state.numbers.window_ms,
        set=override is not None,
        set_by=(override.by or None) if override else None,
        set_reason=(override.reason or None) if override else None,
        set_at=at(override.since_ms) if override else None,
        running=state.running,
        waiting=state.waiting,
        keys=[LimitKeyShape(each.key, each.running, each.waiting) for each in keyed[:KEYS_SHOWN]],
    )
