"""Values that nobody may see are found by name, and then wherever they stand."""

import json

import pytest

from dtq_engine.masking import Masks
from dtq_engine.model import AttemptError, Claim, DeadLetter, Reschedule, RetryPolicy, Settled
from dtq_engine.worker.finalize import LOGGED, report

SECRET = 'p\n"4711"ü'


def masks(**payload):
    return Masks(("secret",), (json.dumps(payload).encode(),))


@pytest.mark.parametrize("quoted", [SECRET, repr(SECRET), json.dumps(SECRET), repr({"secret": SECRET})])
def test_a_value_is_masked_however_an_error_quotes_it(quoted):
    assert "4711" not in masks(secret={"deep": [SECRET]}).text(f"no: {quoted}")


def test_a_value_is_masked_in_json_under_any_name():
    found = json.loads(masks(secret=4711).json(b'{"secret": 1, "a": [4711, "x4711", true, 47110], "4711": null}'))
    assert found == {"secret": "***", "a": ["***", "x***", True, 47110], "***": None}


def test_short_values_are_masked_by_name_only():
    assert masks(secret=7).text("it failed 7 times") == "it failed 7 times"


@pytest.mark.parametrize("data", [b'{"secret": "abc', b"\xff", b"[" * 5000])
def test_what_cannot_be_read_is_masked_as_a_whole(data):
    assert Masks(("secret",), (data,)).json(data) == b'"***"'


@pytest.mark.parametrize("end", [lambda error: DeadLetter(error, "permanent"), lambda error: Reschedule(error, 1000)])
def test_the_log_names_no_redacted_value_and_no_novel(end, caplog):
    payload = b'{"secret": "4711-0815"}'
    execution = Claim("t1", "default", "mail", payload, "", "1-0", 5, 1, 1, "w1", 0, 0, 0, 0, 0, RetryPolicy())
    error = AttemptError("ValueError", "4711-0815 is wrong " + "x" * 100_000)
    report(execution, end(error), Settled.OK, ("secret",))
    assert "4711" not in caplog.text
    assert "ValueError: *** is wrong xxx" in caplog.text
    assert len(caplog.records[0].getMessage()) < LOGGED + 200
