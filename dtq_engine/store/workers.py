"""Who serves what: queues, worker processes, the task types they know, and which scheduler leads."""

import hashlib
from collections.abc import Sequence

import msgspec

from dtq_engine import scripts
from dtq_engine.model import WorkerInfo
from dtq_engine.store.base import Base

TYPES_TTL_MS = 300_000


class Workers:
    """The registry of queues and workers."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def list_queue(self, queue: str) -> None:
        """Add a queue to the list of all queues; it comes before anything is written to the queue itself."""
        scripts.run(self._base.connection, "enlist", self._base.keys.queues(), (queue,))

    def register_queue(self, queue: str) -> None:
        """Make a queue known that may be empty. Harmless to repeat."""
        self.list_queue(queue)
        self._base.run("register", queue)

    def announce(self, queues: Sequence[str], types: Sequence[str], *, build: str = "", frees: bool = False) -> str:
        """Publish which task types this build knows, for five minutes; the digest to claim under.

        `build` tells builds apart that know the same types with other parameters. Tasks that waited for such a build
        are looked at again if it is new, or with `frees`.
        """
        digest = digest_of(types, build)
        for queue in queues:
            self._base.run("announce", queue, digest, TYPES_TTL_MS, int(frees), *types)
        return digest

    def beat(self, info: WorkerInfo, ttl_s: float) -> bool:
        """Say that a worker is alive; without another beat it is forgotten after `ttl_s`. Whether it was known."""
        said = (round(ttl_s * 1000), "info", msgspec.json.encode(info))
        known = scripts.run(self._base.connection, "beat", self._base.keys.worker(info.id), said)
        # In this order: who lists the workers in between strikes off a name that has nothing behind it.
        scripts.run(self._base.connection, "enlist", self._base.keys.workers(), (info.id,))
        return bool(known)

    def leave(self, worker: str) -> None:
        """Forget a worker that has stopped."""
        self._base.connection.call("DEL", self._base.keys.worker(worker))
        self._base.connection.call("SREM", self._base.keys.workers(), worker)

    def retire(self, queue: str, *, idle_ms: int = 60_000) -> int:
        """Forget the consumers of workers that are gone, where nothing is pending for them; how many went."""
        alive = [info.id for info in self.list()]
        return int(self._base.run("retire", queue, idle_ms, *alive))

    def list(self) -> "list[WorkerInfo]":
        """The workers that are alive, by id; those that fell silent are dropped from the registry.

        One whose release describes itself in another way is left out.
        """
        names = sorted(self._base.connection.call("SMEMBERS", self._base.keys.workers()))
        # A name that is no text has no worker behind it either, and goes as those of silent ones do.
        bodies = self._base.connection.pipeline(
            [("HGET", self._base.keys.worker(name.decode("utf-8", "replace")), "info") for name in names]
        )
        silent = [name for name, body in zip(names, bodies, strict=True) if body is None]
        if silent:
            self._base.connection.call("SREM", self._base.keys.workers(), *silent)
        return [info for body in bodies if isinstance(body, bytes) for info in _decode(body)]

    def acquire_lock(self, token: str, ttl_ms: int = 10_000) -> bool:
        """Become or stay the leading scheduler for `ttl_ms`; whether that worked."""
        return bool(scripts.run(self._base.connection, "lock", self._base.keys.leader(), (token, ttl_ms)))

    def release_lock(self, token: str) -> None:
        """Stop leading, if we still do."""
        scripts.run(self._base.connection, "unlock", self._base.keys.leader(), (token,))


def digest_of(types: Sequence[str], build: str = "") -> str:
    """What a build that knows these types is called."""
    return hashlib.sha256("\n".join([*sorted(types), build]).encode()).hexdigest()[:16]


def _decode(body: bytes) -> "list[WorkerInfo]":
    try:
        return [msgspec.json.decode(body, type=WorkerInfo)]
    except (msgspec.MsgspecError, ValueError):
        return []
