"""What task types look like, published by workers for processes that have no handlers."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from dtq_engine import scripts
from dtq_engine.model import TaskSchema, WorkerInfo
from dtq_engine.store.base import Base
from dtq_engine.store.workers import TYPES_TTL_MS, Workers

FIELD = "schema"
REDACTED_TTL_MS = 10 * 365 * 86_400_000


class Schemas:
    """The JSON Schemas of the task types that living workers know."""

    def __init__(self, base: Base, workers: Workers) -> None:
        self._base = base
        self._workers = workers

    def list(self, type: str | None = None) -> "list[TaskSchema]":
        """The schemas of all types, or of one, by type; those of a type leave with the last worker that has it.

        `releases` and `workers` say who has it so. Two for one type mean that releases with other parameters run
        side by side, and that a payload is good if it fits one of them. None are known while no worker runs.
        """
        holders: dict[tuple[str, str], list[WorkerInfo]] = {}
        for info in self._workers.list():
            for name, digest in info.schemas.items():
                if type in {None, name}:
                    holders.setdefault((name, digest), []).append(info)
        found = sorted(holders)
        bodies = self._base.connection.pipeline([("HGET", self._base.keys.schema(*each), FIELD) for each in found])
        return [
            replace(
                schema,
                releases=tuple(sorted({info.release for info in holders[each] if info.release})),
                workers=tuple(info.id for info in holders[each]),
            )
            for each, body in zip(found, bodies, strict=True)
            if isinstance(body, bytes) and (schema := _decode(body)) is not None
        ]

    def publish(self, schemas: Sequence[TaskSchema]) -> None:
        """Put these in place of what is there, for five minutes."""
        for schema in schemas:
            key, body = self._key(schema), msgspec.json.encode(schema)
            # The script that workers say they are alive by: it passes at maxmemory, which SET does not.
            scripts.run(self._base.connection, "beat", key, (TYPES_TTL_MS, FIELD, body))
        for schema in schemas:
            if names := schema.defaults.get("redact"):
                key, body = self._base.keys.redacted(schema.type), msgspec.json.encode(names)
                scripts.run(self._base.connection, "beat", key, (REDACTED_TTL_MS, FIELD, body))

    def redacted(self, type: str) -> frozenset[str]:
        """The names in tasks of a type whose values are shown to nobody, by the last worker that published some.

        They stay when the workers are gone, because the tasks do so too.
        """
        body = self._base.connection.call("HGET", self._base.keys.redacted(type), FIELD)
        return frozenset(msgspec.json.decode(body, type=list[str])) if body else frozenset()

    def keep(self, schemas: Sequence[TaskSchema]) -> None:
        """Have these stay for another five minutes; those that Redis has lost are published again."""
        keys = [self._key(schema) for schema in schemas]
        kept = self._base.connection.pipeline([("PEXPIRE", key, TYPES_TTL_MS) for key in keys])
        self.publish([schema for schema, there in zip(schemas, kept, strict=True) if there != 1])

    def _key(self, schema: TaskSchema) -> str:
        return self._base.keys.schema(schema.type, schema.digest)


def _decode(body: bytes) -> TaskSchema | None:
    try:
        return msgspec.json.decode(body, type=TaskSchema)
    except (msgspec.MsgspecError, ValueError):
        return None
