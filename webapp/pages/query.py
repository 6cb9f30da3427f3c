"""The query line: which tasks a page shows, as one line of text that is also its address."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Self

from dtq_engine import Task, TaskStatus

WORDS = ("status", "queue", "type", "error", "worker", "reason", "since")
EXAMPLE = 'status:dead_lettered type:email.* queue:mail error:"timed out" since:1h'
LONGEST = 1000
MOST_SUGGESTED = 50
"""How many queues, and how many types, a line is offered to go on with."""

_TOKEN = re.compile(r'\s*(?:([A-Za-z_]+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))')
_SINCE = re.compile(r"([0-9]{1,6})(s|m|min|h|d)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_PLAIN = re.compile(r'[^\s":][^\s"]*')


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """What a query line asks for; `given` has its words in order, `problems` a sentence for each that is wrong."""

    given: Mapping[str, str] = field(default_factory=dict[str, str])
    problems: tuple[str, ...] = ()
    fixed: TaskStatus | None = None

    @classmethod
    def read(cls, line: str) -> Self:
        """The query that a line is; words that cannot be understood are left out and become problems."""
        given, problems = dict[str, str](), list[str]()
        for word, value in _words(line[:LONGEST]):
            problem = f"{word} is given twice: leave one out." if word in given else _problem(word, value)
            if problem is None:
                given[word] = value
            else:
                problems.append(problem)
        return cls(given, tuple(problems))

    def of(self, status: TaskStatus) -> Self:
        """The query on a page that shows one status only, whatever the line says."""
        return replace(self, fixed=status, given={word: each for word, each in self.given.items() if word != "status"})

    @property
    def line(self) -> str:
        """The line, as it would be written."""
        return " ".join(f"{word}:{_quoted(value)}" if word else _quoted(value) for word, value in self.given.items())

    def with_word(self, word: str, value: str | None) -> str:
        """The line that asks for this too, or no longer."""
        others = {name: each for name, each in self.given.items() if name != word}
        return replace(self, given=others if value is None else {**others, word: value}).line

    @property
    def status(self) -> TaskStatus | None:
        """The status asked for."""
        return self.fixed or (TaskStatus(self.given["status"]) if "status" in self.given else None)

    @property
    def queue(self) -> str | None:
        """The queue asked for."""
        return self.given.get("queue")

    @property
    def since_s(self) -> int | None:
        """How far back to look, in seconds."""
        found = _SINCE.fullmatch(self.given.get("since", ""))
        return int(found[1]) * _SECONDS[found[2]] if found else None

    def since_ms(self, now_ms: int) -> int:
        """From when on to look; 0 for the beginning."""
        return 0 if self.since_s is None else now_ms - self.since_s * 1000

    @property
    def is_selective(self) -> bool:
        """Whether tasks must be looked at one by one."""
        return bool(set(self.given) - {"status", "queue", "since"})

    def matches(self, task: Task) -> bool:
        """Whether a task, as the reader may see it, is one of those asked for."""
        given = self.given
        return (
            self.status in {None, task.status}
            and self.queue in {None, task.queue}
            and fnmatchcase(task.type, given.get("type", "*"))
            and _contains(given.get("worker"), task.worker or "")
            and _contains(given.get("reason"), task.reason or "")
            and _contains(given.get("error"), *(f"{error.type}: {error.message}" for error in task.errors))
            and _contains(given.get(""), task.id, task.type)
        )


def suggestions(query: TaskQuery, queues: Iterable[str], types: Iterable[str]) -> list[str]:
    """Words that a line may go on with: of these queues and types, all but those it has."""
    words = {
        "status": [] if query.fixed else [str(status) for status in TaskStatus],
        "queue": sorted(queues)[:MOST_SUGGESTED],
        "type": sorted(set(types))[:MOST_SUGGESTED],
        "since": ["15m", "1h", "24h", "7d"],
    }
    return [f"{word}:{_quoted(value)}" for word, found in words.items() if word not in query.given for value in found]


def _contains(wanted: str | None, *texts: str) -> bool:
    return wanted is None or any(wanted.lower() in text.lower() for text in texts)


def _words(line: str) -> Iterator[tuple[str, str]]:
    """Each word with what it is about; of one without a colon, that is empty."""
    for found in _TOKEN.finditer(line):
        word, quoted, plain = found.groups()
        value = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        yield (word or "").lower(), value


def _problem(word: str, value: str) -> str | None:
    if word and word not in WORDS:
        near = difflib.get_close_matches(word, WORDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"use {', '.join(WORDS)}."
        return f"“{word}” is nothing to look for: {hint}"
    if word == "status" and value not in set(TaskStatus):
        near = difflib.get_close_matches(value, list(TaskStatus), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"use {', '.join(TaskStatus)}."
        return f"“{value}” is no status: {hint}"
    if word == "since" and not _SINCE.fullmatch(value):
        return f"“{value}” is no length of time: write it like 30s, 15m, 1h or 7d."
    return None if value else f"{word or 'A word'} has no value: write something after it, or leave it out."


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value) and "\\" not in value:
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
