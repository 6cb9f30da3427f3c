"""A worker reduced to its calls: it does one step when told to, so that a test decides what happens when."""

from collections.abc import Sequence
from typing import Any

from dtq_engine.ids import new_token
from dtq_engine.model import (
    AttemptError,
    Claim,
    ClaimReply,
    NewTask,
    Receipt,
    Settled,
    Succeed,
    Task,
    Transition,
    WorkerInfo,
)
from dtq_engine.store import Store

QUEUE = "default"


class Hand:
    """One worker of one queue."""

    def __init__(
        self,
        store: Store,
        name: str = "w1",
        types: Sequence[str] = ("mail",),
        queue: str = QUEUE,
        announced: bool = True,
    ) -> None:
        self.store = store
        self.name = name
        self.queue = queue
        self.digest = store.workers.announce([queue], types) if announced else ""

    def submit(self, *ids: str, **fields: Any) -> list[Receipt]:
        """Submit a task for each id, all with the same `fields`, in one call."""
        given = {"type": "mail", "queue": self.queue} | fields
        return self.store.intake.submit([NewTask(id=each, **given) for each in ids])

    def ask(self, limit: int = 100, token: str | None = None) -> ClaimReply:
        """Claim, and take the reply as it is."""
        token = token or new_token()
        return self.store.leases.claim(self.queue, worker=self.name, token=token, limit=limit, types_digest=self.digest)

    def claim(self, limit: int = 100, token: str | None = None) -> list[Claim]:
        """Claim: only the tasks."""
        return list(self.ask(limit, token).claims)

    def start(self, task_id: str, **fields: Any) -> Claim:
        """Submit one task and claim it."""
        self.submit(task_id, **fields)
        return self.claim_one(task_id)

    def claim_one(self, task_id: str | None = None) -> Claim:
        """Claim exactly one task, the one that is expected."""
        (claim,) = self.claim(1)
        assert task_id in {None, claim.task_id}
        return claim

    def end(self, claim: Claim, transition: Transition | None = None) -> Settled:
        """Finalize one execution; as a success unless told otherwise."""
        return self.store.leases.finalize([(claim, transition or Succeed(None))])[0]

    def end_all(self, claims: Sequence[Claim], transition: Transition | None = None) -> list[Settled]:
        """Finalize several executions in the same way, in one call."""
        return self.store.leases.finalize([(claim, transition or Succeed(None)) for claim in claims])

    def reclaim(self, token: str | None = None, **how: int) -> list[Claim]:
        """Take over expired leases under this worker's name."""
        return self.store.schedule.reclaim(self.queue, reaper=self.name, token=token or new_token(), **how)

    def task(self, task_id: str) -> Task:
        """The task as it is now."""
        return self.store.inspect.get(task_id, queue=self.queue)

    def status(self, task_id: str) -> str:
        """Its status."""
        return self.task(task_id).status.value


def error(message: str = "it did not work", type: str = "ValueError") -> AttemptError:
    """How an attempt failed."""
    return AttemptError(type, message)


def info(name: str, **fields: object) -> WorkerInfo:
    """What a worker says of itself."""
    given = {
        "host": "höst",
        "pid": 7,
        "queues": ("q1", "q2"),
        "concurrency": 10,
        "release": "r1",
        "types": ("a", "b.c"),
        "in_flight": 3,
        "state": "running",
        "started_ms": 1,
        "seen_ms": 2,
    }
    return WorkerInfo(id=name, **(given | fields))  # type: ignore[arg-type]


def ids(claims: Sequence[Claim]) -> list[str]:
    """The ids of claims, in order."""
    return [claim.task_id for claim in claims]
