"""Contexts of executions that nobody runs."""

import threading
import time
from dataclasses import dataclass

from dtq_engine.config import Settings
from dtq_engine.context import TaskContext
from dtq_engine.model import Claim
from dtq_engine.report import Book, Bounds, Report
from dtq_engine.steps import Save, Steps


def keeps(_field: str, _value: bytes, _first: bool) -> bool:
    """Whatever it is, it is saved."""
    return True


@dataclass(frozen=True)
class Execution:
    """What stands behind a context."""

    report: Report
    steps: Steps


def context_of(claim: Claim, stopping: threading.Event | None = None, save: Save = keeps) -> TaskContext:
    """The context of an execution of this claim."""
    cancelled = threading.Event()
    book = Book(Bounds.of(Settings()))
    steps = Steps(claim.saved, save, deadline=time.monotonic() + 5, given_up=cancelled, most=10, most_bytes=1_000)
    execution = Execution(Report(claim, time.monotonic(), book), steps)
    return TaskContext(claim=claim, cancelled=cancelled, stopping=stopping or threading.Event(), execution=execution)
