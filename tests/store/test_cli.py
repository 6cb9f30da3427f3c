"""The command line on a real server, as its user sees it."""

import io
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtq_engine import Dtq, NewTask, RetryPolicy, submission
from dtq_engine.cli import bulk
from dtq_engine.model import AttemptError, Cancel, DeadLetter, Succeed
from tests.store.hand import Hand, error, info
from tests.support.environ import environ_of
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
NO_SPACE = "Error: reading or writing failed, and what was done before stays done: No space left on device."
AS_GIVEN = "Submitted as given; with --app MODULE:APP the handler's own options and checks are applied.\n"
HANDLERS = """
from dtq_engine import Dtq
app = Dtq()

@app.task("reports.build", queue="reports", priority=7)
def build(account_id: int) -> int:
    return account_id
"""


# submit


def test_submit_prints_the_id_alone_on_stdout(dtq, store):
    ran = dtq("submit", "mail", "to=ann", "n=3")
    assert (ran.code, ran.err) == (0, f"{AS_GIVEN}It waits in queue default.\n")
    assert store.inspect.get(ran.out.strip()).payload == b'{"to":"ann","n":3}'


def test_submit_takes_all_its_options(dtq, store):
    ran = dtq(
        *("submit", "mail", '{"n": 1}', "--queue", "night", "--priority", "9", "--delay", "5m", "--id", "m-1"),
        *("--idempotency-key", "k", "--expires-in", "1d", "--timeout", "30s", "--max-attempts", "2"),
    )
    assert (ran.code, ran.out, ran.err) == (0, "m-1\n", f"{AS_GIVEN}It is delayed for 5m 00s, in queue night.\n")
    task = store.inspect.get("m-1", queue="night")
    assert (task.priority, task.timeout_ms, task.retry.max_attempts, task.idempotency_key) == (9, 30_000, 2, "k")
    assert task.status == "pending"


def test_submit_with_json_prints_one_documented_value(dtq):
    assert dtq("submit", "mail", "--id", "m-1", "--json").json == {
        "line": None,
        "id": "m-1",
        "queue": "default",
        "outcome": "new",
        "status": "queued",
        "error": None,
        "warnings": [AS_GIVEN.strip()],
    }


def test_submitting_again_under_a_key_says_so(dtq):
    first = dtq("submit", "mail", "--idempotency-key", "k")
    again = dtq("submit", "mail", "--idempotency-key", "k")
    assert (again.code, again.out) == (0, first.out)
    assert again.err == "It was submitted before and is queued, in queue default.\n"


def test_submitting_what_is_unique_again_says_so(dtq):
    given = ("submit", "mail", "n=1", "--unique", "until_done", "--unique-key", "account {7}")
    first = dtq(*given)
    again = dtq(*given, "--json")
    assert (again.code, again.json["id"], again.json["outcome"]) == (0, first.out.strip(), "duplicate")


def test_a_throttled_task_is_told(dtq):
    given = ("submit", "mail", "--at-most", "1", "--per", "1m")
    first, again = dtq(*given), dtq(*given)
    assert (again.code, again.out) == (0, first.out)
    assert again.err == (
        "No more of these are accepted now; it is the latest that was and is queued, in queue default.\n"
    )


def test_a_debounced_task_is_told(dtq, store):
    first = dtq("submit", "mail", "n=1", "--debounce", "30s", "--debounce-max", "5m", "--unique-key", "k")
    assert "It is delayed for 30.0 s, in queue default." in first.err
    again = dtq("submit", "mail", "n=2", "--debounce", "30s", "--debounce-max", "5m", "--unique-key", "k")
    assert (again.code, again.out) == (0, first.out)
    assert again.err == "It waited there, is this task now, and waits from now on, in queue default.\n"
    assert store.inspect.get(first.out.strip()).payload == b'{"n":2}'


def test_a_task_may_wait_for_others(dtq, store, hand):
    hand.submit("a")
    hand.submit("b", queue="far")
    ran = dtq(
        "submit", "mail", "--id", "c", "--after", "a", "--after", "b", "--after", "a", "--on-parent-failure", "run"
    )
    assert (ran.code, ran.out, ran.err) == (0, "c\n", f"{AS_GIVEN}It waits for 2 tasks to end, in queue default.\n")
    nodes = store.trees.tree("c").nodes
    assert {(node.id, node.queue) for node in nodes} == {("a", "default"), ("b", "far"), ("c", "default")}
    hand.end(hand.claim_one("a"), DeadLetter(error(), "max_attempts"))
    assert store.inspect.get("c").reason == "waits_for_parents"
    alone = dtq("submit", "mail", "--after", "b")
    assert alone.err == f"{AS_GIVEN}It waits for 1 task to succeed, in queue default.\n"


def test_a_task_whose_parent_has_ended_is_told_as_what_it_is(dtq, store, hand):
    hand.end(hand.start("good"), Succeed(b"1"))
    hand.end(hand.start("bad"), DeadLetter(error(), "max_attempts"))
    assert dtq("submit", "mail", "--after", "good").err == f"{AS_GIVEN}It waits in queue default.\n"
    late = dtq("submit", "mail", "--id", "late", "--after", "bad")
    assert (late.code, late.err) == (
        0,
        f"{AS_GIVEN}It was cancelled at once, as a task that it waits for had failed, in queue default.\n",
    )
    assert dtq("submit", "mail", "--after", "bad", "--json").json["status"] == "cancelled"
    assert store.inspect.get("late").reason == "parent_failed:bad"


def test_who_cannot_wait_is_told_why(dtq, hand):
    hand.submit("a")
    ghost = dtq("submit", "mail", "--after", "a", "--after", "ghost")
    assert (ghost.code, ghost.out) == (2, "")
    assert ghost.err == "Error: There is no task ghost to wait for: check the id, or its time is over.\n"
    itself = dtq("submit", "mail", "--id", "x", "--after", "x")
    assert itself.err == "Error: task x cannot wait for itself: name another task.\n"
    alone = dtq("submit", "mail", "--on-parent-failure", "run")
    assert alone.code == 2
    assert "--on-parent-failure is about the tasks in --after: name some, or drop it." in alone.err
    assert dtq("submit", "mail", "--after", "not an id").code == 2
    assert dtq("submit", "mail", "--after", "a", "--on-parent-failure", "walk").code == 2
    assert "debounce" in dtq("submit", "mail", "--after", "a", "--debounce", "5s").err


def test_lines_of_a_file_may_wait_for_lines_further_up(dtq, store, hand):
    hand.submit("earlier")
    lines = (
        b'{"type":"mail","id":"a"}\n'
        b'{"type":"mail","id":"b","after":["a"],"queue":"far"}\n'
        b'{"type":"mail","id":"c","after":["a","b","earlier"],"on_parent_failure":"run"}\n'
        b'{"type":"mail","id":"d","after":["e"]}\n'
        b'{"type":"mail","id":"e"}\n'
        b'{"type":"mail","id":"f","on_parent_failure":"run"}\n'
        b'{"type":"mail","id":"g","after":"a"}\n'
        b'{"type":"mail","id":"h","after":["h"]}\n'
        b'{"type":"mail","id":"i","after":["no id"]}\n'
    )
    ran = dtq("submit", "--file", "-", "--json", stdin=lines)
    told = {line["line"]: line for line in ran.lines}
    assert [told[number]["status"] for number in (1, 2, 3, 5)] == ["queued", "blocked", "blocked", "queued"]
    errors = {number: told[number]["error"]["message"] for number in (4, 6, 7, 8, 9)}
    assert errors == {
        4: "There is no task e to wait for: check the id, or its time is over.",
        6: "on_parent_failure is about those in after: name some, or drop it.",
        7: "after: expected array | null, got str",
        8: "task h cannot wait for itself: name another task.",
        9: "id cannot be 'no id': use 1 to 64 letters, digits, '_' or '-'.",
    }
    tree = {node.id: [parent.id for parent in node.parents] for node in store.trees.tree("c").nodes}
    assert tree == {"a": [], "b": ["a"], "c": ["a", "b", "earlier"], "earlier": []}


def test_all_lines_of_a_file_wait_for_what_the_command_says(dtq, store, hand):
    hand.submit("a")
    lines = b'{"type":"mail","id":"b"}\n{"type":"mail","id":"c","after":[]}\n{"type":"mail","id":"d","after":["b"]}\n'
    ran = dtq("submit", "--file", "-", "--after", "a", "--on-parent-failure", "run", stdin=lines)
    assert ran.code == 0
    found = {node.id: [each.id for each in node.parents] for node in store.trees.tree("d").nodes}
    assert found == {"a": [], "b": ["a"], "d": ["b"]}
    assert store.inspect.get("c").status == "queued"
    hand.end(hand.claim_one("a"), DeadLetter(error(), "max_attempts"))
    assert store.inspect.get("b").status == "queued"


def test_a_line_whose_parent_was_refused_is_refused(dtq, store, monkeypatch):
    monkeypatch.setenv("DTQ_MAX_QUEUE_DEPTH", "1")
    lines = (
        b'{"type":"mail","id":"a"}\n{"type":"mail","id":"b"}\n{"type":"mail","id":"c","queue":"far","after":["b"]}\n'
    )
    ran = dtq("submit", "--file", "-", stdin=lines)
    assert ran.code == 1
    assert "line 2: queue default holds 1 tasks" in ran.err
    assert "line 3: There is no task b to wait for" in ran.err


def test_lines_of_a_file_may_be_alike(dtq):
    lines = (
        b'{"type":"mail","unique":"waiting"}\n{"type":"mail","unique":"waiting"}\n'
        b'{"type":"sms","at_most":1,"per":"1m"}\n{"type":"sms","at_most":1,"per":60}\n'
        b'{"type":"fax","debounce":5}\n{"type":"fax","debounce":"5s","debounce_max":60}\n'
        b'{"type":"bad","unique":"always"}\n{"type":"bad","at_most":1}\n{"type":"bad","debounce":5,"delay":5}\n'
    )
    ran = dtq("submit", "--file", "-", "--json", stdin=lines)
    answers = sorted(map(json.loads, ran.out.splitlines()), key=lambda answer: answer["line"])
    outcomes = [answer["outcome"] for answer in answers]
    assert outcomes == ["new", "duplicate", "new", "throttled", "new", "replaced", None, None, None]
    assert "line 7: " in ran.err
    assert "at_most and per say together" in ran.err
    assert ran.code == 1


def test_another_payload_under_a_key_is_refused(dtq):
    dtq("submit", "mail", "a=1", "--idempotency-key", "k")
    ran = dtq("submit", "mail", "a=2", "--idempotency-key", "k")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)


def test_a_full_queue_is_exit_code_1(dtq, monkeypatch):
    monkeypatch.setenv("DTQ_MAX_QUEUE_DEPTH", "1")
    dtq("submit", "mail")
    ran = dtq("submit", "mail")
    assert ran.code == 1
    assert ran.err.startswith("Error: ")


def test_a_wrong_task_is_exit_code_2(dtq):
    assert dtq("submit", "not a type").code == 2
    assert dtq("submit", "mail", "--queue", "Not A Queue").code == 2


def test_submit_uses_what_the_app_says_about_a_type(dtq, store, tmp_path, monkeypatch):
    (tmp_path / "cli_handlers.py").write_text(HANDLERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    ran = dtq("submit", "reports.build", "account_id=7", "--app", "cli_handlers:app")
    assert store.inspect.get(ran.out.strip()).queue == "reports"
    wrong = dtq("submit", "reports.build", "acount_id=7", "--app", "cli_handlers:app")
    assert wrong.code == 2
    assert "account_id" in wrong.err


def test_a_type_that_the_app_does_not_know_is_accepted_with_a_warning(dtq, store, tmp_path, monkeypatch):
    (tmp_path / "other_cli_handlers.py").write_text(HANDLERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    ran = dtq("submit", "report.build", "--app", "other_cli_handlers:app")
    assert store.inspect.get(ran.out.strip()).status == "queued"
    warning = ran.err.splitlines()[0]
    assert warning.startswith("Submitted as given: other_cli_handlers:app has no handler of report.build")
    assert warning.endswith("did you mean reports.build?")
    assert dtq("submit", "report.build", "--app", "other_cli_handlers:app", "--json").json["warnings"] == [warning]
    known = dtq("submit", "reports.build", "account_id=7", "--app", "other_cli_handlers:app", "--json")
    assert known.json["warnings"] == []


def test_without_an_app_a_type_that_no_living_worker_has_is_told_with_what_it_may_be(dtq, store):
    store.workers.beat(replace(info("w1"), types=("reports.build", "reports.built", "mail")), 30)
    assert dtq("submit", "mail").err.splitlines(keepends=True)[0] == AS_GIVEN
    assert dtq("submit", "report.build").err.splitlines()[0] == (
        "Submitted as given: no living worker has a handler of report.build; did you mean reports.build or "
        f"reports.built? W{AS_GIVEN.strip().partition('; w')[2]}"
    )
    assert "has a handler of qqqq. With --app" in dtq("submit", "qqqq").err


def test_a_file_of_types_without_handlers_is_warned_of_once_and_with_json_line_by_line(dtq):
    lines = b'{"type":"mail"}\n' * 3
    assert dtq("submit", "--file", "-", stdin=lines).err.splitlines(keepends=True)[1:] == [AS_GIVEN]
    told = dtq("submit", "--file", "-", "--json", stdin=lines)
    assert [line["warnings"] for line in told.lines] == [[AS_GIVEN.strip()]] * 3
    assert AS_GIVEN not in told.err


def test_submit_wait_prints_the_result(dtq, store):
    hand = Hand(store)

    def work() -> None:
        claim = wait_until(hand.claim)[0]
        hand.end(claim, Succeed(b'{"sent":true}'))

    worker = threading.Thread(target=work)
    worker.start()
    ran = dtq("submit", "mail", "--id", "m-1", "--wait", "10s")
    worker.join()
    assert (ran.code, json.loads(ran.out), ran.err) == (0, {"sent": True}, f"{AS_GIVEN}m-1\n")


# submit --file


def test_a_file_is_submitted_and_its_bad_lines_are_named(dtq, store, tmp_path):
    file = tmp_path / "tasks.ndjson"
    file.write_text('{"type":"mail","id":"a"}\n\n{bad\n{"type":"mail","id":"b","queue":"night"}\n{"type":"x y"}\n')
    ran = dtq("submit", "--file", str(file), "--priority", "2")
    assert (ran.code, ran.out) == (1, "")
    complaints = ran.err.splitlines()
    assert complaints[0].startswith("line 3: this is not a JSON object on one line")
    assert complaints[1].startswith("line 5: type cannot be 'x y'")
    assert complaints[2].startswith("Submitted 2 tasks in ")
    assert complaints[2].endswith("; 2 lines refused.")
    assert [(task.queue, task.priority) for task in store.inspect.find(["a", "b"])] == [("default", 2), ("night", 2)]


def test_stdin_is_submitted_with_a_line_of_json_for_each_task(dtq):
    ran = dtq(
        "submit", "--file", "-", "--json", stdin=b'{"type":"mail","id":"a"}\n{"typ":"mail"}\n{"type":"mail","id":"b"}'
    )
    assert ran.code == 1
    told = {line["line"]: line for line in ran.lines}
    assert [told[number]["id"] for number in (1, 2, 3)] == ["a", None, "b"]
    assert told[2]["error"] == {
        "code": "InvalidTask",
        "message": "'typ' is not a field of a task; did you mean 'type'?",
    }


def test_a_big_file_goes_in_chunks_and_counts_its_tasks(dtq, store, monkeypatch):
    calls = []

    def counted(app: Dtq, tasks: Sequence[NewTask]) -> list[submission.Answer]:
        calls.append(len(tasks))
        return submission.submit_each(app, tasks)

    monkeypatch.setattr(bulk, "submit_each", counted)
    ran = dtq("submit", "--file", "-", stdin=b'{"type":"mail"}\n' * 1_234)
    assert (ran.code, calls) == (0, [500, 500, 234])
    assert "Submitted 1,234 tasks" in ran.err
    assert store.inspect.queue("default").waiting == 1_234


def test_a_line_too_long_is_refused_and_the_next_one_read(dtq, monkeypatch, store):
    monkeypatch.setattr(bulk, "LINE_BYTES", 64)
    long = b'{"type":"mail","payload":{"x":"' + b"x" * 500 + b'"}}\n'
    ran = dtq("submit", "--file", "-", stdin=long + b'{"type":"mail","id":"a"}\n')
    assert ran.err.startswith("line 1: the line is longer than 64 bytes.\n")
    assert store.inspect.get("a").type == "mail"


def test_many_refused_lines_do_not_flood_the_terminal(dtq):
    ran = dtq("submit", "--file", "-", stdin=b"bad\n" * 1_000)
    assert ran.code == 1
    assert len(ran.err.splitlines()) == 22
    assert ran.err.endswith("; 1,000 lines refused.\n")


def test_a_server_that_goes_away_half_way_stops_the_file_and_tells_where(dtq, make_server, monkeypatch):
    server = make_server()
    monkeypatch.setenv("DTQ_REDIS_URL", server.url)
    lines = (b'{"type":"mail"}\n' for _ in range(1_500))

    class Input(io.BytesIO):
        reads = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            self.reads += 1
            if self.reads == 600:
                server.stop()
            return next(lines, b"")

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Input()))
    ran = dtq("submit", "--file", "-")
    assert ran.code == 2
    assert ran.err.splitlines()[0].startswith("Submitted 500 tasks in ")
    assert ran.err.splitlines()[1].startswith("Stopped: lines 501 to 1000 may be in or not")
    assert ran.err.splitlines()[2].startswith("Error: Redis ")


# status, result, list


def test_status_of_one_task_is_told_in_full(dtq, hand):
    hand.submit("m-1", payload=b'{"to":"ann"}', retry=RetryPolicy(max_attempts=1))
    hand.end(hand.claim_one("m-1"), DeadLetter(error("no \x1b[31mroute"), "max_attempts"))
    ran = dtq("status", "m-1")
    assert ran.code == 0
    assert "dead_lettered" in ran.out
    assert '{"to":"ann"}' in ran.out
    assert r"ValueError: no \x1b[31mroute" in ran.out
    assert "\x1b[31mroute" not in ran.out


def test_status_of_several_tasks_is_a_table_and_missing_ones_are_exit_code_1(dtq, hand):
    hand.submit("m-1", "m-2")
    ran = dtq("status", "m-1", "nope", "m-2")
    assert (ran.code, len(ran.out.splitlines())) == (1, 3)
    assert ran.err.startswith("Error: There is no task nope")
    shown = dtq("status", "m-1", "nope", "--json")
    assert (shown.code, shown.json["missing"], shown.json["tasks"][0]["status"]) == (1, ["nope"], "queued")


def test_result_prints_the_value(dtq, hand):
    hand.end(hand.start("m-1"), Succeed(b'{"n": 12345678901234567890}'))
    ran = dtq("result", "m-1")
    assert (ran.code, ran.out) == (0, '{\n  "n": 12345678901234567890\n}\n')
    assert dtq("result", "m-1", "--json").json["result"] == {"n": 12345678901234567890}


def test_a_result_of_none_is_null(dtq, hand):
    hand.end(hand.start("m-1"), Succeed(None))
    assert dtq("result", "m-1").out == "null\n"


def test_no_result_yet_is_exit_code_1_and_says_how_to_wait(dtq, hand):
    hand.submit("m-1")
    ran = dtq("result", "m-1")
    assert (ran.code, ran.out) == (1, "")
    assert "it is queued; wait for it: dtq result m-1 --wait 60s" in ran.err
    assert dtq("result", "m-1", "--wait", "50ms").code == 1


def test_a_failed_task_has_its_error_instead_of_a_result(dtq, hand):
    hand.end(hand.start("m-1"), DeadLetter(error(), "permanent"))
    ran = dtq("result", "m-1")
    assert ran.code == 1
    assert ran.err == (
        "Error: task m-1 was dead-lettered after 1 of 12 attempts: ValueError: it did not work; "
        "all that is known: dtq status m-1\n"
    )


def test_an_unknown_task_is_exit_code_1(dtq):
    for command in (["status", "nope"], ["result", "nope"], ["cancel", "nope"], ["dlq", "requeue", "nope"]):
        ran = dtq(*command)
        assert (ran.code, ran.err.startswith("Error: ")) == (1, True), command


def test_list_filters_and_goes_on_by_cursor(dtq, hand):
    hand.submit("m-1", "m-2", "m-3")
    hand.submit("r-1", type="report")
    assert {task["id"] for task in dtq("list", "--type", "report", "--json").json["tasks"]} == {"r-1"}
    assert dtq("list", "--status", "running", "--json").json == {
        "tasks": [],
        "cursor": None,
        "missing": [],
        "complete": True,
    }
    first = dtq("list", "--limit", "3", "--json").json
    rest = dtq("list", "--limit", "3", "--cursor", first["cursor"], "--json").json
    assert {task["id"] for task in first["tasks"] + rest["tasks"]} == {"m-1", "m-2", "m-3", "r-1"}
    assert rest["cursor"] is None


def test_status_and_result_word_an_unknown_task_alike(dtq):
    for options in ([], ["--queue", "night"]):
        assert dtq("status", "nope", *options).err == dtq("result", "nope", *options).err


def test_an_id_or_a_name_that_cannot_be_is_wrong_usage(dtq, hand):
    hand.submit("m-1")
    for command in (
        *(["status", ""], ["result", "a b"], ["cancel", ""], ["dlq", "requeue", ""], ["dlq", "discard", "a b"]),
        *(["list", "--queue", "A B"], ["list", "--type", ""], ["dlq", "list", "--queue", ""], ["queues", "A B"]),
    ):
        ran = dtq(*command)
        assert (ran.code, ran.out, "cannot be" in ran.err) == (2, "", True), command


def test_a_search_that_found_nothing_yet_is_told_from_one_that_ended(dtq, hand, monkeypatch):
    hand.submit("m-1", "m-2", "m-3")
    monkeypatch.setattr("dtq_engine.store.listing.ROW_BUDGET", 2)
    ran = dtq("list", "--type", "report", "--limit", "1")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("None found so far among the tasks looked at; go on with --cursor ")
    page = dtq("list", "--type", "report", "--limit", "1", "--json").json
    assert (page["tasks"], page["complete"]) == ([], False)
    rest = dtq("list", "--type", "report", "--limit", "1", "--cursor", ran.err.split()[-1])
    assert rest.err == "No task matches.\n"


def test_an_error_without_a_message_has_no_colon(dtq, hand):
    hand.end(hand.start("m-1"), DeadLetter(AttemptError("KeyboardInterrupt", ""), "permanent"))
    shown = [dtq(*command) for command in (["list"], ["status", "m-1"], ["result", "m-1"], ["dlq", "list"])]
    for ran in shown:
        assert "KeyboardInterrupt" in ran.out + ran.err
        assert "KeyboardInterrupt:" not in ran.out + ran.err


def test_list_is_a_table_with_times_from_now(dtq, hand):
    hand.submit("m-1")
    head, row = dtq("list").out.splitlines()
    assert head.split()[:4] == ["ID", "TYPE", "QUEUE", "STATUS"]
    assert row.split()[:4] == ["m-1", "mail", "default", "queued"]
    assert row.split()[6] in {"now", "1s"}


def test_an_empty_list_says_so_on_stderr(dtq):
    ran = dtq("list")
    assert (ran.code, ran.out, ran.err) == (0, "", "No task matches.\n")


def test_a_wrong_cursor_is_a_sentence(dtq, hand):
    hand.submit("m-1")
    assert dtq("list", "--cursor", "zzz").err.startswith("Error: This cursor is not one of ours")


def test_a_type_that_another_program_made_up_cannot_act_on_the_terminal(dtq, hand, client, settings):
    hand.submit("m-1")
    client.hset(f"{settings.prefix}:task:{{default}}:m-1", "t", b"\x1b]0;owned\x07mail")
    assert r"\x1b]0;owned\x07mail" in dtq("list").out
    assert r"\x1b]0;owned\x07mail" in dtq("status", "m-1").out


# cancel, queues, pause, resume


def test_cancel_ends_what_waits_and_says_what_it_did(dtq, hand):
    hand.start("m-1")
    hand.submit("m-2")
    ran = dtq("cancel", "m-1", "m-2", "--reason", "ordered twice")
    assert (ran.code, hand.status("m-2")) == (0, "cancelled")
    assert ran.out == "m-1  is running; its worker was told to stop it\nm-2  cancelled\n"
    again = dtq("cancel", "m-2", "--json")
    assert (again.code, again.json["results"][0]["outcome"]) == (1, "finished")


def test_queues_shows_each_queue_with_its_numbers(dtq, hand):
    hand.submit("m-1", "m-2", priority=9)
    hand.end(hand.claim_one())
    (queue,) = dtq("queues", "--json").json["queues"]
    assert {name: queue[name] for name in ("queue", "depth", "waiting", "succeeded", "paused", "workers")} == {
        "queue": "default",
        "depth": 1,
        "waiting": 1,
        "succeeded": 1,
        "paused": False,
        "workers": 0,
    }
    assert queue["waiting_by_priority"] == {"9": 1}
    assert "no worker serves it" in dtq("queues", "default").out


def test_a_queue_is_paused_and_resumed(dtq, hand):
    hand.submit("m-1")
    assert dtq("pause", "default", "--reason", "upgrade").out == "default is paused; go on with: dtq resume default\n"
    assert "paused: upgrade" in dtq("queues").out
    assert hand.claim() == []
    assert dtq("resume", "default", "--json").json == {"queue": "default", "paused": False}
    assert len(hand.claim()) == 1


def test_a_queue_that_does_not_exist_is_not_paused(dtq, hand):
    hand.submit("m-1")
    ran = dtq("pause", "defualt")
    assert (ran.code, ran.err) == (1, "Error: There is no queue defualt; did you mean default?\n")
    assert [dtq(verb, "nope").code for verb in ("queues", "resume")] == [1, 1]
    assert dtq("queues", "nope", "--json").json["error"]["code"] == "QueueNotFound"


def test_no_queue_yet_is_no_error(dtq):
    ran = dtq("queues")
    assert (ran.code, ran.out) == (0, "")
    assert dtq("queues", "--json").json == {"queues": []}


# dlq


@pytest.fixture
def dead(hand) -> list[str]:
    """Three dead letters, of two types."""
    names = ["m-1", "m-2", "r-1"]
    hand.submit("m-1", "m-2")
    hand.submit("r-1", type="report")
    digest = hand.store.workers.announce(["default"], ["mail", "report"])
    hand.digest = digest
    for claim in hand.claim():
        hand.end(claim, DeadLetter(error(), "permanent"))
    return names


def test_dead_letters_are_listed(dtq, dead):
    head, *rows = dtq("dlq", "list").out.splitlines()
    assert head.split() == ["ID", "TYPE", "QUEUE", "DIED", "ATTEMPTS", "REASON", "ERROR"]
    assert sorted(row.split()[0] for row in rows) == dead
    letters = dtq("dlq", "list", "--json").json["dead_letters"]
    assert {letter["reason"] for letter in letters} == {"permanent"}


def test_dead_letters_are_requeued_by_id(dtq, dead, hand):
    ran = dtq("dlq", "requeue", "m-1", "r-1")
    assert (ran.code, ran.out) == (0, "Requeued 2 tasks.\n")
    assert [hand.status(each) for each in dead] == ["queued", "dead_lettered", "queued"]


def test_requeueing_in_bulk_asks_unless_told_not_to(dtq, dead, hand):
    asked = dtq("dlq", "requeue", "--all", stdin=b"y\n")
    assert asked.code == 2
    assert "repeat the command with --yes" in asked.err
    ran = dtq("dlq", "requeue", "--type", "mail", "--yes", "--json")
    assert (ran.code, {line["id"]: line["outcome"] for line in ran.lines}) == (
        0,
        {"m-1": "requeued", "m-2": "requeued"},
    )
    assert hand.status("r-1") == "dead_lettered"


def test_a_dead_letter_is_discarded_with_its_task(dtq, dead, store):
    assert dtq("dlq", "discard", "--all", "--yes").out == "Discarded 3 tasks.\n"
    assert store.inspect.find(dead) == [None, None, None]


def test_what_cannot_be_requeued_does_not_stop_the_others(dtq, dead, hand):
    hand.submit("m-3")
    ran = dtq("dlq", "requeue", "m-3", "m-1")
    assert (ran.code, ran.out) == (1, "Requeued 1 task.\n")
    assert ran.err.startswith("Error: Task m-3 is queued")


def test_a_cancelled_task_can_be_requeued_too(dtq, hand):
    hand.end(hand.start("m-1"), Cancel(error()))
    assert dtq("dlq", "requeue", "m-1").code == 0


# The process


def dtq_process(settings, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "dtq_engine.cli", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environ_of(settings), cwd=ROOT, **{**pipes, **options})


def test_a_reader_that_leaves_early_causes_no_noise(settings, hand):
    hand.submit(*(f"m-{number}" for number in range(200)))
    listing = dtq_process(settings, "list", "--limit", "200", "--json")
    assert listing.stdout is not None
    listing.stdout.close()
    _, err = listing.communicate(timeout=20)
    assert (err, listing.returncode) == ("", 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_sentence_and_exit_code_2(settings, hand):
    hand.submit("m-1")
    for command in (["list"], ["list", "--json"], ["--help"], ["pause", "nope", "--json"]):
        with Path("/dev/full").open("w") as full:
            ran = dtq_process(settings, *command, stdout=full)
            _, err = ran.communicate(timeout=20)
        assert (ran.returncode, err.splitlines()[-1:]) == (2, [NO_SPACE]), command
    with Path("/dev/full").open("w") as full:
        ran = dtq_process(settings, "status", "nope", stderr=full)
        assert ran.communicate(timeout=20)[0] == ""
    assert ran.returncode == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_fault(settings, hand, closed):
    hand.submit("m-1")
    for command, codes in (("list", [0]), ("queues --json", [0]), ("status nope", [1])):
        ran = shell(settings, f"{command} {closed}")
        assert (ran.returncode in codes, "not expected" in ran.stderr) == (True, False), command
        assert len(ran.stderr.splitlines()) <= 1


def test_a_closed_standard_input_cannot_be_submitted(settings, hand):
    ran = shell(settings, "submit --file - <&-")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "Error: standard input is closed: name a file, or send the lines through a pipe.\n"


def shell(settings, command: str) -> "subprocess.CompletedProcess[str]":
    """Run `dtq` with the redirections of a shell."""
    line = f"{shlex.quote(sys.executable)} -m dtq_engine.cli {command}"
    return subprocess.run(
        line, shell=True, env=environ_of(settings), cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
    )


@pytest.mark.parametrize("command", [["list"], ["queues"], ["dlq", "list"]])
def test_tables_fit_the_terminal_and_are_whole_elsewhere(settings, hand, command):
    hand.digest = hand.store.workers.announce(["default"], ["reports.of.the.month.build"])
    for number in range(3):
        hand.end(
            hand.start(f"01K8ME0V9VJ3X0D1M2Q6ZB7C5{number}", type="reports.of.the.month.build"),
            DeadLetter(error("it did not work for a long and winding reason"), "max_attempts"),
        )
    for columns in (60, 80):
        lines = on_a_terminal(settings, {"NO_COLOR": "1", "COLUMNS": str(columns)}, command).splitlines()
        assert max(map(len, lines[:2])) <= columns
    assert "…" not in dtq_process(settings, *command).communicate(timeout=20)[0]


def test_colours_are_only_for_terminals_and_not_with_no_color(settings, hand):
    hand.end(hand.start("m-1"))
    plain = dtq_process(settings, "list").communicate(timeout=20)[0]
    assert "\x1b" not in plain
    assert "\x1b[32msucceeded" in on_a_terminal(settings, {})
    assert "\x1b[" not in on_a_terminal(settings, {"NO_COLOR": "1"})


def on_a_terminal(settings, environ: dict[str, str], arguments: Sequence[str] = ("list",)) -> str:
    """What `dtq list`, or another command, prints on a terminal."""
    terminal, end = os.openpty()
    command = [sys.executable, "-m", "dtq_engine.cli", *arguments]
    subprocess.run(command, env=environ_of(settings) | environ, cwd=ROOT, stdout=end, check=True, timeout=20)
    os.close(end)
    shown = os.read(terminal, 100_000).decode()
    os.close(terminal)
    return shown
