"""Claiming, renewing and finalizing executions."""

from dataclasses import dataclass

from dtq_engine.keys import Keys
from dtq_engine.model import (
    Block,
    Cancel,
    Claim,
    ClaimReply,
    ClaimStatus,
    DeadLetter,
    Postpone,
    Release,
    Renewal,
    Reschedule,
    Settled,
    Succeed,
    TaskStatus,
    Transition,
)
from tests.explore.calls.base import Place, Seen
from tests.explore.calls.outcomes import block, death, follow
from tests.explore.promises import Known, Promises, expect
from tests.explore.snapshot import Entry


@dataclass(frozen=True)
class Take:
    """A worker claims up to `limit` tasks of the types it knows."""

    worker: str
    token: str
    limit: int
    types: tuple[str, ...]
    digest: str

    def run(self, place: Place) -> ClaimReply:
        """The worker was woken: that uses up a wake-up token, which goes back when nothing could be claimed."""
        is_repeat = place.connection.call("EXISTS", place.keys.claim(place.queue, self.worker, self.token))
        woken = not is_repeat and place.connection.pop([place.keys.wake(place.queue)]) is not None
        reply = place.leases.claim(
            place.queue, worker=self.worker, token=self.token, limit=self.limit, types_digest=self.digest
        )
        if woken and reply.status is ClaimStatus.TYPES:
            place.leases.wake(place.queue)
        return reply

    def learn(self, promises: Promises, answer: ClaimReply, seen: Seen) -> None:
        ids = [claim.task_id for claim in answer.claims]
        if self.token in promises.claims:
            self._check_repeat(promises, ids)
        elif seen.before.paused:
            expect(answer == ClaimReply(ClaimStatus.PAUSED), "nobody claims from a paused queue", answer)
        elif self.digest not in seen.before.types:
            expect(answer == ClaimReply(ClaimStatus.TYPES), "nothing is claimed for unknown types", answer)
        else:
            self._check_fresh(promises, answer, ids, seen)
        for claim in answer.claims:
            _check_claim(claim, promises.tasks[claim.task_id], self.worker, self.token)

    def _check_repeat(self, promises: Promises, ids: list[str]) -> None:
        """Sent again, it answers what still runs under its token."""
        mine = [task_id for task_id in promises.claims[self.token] if promises.tasks[task_id].token == self.token]
        expect(ids == mine, "a claim sent again answers the same", ids, mine)

    def _check_fresh(self, promises: Promises, answer: ClaimReply, ids: list[str], seen: Seen) -> None:
        startable, doubtful = self._sort_out(promises, seen)
        if not doubtful:
            self._check_order(promises, ids, startable)
        named = ClaimStatus.TASKS if ids else ClaimStatus.EMPTY
        expect(answer.status is named, "a claim says whether it found tasks", answer.status, ids)
        if len(ids) < self.limit:
            # Those with limits may have been called by this claim, and those whose last parent expired by it come too
            # late for it; a worker is woken for them.
            late = {known.task.id for known in promises.tasks.values() if known.awaits or known.task.limits}
            left = [each.task_id for each in seen.after.startable() if each.task_id not in late]
            expect(not left, "a claim with room left leaves nothing waiting", left)
        for task_id in ids:
            note_start(promises, promises.tasks[task_id].task.limits, seen)
            promises.tasks[task_id].started_under(self.token)
            promises.allow(task_id, TaskStatus.RUNNING)
            promises.count(promises.tasks[task_id].task, "started")
            promises.events["TASK_STARTED"] += 1
        promises.pause_ran_out = False
        if ids:
            promises.claims[self.token] = tuple(ids)

    def _check_order(self, promises: Promises, ids: list[str], startable: list[str]) -> None:
        """In order, but for who lacks room under a limit; and nobody else is passed over."""
        promise = "the most urgent tasks start first, the oldest of them first"
        came = [each for each in ids if each in startable]
        expect(came == [each for each in startable if each in ids], promise, ids, startable)
        free = [each for each in startable if not promises.tasks[each].task.limits]
        is_full = len(ids) >= self.limit
        seen_by_it = startable[: startable.index(came[-1]) + 1 if came else 0] if is_full else startable
        passed_over = [each for each in seen_by_it if each in free and each not in ids]
        expect(not passed_over and len(ids) <= self.limit, promise, ids, startable)
        for task_id in set(startable).difference(ids, free):
            promises.allow(task_id, TaskStatus.QUEUED, TaskStatus.BLOCKED)

    def _sort_out(self, promises: Promises, seen: Seen) -> tuple[list[str], bool]:
        """What may start, in order; the rest may be blocked or expire. Doubtful: something expires just now."""
        startable, doubtful = list[str](), False
        untouched = {entry.task_id for entry in seen.after.startable()}
        for entry in seen.before.startable():
            known = promises.tasks[entry.task_id]
            expires_ms = _expires_ms(known, entry, seen)
            if known.is_unreadable or known.task.type not in self.types:
                if entry.task_id in untouched:
                    continue
                if not known.is_unreadable and seen.before.is_known(known.task.type):
                    _check_put_off(promises, known, seen)
                else:
                    block(promises, known, seen)
            elif expires_ms is not None and seen.maybe_past(expires_ms):
                promises.allow(entry.task_id, TaskStatus.QUEUED, TaskStatus.EXPIRED)
                doubtful = doubtful or not seen.surely_past(expires_ms)
            else:
                startable.append(entry.task_id)
        return startable, doubtful


def note_start(promises: Promises, limits: tuple[str, ...], seen: Seen) -> None:
    """A rate holds in every window, unless the clock was set back, or the rate is new."""
    for bucket in limits:
        numbers = seen.after.limits.get(bucket.partition("/")[0])
        times = promises.starts.setdefault(bucket, [])
        times.append(seen.before.now_ms)
        if numbers is None or numbers.starts is None or numbers.window_ms is None or promises.is_rate_new:
            continue
        if len(times) > numbers.starts and not promises.went_back and not promises.is_damaged:
            apart_ms = seen.after.now_ms - times[-1 - numbers.starts]
            expect(apart_ms > numbers.window_ms, "a rate holds in every window", bucket, times[-9:], numbers)


def _check_put_off(promises: Promises, known: Known, seen: Seen) -> None:
    """The workers of another build get it within about a second, and nothing is counted."""
    task_id = known.task.id
    promises.allow(task_id, TaskStatus.BLOCKED)
    due_ms = seen.after.waiting[TaskStatus.BLOCKED].get(task_id, 0)
    expect(due_ms <= seen.after.now_ms + 1_000, "another build gets its tasks soon", task_id, due_ms)
    counted = [[each.records[task_id].get(letter) for letter in "BN"] for each in (seen.before, seen.after)]
    expect(counted[0] == counted[1], "what another build knows does not count as blocked", task_id, counted)


def _expires_ms(known: Known, entry: Entry, seen: Seen) -> int | None:
    limit = seen.before.records[entry.task_id].get("z")
    return None if limit is None or known.started else int(limit)


def _check_claim(claim: Claim, known: Known, worker: str, token: str) -> None:
    """A worker is told the task as it was submitted, with the numbers of this execution."""
    task = known.task
    told = (claim.type, claim.payload, claim.headers, claim.timeout_ms, claim.keep_result, claim.restartable)
    given = (task.type, task.payload, task.headers, task.timeout_ms, task.keep_result, task.restartable)
    expect(told == given, "a task is claimed as it was submitted", claim, task)
    expect(
        [each.task_id for each in claim.inputs] == [each.id for each in task.after], "a claim names its parents", claim
    )
    for each in claim.inputs:
        kin = known.kin[each.task_id]
        result = None if each.task_id in known.unheard else kin.result
        result = None if each.task_id in known.asked and each.result is None else result
        is_right = kin.status is not TaskStatus.SUCCEEDED or (each.status, each.result) == (kin.status, result)
        # What runs although a parent failed was through with it then, whatever became of that later.
        is_right = is_right or (each.status is not TaskStatus.SUCCEEDED and each.status in kin.had)
        expect(is_right, "a parent's result reaches its child", claim.task_id, each, result)
    numbers = (claim.attempt, claim.restarts, claim.lease_expiries, claim.fence, claim.priority)
    counted = (known.attempt, known.restarts, known.expiries, known.fence, known.priority)
    expect(numbers == counted, "a claim carries the numbers of its execution", claim.task_id, numbers, counted)
    expect(claim.saved == known.saved, "an execution finds what was saved", claim.task_id, claim.saved, known.saved)
    expect((claim.worker, claim.token) == (worker, token), "a claim names its holder", claim)
    expect(claim.retry == task.retry, "a claim carries the retry policy", claim.retry, task.retry)
    expect(claim.cancel_requested == known.cancel_requested, "a claim tells of a cancel", claim.task_id)


@dataclass(frozen=True)
class Renew:
    """A worker's heartbeat for some executions; `overdue` names those that it keeps past their deadline.

    `ran_ms` is for how long the others have run by its own clock, if it tells.
    """

    claims: tuple[Claim, ...]
    overdue: frozenset[tuple[str, str]] = frozenset()
    ran_ms: int | None = None

    def __repr__(self) -> str:
        keys = [(*claim.key, "overdue" if claim.key in self.overdue else "") for claim in self.claims]
        return f"Renew(worker={self.claims[0].worker!r}, {keys}, ran_ms={self.ran_ms})"

    def run(self, place: Place) -> Renewal:
        ran_ms = {} if self.ran_ms is None else dict.fromkeys((claim.key for claim in self.claims), self.ran_ms)
        return place.leases.renew(self.claims, overdue=self.overdue, ran_ms=ran_ms)

    def learn(self, promises: Promises, answer: Renewal, seen: Seen) -> None:
        for claim in self.claims:
            known = promises.tasks[claim.task_id]
            is_mine = known.token == claim.token and known.status is TaskStatus.RUNNING
            is_kept = claim.key not in answer.lost
            expect(is_mine or not is_kept, "only its holder renews a lease", claim.key)
            record = seen.before.records.get(claim.task_id, {})
            most_ms = known.task.timeout_ms + int(record.get("l", 0))
            end_ms = int(record.get("b", 0)) + most_ms
            maybe_over = seen.maybe_past(end_ms) if self.ran_ms is None else self.ran_ms > most_ms
            surely_over = seen.surely_past(end_ms + 1) if self.ran_ms is None else self.ran_ms > most_ms
            if is_mine and (claim.key in self.overdue or not maybe_over):
                expect(is_kept, "a holder keeps its lease", claim.key)
            if is_mine and claim.key not in self.overdue and surely_over:
                expect(not is_kept, "an execution past its deadline is not renewed", claim.key)
            if is_kept:
                lease = seen.after.leases.get((known.priority, seen.after.records[claim.task_id]["e"]))
                is_fresh = lease is not None and lease.idle_ms <= seen.took_ms and lease.worker == claim.worker
                expect(is_fresh, "a lease that is kept is renewed", claim.key, lease)
                told = claim.key in answer.cancel
                expect(told == known.cancel_requested, "a holder is told of a cancel", claim.key, told)


@dataclass(frozen=True)
class Finalize:
    """Ends of executions, in one call; meanwhile something else is where this key belongs, if one is named."""

    items: tuple[tuple[Claim, Transition], ...]
    misplaced: str = ""

    def __repr__(self) -> str:
        misplaced = f", misplaced={self.misplaced!r}" if self.misplaced else ""
        return f"Finalize({[(*claim.key, transition) for claim, transition in self.items]}{misplaced})"

    def run(self, place: Place) -> list[Settled]:
        if not self.misplaced:
            return place.leases.finalize(self.items)
        held = place.connection.call("DUMP", self.misplaced)
        place.connection.call("SET", self.misplaced, "misplaced")
        answer = place.leases.finalize(self.items)
        place.connection.call("DEL", self.misplaced)
        if held is not None:
            place.connection.call("RESTORE", self.misplaced, 0, held)
        return answer

    def learn(self, promises: Promises, answer: list[Settled], seen: Seen) -> None:
        for (claim, transition), settled in zip(self.items, answer, strict=True):
            known = promises.tasks[claim.task_id]
            expected = _expected(known, claim.token)
            if expected == {Settled.OK} and self.misplaced in needed(promises, known, transition):
                expected = {Settled.DAMAGED}
            expect(settled in expected, "only the holder ends an execution, once", claim.key, settled, expected)
            if settled is Settled.OK:
                follow(promises, known, transition, seen)
            promises.events["TASK_FENCED"] += settled is Settled.FENCED


def needed(promises: Promises, known: Known, transition: Transition) -> set[str]:
    """The shared keys without which this end cannot be recorded, beside the stream of its delivery."""
    keys = Keys(promises.settings.prefix)
    if known.cancel_requested and not isinstance(transition, Succeed | Cancel):
        return {keys.index(promises.queue, TaskStatus.CANCELLED)}
    grave = {keys.index(promises.queue, death(promises))}
    if promises.settings.dlq_enabled:
        grave.add(keys.dead_letters(promises.queue))
    match transition:
        case Succeed():
            return {keys.index(promises.queue, TaskStatus.SUCCEEDED)}
        case Cancel():
            return {keys.index(promises.queue, TaskStatus.CANCELLED)}
        case Reschedule(_, delay_ms) | Postpone(delay_ms):
            return {keys.retry_schedule(promises.queue)} if delay_ms else set()
        case Block():
            return {keys.blocked(promises.queue)} | grave
        case DeadLetter():
            return grave
        case Release():
            return set()


def _expected(known: Known, token: str) -> set[Settled]:
    if known.status is None:
        return {Settled.GONE}
    if known.status is TaskStatus.RUNNING and known.token == token:
        return {Settled.OK}
    if known.last_token == token:
        return {Settled.DUP}
    return {Settled.DUP, Settled.FENCED} if token in known.recorded else {Settled.FENCED}
