"""What executions say of themselves, and what they save for later ones."""

from dataclasses import dataclass

from dtq_engine.errors import ClaimLost
from dtq_engine.model import Claim, Said, TaskStatus
from tests.explore.calls.base import Place, Seen
from tests.explore.promises import Known, Promises, expect


def holds(known: Known, claim: Claim) -> bool:
    """Whether this execution holds its task."""
    return known.status is TaskStatus.RUNNING and known.token == claim.token


@dataclass(frozen=True)
class Say:
    """An execution says how far it is, and logs the lines with these numbers; those between were dropped on the way."""

    claim: Claim
    done: int
    lines: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Say({self.claim.key}, done={self.done}, lines={self.lines})"

    def run(self, place: Place) -> set[tuple[str, str]]:
        lines = tuple((number, b"1 INFO - \n%d" % number) for number in self.lines)
        return place.reports.report(place.queue, [(self.claim, Said((self.done, None, "", 7), lines))])

    def learn(self, promises: Promises, answer: set[tuple[str, str]], seen: Seen) -> None:
        known = promises.tasks[self.claim.task_id]
        expect((not answer) == holds(known, self.claim), "only its holder reports on a task", self.claim.key, answer)
        if answer:
            return
        known.progress = f"{known.attempt} 7 {self.done} - "
        fence, last = known.said
        own = last if fence == known.fence else 0
        for number in self.lines:
            if number > own:
                known.last_line += number - own
                known.lines.append(known.last_line)
                own = number
        known.said = (known.fence, own) if self.lines else known.said
        known.lines = known.lines[-promises.settings.task_log_lines :]


@dataclass(frozen=True)
class Keep:
    """An execution saves something, or with `first` asks whether it is the first to do so."""

    claim: Claim
    field: str
    value: bytes
    first: bool

    def __repr__(self) -> str:
        return f"Keep({self.claim.key}, {self.field!r}, {self.value!r}, first={self.first})"

    def run(self, place: Place) -> bool:
        return place.steps.save(self.claim, self.field, self.value, self.first)

    def learn(self, promises: Promises, answer: bool | ClaimLost, seen: Seen) -> None:
        known = promises.tasks[self.claim.task_id]
        is_lost = isinstance(answer, ClaimLost)
        expect(is_lost != holds(known, self.claim), "only its holder saves for a task", self.claim.key, answer)
        if is_lost:
            return
        kept = not self.first or known.saved.get(self.field, self.value) == self.value
        expect(answer is kept, "the first one who asks is told so, and nobody else", self.claim.key, answer, kept)
        if kept:
            known.saved[self.field] = self.value
