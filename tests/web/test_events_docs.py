"""docs/events.md says what the code does."""

import json
import re
from pathlib import Path

import pytest

from dtq_engine import Event, EventGap, Settings
from webapp.events import outbox, query, session, views
from webapp.events.messages import EVENTS, REDIS_AWAY, REDIS_BACK, Note, digest, hello

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "events.md").read_text()


def table(head: str) -> dict[str, str]:
    """The rows of the table with this head, by what the first column names."""
    rows = PAGE.split(f"| {head} |")[1].split("\n\n")[0].splitlines()[2:]
    return {re.sub(r"[`]", "", row.split("|")[1]).strip(): row.split("|", 2)[2] for row in rows}


def test_all_parameters_and_no_others_are_listed() -> None:
    assert tuple(table("parameter")) == query.PARAMETERS


def test_all_events_and_no_others_are_listed() -> None:
    assert set(table("event")) == EVENTS


def test_the_events_are_those_that_the_scripts_write() -> None:
    scripts = "\n".join(path.read_text() for path in (ROOT / "dtq_engine" / "lua").glob("*.lua"))
    assert set(re.findall(r"'((?:TASK|WORKER|CONFIGURATION)_[A-Z_]+)'", scripts)) == EVENTS


def test_all_messages_about_the_stream_are_listed() -> None:
    sent = [REDIS_AWAY, REDIS_BACK, *hello({}), digest(0, (), (), ()), Note(EventGap("a", 1, 3)).text]
    assert set(table("message")) == {json.loads(text)["type"] for text in sent}


@pytest.mark.parametrize("example", re.findall(r"(?s)```json\n(.*?)\n```", PAGE))
def test_an_example_has_the_fields_of_what_is_sent(example: str) -> None:
    shown = json.loads(example)
    event = Event(1, 1, "TASK_RETRY_SCHEDULED", "a", "q", "t", 1, None, None)
    sent = [*hello({"a": 1}), digest(1, (), (), ()), Note(EventGap("reports", 4711, 5001)).text, Note(event).text]
    by_type = {found["type"]: found for found in map(json.loads, sent)}
    assert list(shown) == list(by_type[shown["type"]])
    if shown["type"] == "GAP":
        assert shown == by_type["GAP"]


def test_the_limits_are_those_of_the_code() -> None:
    settings = Settings()
    limits = "".join(f"{name}: {text}" for name, text in table("limit").items())
    for value in (
        f"{settings.web_threads}: {views.most(settings)}",
        f" {outbox.LIMIT} |",
        f"{outbox.PATIENCE_S:.0f} s",
        f"{session.SEND_S:.0f} s",
        f"every {session.OPTIONS['ping_interval']} s",
        f"{query.MOST} |",
    ):
        assert value in limits


def test_the_codes_are_those_of_the_code() -> None:
    codes = {each.code for each in (outbox.RESTART, outbox.TOO_SLOW, session.SILENCE, session.FAILED, session.NO_REDIS)}
    assert {int(code) for code in table("close code")} == codes | {1009}
    assert f"more than {session.OPTIONS['max_message_size']} bytes" in table("close code")["1009"]
