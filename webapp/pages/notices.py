"""What an action has done, told on the page that follows; only these sentences can be put into an address."""

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from flask import Response, redirect, request

from webapp.origin import own_path

SENTENCES: Mapping[str, tuple[str, str]] = {
    "cancel": ("The task was cancelled.", "{:,} tasks were cancelled."),
    "ask": ("The task runs: its worker was asked to stop it.", "{:,} tasks were asked to stop."),
    "requeue": ("The task waits again.", "{:,} tasks wait again."),
    "discard": ("The task was discarded.", "{:,} tasks were discarded."),
    "run-now": ("The task is available now.", "{:,} tasks are available now."),
    "reprioritise": ("The task has another priority.", "{:,} tasks have another priority."),
    "edit": ("This is the new task with the edited payload.", ""),
    "pause": ("The queue is paused: what runs goes on, nothing else starts.", ""),
    "resume": ("The queue goes on.", ""),
    "purge": ("One waiting task was cancelled.", "{:,} waiting tasks were cancelled."),
    "pause-periodic": ("The periodic task is paused: its ticks pass without a task.", ""),
    "resume-periodic": ("The periodic task goes on from its next tick.", ""),
    "trigger": ("This task was made now, out of turn.", ""),
    "none": ("Nothing was selected: tick some tasks first.", ""),
}
"""By what was done: of one, and of many."""


def notice(args: Mapping[str, str]) -> str | None:
    """The sentence that an address asks for."""
    one, many = SENTENCES.get(args.get("did", ""), ("", ""))
    count = args.get("n", "1")
    is_many = many and count != "1" and count.isascii() and count.isdigit() and len(count) < 10
    return (many.format(int(count)) if is_many else one) or None


def back(did: str, count: int = 1, *, to: str | None = None) -> Response:
    """Go on to the page that the form came from (or to `to`), which tells what was done."""
    target = to or own_path(request.form.get("back", ""))
    scheme, host, path, query, _ = urlsplit(target)
    kept = [(name, value) for name, value in parse_qsl(query) if name not in {"did", "n"}]
    told = [("did", did)] + ([("n", str(count))] if count != 1 else [])
    return redirect(urlunsplit((scheme, host, path, urlencode(kept + told), "")), 303)  # type: ignore[return-value]
