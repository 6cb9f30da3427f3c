"""Executions: claim them, keep them, end them; and be told when a task ends."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from dtq_engine.errors import MemoryFull, TaskNotFound
from dtq_engine.model import (
    AttemptError,
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
from dtq_engine.store.base import Base, chunks
from dtq_engine.store.records import ERROR_TYPE_MAX, decode_claim, encode_error
from dtq_engine.store.states import status_of
from dtq_engine.store.workers import Workers

TASKS_PER_CALL = 100
SUMMARY_MAX = 200

Key = tuple[str, str]


class Leases:
    """Claims, renews and finalizes executions under their tokens."""

    def __init__(self, base: Base, workers: Workers) -> None:
        self._base = base
        self._workers = workers

    def claim(self, queue: str, *, worker: str, token: str, limit: int, types_digest: str) -> ClaimReply:
        """Start up to `limit` (at most 100) waiting tasks of one queue, the most urgent first.

        `token`, one word, must be fresh for each new claim and the same for one whose answer was lost: it then
        answers with what runs under it. Raises RedisUnavailable; ask again with the same token then.
        """
        settings = self._base.settings
        lease_ms, grace_ms = round(settings.visibility_timeout_s * 1000), round(settings.unknown_type_grace_s * 1000)
        args = (worker, token, min(limit, TASKS_PER_CALL), lease_ms, types_digest, grace_ms)
        reply = self._base.run("claim", queue, *args)
        if reply[0] == b"REGISTER":
            self._workers.register_queue(queue)
            reply = self._base.run("claim", queue, *args)
        claims = tuple(decode_claim(item, queue, worker, token) for item in reply[1:])
        word, _, room_in_ms = reply[0].decode().partition(" ")
        return ClaimReply(ClaimStatus(word), claims, int(room_in_ms) if room_in_ms else None)

    def renew(
        self, claims: Sequence[Claim], *, overdue: Collection[Key] = (), ran_ms: Mapping[Key, int] | None = None
    ) -> Renewal:
        """Keep these leases. `overdue`: keys of executions kept although past their deadline.

        `ran_ms` tells by the caller's own clock how long each has run, and so whether it is past it; of those that are
        not in it Redis' clock tells, which may have been set since they started.
        """
        said = {key: str(ran) for key, ran in (ran_ms or {}).items()} | dict.fromkeys(overdue, "overdue")
        lost: set[Key] = set()
        cancel: set[Key] = set()
        for queue, positions in _by_queue(claims).items():
            for part in chunks(positions, [0] * len(positions), TASKS_PER_CALL):
                batch = [claims[position] for position in part]
                args = [item for claim in batch for item in (*claim.key, said.get(claim.key, ""))]
                reply: list[list[int]] = self._base.run("renew", queue, batch[0].worker, *args)
                for keys, numbers in ((lost, reply[0]), (cancel, reply[1])):
                    keys.update(batch[number - 1].key for number in numbers)
        return Renewal(frozenset(lost), frozenset(cancel))

    def finalize(self, items: Sequence[tuple[Claim, Transition]]) -> list[Settled]:
        """End executions, each exactly once and only by its holder; the answers in the same order.

        Raises RedisUnavailable; send the same items again then: what was recorded answers DUP.
        """
        answers: dict[int, Settled] = {}
        grace_ms = round(self._base.settings.unknown_type_grace_s * 1000)
        for queue, positions in _by_queue([claim for claim, _ in items]).items():
            ends = {position: _encode(items[position][1]) for position in positions}
            sizes = [len(ends[position]) + 256 for position in positions]
            for part in chunks(positions, sizes, TASKS_PER_CALL):
                args = [value for position in part for value in (*items[position][0].key, ends[position])]
                words = self._base.run("finalize", queue, grace_ms, *args).decode().split()
                answers.update((position, Settled(word)) for position, word in zip(part, words, strict=True))
        return [answers[position] for position in range(len(items))]

    def watch(self, task_id: str, queue: str, process: str) -> TaskStatus:
        """Have `process` told on its done channel when the task ends; the status now. Raises TaskNotFound."""
        status = status_of(self._base.run("watch", queue, task_id, process))
        if status is None:
            raise TaskNotFound(f"There is no task {task_id} in queue {queue}: check the id, or its time is over.")
        return status

    def wake(self, queue: str) -> None:
        """Give back a wake-up token that was popped but not used."""
        # A full Redis refuses it; a token that is lost costs one block time.
        with suppress(MemoryFull):
            self._base.connection.call("LPUSH", self._base.keys.wake(queue), "1")


def _by_queue(claims: Sequence[Claim]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for position, claim in enumerate(claims):
        groups.setdefault(claim.queue, []).append(position)
    return groups


def _encode(transition: Transition) -> str | bytes:
    """How an execution ends, as `finalize.lua` takes it."""
    match transition:
        case Succeed(None):
            return "S"
        case Succeed(result, size):
            return b"S%d v\n%s" % (size or 0, result)
        case Reschedule(error, delay_ms):
            return b"Y%d %s\n%s" % (delay_ms, _word(error.type[:ERROR_TYPE_MAX]), encode_error(error))
        case DeadLetter(error, reason):
            return b"D0 %s\n%s\n%s" % (_word(reason), _summary(error), encode_error(error))
        case Cancel(error):
            return b"C0 %s\n%s" % (_word(error.type[:ERROR_TYPE_MAX]), encode_error(error))
        case Release(restarts):
            return "L" if restarts else "H"
        case Postpone(delay_ms):
            return b"Z%d \n" % delay_ms
        case Block(reason):
            return b"B0 %s\n" % _word(reason)


def _word(text: str) -> bytes:
    return "_".join(text.split()).encode("utf-8", "replace")


def _summary(error: AttemptError) -> bytes:
    return f"{error.type}: {error.message}"[:SUMMARY_MAX].encode("utf-8", "replace")
