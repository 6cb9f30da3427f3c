"""Log lines of dtq's own processes: quiet text for people, or one JSON object a line for machines."""

import logging
import sys
import time

from dtq_engine import codec
from dtq_engine.config import Settings
from dtq_engine.harmless import safe

FACTS = (
    "task_id", "task_type", "queue", "attempt", "request_id", "method", "path", "status", "ms", "actor"
)  # fmt: skip
"""What a line may carry as `extra`, for machines: of an execution, or of a request."""


def configure(settings: Settings, process: str = "") -> None:
    """Log to standard error, as the settings say; for processes of dtq's own, never for a host application's.

    `process` tells the lines of this process from those of others that log to the same place.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(process) if settings.log_json else TextLines(process))
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)


class TextLines(logging.Formatter):
    """`2026-10-01T12:00:00.000Z WARNING message`; further lines of it are marked, so that none can be forged.

    With the name of a process the message begins with it: `… WARNING [2] message`.
    """

    def __init__(self, process: str = "") -> None:
        super().__init__()
        self._mark = f"[{process}] " if process else ""

    def format(self, record: logging.LogRecord) -> str:
        """One line, with the traceback of an error after it."""
        text = f"{_instant(record)} {record.levelname:<7} {self._mark}{record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return safe(text, keep="\n").replace("\n", "\n  | ")


class JsonLines(logging.Formatter):
    """One object a line: ts, level, logger, message, process, what is known of the task or request, traceback."""

    def __init__(self, process: str = "") -> None:
        super().__init__()
        self._marks = {"process": process} if process else {}

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, object] = {
            "ts": _instant(record),
            "level": record.levelname,
            "logger": record.name,
            "message": safe(record.getMessage(), keep="\n"),
            **self._marks,
            **{name: value for name in FACTS if (value := getattr(record, name, None)) is not None},
        }
        if record.exc_info:
            line["traceback"] = safe(self.formatException(record.exc_info), keep="\n")
        return codec.write(line).decode()


def _instant(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"
