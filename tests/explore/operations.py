"""What can happen next in a history. A new operation is one function and one line in OPERATIONS."""

from collections.abc import Callable
from dataclasses import dataclass

from dtq_engine.model import (
    AttemptError,
    Block,
    Cancel,
    Claim,
    ClaimStatus,
    DeadLetter,
    Deduplication,
    LeaseExpired,
    NewTask,
    Postpone,
    Release,
    Reschedule,
    RetryPolicy,
    Succeed,
    TaskStatus,
    Transition,
    Unique,
)
from dtq_engine.periodic import next_turn
from dtq_engine.policy import decide
from tests.explore.calls.control import (
    CancelTask,
    DiscardTask,
    Pause,
    Purge,
    Reprioritise,
    RequeueTask,
    Resume,
    RunNow,
)
from tests.explore.calls.crew import Gone, Started
from tests.explore.calls.intake import Submit
from tests.explore.calls.leases import Finalize, Renew, Take
from tests.explore.calls.limits import CHOICES, ClearLimit, Declare, SetLimit
from tests.explore.calls.periodic import BEATS, Deal, Define, Hold, Trigger, Withdraw, known_here
from tests.explore.calls.reports import Keep, Say
from tests.explore.calls.schedule import Advance, Promote, Reclaim, Retire, Sweep, Trim
from tests.explore.damage import harm, hurt
from tests.explore.snapshot import QUEUE
from tests.explore.stage import OLD_TYPES, TYPES, Stage
from tests.explore.weaving import carry, link, link_apart, relay, weave, weave_apart

BIG = "x" * 100
ALIKE = (
    Deduplication(unique=Unique.WAITING, key="u"),
    Deduplication(unique=Unique.UNTIL_DONE, key="u"),
    Deduplication(unique=Unique.UNTIL_DONE, key="u2"),
    Deduplication(at_most=2, per_ms=40_000, key="t"),
    Deduplication(unique=Unique.WAITING, at_most=1, per_ms=9_000, key="u3"),
    Deduplication(debounce_ms=6_000, key="d"),
    Deduplication(debounce_ms=20_000, debounce_max_ms=30_000, key="d"),
)
LIMITS = ((),) * 6 + (("one",), ("few/x",), ("few/y",), ("few/x", "one"), ("one", "few/y"), ("paced",))
JUMPS_MS = (1, 50, 1_000, 8_000, 20_000, 40_000, 61_000, 600_000, -20, -3_600_000)
JUMP_WEIGHTS = (2, 2, 3, 3, 2, 5, 2, 0.3, 0.5, 0.3)


@dataclass(frozen=True)
class Operation:
    """Something that happens with this weight, and this much more for each unit of damage."""

    act: Callable[[Stage], object]
    weight: float
    damage: float = 0.0


def submit(stage: Stage) -> None:
    """A producer submits some tasks, now and then one that it submitted before."""
    tasks = [_new_task(stage) for _ in range(stage.dice.choice((1, 1, 1, 2, 4)))]
    if stage.dice.random() < 0.2 and (known := stage.some_task()):
        tasks.append(stage.world.promises.tasks[known].task)
    stage.send(Submit(tasks=tuple(tasks)), late=True)


def _new_task(stage: Stage) -> NewTask:
    dice = stage.dice
    now_ms = stage.world.now.now_ms
    payload = dice.choice((b"{}", b'{"n":1}', b'{"n":"%s"}' % BIG.encode()))
    wanted = dice.choice(ALIKE) if dice.random() < 0.4 else None
    waits = wanted is not None and wanted.debounce_ms is not None
    return NewTask(
        id=stage.name("t"),
        queue=stage.queue,
        type=dice.choice(("a", "a", "a", "b", "c")),
        payload=payload,
        priority=dice.choice((0, 4, 5, 9)),
        delay_ms=0 if waits else dice.choice((0,) * 7 + (500, 5_000, 60_000)),
        run_at_ms=None if waits else dice.choice((None,) * 12 + (now_ms - 5_000, now_ms + 30_000)),
        expires_in_ms=dice.choice((None,) * 8 + (3_000, 45_000)),
        timeout_ms=dice.choice((1_000, 35_000, 300_000)),
        retry=RetryPolicy(dice.choice((1, 2, 3)), dice.choice((0, 700, 20_000)), 60_000, dice.choice((0.0, 0.2))),
        idempotency_key=dice.choice((None, None, None, "k1", "k2")),
        headers=dice.choice(({}, {"a": "1"}, {"a": BIG})),
        keep_result=dice.random() < 0.8,
        restartable=dice.random() < 0.5,
        deduplication=wanted,
        limits=dice.choice(LIMITS),
    )


def claim(stage: Stage) -> None:
    """A worker claims; without its types published it publishes them and tries again."""
    worker, build = stage.dice.choice((("w1", OLD_TYPES), ("w2", TYPES), ("w3", TYPES)))
    digest = stage.digests.get(build) or stage.announce(build)
    call = Take(worker, stage.name("c"), stage.dice.choice((1, 2, 5, 100)), build, digest)
    answer = stage.ask(call)
    if answer is not None and answer.status is ClaimStatus.TYPES:
        stage.announce(build)
        answer = stage.ask(call)
    stage.hold(answer.claims if answer is not None else ())


def claim_again(stage: Stage) -> None:
    """A worker that had no answer to a claim asks again under the same token, for as long as it takes."""
    answer = stage.ask_again()
    stage.hold(answer.claims if answer is not None else ())


def renew(stage: Stage) -> None:
    """A worker's heartbeat, for all it holds or thinks it holds."""
    if claims := stage.holdings():
        overdue = frozenset(claim.key for claim in claims if stage.dice.random() < 0.3)
        ran_ms = stage.dice.choice((None, None, 0, claims[0].timeout_ms, 10**9))
        stage.send(Renew(tuple(claims), overdue, ran_ms), late=True)


def finalize(stage: Stage) -> None:
    """A worker ends some of its executions."""
    claims = stage.draw(3)
    items = [(claim, _some_end(stage, claim)) for claim in claims]
    if items and stage.dice.random() < 0.1:
        items.append(items[0])
    if items:
        stage.send(Finalize(tuple(items)), late=True)


def finalize_with_a_key_misplaced(stage: Stage) -> None:
    """Ends that a damaged key refuses change nothing, and the others are recorded."""
    claims, keys = stage.draw(4), stage.world.store.keys
    if claims:
        indexes = (keys.index(QUEUE, status) for status in (TaskStatus.SUCCEEDED, TaskStatus.CANCELLED))
        misplaced = stage.dice.choice((*indexes, keys.retry_schedule(QUEUE), keys.dead_letters(QUEUE)))
        stage.world.promises.is_damaged = True
        stage.world.perform(Finalize(tuple((claim, _some_end(stage, claim)) for claim in claims), misplaced))


def _some_end(stage: Stage, claim: Claim) -> Transition:
    """Most ends lead to another execution: that is where stale ones can do harm."""
    dice = stage.dice
    error = AttemptError("ValueError", "it did not work", attempt=claim.attempt)
    success = dice.choice((Succeed(None), Succeed(b"1"), Succeed(b'"%s"' % BIG.encode()), Succeed(b'"cut', 5_000)))
    again = Reschedule(error, dice.choice((0, 0, 0, 1_000, 20_000)))
    later = Postpone(dice.choice((0, 0, 5_000)))
    refused = Block(f"unknown_task_type:{claim.type}")
    ends = (
        success,
        again,
        DeadLetter(error, "max_attempts"),
        Cancel(error),
        Release(),
        Release(restarts=False),
        later,
        refused,
    )
    return dice.choices(ends, (5, 5, 1.5, 1, 1.5, 0.5, 2, 1))[0]


def report(stage: Stage) -> None:
    """An execution says something of itself, or saves something for later ones."""
    if claims := stage.holdings():
        stage.send(_something_to_say(stage, stage.dice.choice(claims)), late=True)


def _something_to_say(stage: Stage, claim: Claim) -> Say | Keep:
    dice = stage.dice
    if dice.random() < 0.5:
        return Say(claim, dice.randrange(100), tuple(sorted(dice.sample(range(1, 8), dice.randrange(4)))))
    field = dice.choice(("sa", "sb", "c", "om"))
    return Keep(claim, field, dice.choice((b"1", b"[2]", BIG.encode())), field == "om")


def crash(stage: Stage) -> None:
    """A worker dies with all that it holds."""
    stage.drop(stage.dice.choice(("w1", "w2", "w3", "r1", "r2")))


def zombie(stage: Stage) -> None:
    """An execution that everybody gave up goes on: it renews its lease or ends its task."""
    if held := stage.zombie():
        choice = stage.dice.random()
        if choice < 0.3:
            stage.send(Renew((held,)))
        elif choice < 0.5:
            stage.send(_something_to_say(stage, held))
        else:
            stage.send(Finalize(((held, _some_end(stage, held)),)))


def reclaim(stage: Stage) -> None:
    """A reaper takes expired leases over, and decides now, later, or never."""
    reaper = stage.dice.choice(("r1", "r2"))
    claims = stage.send(Reclaim(reaper, stage.name("r"))) or []
    if stage.dice.random() < 0.6:
        decide_all(stage, claims)
    else:
        stage.hold(claims)


def decide_all(stage: Stage, claims: list[Claim]) -> None:
    """Ask the policy what becomes of tasks whose lease expired, and record it."""
    items = [(claim, _verdict(stage, claim)) for claim in claims]
    if items:
        stage.send(Finalize(tuple(items)), late=True)


def _verdict(stage: Stage, claim: Claim) -> Transition:
    outcome = LeaseExpired(AttemptError("LeaseExpired", "the worker fell silent", attempt=claim.attempt))
    most = stage.world.promises.settings.max_lease_expiries
    return decide(claim, outcome, luck=stage.dice.uniform(-1, 1), max_lease_expiries=most)


def cancel(stage: Stage) -> None:
    """An operator cancels a task."""
    if task_id := stage.some_task():
        stage.send(CancelTask(task_id, stage.name("q")), late=True)


def requeue(stage: Stage) -> None:
    """An operator requeues a task, now and then one whose idempotency key is another's by now."""
    lost_key = stage.some_task_without_its_key() if stage.dice.random() < 0.3 else None
    if task_id := lost_key or stage.some_task(ended=0.8):
        stage.send(RequeueTask(task_id, stage.name("q"), stage.dice.random() < 0.7), late=True)


def discard(stage: Stage) -> None:
    """An operator discards a task."""
    if task_id := stage.some_task(ended=0.8):
        stage.send(DiscardTask(task_id, stage.name("q")), late=True)


def run_now(stage: Stage) -> None:
    """An operator starts a delayed task early."""
    if task_id := stage.some_task():
        stage.send(RunNow(task_id, stage.name("q")), late=True)


def reprioritise(stage: Stage) -> None:
    """An operator changes a task's priority."""
    if task_id := stage.some_task():
        stage.send(Reprioritise(task_id, stage.dice.randrange(10), stage.name("q")), late=True)


def purge(stage: Stage) -> None:
    """An operator empties the queue."""
    stage.send(Purge(stage.dice.random() < 0.5, stage.name("q")))


def pause(stage: Stage) -> None:
    """An operator pauses the queue."""
    stage.send(Pause(stage.dice.choice((None, 30_000)), stage.name("q")), late=True)


def resume(stage: Stage) -> None:
    """An operator resumes the queue."""
    stage.send(Resume(stage.name("q")), late=True)


def promote(stage: Stage) -> None:
    """The scheduler makes due tasks available."""
    stage.send(Promote())


def trim(stage: Stage) -> None:
    """The leader trims."""
    stage.send(Trim())


def sweep(stage: Stage) -> None:
    """The leader sweeps."""
    stage.send(Sweep())


def retire(stage: Stage) -> None:
    """The leader forgets consumers."""
    stage.send(Retire())


def come_and_go(stage: Stage) -> None:
    """A worker starts, or one of the lives that there were ends, as it says itself or as a leader finds."""
    dice = stage.dice
    if not stage.lives or dice.random() < 0.5:
        stage.lives.append((dice.choice(("w1", "w2")), stage.name("l")))
        stage.send(Started(*stage.lives[-1]), late=True)
    else:
        stage.send(Gone(*dice.choice(stage.lives[-3:]), dice.random() < 0.5), late=True)


def announce(stage: Stage) -> None:
    """Workers publish their types."""
    stage.announce(stage.dice.choice((OLD_TYPES, TYPES)))


def watch_time_pass(stage: Stage) -> None:
    """Time passes, or the clock jumps."""
    stage.send(Advance(stage.dice.choices(JUMPS_MS, JUMP_WEIGHTS)[0]))


def define(stage: Stage) -> None:
    """Workers with another definition of the periodic task start, or the last one that has it ends."""
    _, tasks = known_here(stage.world.store)
    if tasks and stage.dice.random() < 0.3:
        stage.send(Withdraw(tasks[0]))
    else:
        stage.send(Define(stage.dice.choice(BEATS)))


def tick(stage: Stage) -> None:
    """A leader deals with the ticks that have come; another one may do so later by what it knew then."""
    now_ms, tasks = known_here(stage.world.store)
    for task in tasks:
        turn = next_turn(task.definition.ticks, task.definition.catch_up, task.at_ms, now_ms)
        if turn is not None:
            stage.send(Deal(task, turn), late=True)


def hold(stage: Stage) -> None:
    """An operator pauses the periodic task, or resumes it."""
    stage.send(Hold(stage.dice.random() < 0.4, stage.name("q")), late=True)


def trigger(stage: Stage) -> None:
    """An operator runs the periodic task now."""
    stage.send(Trigger(stage.name("q")), late=True)


def declare(stage: Stage) -> None:
    """Workers say which limits they have, mostly the same."""
    stage.send(Declare(stage.dice.choice(CHOICES)))


def set_limit(stage: Stage) -> None:
    """An operator limits otherwise for a while."""
    name = stage.dice.choice(("one", "few"))
    if stage.dice.random() < 0.6:
        stage.send(SetLimit(name, stage.dice.choice((0, 1, 2, 5)), stage.name("q")), late=True)
    else:
        stage.send(ClearLimit(name, stage.name("q")), late=True)


def meet_again(stage: Stage) -> None:
    """A call that was under way all the time arrives once more."""
    stage.deliver_late()


OPERATIONS = (
    Operation(submit, 4),
    Operation(claim, 6.5),
    Operation(claim_again, 1.5),
    Operation(renew, 4),
    Operation(finalize, 7),
    Operation(report, 3),
    Operation(crash, 1.5),
    Operation(zombie, 3),
    Operation(reclaim, 4),
    Operation(cancel, 2),
    Operation(requeue, 1.5),
    Operation(discard, 0.4),
    Operation(run_now, 0.7),
    Operation(reprioritise, 0.7),
    Operation(purge, 0.4),
    Operation(pause, 0.15),
    Operation(resume, 0.8),
    Operation(promote, 3),
    Operation(trim, 1),
    Operation(sweep, 0.3),
    Operation(retire, 0.5),
    Operation(announce, 0.4),
    Operation(come_and_go, 0.7),
    Operation(watch_time_pass, 5),
    Operation(define, 0.7),
    Operation(tick, 3),
    Operation(hold, 0.8),
    Operation(trigger, 0.5),
    Operation(declare, 0.7),
    Operation(set_limit, 0.5),
    Operation(weave, 2),
    Operation(link, 1),
    Operation(relay, 1),
    Operation(meet_again, 2),
    Operation(hurt, 0, damage=1),
    Operation(finalize_with_a_key_misplaced, 0, damage=0.5),
    Operation(harm, 0, damage=1),
)

APART = (Operation(weave_apart, 3), Operation(link_apart, 2), Operation(carry, 5))
"""What happens as well where there are two queues."""

OF_ONE_QUEUE = frozenset({define, tick, hold, trigger, sweep, watch_time_pass})
"""What is for all queues, or of a name that only one of them may have."""
