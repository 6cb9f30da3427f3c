"""The documented states are the real ones."""

import re
from pathlib import Path

from dtq_engine.model import FINAL, REQUEUEABLE, TRANSITIONS, TaskStatus

PAGE = (Path(__file__).parents[2] / "docs" / "states.md").read_text()


def test_the_diagram_shows_exactly_the_transitions_that_exist():
    drawn = {(source, target) for source, target in re.findall(r"^ +([A-Z_]+) --> ([A-Z_]+) :", PAGE, re.MULTILINE)}
    assert drawn == {(source.name, target.name) for source, targets in TRANSITIONS.items() for target in targets}


def test_the_diagram_begins_where_submitted_tasks_do_and_ends_where_no_way_leads_on():
    assert set(re.findall(r"\[\*\] --> ([A-Z_]+)", PAGE)) == {"PENDING", "QUEUED", "BLOCKED"}
    assert set(re.findall(r"([A-Z_]+) --> \[\*\]", PAGE)) == {each.name for each in TaskStatus if not TRANSITIONS[each]}


def test_the_table_explains_every_status_the_final_ones_last():
    explained = re.findall(r"^\| ([A-Z_]+) \|", PAGE, re.MULTILINE)
    assert sorted(explained) == sorted(each.name for each in TaskStatus)
    assert set(explained[-len(FINAL) :]) == {each.name for each in FINAL}


def test_only_a_requeue_leads_out_of_a_final_status():
    for status in FINAL:
        assert (TaskStatus.QUEUED in TRANSITIONS[status]) == (status in REQUEUEABLE)
        assert TRANSITIONS[status] <= {TaskStatus.QUEUED, TaskStatus.BLOCKED}
