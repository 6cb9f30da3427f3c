"""What executions say of themselves, as `--json` and the HTTP API have it; see `shapes`."""

import msgspec

from dtq_engine.instants import at
from dtq_engine.model import LogLine, Progress


class ProgressShape(msgspec.Struct, kw_only=True):
    """How far an attempt said it was: `total` and `percent` are null where it does not know how much there is."""

    done: float
    total: float | None
    percent: float | None
    note: str
    attempt: int
    at: str | None


class LineShape(msgspec.Struct, kw_only=True):
    """A line that an attempt logged. `number` counts the lines of the task; `missing` lines before it are gone."""

    number: int
    missing: int
    attempt: int
    at: str | None
    level: str
    logger: str
    message: str


def line_shape(line: LogLine) -> LineShape:
    """A log line for `--json`."""
    return LineShape(
        number=line.number,
        missing=line.missing,
        attempt=line.attempt,
        at=at(line.at_ms),
        level=line.level,
        logger=line.logger,
        message=line.message,
    )


def progress_shape(progress: Progress) -> ProgressShape:
    """Progress for `--json`."""
    return ProgressShape(
        done=progress.done,
        total=progress.total,
        percent=progress.percent,
        note=progress.note,
        attempt=progress.attempt,
        at=at(progress.at_ms),
    )
