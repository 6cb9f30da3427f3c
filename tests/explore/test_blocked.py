"""Stories too rare to wait for: tasks that are blocked, start, and are blocked again."""

from dtq_engine.model import AttemptError, Block, Claim, NewTask, Reschedule, TaskStatus
from tests.explore.calls.control import Announce
from tests.explore.calls.intake import Submit
from tests.explore.calls.leases import Finalize, Take
from tests.explore.calls.schedule import Advance, Promote
from tests.explore.world import Server, World

OLD, NEW = ("a",), ("a", "b")
REFUSE = Block("payload_misfit:b")


def blocked_world(server: Server) -> World:
    """One task that waits for a worker that knows its type, for at most 30 s."""
    world = server.new_world(unknown_type_grace_s=30)
    world.perform(Submit((NewTask(id="t", type="b"),)))
    assert take(world, "c1", OLD) == ()
    assert world.now.status("t") is TaskStatus.BLOCKED
    return world


def take(world: World, token: str, build: tuple[str, ...]) -> tuple[Claim, ...]:
    digest = world.perform(Announce(build))
    world.perform(Promote())
    claims: tuple[Claim, ...] = world.perform(Take("w1", token, 1, build, digest)).claims
    return claims


def test_a_task_that_no_worker_can_run_dies_after_the_grace_though_one_started_it(server: Server):
    world = blocked_world(server)
    for token in ("c2", "c3"):
        world.perform(Advance(20_000))
        (claim,) = take(world, token, NEW)
        world.perform(Finalize(((claim, REFUSE),)))
    assert world.now.status("t") is TaskStatus.DEAD_LETTERED


def test_an_outcome_ends_the_wait_so_that_the_grace_begins_anew(server: Server):
    world = blocked_world(server)
    (claim,) = take(world, "c2", NEW)
    world.perform(Finalize(((claim, Reschedule(AttemptError("ValueError", "no"), 0)),)))
    world.perform(Advance(40_000))
    (claim,) = take(world, "c3", NEW)
    world.perform(Finalize(((claim, REFUSE),)))
    assert world.now.status("t") is TaskStatus.BLOCKED
