"""Tasks as whoever makes the request may see them; the API and the pages show no others."""

from collections.abc import Sequence

from dtq_engine import LogLine, Task
from webapp.masking import hidden, masked, masked_lines
from webapp.rights import who
from webapp.roles import Role
from webapp.state import web


def sees_payloads() -> bool:
    """Whether the reader may see payloads, results and errors."""
    return web().settings.viewers_see_payloads or who().holds(Role.OPERATOR, Role.SUBMIT)


def lines_as_seen(lines: Sequence[LogLine], task: Task) -> Sequence[LogLine]:
    """Log lines of the task without what its type keeps from view; none for who sees no payloads."""
    return masked_lines(lines, task, web().catalog.redacted(task.type)) if sees_payloads() else ()


def as_seen(task: Task) -> Task:
    """The task without what its type or the reader's role keeps from view."""
    return masked(task, web().catalog.redacted(task.type)) if sees_payloads() else hidden(task)
