"""`dtq tree`, and what `dtq status` and `dtq requeue` say of tasks that wait for others."""

import pytest

from dtq_engine import workflow
from dtq_engine.branches import branches
from dtq_engine.errors import TaskNotFound
from dtq_engine.model import DeadLetter, NewTask, Parent, Relative, Tree, TreeNode
from tests.store.hand import error


def task(task_id: str, *parents: str, queue: str = "default") -> NewTask:
    places = [each.rpartition("@") for each in parents]
    after = tuple(Parent(name, where or "default") for where, _, name in places)
    return NewTask(id=task_id, type="mail", queue=queue, after=after)


@pytest.fixture
def flow(store):
    """A diamond over two queues: a, then b and c (elsewhere), then d."""
    tasks = [task("a"), task("b", "a"), task("c", "a", queue="far"), task("d", "b", "far@c")]
    for batch in workflow.batches(tasks):
        store.intake.submit(batch)


def test_a_tree_shows_each_task_below_those_that_it_waits_for(dtq, flow, hand):
    ran = dtq("tree", "d")
    assert (ran.code, ran.out.splitlines()) == (
        0,
        [
            "a  mail  default  queued",
            "  b  mail  default  blocked  (waits_for_parents)",
            "    d  mail  default  blocked  (waits_for_parents)",
            "  c  mail  far  blocked  (waits_for_parents)",
            "    d  mail  default  blocked  (waits_for_parents)  (as above)",
        ],
    )
    hand.end(hand.claim_one("a"), DeadLetter(error(), "max_attempts"))
    assert "b  mail  default  cancelled  (parent_failed:a)" in dtq("tree", "a").out


def test_a_tree_as_json_has_the_nearest_tasks_first(dtq, flow):
    found = dtq("tree", "b", "--json").json
    assert (found["id"], found["queue"], found["complete"]) == ("b", "default", True)
    assert [node["id"] for node in found["nodes"]] == ["b", "a", "d", "c"]
    assert found["nodes"][1]["children"] == [{"id": "b", "queue": "default"}, {"id": "c", "queue": "far"}]
    cut = dtq("tree", "b", "--limit", "2", "--json").json
    assert (len(cut["nodes"]), cut["complete"]) == (2, False)
    assert "There are more: these are the 2 nearest" in dtq("tree", "b", "--limit", "2").err


def test_a_task_without_links_is_a_tree_of_its_own(dtq, hand):
    hand.submit("x")
    assert dtq("tree", "x").out.splitlines() == ["x  mail  default  queued"]
    ran = dtq("tree", "ghost")
    assert (ran.code, "There is no task ghost" in ran.err) == (1, True)


def test_status_names_parents_and_children(dtq, flow):
    lines = dtq("status", "b").out.splitlines()
    assert any(line.split() == ["waits", "for", "a"] for line in lines)
    assert any(line.split() == ["followed", "by", "d"] for line in lines)
    assert "waits for" not in dtq("status", "a").out


def test_a_child_that_cannot_be_requeued_alone_is_told_so(dtq, flow, hand):
    hand.end(hand.claim_one("a"), DeadLetter(error(), "max_attempts"))
    ran = dtq("requeue", "b", "--yes")
    assert (ran.code, "requeue that one" in ran.err) == (1, True)


def test_tasks_that_are_gone_stay_in_the_tree_by_their_ids(store, flow, hand):
    hand.end(hand.claim_one("a"), DeadLetter(error(), "max_attempts"))
    store.control.discard("a")
    nodes = {node.id: node for node in store.trees.tree("d").nodes}
    assert (nodes["a"].status, nodes["a"].type) == (None, None)
    with pytest.raises(TaskNotFound):
        store.trees.tree("a")


def test_links_that_damage_has_made_a_circle_end_somewhere():
    circle = tuple(
        TreeNode(id=one, queue="q", type="t", status=None, reason=None, parents=(Relative(other, "q"),) * 1,
                 children=(Relative(other, "q"),))
        for one, other in (("a", "b"), ("b", "a"))
    )  # fmt: skip
    assert [(each.id, each.depth) for each in branches(Tree(Relative("a", "q"), circle))] == [
        ("a", 0),
        ("b", 1),
        ("a", 2),
    ]
