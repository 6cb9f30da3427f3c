"""Log lines of the worker: nothing that a task says of itself can pass for a line of the log."""

import json
import logging

import pytest

from dtq_engine.logs import JsonLines, TextLines

HOSTILE = "\x1b[31mred\x00\x07\r\u202e\ud800\n2026-01-01T00:00:00.000Z ERROR   forged"


def line(formatter: logging.Formatter, message: str, error: BaseException | None) -> str:
    caught = None if error is None else (type(error), error, None)
    return formatter.format(logging.LogRecord("dtq", logging.ERROR, "", 0, "%s", (message,), caught))


@pytest.mark.parametrize("error", [None, ValueError(HOSTILE)])
def test_what_a_terminal_could_act_on_is_escaped_and_no_line_is_forged(error):
    lines = line(TextLines(), HOSTILE, error).split("\n")
    assert all(each.startswith("  | ") for each in lines[1:])
    assert all(each.isprintable() for each in lines)
    assert "\\x1b[31mred\\x00\\x07\\r\\u202e\\ud800" in lines[0]


@pytest.mark.parametrize("error", [None, ValueError(HOSTILE)])
def test_a_json_line_is_one_object_whatever_the_message_holds(error):
    text = line(JsonLines(), HOSTILE, error)
    assert "\n" not in text
    assert json.loads(text)["message"].startswith("\\x1b[31mred")
