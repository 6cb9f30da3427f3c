"""All that was submitted in a test, and what the test expects of it."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dtq_engine.engine import Dtq
from dtq_engine.model import NewTask, Receipt
from dtq_engine.registry import Registry
from dtq_engine.task import Submitter
from dtq_engine.testing.submitted import Submitted, Wanted

SHOWN_MOST = 20

AnyTask = str | Submitter[..., Any]


class Submissions:
    """The tasks that were accepted, oldest first."""

    def __init__(self, app: Dtq) -> None:
        self._app = app
        self._all: list[Submitted] = []

    def add(self, accepted: Iterable[tuple[NewTask, Receipt]]) -> None:
        """Keep tasks, each with the answer to it."""
        self._all += [Submitted.of(self._app, task, receipt) for task, receipt in accepted]

    def clear(self) -> None:
        """Forget them all."""
        self._all.clear()

    def wanted(
        self,
        task: AnyTask | None,
        args: Sequence[Any] = (),
        arguments: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Wanted:
        """What a test looks for. Raises KitMisused."""
        return Wanted.of(self._app.registry, task, args, arguments or {}, options or {})

    def found(self, wanted: Wanted) -> list[Submitted]:
        """Those that match."""
        return wanted.among(self._all)

    def expect(self, wanted: Wanted, times: int | None) -> list[Submitted]:
        """Those that match. Raises AssertionError unless there are some, or as many as `times` says."""
        __tracebackhide__ = True
        found = self.found(wanted)
        if (times is None and found) or len(found) == times:
            return found
        often = "not submitted" if not found else f"submitted {_times(len(found))}"
        expected = "" if times is None else f" instead of {_times(times)}"
        raise AssertionError(f"{wanted} was {often}{expected}.\n{self._listing(wanted)}")

    def expect_none(self, wanted: Wanted, *, spelt: bool) -> None:
        """Raise AssertionError if some match, KitMisused if none ever could; see `Wanted.check`."""
        __tracebackhide__ = True
        wanted.check(self._app.registry, spelt=spelt)
        if found := self.found(wanted):
            raise AssertionError(f"{wanted} was submitted {_times(len(found))}.\n{self._listing(wanted)}")

    def _listing(self, wanted: Wanted) -> str:
        return _listing(self._all, wanted, self._app.registry)


def _listing(submitted: Sequence[Submitted], wanted: Wanted, registry: Registry) -> str:
    """What was submitted, for a message: those of the wanted type first, and a hint if no task has such a name."""
    if not submitted:
        lines = ["Nothing was submitted."]
    else:
        sorted_ = sorted(submitted, key=lambda each: each.type != wanted.type)
        lines = ["Submitted were:", *(f"  {each}" for each in sorted_[:SHOWN_MOST])]
        lines += [f"  … and {len(submitted) - SHOWN_MOST} more"] if len(submitted) > SHOWN_MOST else []
    known = {*registry.types(), *(each.type for each in submitted)}
    if wanted.type and wanted.type not in known and (near := difflib.get_close_matches(wanted.type, known, n=1)):
        lines.append(f"No task is called {wanted.type}; did you mean {near[0]}?")
    return "\n".join([*lines, *wanted.misspelt(registry)])


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
