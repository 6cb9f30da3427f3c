"""The parts of the pages that ask nobody: query lines, trees, words for numbers, rates and verdicts, stories."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtq_engine import AttemptError, QueueStats, RetryPolicy, Snapshot, Task, TaskStatus
from webapp.pages import rates, text
from webapp.pages.charts import Frame, chart
from webapp.pages.query import EXAMPLE, TaskQuery
from webapp.pages.rates import Flow
from webapp.pages.story import story
from webapp.pages.text import change
from webapp.pages.tree import DEEPEST, LONGEST, NODES, WIDEST, Tree

NOW = 1_795_000_000_000

TASK = Task(
    id="01K9",
    type="email.receipt",
    queue="mail",
    status=TaskStatus.DEAD_LETTERED,
    priority=5,
    attempt=2,
    retry=RetryPolicy(),
    timeout_ms=1000,
    created_ms=NOW,
    worker="web-1",
    reason="max_attempts",
    errors=(AttemptError("TimeoutError", "smtp: timed out"), AttemptError("KeyError", "'x'")),
)


def test_the_example_is_understood_word_by_word():
    query = TaskQuery.read(EXAMPLE)
    assert query.problems == ()
    assert (query.status, query.queue, query.since_s) == (TaskStatus.DEAD_LETTERED, "mail", 3600)
    assert query.given["error"] == "timed out"
    assert query.line == EXAMPLE


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ("", True),
        ("status:dead_lettered", True),
        ("status:queued", False),
        ("queue:mail type:email.*", True),
        ("type:email", False),
        ("type:*", True),
        ('error:"TIMED out"', True),
        ("error:KeyError", True),
        ("error:nothing", False),
        ("worker:web reason:max", True),
        ("01k9", True),
        ("receipt", True),
        ("nonsense", False),
    ],
)
def test_a_query_finds_what_it_asks_for(line, fits):
    assert TaskQuery.read(line).matches(TASK) is fits


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("stauts:queued", "did you mean status?"),
        ("status:dead", "did you mean dead_lettered?"),
        ("status:xyzzy", "is no status: use pending"),
        ("since:yesterday", "write it like 30s, 15m, 1h or 7d"),
        ("queue:mail queue:other", "queue is given twice"),
        ('queue:""', "queue has no value"),
    ],
)
def test_a_word_that_cannot_be_understood_is_named_and_the_rest_counts(line, problem):
    query = TaskQuery.read(f"type:mail {line}")
    assert problem in " ".join(query.problems)
    assert query.given["type"] == "mail"


@given(
    st.dictionaries(
        st.sampled_from(["type", "queue", "error", "worker", "reason", ""]), st.text(min_size=1, max_size=30)
    )
)
def test_a_line_means_what_it_was_made_of(given):
    query = TaskQuery(given)
    assert TaskQuery.read(query.line).given == given


@given(st.text(max_size=200))
def test_no_line_is_too_strange_to_be_read(line):
    query = TaskQuery.read(line)
    query.matches(TASK)
    assert TaskQuery.read(query.line).problems == ()


def test_a_line_is_changed_word_by_word():
    query = TaskQuery.read("status:queued type:a")
    assert query.with_word("queue", "mail") == "status:queued type:a queue:mail"
    assert query.with_word("status", None) == "type:a"
    assert TaskQuery.read("status:queued type:a").of(TaskStatus.DEAD_LETTERED).line == "type:a"


def count(node):
    return 1 + sum(map(count, node.children))


def test_a_tree_of_any_size_has_a_bounded_number_of_nodes():
    tree = Tree.of(json.dumps({"rows": [list(range(200))] * 1000, "text": "x" * 100_000}).encode())
    assert count(tree.root) <= NODES + 1
    rows = tree.root.children[0]
    assert rows.size == 1000
    assert rows.more == 1000 - len(rows.children)
    assert len(rows.children[0].children) == WIDEST


def test_a_long_string_is_cut_and_says_by_how_much():
    tree = Tree.of(json.dumps("x" * 5000).encode())
    assert (len(tree.root.text), tree.root.more) == (LONGEST, 5000 - LONGEST)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\x00", b"[" * 100_000, b"nonsense"])
def test_what_is_no_json_shows_its_beginning(data):
    tree = Tree.of(data)
    assert tree.root is None
    assert len(tree.raw) <= 4001


def test_a_long_name_is_cut_and_says_by_how_much():
    (child,) = Tree.of(json.dumps({"k" * 2000: 1}).encode()).root.children
    assert child.name == "k" * 200 + "… (1,800 more characters)"


def test_a_deep_value_ends_where_it_is_too_deep():
    tree = Tree.of(b'{"a":' * 100 + b"1" + b"}" * 100)
    node, depth = tree.root, 0
    while node.children:
        node, depth = node.children[0], depth + 1
    assert (depth, node.more) == (DEEPEST, 1)


@pytest.mark.parametrize(
    ("ms", "words"),
    [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (1500, "1.5 s"), (59_000, "59 s"), (61_000, "1 min 1 s"),
     (3_600_000, "1 h"), (5_400_000, "1 h 30 min"), (86_400_000 * 12, "12 d"), (-5, "0 ms")],
)  # fmt: skip
def test_a_length_of_time_in_words(ms, words):
    assert text.span(ms) == words


def test_an_instant_is_told_from_now_and_by_the_clock():
    moments = text.Moments(NOW)
    assert [moments.ago(NOW - ms) for ms in (0, 5000, 200_000, -200_000, 90_000_000)] == [
        "now", "5 s ago", "3 min ago", "in 3 min", "1 d ago"]  # fmt: skip
    assert moments.clock(NOW) == "11:06:40"
    assert moments.clock(NOW - 86_400_000) == "17 Nov 11:06"
    assert moments.clock(NOW - 400 * 86_400_000).endswith("2025 11:06")
    assert moments.clock(10**18) == "an impossible time"
    assert moments.iso(10**18) == ""


def test_what_cannot_be_seen_is_shown():
    assert text.clean("a\x00b\u202ec\ud800d\ne") == "a\\u0000b\\u202ec\\ud800d\ne"
    assert text.cut("a  b\n c") == "a b c"
    assert text.cut("x" * 500, 10) == "x" * 10 + "…"
    assert text.size(5_242_880) == "5.0 MiB"


STATS = QueueStats(
    queue="mail", waiting=600, running=1, delayed=0, retrying=0, blocked=0, succeeded=0, failed=0, dead_lettered=0,
    cancelled=0, expired=0, paused=False,
)  # fmt: skip


def moved(submitted, ended, seconds=60):
    return Flow(0, seconds * 1000, submitted=submitted, ended=ended)


@pytest.mark.parametrize(
    ("stats", "recent", "workers", "words", "tone"),
    [
        (STATS, moved(60, 120), 2, "empty in 10 min", "good"),
        (STATS, moved(3600, 1200), 2, "growing 40/s, needs about 4 more workers", "bad"),
        (STATS, moved(120, 100), 5, "growing 20/min, needs about 1 more worker", "bad"),
        (STATS, moved(100, 100), 2, "as many come as go", "warn"),
        (STATS, moved(100, 0, 300), 2, "nothing has ended for 5 min", "bad"),
        (STATS, moved(1, 1), 0, "backlog, and nobody consumes it", "bad"),
        (STATS, None, 2, "not known yet: rates take a few minutes", ""),
        (replace(STATS, waiting=0), moved(9, 1), 2, "nothing waits", "good"),
        (replace(STATS, waiting=0), None, 0, "nobody serves it", ""),
        (replace(STATS, paused=True), moved(9, 1), 0, "paused, 600 waiting", "warn"),
        (replace(STATS, paused=True, waiting=0), None, 0, "paused", "warn"),
    ],
)
def test_a_verdict_says_whether_a_queue_keeps_up(stats, recent, workers, words, tone):
    found = rates.verdict(stats, recent, workers)
    assert (found.words, found.tone) == (words, tone)


def snapshot(at_s, submitted, waits=None, **failures):
    return Snapshot(at_s * 1000, {"submitted": submitted, "succeeded": submitted}, waits or {}, failures=failures)


def test_what_happened_lately_is_the_difference_to_a_note_of_some_minutes_ago():
    notes = [snapshot(at * 60, at * 10) for at in range(10)]
    flow = rates.lately(notes, snapshot(600, 130))
    assert (flow.from_ms, flow.submitted, flow.ended) == (300_000, 80, 80)
    assert rates.lately([], snapshot(600, 1)) is None
    assert rates.lately([snapshot(590, 1)], snapshot(600, 1)) is None


def test_what_is_known_of_a_young_queue_is_what_happened_since_it_began():
    began = snapshot(560, 0)
    flow = rates.lately([began], snapshot(600, 8))
    assert flow is not None
    assert (flow.from_ms, flow.submitted) == (560_000, 8)
    assert rates.verdict(STATS, replace(flow, ended=0), 2).tone == ""
    assert rates.until_now([began], snapshot(570, 8)) == [began]
    assert len(rates.until_now([began], snapshot(600, 8))) == 2
    assert rates.known_since([[], [began]], 3_600_000, 600_000) == 560_000
    assert rates.known_since([[began]], 40_000, 600_000) is None
    assert rates.known_since([[]], 40_000, 600_000) is None


def test_counters_that_begin_anew_do_not_count_backwards():
    flow = rates.flow(snapshot(0, 100, {3: 50}), snapshot(60, 7, {3: 2}))
    assert (flow.submitted, flow.waits, flow.p95_wait_ms) == (0, {}, None)


def test_queues_are_put_together_step_by_step_even_where_notes_are_missing():
    one = [snapshot(0, 0), snapshot(60, 10), snapshot(120, 20)]
    other = [snapshot(0, 0), snapshot(120, 6)]
    assert [(flow.to_ms, flow.submitted) for flow in rates.series([one, other], 60_000)] == [
        (60_000, 10),
        (120_000, 16),
    ]


def test_failing_types_are_those_that_failed_since_the_first_note():
    notes = [[snapshot(0, 0, a=5, b=2)], []]
    assert rates.failing(notes, [snapshot(60, 0, a=6, b=2), snapshot(60, 0, c=3)]) == [("c", 3), ("a", 1)]


@pytest.mark.parametrize(
    ("buckets", "value"),
    [({}, None), ({0: 100}, 0.95), ({3: 100}, 7.8), ({1: 95, 10: 5}, 2.0), ({1: 90, 10: 10}, 768.0)],
)
def test_a_quantile_lies_within_its_bucket(buckets, value):
    assert rates.quantile(buckets, 0.95) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("per_s", "words"), [(0, "0/s"), (40, "40/s"), (2.5, "2.5/s"), (0.1, "6/min"), (0.001, "3.6/h"), (1e-9, "0.0/h")]
)
def test_a_rate_in_the_unit_that_makes_it_readable(per_s, words):
    assert rates.rate(per_s) == words


def test_a_chart_has_its_numbers_in_words_too():
    lines: list[tuple[str, list[tuple[int, float | None]]]] = [
        ("in", [(0, 1.0), (50, 4.0), (100, None)]),
        ("out", [(0, 2.0)]),
    ]
    found = chart("Throughput", lines, Frame(0, 100, rates.rate))
    assert found.summary == "Throughput: at most 4/s; at the end in 4/s, out 2/s."
    assert found.rows[1] == (50, ["4/s", "–"])
    assert found.lines[0].path.startswith("M0 ")
    empty = chart("Nothing", [("in", [])], Frame(0, 100, rates.rate))
    assert (empty.lines[0].path, empty.summary) == ("", "Nothing: nothing is known yet.")


def failed(attempt, started, ended):
    return AttemptError("E", "m", "", attempt, "w1", NOW + started, NOW + ended)


FAILED = (failed(1, 5, 9),)


@pytest.mark.parametrize(
    ("changes", "titles"),
    [
        ({"status": TaskStatus.QUEUED, "errors": ()}, ["Submitted", "Waits for a free worker"]),
        ({"status": TaskStatus.PENDING, "errors": ()}, ["Submitted", "Waits for its time"]),
        ({"status": TaskStatus.RUNNING, "errors": (), "started_ms": NOW + 5, "attempt": 1}, ["Submitted", "Attempt 1"]),
        ({"status": TaskStatus.RETRYING, "errors": FAILED}, ["Submitted", "Attempt 1", "Waits for attempt 3"]),
        ({"status": TaskStatus.BLOCKED, "errors": ()}, ["Submitted", "Blocked by max_attempts"]),
        (
            {"status": TaskStatus.SUCCEEDED, "errors": FAILED, "started_ms": NOW + 20, "finished_ms": NOW + 30},
            ["Submitted", "Attempt 1", "Attempt 2", "Succeeded"],
        ),
        (
            {"errors": (failed(1, 5, 9), failed(2, 20, 25)), "started_ms": NOW + 20, "finished_ms": NOW + 25},
            ["Submitted", "Attempt 1", "Attempt 2", "Became a dead letter"],
        ),
        ({"status": TaskStatus.EXPIRED, "errors": ()}, ["Submitted", "Expired before its first start"]),
        (
            {"status": TaskStatus.CANCELLED, "errors": (), "previous_attempts": 3},
            ["Submitted", "Had an earlier life", "Cancelled"],
        ),
        (
            {"status": TaskStatus.RETRYING, "errors": (failed(1, 5, 9), failed(2, 20, 25), failed(1, 30, 35)),
             "previous_attempts": 2, "attempt": 1},
            ["Submitted", "Had an earlier life", "Attempt 1, earlier life", "Attempt 2, earlier life", "Attempt 1",
             "Waits for attempt 2"],
        ),
        (
            {"status": TaskStatus.RUNNING, "errors": FAILED, "previous_attempts": 1, "attempt": 1,
             "started_ms": NOW + 50},
            ["Submitted", "Had an earlier life", "Attempt 1, earlier life", "Attempt 1"],
        ),
    ],
)  # fmt: skip
def test_a_story_goes_from_the_submission_to_how_it_is_now(changes, titles):
    assert [step.title for step in story(replace(TASK, **changes))] == titles


def test_a_story_tells_how_long_was_waited_between():
    steps = story(replace(TASK, errors=(failed(1, 5, 9), failed(2, 20, 25)), started_ms=NOW + 20))
    assert [(step.gap_ms, step.ran_ms) for step in steps[1:3]] == [(5, 4), (11, 5)]


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ("pause", "queue paused"),
        ("pause_periodic:nightly:eu", "periodic nightly:eu paused"),
        ("define:{}", "periodic {} defined"),
        ("of_a_newer_release:x", "of_a_newer_release:x"),
        (None, ""),
    ],
)
def test_changes_of_a_queue_are_told_in_words(detail, words):
    assert change(detail) == words


@pytest.mark.parametrize(
    ("reason", "words", "due"),
    [
        ("waits_for_parents", "Waits for other tasks", None),
        ("limit:account/7", "Waits for a place under the limit account/7", None),
        ("unknown_task_type:mail", "No living worker knows the type mail", 99),
        ("undecodable_record", "Blocked by undecodable_record", 99),
    ],
)
def test_a_blocked_task_says_why_and_when_only_if_somebody_knows(reason, words, due):
    step = story(replace(TASK, status=TaskStatus.BLOCKED, reason=reason, due_ms=99, errors=()))[-1]
    assert (step.title, step.at_ms, step.note) == (words, due, "next look" if due else "")
