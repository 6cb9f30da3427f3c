"""What the reader of an event socket asks for, in the query of its address."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from werkzeug.datastructures import MultiDict

from dtq_engine import Event, EventGap, EventType
from webapp.events.messages import EVENTS
from webapp.problems import Problem

MOST = 100
"""How many values of a parameter there may be."""

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}").fullmatch
_EVENT_ID = re.compile(r"([a-z0-9][a-z0-9_-]{0,63}):([0-9]{1,18})").fullmatch


class Mode(StrEnum):
    """What is sent: each event, or once in a while what has changed."""

    EVENTS = "events"
    DIGEST = "digest"


@dataclass(frozen=True, slots=True)
class Query:
    """Filters, of which an empty one lets all pass.

    `since` has the last event that the reader knows of each queue; a queue that it does not name is new to them. None
    is for a reader who wants only what is to come.
    """

    queues: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    task_ids: frozenset[str] = frozenset()
    workers: frozenset[str] = frozenset()
    events: frozenset[str] = frozenset()
    mode: Mode = Mode.EVENTS
    since: Mapping[str, int] | None = None

    @classmethod
    def of(cls, given: "MultiDict[str, str]") -> Self:
        """Read the query of an address; a value may hold several with commas. Raises a 400 that names the culprit."""
        for parameter in given:
            _check(parameter, parameter, PARAMETERS, "no parameter")
        values = {parameter: _values(given, parameter) for parameter in PARAMETERS}
        for event in values["event"]:
            _check("event", event, EVENTS, "no event")
        query = cls(
            queues=frozenset(values["queue"]),
            types=frozenset(values["type"]),
            task_ids=frozenset(values["task_id"]),
            workers=frozenset(values["worker_id"]),
            events=frozenset(values["event"]),
            mode=_mode(given.get("mode", Mode.EVENTS)),
            since=_positions(values["since"]) if "since" in given else None,
        )
        if query.mode is Mode.DIGEST and query.since is not None:
            raise _problem("since", "A digest tells what changes from now on: leave out since, or the mode.")
        return query

    def wants(self, told: Event | EventGap) -> bool:
        """Whether to tell it. A gap matters to all who hear of its queue, as nobody knows what was in it."""
        if self.queues and told.queue not in self.queues:
            return False
        if isinstance(told, Event) and told.type == EventType.TASK_PROGRESS and not (self.task_ids or self.events):
            return False  # of all tasks it is too much, unless somebody asks for it
        return isinstance(told, EventGap) or (
            (not self.types or told.task_type in self.types)
            and (not self.task_ids or told.task_id in self.task_ids)
            and (not self.workers or told.worker_id in self.workers)
            and (not self.events or told.type in self.events)
        )

    def wanted(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """Those of these numbers that are of queues asked for."""
        return {queue: number for queue, number in numbers.items() if not self.queues or queue in self.queues}


PARAMETERS = ("queue", "type", "task_id", "worker_id", "event", "mode", "since")


def _values(given: "MultiDict[str, str]", parameter: str) -> Sequence[str]:
    values = [value for text in given.getlist(parameter) for value in text.split(",") if value]
    if len(values) > MOST:
        raise _problem(parameter, f"{parameter} has {len(values)} values, and {MOST} are allowed: name fewer.")
    for value in values:
        if not _NAME(value):
            raise _problem(
                parameter, f"{parameter} cannot be {value[:80]!r}: use letters, digits, '_', '.', ':' or '-'."
            )
    return values


def _mode(given: str) -> Mode:
    _check("mode", given, list(Mode), "no mode")
    return Mode(given)


def _positions(names: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in names:
        parts = _EVENT_ID(each)
        if parts is None:
            raise _problem("since", f"since cannot be {each!r}: give queue:event_id, such as default:120.")
        found[parts[1]] = int(parts[2])
    return found


def _check(parameter: str, value: str, known: "Sequence[str] | frozenset[str]", what: str) -> None:
    if value in known:
        return
    near = difflib.get_close_matches(value, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"use {', '.join(sorted(known))}."
    raise _problem(parameter, f"{value[:80]!r} is {what} here: {hint}")


def _problem(parameter: str, detail: str) -> Problem:
    return Problem(400, "INVALID_PARAMETER", detail, more={"parameter": parameter[:80]})
