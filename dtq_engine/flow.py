"""Workflows as they are written: calls of tasks, chains, groups, and what is left in hand when one was submitted."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar, cast

from dtq_engine import validate
from dtq_engine.errors import InvalidTask, TaskNotFound
from dtq_engine.handle import App, Handle
from dtq_engine.model import CancelOutcome, NewTask, Parent, Takes, Tree

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Before:
    """The tasks that come before a part of a workflow, and whether their results are handed on as a list."""

    tasks: tuple[NewTask, ...] = ()
    as_list: bool = False

    @property
    def takes(self) -> Takes:
        """What a task behind them takes of their results, if it takes something."""
        if not self.tasks:
            return Takes.NOTHING
        return Takes.LIST if self.as_list else Takes.ONE


class Maker(Protocol):
    """Makes the task of a call: fed, if its first argument is what comes before it."""

    def __call__(self, *, fed: bool) -> NewTask:
        """The task."""
        ...


class Flow(ABC, Generic[R_co]):
    """A workflow, or part of one: nothing is submitted before `submit`. It may be submitted several times."""

    @abstractmethod
    def weave(self, before: Before, tasks: list[NewTask]) -> Before:
        """Add its tasks to those of the whole, behind those before it; what a next part comes after."""

    @property
    @abstractmethod
    def app(self) -> App | None:
        """The app that it is submitted to; None if nothing in it says which."""

    def then(self, part: "Flow[T]") -> "Chain[T]":
        """The workflow of it and then another part, which gets the result: of a group the list of all, in order."""
        return cast("Chain[T]", Chain((self, part)))

    def prepare(self) -> list[NewTask]:
        """The tasks that `submit` would send, linked, for `Dtq.submit_flow`. Raises InvalidTask for wrong arguments."""
        tasks: list[NewTask] = []
        self.weave(Before(), tasks)
        return tasks

    def submit(self) -> "FlowHandle[R_co]":
        """Have it run. All its tasks are accepted, or none.

        Raises what `Submitter.submit` raises. If its tasks are of several queues or more than 500, it takes several
        calls, of which the last ones bring what starts: if those fail, what waits for them is cancelled.
        """
        tasks: list[NewTask] = []
        ends = self.weave(Before(), tasks)
        if self.app is None:
            raise InvalidTask(
                "task", "of prepared tasks alone nobody knows the app: use app.submit_flow(flow.prepare())."
            )
        handles = self.app.submit_flow(tasks)
        by_id = {(task.queue, task.id): handle for task, handle in zip(tasks, handles, strict=True)}
        return FlowHandle(handles, [by_id[end.queue, end.id] for end in ends.tasks], as_list=ends.as_list)

    async def submit_async(self) -> "FlowHandle[R_co]":
        """The same as `submit`, without blocking the event loop."""
        return await asyncio.to_thread(self.submit)


class Call(Flow[R_co]):
    """A call of a task, to be part of a workflow: what Celery calls a signature."""

    def __init__(self, app: App, make: Maker, *, takes_result: bool, run_anyway: bool) -> None:
        self._app = app
        self._make = make
        self._takes_result = takes_result
        self._run_anyway = run_anyway

    @property
    def app(self) -> App | None:
        """The app of its task."""
        return self._app

    def weave(self, before: Before, tasks: list[NewTask]) -> Before:
        """Its one task."""
        takes = before.takes if self._takes_result else Takes.NOTHING
        made = self._make(fed=takes is not Takes.NOTHING)
        if made.after and takes is not Takes.NOTHING:
            raise InvalidTask(
                "after", f"{made.type} takes what comes before it, so that it cannot wait for others: use si()."
            )
        return _add(replace(made, takes=takes), before, tasks, run_anyway=self._run_anyway)


class Prepared(Flow[Any]):
    """A prepared task in a workflow: it takes nothing of what comes before it."""

    def __init__(self, task: NewTask) -> None:
        self._task = task

    @property
    def app(self) -> App | None:
        """Nobody knows."""
        return None

    def weave(self, before: Before, tasks: list[NewTask]) -> Before:
        """The task."""
        return _add(self._task, before, tasks, run_anyway=False)


class _Whole(Flow[R_co]):
    """A workflow that is made of others."""

    def __init__(self, parts: Sequence[Flow[Any]]) -> None:
        self._parts = parts

    @property
    def app(self) -> App | None:
        """The app of its tasks."""
        return next((app for part in self._parts if (app := part.app) is not None), None)


class Chain(_Whole[R_co]):
    """One part after the other, each with the result of the one before it as its first argument."""

    def then(self, part: Flow[T]) -> "Chain[T]":
        """The chain with one part more: not a chain within a chain, which grows deep where it is built in a loop."""
        return cast("Chain[T]", Chain((*self._parts, part)))

    def weave(self, before: Before, tasks: list[NewTask]) -> Before:
        """The tasks of all parts."""
        for part in self._parts:
            before = part.weave(before, tasks)
        return before


class Group(_Whole[R_co]):
    """Parts side by side; what comes behind them gets the list of their results, in their order."""

    def weave(self, before: Before, tasks: list[NewTask]) -> Before:
        """The tasks of all parts, each behind the same."""
        ends = [part.weave(before, tasks) for part in self._parts]
        return Before(tuple(task for end in ends for task in end.tasks), as_list=True)


def chain(*parts: *tuple[*tuple[Flow[Any] | NewTask, ...], Flow[T]]) -> Chain[T]:
    """A workflow of parts that run one after the other: `chain(fetch.s(7), group(a.s(), b.s()), report.s())`.

    Each part gets the result of the one before it as its first argument, of a group the list of all; calls made by
    `si` do not. Raises InvalidTask for no parts.
    """
    return cast("Chain[T]", Chain(_parts("chain", parts)))


def group(*parts: Flow[T] | NewTask) -> Group[list[T]]:
    """A workflow of parts that run side by side: `group(a.s(1), a.s(2)).then(total.s())`.

    What comes behind it gets one list of all results; those of a part that ends in a group stand in it one by one.
    Raises InvalidTask for no parts.
    """
    return cast("Group[list[T]]", Group(_parts("group", parts)))


class FlowHandle(Generic[R_co]):
    """A submitted workflow in its submitter's hands: `tasks` has a handle for each of its tasks, in order."""

    __slots__ = ("_as_list", "_ends", "tasks")

    def __init__(self, tasks: Sequence[Handle[Any]], ends: Sequence[Handle[Any]], *, as_list: bool) -> None:
        self.tasks = tuple(tasks)
        self._ends = tuple(ends)
        self._as_list = as_list

    @property
    def last(self) -> Handle[Any]:
        """The handle of its last task."""
        return self._ends[-1]

    @property
    def ends(self) -> tuple[Handle[Any], ...]:
        """The handles of those tasks that nothing in it waits for."""
        return self._ends

    def result(self, timeout: float | timedelta | None = None) -> R_co:
        """The result of its last task, of a group the list of all, waiting up to `timeout` seconds in all.

        Raises what `Handle.result` raises: TaskFailed if one of its tasks has failed for good.
        """
        ends_at = None if timeout is None else time.monotonic() + validate.duration_ms("timeout", timeout) / 1000
        results = [end.result(None if ends_at is None else max(0.0, ends_at - time.monotonic())) for end in self._ends]
        return cast("R_co", results if self._as_list else results[0])

    def cancel(self, reason: str = "") -> dict[str, CancelOutcome]:
        """Cancel all its tasks, those that wait at once, those that run by asking; what became of each, by id.

        Those whose records are gone by now are left out.
        """
        answers: dict[str, CancelOutcome] = {}
        for handle in self.tasks:
            with suppress(TaskNotFound):
                answers[handle.id] = handle.cancel(reason)
        return answers

    def tree(self, limit: int = 200) -> Tree:
        """Its tasks and how they depend on each other, as they are now. Raises TaskNotFound if the last one is gone."""
        return self.last.tree(limit)

    def __repr__(self) -> str:
        return f"<FlowHandle {len(self.tasks)} tasks to {self.last.id}>"


def _add(task: NewTask, before: Before, tasks: list[NewTask], *, run_anyway: bool) -> Before:
    links = tuple(Parent(each.id, each.queue, run_anyway) for each in before.tasks)
    linked = replace(task, after=(*links, *task.after))
    tasks.append(linked)
    return Before((linked,))


def _parts(name: str, parts: Sequence[Any]) -> tuple[Flow[Any], ...]:
    if not parts:
        raise InvalidTask("task", f"a {name} needs at least one part: pass calls such as task.s(1).")
    return tuple(_part(name, part) for part in parts)


def _part(name: str, part: object) -> Flow[Any]:
    match part:
        case Flow():
            return part  # pyright: ignore[reportUnknownVariableType]
        case NewTask():
            return Prepared(part)
        case _:
            raise InvalidTask(
                "task", f"{validate.shown(part)} cannot be part of a {name}: pass calls such as task.s(1)."
            )
