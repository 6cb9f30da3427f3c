"""Stories too rare to wait for: several tasks of one call for which the same other one stands."""

from dtq_engine.model import Deduplication, NewTask
from tests.explore.calls.intake import Submit
from tests.explore.calls.schedule import Advance, Promote
from tests.explore.world import Server

PATIENT = Deduplication(debounce_ms=6_000, key="d")
HURRIED = Deduplication(debounce_ms=20_000, debounce_max_ms=30_000, key="d")


def test_of_several_that_replace_a_debounced_task_the_last_says_until_when_it_waits(server: Server):
    for first, last in ((PATIENT, HURRIED), (HURRIED, PATIENT)):
        world = server.new_world()
        world.perform(Submit((NewTask(id="t0", type="a", deduplication=first),)))
        world.perform(Advance(40_000))
        twice = (NewTask(id="t1", type="a", deduplication=first), NewTask(id="t2", type="a", deduplication=last))
        receipts = world.perform(Submit(twice))
        assert [receipt.id for receipt in receipts] == ["t0", "t0"]
        assert world.perform(Promote()).moved == (last is HURRIED)
