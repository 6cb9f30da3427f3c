"""The limits that Redis knows: what workers declare, what operators say instead, and how each stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from dtq_engine.errors import LimitNotFound
from dtq_engine.limit_states import Bucket, LimitState, Override, parse_declared, parse_override, write_override
from dtq_engine.limits import QUEUE_WIDE, Declared, Numbers, Rate, is_limit_name
from dtq_engine.links import Command
from dtq_engine.store.asked import asked
from dtq_engine.store.base import Base
from dtq_engine.store.inspect import Inspect
from dtq_engine.store.replies import members, number, pairs
from dtq_engine.store.workers import TYPES_TTL_MS

LAPSE_MS = TYPES_TTL_MS + 10_000
"""Later than a build's types lapse: without them nothing is claimed before it has declared its limits anew."""

MOST_BUCKETS = 1000


class Limits:
    """Declaring, overriding, clearing and listing limits."""

    def __init__(self, base: Base, inspect: Inspect) -> None:
        self._base = base
        self._inspect = inspect

    def declare(self, queue: str, declared: Declared) -> int:
        """Say for five minutes which limits a build of workers has in a queue; how many of them changed."""
        words = [word for pair in declared.of(queue) for word in pair]
        return int(self._base.run("declare", queue, LAPSE_MS, *words)) if words else 0

    def tidy(self, queue: str) -> int:
        """Let go what no living worker declares any more; how many limits changed by that."""
        return int(self._base.run("declare", queue, LAPSE_MS))

    def list(self, queues: "Sequence[str] | None" = None) -> "list[LimitState]":
        """The limits of these queues, or of all, by queue and name; those that are at home there, set, or in use."""
        names = sorted(self._inspect.queues() if queues is None else queues)
        keys = self._base.keys
        asked: list[Command] = []
        for queue in names:
            asked += [("HGETALL", keys.limits(queue)), ("ZRANGE", keys.lines(queue), 0, MOST_BUCKETS - 1)]
        replies = iter(self._base.connection.pipeline(asked))
        known = [(queue, _rules(pairs(next(replies))), members(next(replies))) for queue in names]
        found = [state for queue, rules, lines in known for state in self._states(queue, rules, lines)]
        return [each for each in found if each.is_shown]

    def set(
        self,
        queue: str,
        name: str,
        *,
        max_running: int | Literal["none"] | None = None,
        rate: Rate | Literal["none"] | None = None,
        actor: str = "",
        reason: str = "",
        request: str | None = None,
    ) -> None:
        """Have these numbers in force until they are cleared, whatever the code says; `*` is the limit of the queue.

        "none" lifts a part, None leaves it to the code. Raises InvalidLimit, and LimitNotFound for a name that no
        worker has declared in this queue.
        """
        self._override(queue, name, write_override(max_running, rate), *asked(request, actor, reason))

    def clear(self, queue: str, name: str, *, actor: str = "", reason: str = "", request: str | None = None) -> None:
        """Have in force again what the code says. Raises LimitNotFound if nothing else is."""
        self._override(queue, name, "", *asked(request, actor, reason))

    def _override(self, queue: str, name: str, numbers: str, *request: str) -> None:
        # Other names might be those of fields that limits have.
        known = bool(name == QUEUE_WIDE or is_limit_name(name)) and queue in self._inspect.queues()
        if known and self._base.run("override", queue, name, *request, numbers) != b"missing":
            return
        label = "limit of its own" if name == QUEUE_WIDE else f"limit {name}"
        problem = (
            f"The {label} of the queue {queue} is not set"
            if known and not numbers
            else f"There is no {label} in {queue}"
        )
        raise LimitNotFound(f"{problem}: see which there are with `dtq limits list`.")

    def _states(self, queue: str, rules: "Mapping[str, _Rule]", lines: Sequence[str]) -> Sequence[LimitState]:
        names = sorted(rules)
        buckets = [[name, *(line for line in lines if line.startswith(f"{name}/"))] for name in names]
        keys = self._base.keys
        asked: list[Command] = [
            ("ZCARD", key)
            for each in buckets
            for line in each
            for key in (keys.slots(queue, line), keys.line(queue, line))
        ]
        counts = iter([number(reply) for reply in self._base.connection.pipeline(asked)])
        return [
            rules[name].state(
                name, queue, tuple(Bucket(line.partition("/")[2], next(counts), next(counts)) for line in each)
            )
            for name, each in zip(names, buckets, strict=True)
        ]


@dataclass(slots=True)
class _Rule:
    """The fields of one limit."""

    declared: str = ""
    override: str = ""

    def state(self, name: str, queue: str, buckets: tuple[Bucket, ...]) -> LimitState:
        declared = parse_declared(self.declared)
        numbers = parse_override(self.override, declared)
        return LimitState(
            name=name,
            queue=queue,
            numbers=numbers or declared or Numbers(),
            declared=declared,
            override=None if numbers is None else _note(numbers, self.override.partition(" ")[2]),
            buckets=tuple(each for each in buckets if not each.key or each.waiting),
            is_at_home=self.declared.split(" ")[0].split("/")[3:4] == ["1"],
        )


def _rules(fields: Mapping[bytes, bytes]) -> dict[str, _Rule]:
    found: dict[str, _Rule] = {}
    for field, value in fields.items():
        name, text = field.decode("utf-8", "replace"), value.decode("utf-8", "replace")
        rule = found.setdefault(name.removesuffix("!"), _Rule())
        if name.endswith("!"):
            rule.override = text
        else:
            rule.declared = text
    return found


class _Note(msgspec.Struct):
    by: str = ""
    reason: str = ""
    since: float | None = None


_decoder = msgspec.json.Decoder(_Note)


def _note(numbers: Numbers, text: str) -> Override:
    try:
        note = _decoder.decode(text)
    except (msgspec.MsgspecError, ValueError):
        note = _Note()
    return Override(numbers, note.by, note.reason, None if note.since is None else round(note.since))
