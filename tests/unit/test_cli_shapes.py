import msgspec
import pytest

from dtq_engine.errors import ConfigurationError, TaskNotFound
from dtq_engine.instants import at
from dtq_engine.model import AttemptError, QueueStats, RetryPolicy, Task, TaskStatus
from dtq_engine.shapes import queue_shape, raw, sentence, task_shape


def make_task(**known) -> Task:
    basics = {"id": "1", "type": "t", "queue": "q", "status": TaskStatus.SUCCEEDED, "priority": 5, "attempt": 1}
    return Task(**{**basics, "retry": RetryPolicy(), "timeout_ms": 1, "created_ms": 1_000, **known})


def test_instants_are_iso_8601_in_utc():
    assert at(1_793_404_800_123) == "2026-10-31T00:00:00.123Z"


@pytest.mark.parametrize("ms", [None, 0, 10**18])
def test_what_is_no_instant_is_null(ms):
    assert at(ms) is None


def test_payload_and_result_are_the_json_values_themselves_digit_by_digit():
    shown = msgspec.json.encode(task_shape(make_task(payload=b'{"n": 12345678901234567890}', result=b"[1.0, null]")))
    assert b'"payload":{"n":12345678901234567890},"result":[1.0,null]' in shown


def test_bytes_that_are_no_json_become_a_string():
    assert bytes(raw(b"\xff{")) == '"�{"'.encode()


def test_of_a_result_too_large_the_beginning_and_the_size_are_told():
    shape = task_shape(make_task(result=b'"abc', result_size=5_000))
    assert (bytes(shape.result), shape.result_preview, shape.result_size) == (b"null", '"abc', 5_000)


def test_errors_are_told_with_absolute_times():
    error = AttemptError("ValueError", "no", "trace", 1, "w1", 1_000, 2_000)
    (shown,) = task_shape(make_task(errors=(error,))).errors
    assert (shown.type, shown.started_at, shown.ended_at) == (
        *("ValueError", "1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z"),
    )


def test_a_queue_names_its_priorities_as_text_most_urgent_first():
    stats = QueueStats("q", 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, paused=False, waiting_by_priority={0: 1, 9: 2})
    shape = queue_shape(stats, workers=2)
    assert list(shape.waiting_by_priority.items()) == [("9", 2), ("0", 1)]
    assert (shape.depth, shape.workers) == (4, 2)


def test_an_error_that_says_nothing_is_its_name_alone():
    assert sentence(ZeroDivisionError()) == "ZeroDivisionError"


def test_each_problem_of_a_configuration_has_a_line():
    assert sentence(ConfigurationError(["one", "two"])) == "one\ntwo"
    assert sentence(TaskNotFound("There is no task 1.")) == "There is no task 1."
