"""A deployment as people on call meet it: a few queues, workers, and tasks at every point of their lives."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dtq_engine import workflow
from dtq_engine.limits import Declared, Limit, Numbers
from dtq_engine.model import (
    AttemptError,
    Block,
    Cancel,
    Claim,
    DeadLetter,
    NewTask,
    Parent,
    Reschedule,
    Said,
    Succeed,
    WorkerInfo,
)
from dtq_engine.periodic import CatchUp, Definition
from dtq_engine.store import Store
from dtq_engine.store.progress import pack_line
from dtq_engine.worker.ticker import Ticker
from tests.store.hand import Hand
from tests.support.clock import Clock

BEGAN_S = 3 * 3600

TRACEBACK = """Traceback (most recent call last):
  File "/app/shop/tasks.py", line 41, in send_receipt
    gateway.deliver(message, timeout=10)
  File "/app/shop/gateway.py", line 88, in deliver
    raise TimeoutError(f"smtp.example.org: timed out after {timeout} s")
TimeoutError: smtp.example.org: timed out after 10 s
"""

LOG = (
    ("INFO", "account 4711: 3,000 orders in October"),
    ("INFO", "fetched 1,000 orders in 2.1 s"),
    ("WARNING", "the exchange rate of 31 October is missing: the one of the day before is taken"),
    ("INFO", "page 41 written"),
    ("ERROR", "order 88213 has no customer: left out"),
    ("INFO", "page 42 written"),
)

TYPES = {
    "mail": ("email.receipt", "email.newsletter", "email.reset"),
    "reports": ("reports.build", "reports.monthly"),
    "images": ("images.resize", "images.strip"),
    "default": ("search.index", "cache.warm"),
}


class Scenery:
    """Furnishes a deployment by the calls that producers, workers and operators make, at times of its own."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self._numbers = 0
        for queue in TYPES:
            store.workers.register_queue(queue)
        clock.advance(-BEGAN_S)
        self._passed_s = 0.0
        self._hands = {
            queue: Hand(store, f"web-{at}.worker.3f9c{at}", types, queue)
            for at, (queue, types) in enumerate(TYPES.items(), 1)
        }

    def furnish(self, rounds: int = 1000) -> None:
        """All of it, with as many busy moments as fit into the time, or fewer; it ends at the present."""
        for round_ in range(min(8, rounds)):
            self._busy_round(round_)
            self._pass(600)
        self._troubles()
        while BEGAN_S - self._passed_s > 100 and rounds > 0:
            self._busy_round(rounds := rounds - 1)
            self._pass(60)
        self._present()
        self._pass(BEGAN_S - self._passed_s)
        self.store.workers.acquire_lock("leader", 3_600_000)
        self.beat()
        ticker = Ticker(self.store)
        ticker.take_over()
        for definition in PERIODIC:
            ticker.turn(definition.queue)
        self._people()

    def _pass(self, seconds: float) -> None:
        """Let time pass; the leader would note the counters meanwhile."""
        at_ms = self.store.now_ms() - round((BEGAN_S - self._passed_s) * 1000)
        for queue in TYPES if seconds >= 5 else ():
            for later_s in range(0, round(seconds), 60):
                self.store.history.record(queue, at_ms + later_s * 1000)
        self._clock.advance(seconds)
        self._passed_s += seconds

    def _id(self, name: str) -> str:
        self._numbers += 1
        return f"01K9T{self._numbers:05d}{abs(hash(name)) % 10**6:06d}RCX7Q2MZ"[:26]

    def _submit(self, queue: str, type: str, **fields: Any) -> str:
        task_id = self._id(type)
        body = {"account": 4711 + self._numbers, "month": "2026-10", "notify": True, "tags": ["billing", "eu"]}
        payload = json.dumps(fields.pop("payload", body)).encode()
        self._hands[queue].submit(task_id, type=type, payload=payload, **fields)
        return task_id

    def _fail(self, claim: Claim, message: str, type: str = "TimeoutError") -> AttemptError:
        now_ms = claim.started_ms + 10_000
        return AttemptError(type, message, TRACEBACK, claim.attempt, claim.worker, claim.started_ms, now_ms)

    def _busy_round(self, round_: int) -> None:
        for queue, types in TYPES.items():
            for at, each in enumerate(types):
                for _ in range(1 + (round_ * 5 + at) % 4):
                    self._submit(queue, each)
        self._pass(0.8 + round_ % 3)
        claims = {queue: hand.claim() for queue, hand in self._hands.items()}
        self._pass(0.4 + (round_ % 4) * 1.3)
        for at, (queue, hand) in enumerate(self._hands.items()):
            if claims[queue] and (round_ + at) % 4 == 3:
                error = self._fail(claims[queue][0], "503 from the gateway", "HTTPError")
                hand.end(claims[queue].pop(0), Reschedule(error, 0))
            hand.end_all(claims[queue], Succeed(b'{"sent":true,"bytes":18231}'))

    def _troubles(self) -> None:
        mail, reports = self._hands["mail"], self._hands["reports"]
        for hand in self._hands.values():
            hand.end_all(hand.claim())
        for at in range(9):
            self._submit("mail", "email.receipt")
            claim = mail.claim_one()
            self._pass(10)
            error = self._fail(claim, "smtp.example.org: timed out after 10 s")
            mail.end(claim, Reschedule(error, 5000))
            self._pass(6)
            self.store.schedule.promote("mail")
            claim = mail.claim_one()
            self._pass(10)
            mail.end(claim, DeadLetter(self._fail(claim, "smtp.example.org: timed out after 10 s"), "max_attempts"))
            self._pass(20 + at)
        for message in ("no account 4750: it was closed", "no account 4760: it was closed"):
            self._submit("reports", "reports.build")
            claim = reports.claim_one()
            self._pass(2)
            reports.end(claim, DeadLetter(self._fail(claim, message, "LookupError"), "permanent"))
        self._submit("reports", "reports.monthly")
        reports.end(claim := reports.claim_one(), Cancel(self._fail(claim, "asked to stop", "Cancelled")))

    def _present(self) -> None:
        for at in range(14):
            self._submit("mail", "email.newsletter", priority=2 if at % 5 else 7)
        for each in ("email.reset", "email.receipt"):
            self._submit("mail", each, priority=9)
        mail = self._hands["mail"]
        for claim in mail.claim(3)[:2]:
            mail.end(claim, Reschedule(self._fail(claim, "421 too many connections", "SMTPError"), 900_000))
        self._limited()
        self._submit("reports", "reports.monthly", payload=_REPORT)
        self._talk(self._hands["reports"].claim_one())
        self._workflow()
        for hours in (1, 5, 20):
            self._submit("reports", "reports.monthly", delay_ms=hours * 3_600_000 + 400_000)
        self._submit("default", "search.index")
        default = self._hands["default"]
        default.end(default.claim_one(), Block("unknown_task_type:search.index"))
        for _ in range(6):
            self._submit("images", "images.strip")

    def _limited(self) -> None:
        limits = (Limit("bucket", Numbers(1)), Limit("resizer", Numbers(None, 600, 60_000)))
        self.store.limits.declare("images", Declared(limits, dict.fromkeys(("bucket", "resizer"), "images")))
        for _ in range(3):
            self._submit("images", "images.resize", limits=("bucket",))
        self._hands["images"].claim(3)
        self.store.limits.set("images", "resizer", rate=(60, 60), actor="grace", reason="their new quota")

    def _talk(self, claim: Claim) -> None:
        """What an execution says and saves half way through."""
        at_ms = self.store.now_ms()
        told = [pack_line(at_ms + at * 1700, level, "shop.reports", text, 4096) for at, (level, text) in enumerate(LOG)]
        progress = (1260.0, 3000.0, "orders of October, page 42", at_ms + 9000)
        self.store.reports.report(claim.queue, [(claim, Said(progress, tuple(enumerate(told, 1))))])
        for step in ("fetch the accounts", "convert the currencies"):
            self.store.steps.save(claim, f"s{step}", b"1")

    def _workflow(self) -> None:
        """Parts, what gathers them, and what comes after that."""
        parts = [
            NewTask(id=self._id("part"), type="reports.build", queue="reports", delay_ms=4_000_000) for _ in range(3)
        ]
        links = tuple(Parent(part.id, part.queue) for part in parts)
        gather = NewTask(id=self._id("gather"), type="reports.monthly", queue="reports", after=links)
        send = NewTask(
            id=self._id("send"), type="email.newsletter", queue="mail", after=(Parent(gather.id, "reports"),)
        )
        for batch in workflow.batches([*parts, gather, send]):
            self.store.intake.submit(batch)

    def _people(self) -> None:
        letters = self.store.inspect.dead_letters(queue="mail", limit=2).items
        self.store.control.requeue(letters[1].task_id, queue="mail", actor="ada", reason="the gateway is back")
        self.store.periodic.pause("cache.warm", actor="ada", reason="the new cache warms itself")
        self.store.control.pause("images", actor="grace", reason="moving the bucket, ask Grace", for_ms=5_400_000)

    def beat(self) -> None:
        """Have the workers say that they are alive, one of them some time ago."""
        now_ms = self.store.now_ms()
        self.store.agenda.publish(PERIODIC)
        for info in _workers(now_ms):
            self.store.workers.beat(info, 3600)


PERIODIC = (
    Definition(name="reports.nightly", type="reports.monthly", cron="0 3 * * *", tz="Europe/Berlin", queue="reports"),
    Definition(name="email.digest", type="email.newsletter", cron="30 9 * * 1-5", tz="Europe/Berlin", queue="mail"),
    Definition(name="search.reindex", type="search.index", cron="*/15 * * * *", catch_up=CatchUp.ONCE),
    Definition(name="cache.warm", type="cache.warm", every_ms=300_000),
)

_REPORT = {
    "account": 4711,
    "range": {"from": "2026-10-01", "to": "2026-10-31", "zone": "Europe/Berlin"},
    "columns": ["date", "orders", "revenue", "returns"],
    "recipients": [{"name": "Ada L.", "email": "ada@example.org"}, {"name": "Grace H.", "email": "grace@example.org"}],
    "draft": False,
    "note": None,
}


def _workers(now_ms: int) -> Sequence[WorkerInfo]:
    mail = WorkerInfo(
        id="web-1.worker.3f9c1",
        host="web-1",
        pid=4121,
        queues=("mail", "default"),
        concurrency=10,
        release="v214",
        types=(*TYPES["mail"], *TYPES["default"]),
        in_flight=1,
        state="running",
        started_ms=now_ms - 86_400_000,
        seen_ms=now_ms - 2000,
        finished=18_204,
        memory_kib=148_000,
        periodic={each.name: each.digest for each in PERIODIC},
    )
    reports = replace(
        mail, id="web-2.worker.3f9c2", host="web-2", queues=("reports",), types=TYPES["reports"], finished=611
    )
    images = replace(
        mail,
        id="web-3.worker.3f9c3",
        host="web-3",
        queues=("images",),
        types=TYPES["images"],
        state="draining",
        release="v213",
        seen_ms=now_ms - 21_000,
        finished=9102,
    )
    return mail, reports, images
