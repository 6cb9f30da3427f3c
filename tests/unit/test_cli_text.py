import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtq_engine.cli.detail import detail
from dtq_engine.cli.tables import Column, table
from dtq_engine.cli.text import Cell, ago, clip, clip_middle, status_cell, width
from dtq_engine.harmless import safe, safe_json
from dtq_engine.model import AttemptError, RetryPolicy, Task, TaskStatus
from dtq_engine.words import span

EVIL = "\x1b[31mred\x1b]0;title\x07\r\n\t\x00\x7f\x9b2J\u202egnp\u2028\u2066"


@pytest.mark.parametrize("harmless", ["plain", "naïve café", "日本語", "👩‍👩‍👧", "a\u0301"])
def test_ordinary_text_is_shown_as_it_is(harmless):
    assert safe(harmless) == harmless


def test_control_characters_and_escape_sequences_are_shown_as_escapes():
    assert safe(EVIL) == r"\x1b[31mred\x1b]0;title\x07\r\n\t\x00\x7f\x9b2J\u202egnp\u2028\u2066"


def test_a_lone_surrogate_can_be_printed():
    assert safe("\ud800").encode() == rb"\ud800"


@given(st.text())
def test_nothing_a_terminal_could_act_on_remains(text):
    assert not any(each in safe(text) for each in [*map(chr, range(32)), "\x7f", "\x9b", "\u202e"])


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_json_made_safe_is_the_same_value(value):
    shown = safe_json(msgspec.json.encode(value).decode())
    assert msgspec.json.decode(shown) == value
    assert not any(each in shown for each in "\x1b\x7f\x9b\u202e")


def test_columns_are_aligned_whatever_the_width_of_their_characters():
    rows = [[Cell("日本"), Cell("1", right=True), Cell("x")], [Cell("abcdef"), Cell("1000", right=True), Cell("yz")]]
    assert table(("A", "N", "Z"), rows).splitlines()[1:] == ["日本       1  x", "abcdef  1000  yz"]


def test_the_last_column_is_clipped_to_the_terminal():
    text = table(("ID", Column("ERROR", least=8)), [[Cell("1"), Cell("x" * 100)]], columns=30)
    assert [width(line) <= 30 for line in text.split("\n") if "x" in line] == [True]
    assert text.endswith("…")


def test_where_the_terminal_is_narrow_the_least_useful_columns_go_and_names_are_shortened_in_the_middle():
    headers = (Column("NAME", least=6), Column("A", spare=2), Column("B", spare=1), Column("C", spare=3), Column("N"))
    rows = [[Cell("abcdefghijkl"), Cell("1234"), Cell("0"), Cell("-"), Cell("9")]]
    assert click.unstyle(table(headers, rows)) == "NAME          A     B  C  N\nabcdefghijkl  1234  0  -  9"
    assert table(headers, rows, columns=24).splitlines()[1] == "abcd…ijkl  1234  0  -  9"
    assert table(headers, rows, columns=20).splitlines()[1] == "abcd…jkl  1234  -  9"
    assert table(headers, rows, columns=9).splitlines()[1] == "abc…kl  9"
    assert table(headers, rows, columns=7).splitlines()[1] == "ab…l  9"


def test_a_column_that_says_nothing_goes_before_one_that_does():
    headers = (Column("A", spare=1), Column("B", spare=2), Column("C"))
    rows = [[Cell("5"), Cell("0"), Cell("x")]]
    assert click.unstyle(table(headers, rows, columns=4)) == "A  C\n5  x"


@given(st.text(), st.integers(3, 20))
def test_a_text_shortened_in_the_middle_fits_and_keeps_both_ends(text, columns):
    shown = clip_middle(text, columns)
    assert width(shown) <= columns
    assert shown == text or (shown[0] in text[0] + "…" and "…" in shown)


def test_clipping_counts_wide_characters_as_two():
    assert clip("日本語", 5) == "日本…"
    assert clip("日本語", 6) == "日本語"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (-3, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_900, "59.9 s"),
        (59_960, "1m 00s"),
        (200_000, "3m 20s"),
        (18_600_000, "5h 10m"),
        (93_600_000, "1d 2h"),
        (1_036_800_000, "12d"),
    ],
)
def test_a_length_of_time_is_short(ms, text):
    assert span(ms) == text


@pytest.mark.parametrize(
    ("then_ms", "text"),
    [(None, "-"), (100_000, "now"), (95_000, "5s ago"), (40_000, "1m ago"), (280_000, "in 3m"), (7_300_000, "in 2h")],
)
def test_an_instant_is_told_from_now(then_ms, text):
    assert ago(then_ms, 100_000) == text


def test_a_table_shows_a_status_as_the_filter_takes_it():
    assert [status_cell(status).text for status in TaskStatus] == list(TaskStatus)


def test_the_detail_of_a_task_lets_nothing_harmful_through():
    task = Task(
        id="1",
        type=EVIL,
        queue="q",
        status=TaskStatus.RETRYING,
        priority=5,
        attempt=1,
        retry=RetryPolicy(),
        timeout_ms=1,
        created_ms=1,
        payload=EVIL.encode(),
        result=b"\xff\x1b",
        reason=EVIL,
        worker=EVIL,
        idempotency_key=EVIL,
        errors=(AttemptError(EVIL, EVIL, f"line one\nline two {EVIL}", 1, EVIL, 1, 2),),
    )
    shown = detail(task, 10_000)
    assert not any(each in shown for each in ("\x1b]", "\x1b[31mred", "\x07", "\r", "\x00", "\x9b", "\u202e"))
    assert [line for line in shown.split("\n") if "line one" in line and "line two" not in line]
