"""What the demonstration draws on a terminal, and the words of a handle for a task that failed without any."""

import pytest

from dtq_engine.cli.text import width
from dtq_engine.handle import _epitaph
from dtq_engine.model import AttemptError, RetryPolicy, Task, TaskStatus
from examples.progress import Progress


def make_task(status: TaskStatus, *errors: AttemptError) -> Task:
    return Task(
        id="1",
        type="t",
        queue="q",
        status=status,
        priority=5,
        attempt=1,
        retry=RetryPolicy(),
        timeout_ms=1,
        created_ms=1,
        errors=errors,
    )


def test_the_bar_never_wraps(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    statuses = (TaskStatus.RUNNING, TaskStatus.QUEUED, TaskStatus.PENDING, TaskStatus.RETRYING, TaskStatus.BLOCKED)
    Progress(5).show([make_task(each) for each in statuses])
    line = capsys.readouterr().out.rpartition("\x1b[K")[2]
    assert line.endswith("…")
    assert width(line) < 60


@pytest.mark.parametrize(("message", "end"), [("", ": KeyboardInterrupt"), ("no", ": KeyboardInterrupt: no")])
def test_an_error_without_a_message_ends_a_sentence_without_a_colon(message, end):
    task = make_task(TaskStatus.FAILED, AttemptError("KeyboardInterrupt", message))
    assert _epitaph(task) == f"task 1 (t) ended as failed{end}"
