import shlex
from datetime import UTC, datetime

import msgspec
import pytest

from dtq_engine import Dtq, InvalidTask, Settings
from dtq_engine.cli.lines import Line, new_task, read_line, with_defaults
from dtq_engine.cli.values import _as_text, duration_s, instant, payload_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("30s", 30),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86_400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        (" 5 M", 300),
    ],
)
def test_a_duration_is_a_number_with_a_unit(text, seconds):
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-5", "5 parsecs", "1e3", "nan", "inf", "5m3s", "٣"])
def test_what_is_no_duration_is_refused_with_examples(text):
    with pytest.raises(ValueError, match="such as 30, 30s, 5m, 2h or 1d"):
        duration_s(text)


def test_a_time_without_an_offset_is_local_time():
    assert instant("2026-10-31T08:00") == datetime(2026, 10, 31, 8).astimezone()
    assert instant("2026-10-31T08:00:00Z") == datetime(2026, 10, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-01", "25:00"])
def test_what_is_no_time_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="such as 2026-10-31T08:00"):
        instant(text)


def test_a_payload_may_be_one_json_object():
    assert payload_of(['{"n": 12345678901234567890123, "list": []}']) == b'{"n":12345678901234567890123,"list":[]}'


def test_a_payload_may_be_pairs_whose_values_are_json_where_they_can_be():
    words = ["n=3", "on=true", 'tags=["a"]', "month=2026-10", "zip=01234", "empty=", "equation=a=b", 'text="7"']
    assert msgspec.json.decode(payload_of(words)) == {
        "n": 3,
        "on": True,
        "tags": ["a"],
        "month": "2026-10",
        "zip": "01234",
        "empty": "",
        "equation": "a=b",
        "text": "7",
    }


@pytest.mark.parametrize(
    ("value", "problem", "hint"),
    [
        ("[1,", "is not JSON", """'k="[1,"'"""),
        ('"half', "is not JSON", "send it as text"),
        ("{x}", "is not JSON", """'k="{x}"'"""),
        ("[" * 10_000 + "]" * 10_000, "nested more than 256 levels", """k='"…"'"""),
        ("[" * 257 + "]" * 257, "nested more than 256 levels", """k='"…"'"""),
        ("1e400", "out of range", """'k="1e400"'"""),
        ("9" * 5_000, "out of range", """k='"…"'"""),
        ('["\\ud800"]', "lone surrogate", "send it as text"),
        ("NaN", "holds NaN", """'k="NaN"'"""),
        ("Infinity", "holds Infinity", """'k="Infinity"'"""),
        ("-Infinity", "holds -Infinity", """'k="-Infinity"'"""),
        ('{"v":1,"v":2}', "the name 'v' twice", "send it as text"),
    ],
)
def test_a_value_that_looks_like_json_and_cannot_be_used_is_refused_with_a_hint(value, problem, hint):
    with pytest.raises(ValueError, match="k looks like JSON, but") as refusal:
        payload_of([f"k={value}"])
    assert problem in str(refusal.value)
    assert hint in str(refusal.value)


@pytest.mark.parametrize("value", ["NaN", "1e400", "[1,", "it's"])
def test_what_the_hint_says_sends_the_text(value):
    (word,) = shlex.split(_as_text("k", value))
    assert msgspec.json.decode(payload_of([word])) == {"k": value}


@pytest.mark.parametrize("value", ["nan", "inf", "tru", "1-2", "01", "-", "1 2", "it's", "1e400x"])
def test_a_plain_word_stays_text(value):
    assert msgspec.json.decode(payload_of([f"k={value}"])) == {"k": value}


@pytest.mark.parametrize("word", ["k=\udcff", "\udcff=1", '{"k": "\udcff"}'])
def test_bytes_that_are_no_text_are_refused(word):
    with pytest.raises(ValueError, match="not valid UTF-8"):
        payload_of([word])


def test_no_words_are_an_empty_payload():
    assert payload_of([]) == b"{}"


@pytest.mark.parametrize(
    "words", [["{"], ["[1]"], ["=1"], ["{}", "a=1"], ["a=1", "a=2"], ['{"a": NaN}'], ['{"a":1,"a":2}']]
)
def test_what_is_no_payload_is_refused(words):
    with pytest.raises(ValueError, match=r"JSON object|twice"):
        payload_of(words)


def test_the_payload_of_a_line_is_kept_byte_for_byte():
    line = read_line(b'{"type": "t", "payload": {"n": 1.0, "m": [ ]}}')
    assert bytes(line.payload) == b'{"n": 1.0, "m": [ ]}'


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{bad", "not a JSON object on one line"),
        (b"\xff", "not a JSON object on one line"),
        (b"[]", "expected object, got array"),
        (b"{}", "the task lacks the field type"),
        (b'{"type": 7}', "type: expected str, got int"),
        (b'{"type": "t", "prioriy": 9}', "'prioriy' is not a field of a task; did you mean 'priority'?"),
        (b'{"type": "t", "xyz": 9}', "'xyz' is not a field of a task; remove it"),
        (b'{"type": "t", "delay": []}', "delay: expected"),
        (b'{"type": "t", "type": "u"}', "the name 'type' twice"),
        (b'{"type": "t", "payload": {"v": [{"w": 1, "w": 2}]}}', "the name 'w' twice"),
        (rb'{"type": "t", "payload": {"v": "\ud800"}}', "lone surrogate"),
        (b'{"type": "t", "payload": {"v": ' + b"[" * 300 + b"]" * 300 + b"}}", "nested more than 256 levels"),
        (b'{"type": "t", "payload": ' + b"[" * 5000, "not a JSON object on one line"),
    ],
)
def test_a_bad_line_is_refused_with_the_field_at_fault(line, complaint):
    with pytest.raises(InvalidTask) as refusal:
        read_line(line)
    assert complaint in str(refusal.value)


def test_options_fill_in_what_a_line_leaves_open():
    defaults = Line(type="", queue="night", priority=3, delay=60.0)
    assert with_defaults(read_line(b'{"type": "t", "priority": 9}'), defaults) == Line(
        type="t", queue="night", priority=9, delay=60.0, payload=msgspec.Raw(b"{}")
    )


def test_a_lines_own_time_replaces_the_delay_of_the_options():
    line = with_defaults(read_line(b'{"type": "t", "run_at": "2026-10-31T08:00Z"}'), Line(type="", delay=60.0))
    assert (line.delay, line.run_at) == (None, "2026-10-31T08:00Z")


@pytest.fixture
def app():
    return Dtq(Settings())


def test_a_type_the_app_does_not_know_gets_the_settings_defaults(app):
    task = new_task(Line(type="other.team", payload=msgspec.Raw(b'{"x":1}'), delay="5m", timeout=2), app)
    assert (task.type, task.queue, task.payload, task.delay_ms, task.timeout_ms) == (
        *("other.team", "default", b'{"x":1}', 300_000, 2_000),
    )
    assert task.retry.max_attempts == Settings().max_attempts


def test_a_type_the_app_knows_gets_its_handlers_defaults(app):
    @app.task("reports.build", queue="reports", priority=8, max_attempts=2)
    def build(account_id: int) -> None: ...

    task = new_task(Line(type="reports.build", payload=msgspec.Raw(b'{"account_id":7}'), priority=1), app)
    assert (task.queue, task.priority, task.retry.max_attempts) == ("reports", 1, 2)


def test_arguments_that_do_not_fit_a_known_handler_are_refused(app):
    @app.task("reports.build")
    def build(account_id: int) -> None: ...

    with pytest.raises(InvalidTask, match="account_id"):
        new_task(Line(type="reports.build", payload=msgspec.Raw(b'{"acount_id":7}')), app)


@pytest.mark.parametrize("field", ["delay", "expires_in", "timeout", "run_at"])
def test_a_time_that_cannot_be_read_names_its_field(app, field):
    with pytest.raises(InvalidTask) as refusal:
        new_task(read_line(b'{"type": "t", "%s": "soon"}' % field.encode()), app)
    assert str(refusal.value).startswith(f"{field}: 'soon' is not a")
