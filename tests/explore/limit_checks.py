"""What must hold of limits after every call: of slots, of lines, and of who is called."""

from tests.explore.promises import Known, Promises, expect
from tests.explore.snapshot import Record, Snapshot


def check_limits(now: Snapshot, promises: Promises) -> None:
    """Raise Violation unless slots are held by right, lines lead to who waits, and no limit is exceeded."""
    for task_id, record in now.records.items():
        _check_task(task_id, record, promises.tasks[task_id], now, promises)
    for bucket, members in now.slots.items():
        for task_id, token in members:
            _check_holder(bucket, task_id, token, now)
        _check_number(bucket, now, promises)
    for bucket, line in now.lines.items():
        for task_id in line:
            waits = now.reason(task_id) == f"limit:{bucket}"
            expect(waits, "who stands in a line waits for its bucket", bucket, task_id, now.reason(task_id))
        _check_head(bucket, now, promises)
    expect(now.line_index == now.lines.keys(), "the lines are listed", now.line_index, sorted(now.lines))
    promises.ran = {bucket: now.running(bucket) for bucket in now.slots}
    promises.held = {bucket: len(members) for bucket, members in now.slots.items()}


def _check_task(task_id: str, record: Record, known: Known, now: Snapshot, promises: Promises) -> None:
    """A task holds slots exactly as its state says, and waits in one line."""
    runs = record["s"] == "R" and not known.is_reaped
    held = {bucket for bucket, members in now.slots.items() if (task_id, record.get("k", "")) in members}
    wanted = set(known.task.limits) if runs else set[str]()
    # What a sweep finds running has its slots again, a reaper's too.
    expect(held == wanted or promises.is_damaged, "a running task holds its slots", task_id, held, wanted)
    if now.reason(task_id).startswith("limit:"):
        bucket = now.reason(task_id).removeprefix("limit:")
        expect(bucket in known.task.limits, "a task waits for a limit of its own", task_id, bucket)
        expect(task_id in now.lines.get(bucket, ()), "who waits for a limit stands in its line", task_id, bucket)
        elsewhere = [other for other, line in now.lines.items() if other != bucket and task_id in line]
        expect(not elsewhere, "who waits stands in one line", task_id, elsewhere)


def _check_holder(bucket: str, task_id: str, token: str, now: Snapshot) -> None:
    record = now.records.get(task_id, {})
    if token == "-":
        is_called = record.get("s") == "Q" and record["buckets"].startswith("+ ")
        expect(is_called, "a slot is kept for who was called", bucket, task_id, record)
    else:
        runs = record.get("s") == "R" and record.get("k") == token
        expect(runs, "a slot is held by who runs under its token", bucket, task_id, record)


def _check_number(bucket: str, now: Snapshot, promises: Promises) -> None:
    """No more run than may, or did before the limit was lowered."""
    numbers = now.limits.get(bucket.partition("/")[0])
    if numbers is None or numbers.max_running is None or promises.is_damaged:
        return
    for number, before in ((now.running(bucket), promises.ran), (len(now.slots[bucket]), promises.held)):
        most = max(numbers.max_running, before.get(bucket, 0))
        expect(number <= most, "no limit is exceeded", bucket, number, numbers)


def _check_head(bucket: str, now: Snapshot, promises: Promises) -> None:
    """Nobody waits where there is room."""
    numbers = now.limits.get(bucket.partition("/")[0])
    if numbers is None or numbers.starts is not None or promises.is_purging or promises.is_damaged:
        return
    held = len(now.slots.get(bucket, ()))
    has_room = numbers.max_running is None or held < numbers.max_running
    expect(not has_room, "a free slot calls the next in line", bucket, held, numbers)
