"""What the tasks of all peers do: nothing, but for noting now and then how far they are. Standard library only."""

import itertools
import os
import time

EVERY = 100
"""After how many tasks one is noted: often enough to tell the time, too seldom to cost any."""

_numbers = itertools.count(1)


def noop() -> None:
    """Count; note the first task and then each hundredth, with the time."""
    number = next(_numbers)
    if number == 1 or number % EVERY == 0:
        note(f"{number} {time.time_ns()}")


def clock(sent_ns: int) -> None:
    """Note how long it took to get here."""
    note(f"{time.time_ns() - sent_ns}")


def note(line: str) -> None:
    """Append a line to the file that the harness reads; one write, so that lines never mix."""
    with open(os.environ["BENCH_NOTES"], "a") as notes:  # noqa: PTH123 (quicker to import)
        notes.write(line + "\n")
