"""The letters that records have for the statuses of tasks."""

from collections.abc import Mapping

from dtq_engine.model import TaskStatus

STATES: Mapping[str, TaskStatus] = {
    "P": TaskStatus.PENDING,
    "Q": TaskStatus.QUEUED,
    "R": TaskStatus.RUNNING,
    "T": TaskStatus.RETRYING,
    "B": TaskStatus.BLOCKED,
    "S": TaskStatus.SUCCEEDED,
    "F": TaskStatus.FAILED,
    "D": TaskStatus.DEAD_LETTERED,
    "C": TaskStatus.CANCELLED,
    "E": TaskStatus.EXPIRED,
}


def status_of(state: bytes | str) -> TaskStatus | None:
    """The status behind a record's one-letter state; None for anything else."""
    return STATES.get(state.decode("utf-8", "replace") if isinstance(state, bytes) else state)
