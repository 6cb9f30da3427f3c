"""What the test kit raises."""

from dtq_engine.errors import DtqError


class HandlerFailed(DtqError):
    """Raised when a task that a test ran has failed; the handler's own exception is the cause (`__cause__`)."""

    def __init__(self, task_id: str, type: str, message: str) -> None:
        self.task_id = task_id
        self.type = type
        super().__init__(message)


class RunawayTasks(DtqError):
    """Raised when a run had no end in sight, as when a task submits itself; it names the types that keep coming."""


class KitMisused(DtqError):
    """Raised when the test kit is asked for something that cannot be."""
