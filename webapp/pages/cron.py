"""When a periodic task runs, in plain English."""

import re
from collections.abc import Sequence

from dtq_engine import PeriodicTask
from webapp.pages.text import span

DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December")  # fmt: skip

_SHORT = {name[:3].upper(): str(number) for names in (MONTHS, DAYS[:7]) for number, name in enumerate(names) if name}
_STEP = re.compile(r"\*/([0-9]+)").fullmatch
_LIST = re.compile(r"[0-9]+(,[0-9]+)*").fullmatch
_PART = re.compile(r"([0-9]+)(?:-([0-9]+))?").fullmatch


def in_words(task: PeriodicTask) -> str:
    """Such as `every day at 03:00` or `every 5 min`; the zone is not in it."""
    definition = task.definition
    if definition.every_ms is not None:
        return f"every {span(definition.every_ms)}"
    return cron_in_words(definition.cron or "")


def cron_in_words(expression: str) -> str:
    """A cron expression of five fields in words; what is too special for them is told field by field."""
    fields = expression.upper().split()
    if len(fields) != 5:
        return expression
    minute, hour, day, month, weekday = fields
    times, days = _times(minute, hour), _days(day, weekday)
    if times is None:
        times = f"at minute {minute} of hour {hour}"
    months = "" if month == "*" else f" in {_named(month, MONTHS) or f'month {month}'}"
    if days is None:
        daily = "every day " if times.startswith("at ") else ""
        return f"{daily}{times}{months}"
    return f"{times}, {days}{months}"


def _times(minute: str, hour: str) -> str | None:
    if hour == "*":
        return _of_any_hour(minute)
    if not _LIST(minute):
        return None
    if step := _STEP(hour):
        return f"every {step[1]} hours at {_joined([f':{int(each):02}' for each in minute.split(',')])}"
    if not _LIST(hour):
        return None
    pairs = [(int(h), int(m)) for h in hour.split(",") for m in minute.split(",")]
    return f"at {_joined([f'{h:02}:{m:02}' for h, m in sorted(pairs)])}" if len(pairs) <= 6 else None


def _of_any_hour(minute: str) -> str | None:
    if minute in {"*", "*/1"}:
        return "every minute"
    if step := _STEP(minute):
        return f"every {step[1]} minutes"
    return f"every hour at {_joined([f':{int(each):02}' for each in minute.split(',')])}" if _LIST(minute) else None


def _days(day: str, weekday: str) -> str | None:
    """On which days; None for every one. Where both are given, either will do: so it is in cron."""
    found = list[str]()
    if day != "*":
        found.append("on the last day of the month" if day == "L" else f"on day {day.replace(',', ', ')} of the month")
    if weekday != "*":
        found.append(f"on {_named(weekday, DAYS) or f'weekday {weekday}'}")
    return " or ".join(found) or None


def _named(field: str, names: Sequence[str]) -> str | None:
    """Numbers and ranges by name; None for anything else."""
    plain = re.sub("[A-Z]{3}", lambda found: _SHORT.get(found[0], found[0]), field)
    parts = [_PART(part) for part in plain.split(",")]
    words = list[str]()
    for part in parts:
        numbers = [int(each) for each in part.groups() if each] if part else []
        if not numbers or any(number >= len(names) or not names[number] for number in numbers):
            return None
        words.append(" to ".join(names[number] for number in numbers))
    return _joined(words)


def _joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
