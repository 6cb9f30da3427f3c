"""What time does: due tasks, expired leases, finished tasks that go; and the passing of time itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from dtq_engine.model import Claim, Promotion, TaskStatus
from tests.explore.calls.base import Place, Seen
from tests.explore.family import waits_in_vain
from tests.explore.promises import GUARD_MS, Promises, expect
from tests.explore.snapshot import SCHEDULES, Snapshot, shift

REAPER_LEASE_MS = 10_000
MOST_TRIMS = 20


@dataclass(frozen=True)
class Promote:
    """The scheduler makes due tasks available; it then sleeps until the next one is due."""

    def run(self, place: Place) -> Promotion:
        place.connection.call("DEL", place.keys.wake_schedule(place.queue))
        return place.schedule.promote(place.queue)

    def learn(self, promises: Promises, answer: Promotion, seen: Seen) -> None:
        for status in SCHEDULES.values():
            for task_id, due_ms in seen.before.waiting[status].items():
                if seen.maybe_past(due_ms):
                    self._release(promises, task_id, status, seen)
                if seen.surely_past(due_ms):
                    is_moved = seen.after.waiting[status].get(task_id) != due_ms
                    expect(is_moved, "a due task is made available", task_id, due_ms)
        promises.is_purging = False
        sleep_ms = 3_000 if answer.next_due_in_ms is None else min(3_000, answer.next_due_in_ms)
        promises.leader_looks_ms = seen.before.now_ms + sleep_ms

    def _release(self, promises: Promises, task_id: str, status: TaskStatus, seen: Seen) -> None:
        known = promises.find(task_id)
        if known is None or known.status is not status:
            return
        limit = seen.before.records[task_id].get("z")
        expires_ms = None if limit is None or known.started else int(limit)
        if expires_ms is not None and seen.maybe_past(expires_ms):
            promises.allow(task_id, TaskStatus.EXPIRED)
        if expires_ms is None or not seen.surely_past(expires_ms):
            promises.allow(task_id, TaskStatus.QUEUED)
        if seen.after.status(task_id) is status:
            promises.allow(task_id, status)  # The call came just before it was due, or Promote says so.
        is_retry = known.status is TaskStatus.RETRYING
        promises.events["TASK_RETRIED"] += is_retry and seen.after.status(task_id) is TaskStatus.QUEUED


@dataclass(frozen=True)
class Reclaim:
    """A reaper takes over the executions whose lease has expired."""

    reaper: str
    token: str

    def run(self, place: Place) -> list[Claim]:
        return place.schedule.reclaim(place.queue, reaper=self.reaper, token=self.token)

    def learn(self, promises: Promises, answer: list[Claim], seen: Seen) -> None:
        taken = {claim.task_id for claim in answer}
        expect(len(taken) == len(answer), "a task is handed to a reaper once", answer)
        for task_id, record in seen.before.records.items():
            idle_ms = _idle_ms(task_id, record, seen.before)
            if record.get("s") == "R" and idle_ms is not None:
                lease_ms = int(record["l"])
                expect(task_id in taken or idle_ms < lease_ms, "an expired lease is handed out", task_id, idle_ms)
                is_over = idle_ms + seen.took_ms >= lease_ms
                expect(task_id not in taken or is_over, "a lease that holds is left alone", task_id, idle_ms)
        for claim in answer:
            known = promises.tasks[claim.task_id]
            expect(known.status is TaskStatus.RUNNING, "only what runs is handed to a reaper", claim.task_id)
            if not known.is_reaped:
                promises.count(known.task, "lease_expired")
            known.reaped_under(self.token)
            numbers = (claim.attempt, claim.restarts, claim.lease_expiries, claim.fence)
            counted = (known.attempt, known.restarts, known.expiries, known.fence)
            expect(numbers == counted, "a reaper is told what was counted", claim.task_id, numbers, counted)
            self._check_lease(claim, seen)

    def _check_lease(self, claim: Claim, seen: Seen) -> None:
        """The reaper has a short lease of its own; if it dies too, the task comes back."""
        record = seen.after.records[claim.task_id]
        lease = seen.after.leases.get((claim.priority, record["e"]))
        is_fresh = lease is not None and lease.worker == self.reaper and lease.idle_ms <= seen.took_ms
        expect(is_fresh, "a reaper gets the lease", claim.task_id, lease)
        expect(record["l"] == str(REAPER_LEASE_MS), "a reaper's lease is short", claim.task_id, record["l"])


def _idle_ms(task_id: str, record: Mapping[str, str], before: Snapshot) -> int | None:
    """How long a lease has not been renewed; None without a lease on an entry that is there."""
    band, entry = int(record["p"]), record.get("e", "")
    is_there = any((each.band, each.id, each.task_id) == (band, entry, task_id) for each in before.entries)
    lease = before.leases.get((band, entry))
    return lease.idle_ms if is_there and lease is not None else None


@dataclass(frozen=True)
class Trim:
    """The leader lets finished tasks go until none is left that may."""

    def run(self, place: Place) -> int:
        for total in range(MOST_TRIMS):
            if place.schedule.trim(place.queue).gone == 0:
                return total
        return MOST_TRIMS

    def learn(self, promises: Promises, answer: int, seen: Seen) -> None:
        expect(answer < MOST_TRIMS, "trimming comes to an end", answer)
        settings, now_ms = promises.settings, seen.before.now_ms
        # What lies behind tasks that are passed over for their results' sake may have to wait as long as they do.
        guard_ms = max(GUARD_MS, settings.result_retention_s * 1000)
        for status, members in seen.after.ended.items():
            if status is TaskStatus.DEAD_LETTERED:
                continue
            oldest = sorted(members, key=lambda task_id: members[task_id])
            excess = len(oldest) - settings.keep_succeeded if status is TaskStatus.SUCCEEDED else 0
            for position, task_id in enumerate(oldest):
                age_ms = now_ms - members[task_id]
                is_due = position < excess or age_ms > settings.task_retention_s * 1000
                expect(not is_due or age_ms <= guard_ms, "trim leaves nothing that is over the limits", task_id)
        letters = seen.after.letters
        dead = seen.after.ended[TaskStatus.DEAD_LETTERED].keys()
        expect(dead <= {each["i"] for each in letters.values()}, "a dead task leaves the index with its letter", dead)
        ages = [now_ms - int(letter["d"]) for letter in letters.values()]
        if promises.went_back:
            return  # A letter with a time to come at the head keeps those behind it.
        over = [age for age in ages if age > max(GUARD_MS, settings.dlq_retention_s * 1000)]
        expect(not over, "trim leaves no dead letter that is too old", over)
        old = sum(age > GUARD_MS for age in ages)
        few = not old or len(letters) <= settings.dlq_maxlen
        expect(few, "trim leaves no dead letters over the limit", len(letters))


@dataclass(frozen=True)
class Advance:
    """Time passes, for clocks, leases and keys that expire; or the clock jumps back."""

    ms: int

    def run(self, place: Place) -> None:
        shift(place.connection.client, place.keys, self.ms)

    def learn(self, promises: Promises, answer: None, seen: Seen) -> None:
        promises.elapsed_ms += max(0, self.ms)
        promises.went_back = promises.went_back or self.ms < 0
        promises.leader_looks_ms = min(promises.leader_looks_ms, seen.after.now_ms + 3_000)


@dataclass(frozen=True)
class Sweep:
    """The leader walks over all keys and repairs what damage has put out of step."""

    def run(self, place: Place) -> dict[str, int]:
        return place.sweep.run()

    def learn(self, promises: Promises, answer: dict[str, int], seen: Seen) -> None:
        # Records that expired leave their members of indexes and letters behind, for trim or for this.
        repairs = answer.keys() - {"member_without_record", "letter_without_task"}
        repairs -= {"link"} if seen.before.outbox or waits_in_vain(promises) else set()
        if promises.went_back:
            # Of two that are alike the first has waited too long, and the other holds their key, or held it.
            repairs -= {"unique_key"}
        expect(not repairs or promises.is_damaged, "sweep repairs nothing where nothing was damaged", answer)


@dataclass(frozen=True)
class Retire:
    """The leader forgets the consumers of workers that are gone."""

    def run(self, place: Place) -> int:
        return place.workers.retire(place.queue, idle_ms=0)

    def learn(self, promises: Promises, answer: int, seen: Seen) -> None:
        expect(seen.after.leases.keys() == seen.before.leases.keys(), "no lease goes with a consumer", answer)
