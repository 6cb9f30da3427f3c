"""The worker's log lines: quiet text for people, or one JSON object a line for machines."""

import logging
import sys
import time

from dtq_engine import codec
from dtq_engine.config import Settings
from dtq_engine.harmless import safe
from dtq_engine.model import Claim

FACTS = ("task_id", "task_type", "queue", "attempt")


def facts(claim: Claim) -> dict[str, object]:
    """What a line about an execution carries as `extra`, for machines."""
    return {"task_id": claim.task_id, "task_type": claim.type, "queue": claim.queue, "attempt": claim.attempt}


def title(claim: Claim) -> str:
    """How a line about an execution names it, for people."""
    return f"{claim.type} {claim.task_id} (attempt {claim.attempt})"


def configure(settings: Settings) -> None:
    """Log to standard error, as the settings say; for processes of dtq's own, never for a host application's."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.log_json else TextLines())
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)


class TextLines(logging.Formatter):
    """`2026-10-01T12:00:00.000Z WARNING message`; further lines of it are marked, so that none can be forged."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, with the traceback of an error after it."""
        text = f"{_instant(record)} {record.levelname:<7} {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return safe(text, keep="\n").replace("\n", "\n  | ")


class JsonLines(logging.Formatter):
    """One object a line: ts, level, logger, message, then what is known of the task, then the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, object] = {
            "ts": _instant(record),
            "level": record.levelname,
            "logger": record.name,
            "message": safe(record.getMessage(), keep="\n"),
            **{name: value for name in FACTS if (value := getattr(record, name, None)) is not None},
        }
        if record.exc_info:
            line["traceback"] = safe(self.formatException(record.exc_info), keep="\n")
        return codec.write(line).decode()


def _instant(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"
