"""`dtq submit`: one task from the command line, or many from a file."""

from collections.abc import Sequence
from typing import BinaryIO

import click
import msgspec

from dtq_engine.cli.bulk import Bulk
from dtq_engine.cli.console import Console
from dtq_engine.cli.lines import Line, living_types, new_task, unapplied
from dtq_engine.cli.options import InputFile, common_with_handlers, described, task_options
from dtq_engine.cli.outcome import WAIT, as_wait, show_result, wait_for
from dtq_engine.cli.text import status_words
from dtq_engine.cli.values import payload_of
from dtq_engine.harmless import safe
from dtq_engine.model import NewTask, Receipt, SubmitOutcome, TaskStatus
from dtq_engine.shapes import submitted_shape
from dtq_engine.submission import submit_one
from dtq_engine.words import plural, span

_KNOWN = "It was submitted before and is {state}, in {where}."
_STOOD_THERE = {
    SubmitOutcome.THROTTLED: "No more of these are accepted now; it is the latest that was and is {state}, in {where}.",
    SubmitOutcome.REPLACED: "It waited there, is this task now, and waits from now on, in {where}.",
}


@click.command(short_help="Submit a task, or many from a file.")
@click.argument("type_", metavar="[TYPE]", required=False)
@click.argument("words", metavar="[JSON | KEY=VALUE...]", nargs=-1)
@click.option("--file", "file", type=InputFile("rb"), metavar="FILE", help="Submit the tasks in FILE; - is stdin.")
@task_options
@click.option("--wait", metavar="[DURATION]", is_flag=False, flag_value=WAIT, callback=as_wait,
              help="Wait for the task to end and print its result.")  # fmt: skip
@common_with_handlers
@click.pass_obj
def submit(
    console: Console, *, type_: str | None, words: Sequence[str], file: BinaryIO | None, wait: float | None
) -> int:
    """Submit a task of TYPE, and print its id.

    The arguments of the task are a JSON object or KEY=VALUE pairs; a VALUE that is JSON counts as JSON.
    Durations are written 30, 30s, 5m, 2h, 1d. What --app says about TYPE is used; other types are
    submitted as they are given, which is said.

    With --file each line is a task, {"type": …, "payload": {…}}, and may have the fields queue, priority,
    delay, run_at, id, idempotency_key, expires_in, timeout, max_attempts, headers, after (a list of ids,
    also of lines further up), on_parent_failure, unique, unique_key, at_most, per, debounce and
    debounce_max; the options of the command are for lines that do not say. A line that is refused does not
    stop the others (exit code 1). With --json a line of JSON for each task.

    \b
    Example:
      dtq submit reports.build account_id=7 month=2026-10 --delay 30s
      dtq submit reports.build '{"account_id": 7, "month": "2026-10"}' --wait
      dtq submit reports.mail to=ann@example.com --after 01KB3M7X5W9T2Q
      dtq submit --file tasks.ndjson --queue night
    """
    line = described(click.get_current_context(), type_ or "")
    if file is not None:
        _refuse_with_file(line, wait)
        return Bulk(console, console.app(handlers=True), line).run(file)
    if type_ is None:
        raise click.UsageError("Give the TYPE of the task, or --file.")
    return _submit_one(console, line, words, wait)


def _refuse_with_file(line: Line, wait: float | None) -> None:
    singles = {
        "TYPE": line.type,
        "--id": line.id,
        "--idempotency-key": line.idempotency_key,
        "--wait": wait is not None,
    }
    if given := [name for name, value in singles.items() if value]:
        raise click.UsageError(f"{' and '.join(given)} cannot be used with --file.")


def _submit_one(console: Console, line: Line, words: Sequence[str], wait: float | None) -> int:
    if line.on_parent_failure == "run" and not line.after:
        raise click.UsageError("--on-parent-failure is about the tasks in --after: name some, or drop it.")
    try:
        line.payload = msgspec.Raw(payload_of(words))
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="JSON | KEY=VALUE") from None
    app = console.app(handlers=True)
    task = new_task(line, app)
    receipt = submit_one(app, task)
    named = console.tasks or app.settings.tasks
    living = living_types(app) if named is None else ()
    warning = unapplied([task.type], app, named, living) if receipt.outcome is SubmitOutcome.NEW else None
    if warning and (wait is not None or not console.json):
        console.note(safe(warning))
    if wait is not None:
        console.note(safe(receipt.id))
        return show_result(console, wait_for(app, receipt.id, queue=receipt.queue, wait=wait))
    if console.json:
        console.emit(submitted_shape(receipt, warning=warning))
    else:
        _show(console, task, receipt)
    return 0


def _show(console: Console, task: NewTask, receipt: Receipt) -> None:
    """The id alone on stdout, so that `id=$(dtq submit …)` works; what else there is to say beside it."""
    console.say(safe(receipt.id))
    where = f"queue {safe(receipt.queue)}"
    if receipt.outcome is not SubmitOutcome.NEW:
        state = status_words(receipt.status) if receipt.status else "known"
        console.note(_STOOD_THERE.get(receipt.outcome, _KNOWN).format(state=state, where=where))
    elif receipt.status is TaskStatus.PENDING:
        waits_ms = task.delay_ms or (task.deduplication and task.deduplication.debounce_ms) or 0
        when = f" for {span(waits_ms)}" if task.run_at_ms is None else ""
        console.note(f"It is delayed{when}, in {where}.")
    elif receipt.status is TaskStatus.BLOCKED:
        end = "end" if any(each.run_anyway for each in task.after) else "succeed"
        console.note(f"It waits for {plural(len(task.after), 'task')} to {end}, in {where}.")
    elif receipt.status is TaskStatus.CANCELLED:
        console.note(f"It was cancelled at once, as a task that it waits for had failed, in {where}.")
    else:
        console.note(f"It waits in {where}.")
