"""What the commands that change tasks share: who asks, whether it is meant, and one answer for each task."""

import getpass
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from dtq_engine.cli.console import Console
from dtq_engine.errors import IdempotencyConflict, InvalidTransition, NewerRecord, RedisDamaged, TaskNotFound
from dtq_engine.harmless import safe
from dtq_engine.shapes import VerbShape, error_shape
from dtq_engine.store.asked import ACTOR_MAX
from dtq_engine.words import plural

REFUSALS = (IdempotencyConflict, InvalidTransition, NewerRecord, RedisDamaged, TaskNotFound)
"""Answers that concern one task and leave the others to be done."""

Place = tuple[str, str | None]
"""A task's id, and its queue where that is known."""


@dataclass(frozen=True, slots=True)
class Verb:
    """What is done to each task: how it is asked for, how it is told when done, and the call."""

    name: str
    done: str
    call: Callable[[str, str | None], object]


def actor() -> str:
    """Who is at the keyboard, for the audit log."""
    try:
        return safe(getpass.getuser())[:ACTOR_MAX]
    except (KeyError, OSError, ImportError):
        return "dtq"


def apply(console: Console, verb: Verb, chosen: Sequence[Place]) -> int:
    """Do it to each of them; the exit code. A refusal is told and does not stop the others; with --json a line each."""
    done = sum(_one(console, verb, place) for place in chosen)
    if not console.json:
        console.say(f"{verb.done.capitalize()} {plural(done, 'task')}.")
    return 0 if done == len(chosen) else 1


def _one(console: Console, verb: Verb, place: Place) -> bool:
    task_id, queue = place
    try:
        verb.call(task_id, queue)
    except REFUSALS as error:
        shape = error_shape(error)
        console.warn(safe(shape.message))
        if console.json:
            console.emit_line(VerbShape(task_id, error=shape))
        return False
    if console.json:
        console.emit_line(VerbShape(task_id, outcome=verb.done))
    return True


def confirmed(console: Console, question: str) -> bool:
    """Whether the person at the terminal says yes; a usage error where there is none."""
    _need_a_terminal()
    if click.confirm(question, err=True):
        return True
    console.note("Nothing was done.")
    return False


def typed(console: Console, question: str, expected: str) -> bool:
    """Whether the person at the terminal types the expected text; a usage error where there is none."""
    _need_a_terminal()
    if str(click.prompt(question, err=True, default="", show_default=False)).strip() == expected:
        return True
    console.note("Nothing was done.")
    return False


def _need_a_terminal() -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to ask at: repeat the command with --yes.")
