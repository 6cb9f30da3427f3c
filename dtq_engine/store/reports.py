"""What executions say of themselves, and what they save for later ones: both only while they hold their task."""

from collections.abc import Sequence

from dtq_engine.errors import ClaimLost
from dtq_engine.model import Claim, LogLine, Said, Saved
from dtq_engine.store.base import Base, chunks
from dtq_engine.store.inspect import Inspect
from dtq_engine.store.progress import pack_progress, unpack_line

TASKS_PER_CALL = 100
LINES_PER_CALL = 1000


class Reports:
    """Progress and log lines."""

    def __init__(self, base: Base, inspect: Inspect) -> None:
        self._base = base
        self._inspect = inspect

    def report(self, queue: str, items: Sequence[tuple[Claim, Said]]) -> set[tuple[str, str]]:
        """Keep what executions of one queue say; the keys of those that do not hold their task any more.

        Raises RedisUnavailable; say the same again then: a line that was kept is not doubled.
        """
        settings = self._base.settings
        bounds = (max(1, settings.task_log_lines), settings.task_log_bytes)
        lost: set[tuple[str, str]] = set()
        sizes = [sum(len(line) + 16 for _, line in said.lines) + 512 for _, said in items]
        for part in chunks(items, sizes, TASKS_PER_CALL):
            args = [value for claim, said in part for value in (*claim.key, *_encode(said))]
            positions: list[int] = self._base.run("report", queue, *bounds, *args)
            lost.update(part[position - 1][0].key for position in positions)
        return lost

    def logs(
        self, task_id: str, *, queue: str | None = None, after: int = 0, attempt: int | None = None, limit: int = 1000
    ) -> list[LogLine]:
        """The lines that executions of a task logged after the line number `after`, at most `limit`, oldest first.

        With `attempt` only its lines. Raises TaskNotFound.
        """
        where = queue or self._inspect.queue_of(task_id)
        found: list[LogLine] = []
        while len(found) < limit:
            lines = self._lines(where, task_id, after)
            found += (line for line in lines if attempt in {None, line.attempt})
            if not lines:
                break
            after = lines[-1].number
        return found[:limit]

    def latest(self, task_id: str, queue: str, limit: int) -> list[LogLine]:
        """The latest lines, at most `limit`, oldest first; empty for a task that is not there."""
        log, found = self._base.keys.logs(queue, task_id), list[LogLine]()
        for entry, fields in reversed(self._base.connection.call("XREVRANGE", log, "+", "-", "COUNT", limit)):
            line = unpack_line(entry, fields, found[-1].number if found else None)
            if line is not None:
                found.append(line)
        return found

    def _lines(self, queue: str, task_id: str, after: int) -> list[LogLine]:
        log = self._base.keys.logs(queue, task_id)
        lines: list[LogLine] = []
        entries = self._base.connection.call("XRANGE", log, f"{after + 1}-0", "+", "COUNT", LINES_PER_CALL)
        for entry, fields in entries:
            if (line := unpack_line(entry, fields, after)) is not None:
                lines.append(line)
                after = line.number
        return lines


class Steps:
    """What executions save for later ones of their task."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def saved(self, task_id: str, queue: str) -> Saved:
        """What is saved for a task; nothing for one that is not there. Raises RedisDamaged."""
        fields: list[bytes] = self._base.connection.call("HKEYS", self._base.keys.steps(queue, task_id))
        names = [field.decode("utf-8", "replace") for field in fields]
        return Saved(
            steps=tuple(name[1:] for name in names if name.startswith("s")),
            marks=sum(name.startswith("o") for name in names),
            has_cursor="c" in names,
        )

    def save(self, claim: Claim, field: str, value: bytes, first: bool = False) -> bool:
        """Keep `value` under a field of `Keys.steps`; with `first` only if nothing else is kept there: whether it is.

        Raises ClaimLost if the execution does not hold its task any more, and RedisUnavailable; then save it again.
        """
        answer = self._base.run("save", claim.queue, *claim.key, field, value, "1" if first else "0")
        if answer == b"lost":
            raise ClaimLost(
                f"This execution of {claim.type} {claim.task_id} does not hold its task any more and can save nothing: "
                f"let it end."
            )
        return bool(answer == b"saved")


def _encode(said: Said) -> list[str | bytes | int]:
    """What an execution says, as `report.lua` takes it."""
    progress = b"" if said.progress is None else pack_progress(*said.progress)
    return [progress, len(said.lines), *(part for line in said.lines for part in line)]
