"""The same calls and the same promises, with Hypothesis in place of dice: it shrinks what it finds."""

import random
from functools import partial

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule, run_state_machine_as_test

from dtq_engine.model import (
    AttemptError,
    Block,
    Cancel,
    Claim,
    DeadLetter,
    NewTask,
    Postpone,
    Release,
    Reschedule,
    Succeed,
    Transition,
)
from tests.explore.calls.base import Call
from tests.explore.calls.control import CancelTask, DiscardTask, Pause, Purge, Reprioritise, RequeueTask, Resume, RunNow
from tests.explore.calls.intake import Submit
from tests.explore.calls.leases import Finalize, Renew, Take
from tests.explore.calls.schedule import Advance, Promote, Reclaim, Sweep, Trim
from tests.explore.explorer import drain
from tests.explore.stage import OLD_TYPES, TYPES, Stage
from tests.explore.world import Server

ERROR = AttemptError("ValueError", "it did not work")
BIG = b'"%s"' % (b"x" * 100)
RESENT_MS = 100_000
"""For so long at most is a call sent again: operators' requests are remembered for two minutes."""
DELAYS_MS = st.sampled_from([0, 1_000, 40_000])
ENDS: st.SearchStrategy[Transition] = st.one_of(
    st.builds(Succeed, st.sampled_from([None, b"1", BIG])),
    st.builds(Reschedule, st.just(ERROR), DELAYS_MS),
    st.builds(DeadLetter, st.just(ERROR), st.just("permanent")),
    st.builds(Cancel, st.just(ERROR)),
    st.builds(Release),
    st.builds(Postpone, DELAYS_MS),
    st.builds(Block, st.just("payload_does_not_fit")),
)


class QueueMachine(RuleBasedStateMachine):
    """One queue. A claim is never forgotten here, so that it may be used when it is long stale."""

    tasks = Bundle("tasks")
    claims = Bundle("claims")

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self._last: Call = Promote()
        self._quiet_ms = 0

    @initialize(keep=st.sampled_from([0, 2, 1_000]), letters=st.sampled_from([1, 1_000]), dlq=st.booleans())
    def open(self, keep: int, letters: int, dlq: bool) -> None:
        """An empty queue with these limits."""
        world = self._server.new_world(
            keep_succeeded=keep, dlq_maxlen=letters, dlq_enabled=dlq, task_retention_s=100, result_retention_s=130
        )
        self._stage = Stage(world, random.Random(0))
        self._stage.announce(OLD_TYPES)
        self._stage.announce(TYPES)

    def _send(self, call: Call) -> object:
        self._last, self._quiet_ms = call, 0
        return self._stage.world.perform(call)

    @rule(
        target=tasks,
        type=st.sampled_from("abc"),
        priority=st.sampled_from([0, 5, 9]),
        delay_ms=DELAYS_MS,
        key=st.sampled_from([None, None, "k"]),
        expires_in_ms=st.sampled_from([None, None, 30_000]),
        payload=st.sampled_from([b"{}", b'{"n":%s}' % BIG]),
    )
    def submit(
        self, type: str, priority: int, delay_ms: int, key: str | None, expires_in_ms: int | None, payload: bytes
    ) -> object:
        task = NewTask(
            id=self._stage.name("t"),
            type=type,
            payload=payload,
            priority=priority,
            delay_ms=delay_ms,
            idempotency_key=key,
            expires_in_ms=expires_in_ms,
        )
        self._send(Submit((task,)))
        return task.id if self._stage.world.promises.find(task.id) else multiple()

    @rule(
        target=claims,
        worker=st.sampled_from(["w1", "w2"]),
        limit=st.sampled_from([1, 3]),
        build=st.sampled_from([OLD_TYPES, TYPES]),
    )
    def claim(self, worker: str, limit: int, build: tuple[str, ...]) -> object:
        digest = self._stage.announce(build)
        reply = self._send(Take(worker, self._stage.name("c"), limit, build, digest))
        return multiple(*reply.claims)  # type: ignore[attr-defined]

    @rule(target=claims, reaper=st.sampled_from(["r1", "r2"]))
    def reclaim(self, reaper: str) -> object:
        return multiple(*self._send(Reclaim(reaper, self._stage.name("r"))))  # type: ignore[misc]

    @rule(claim=claims, overdue=st.booleans())
    def renew(self, claim: Claim, overdue: bool) -> None:
        self._send(Renew((claim,), frozenset({claim.key} if overdue else ())))

    @rule(claim=claims, end=ENDS)
    def finalize(self, claim: Claim, end: Transition) -> None:
        self._send(Finalize(((claim, end),)))

    @rule(task_id=tasks, verb=st.sampled_from([CancelTask, RequeueTask, RequeueTask, DiscardTask, RunNow]))
    def act(self, task_id: str, verb: type[CancelTask]) -> None:
        self._send(verb(task_id, self._stage.name("q")))

    @rule(task_id=tasks, priority=st.sampled_from([0, 5, 9]))
    def reprioritise(self, task_id: str, priority: int) -> None:
        self._send(Reprioritise(task_id, priority, self._stage.name("q")))

    @rule(delayed=st.booleans())
    def purge(self, delayed: bool) -> None:
        self._send(Purge(delayed, self._stage.name("q")))

    @rule(verb=st.sampled_from([Resume, partial(Pause, 30_000)]))
    def steer(self, verb: type[Resume]) -> None:
        self._send(verb(self._stage.name("q")))

    @rule(call=st.sampled_from([Promote(), Trim(), Sweep()]))
    def keep_house(self, call: Call) -> None:
        self._send(call)

    @rule(ms=st.sampled_from([1_000, 11_000, 31_000, 61_000, 200_000]))
    def let_time_pass(self, ms: int) -> None:
        self._stage.world.perform(Advance(ms))
        self._quiet_ms += ms
        if self._quiet_ms > RESENT_MS:
            self._last = Promote()

    @rule()
    def send_again(self) -> None:
        self._stage.world.perform(self._last)

    def teardown(self) -> None:
        """Whatever happened, every task still reaches its outcome."""
        if hasattr(self, "_stage"):
            drain(self._stage)


def test_whatever_is_called_in_whatever_order_the_promises_are_kept(server: Server):
    short = settings(
        max_examples=25, stateful_step_count=30, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(lambda: QueueMachine(server), settings=short)  # type: ignore[arg-type]
