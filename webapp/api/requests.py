"""What the API reads. The classes check what they read, and are its documentation."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dtq_engine import TaskStatus

TEN_YEARS_S = 10 * 365 * 86_400
DAY_S = 86_400

# Of Python's `$`, which also matches before a line break at the end, only what JSON Schema's means.

QueueName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$(?!\n)",
        description="1 to 64 lower-case letters, digits, `_` or `-`, the first a letter or digit.",
        examples=["reports"],
    ),
]
TypeName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$(?!\n)",
        description="1 to 128 letters, digits, `_`, `.`, `:` or `-`, the first a letter, a digit or `_`.",
        examples=["reports.build"],
    ),
]
TaskId = Annotated[
    str,
    Meta(
        pattern=r"^[0-9A-Za-z_-]{1,64}$(?!\n)",
        description="1 to 64 letters, digits, `_` or `-`.",
        examples=["01K8ME0V9VJ3X0D1M2Q6ZB7C5F"],
    ),
]
Reason = Annotated[str, Meta(max_length=500, description="Kept in the audit log.", examples=["ordered twice"])]
Limit = Annotated[int, Meta(ge=1, le=200, description="At most this many.")]
Cursor = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,6000}$(?!\n)", description="The `cursor` of a page, to go on where it ended.")
]
Wait = Annotated[float, Meta(ge=0, le=60, description="Seconds to wait for the task to end.", examples=[30])]


class _Input(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is read strictly: a name that it does not have is an error."""


class NewTaskBody(_Input):
    """A task. What is left out is as the task type says, if a worker has published it, else as the settings say."""

    type: TypeName
    payload: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})] | UnsetType = UNSET
    id: TaskId | None = None
    queue: QueueName | None = None
    priority: Annotated[int, Meta(ge=0, le=9, description="9 is the most urgent, 5 the default.")] | None = None
    delay_seconds: Annotated[float, Meta(ge=0, le=TEN_YEARS_S)] | None = None
    run_at: Annotated[datetime, Meta(tz=True, description="Instead of a delay.")] | None = None
    expires_in_seconds: (
        Annotated[float, Meta(gt=0, le=TEN_YEARS_S, description="Dropped unless started by then.")] | None
    ) = None
    timeout_ms: Annotated[int, Meta(ge=1, le=DAY_S * 1000, description="How long an attempt may run.")] | None = None
    timeout_seconds: Annotated[float, Meta(ge=0.001, le=DAY_S)] | None = None
    max_attempts: Annotated[int, Meta(ge=1, le=100)] | None = None
    idempotency_key: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=255,
                description="Up to 255 bytes. Sending it again gives the same task. The header `Idempotency-Key` wins.",
            ),
        ]
        | None
    ) = None
    after: (
        Annotated[
            list[TaskId],
            Meta(max_length=500, description="Tasks to wait for. If one fails for good this one is cancelled."),
        ]
        | None
    ) = None
    on_parent_failure: Annotated[
        Literal["cancel", "run"], Meta(description="`run`: it runs even if one it waits for fails for good.")
    ] = "cancel"
    unique: (
        Annotated[
            Literal["waiting", "until_done", "no"],
            Meta(
                description="No second task like it while one waits for its start, or until it is done; `no`: whatever "
                "its type says."
            ),
        ]
        | None
    ) = None
    unique_key: (
        Annotated[
            str,
            Meta(min_length=1, max_length=255, description="What makes tasks alike, instead of all of the payload."),
        ]
        | None
    ) = None
    at_most: (
        Annotated[int, Meta(ge=1, le=10_000, description="Of tasks like it so many are accepted in `per_seconds`.")]
        | None
    ) = None
    per_seconds: Annotated[float, Meta(ge=0.001, le=TEN_YEARS_S)] | None = None
    debounce_seconds: (
        Annotated[
            float,
            Meta(ge=0.001, le=TEN_YEARS_S, description="It starts so long after the last one like it was submitted."),
        ]
        | None
    ) = None
    debounce_max_seconds: (
        Annotated[float, Meta(ge=0.001, le=TEN_YEARS_S, description="But no later than so long after the first.")]
        | None
    ) = None
    metadata: (
        Annotated[
            dict[str, str],
            Meta(description="The handler finds it in its context; at most 4 KiB.", examples=[{"tenant": "7"}]),
        ]
        | None
    ) = None


class BatchBody(_Input):
    """Up to 1,000 tasks, each as in `POST tasks`; one that is wrong does not stop the others."""

    tasks: Annotated[list[msgspec.Raw], Meta(min_length=1, max_length=1000)]


class TasksQuery(_Input):
    """Which tasks to list."""

    queue: QueueName | None = None
    status: TaskStatus | None = None
    type: TypeName | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class PlaceQuery(_Input):
    """Where to look for a task."""

    queue: Annotated[QueueName | None, Meta(description="Look in this queue only, which is faster.")] = None


class TaskQuery(PlaceQuery):
    """Where to look for a task, and how long to wait for it."""

    wait: Wait = 0


class TreeQuery(PlaceQuery):
    """Where to look for a task, and how many others at most."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="At most this many tasks.")] = 200


class LogsQuery(PlaceQuery):
    """Which log lines of a task are wanted."""

    after: Annotated[int, Meta(ge=0, le=10**15, description="Only those after this number: go on where you were.")] = 0
    attempt: Annotated[int, Meta(ge=0, le=10**15, description="Only those of this attempt.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most so many.")] = 200


class ReasonBody(_Input):
    """Why something is done."""

    reason: Reason = ""


class RequeueBody(ReasonBody):
    """Why a task is requeued, and whether what its executions saved stays, so that it goes on where it was."""

    keep_steps: bool = True


class PriorityBody(ReasonBody, kw_only=True):
    """Another priority."""

    priority: Annotated[int, Meta(ge=0, le=9)]


class PauseBody(ReasonBody):
    """Why a queue is paused, and for how long; without `for_seconds` until it is resumed."""

    for_seconds: Annotated[float, Meta(ge=0.001, le=TEN_YEARS_S)] | None = None


class RateBody(_Input):
    """At most so many starts in any so many seconds."""

    starts: Annotated[int, Meta(ge=1, le=100_000)]
    seconds: Annotated[float, Meta(ge=0.001, le=31 * 86_400)]


class LimitBody(ReasonBody):
    """What a limit is to be; what is not given stays as the code says it, and `none` lifts it."""

    max_running: Annotated[int, Meta(ge=1, le=1_000_000)] | Literal["none"] | None = None
    rate: RateBody | Literal["none"] | None = None


class PurgeBody(ReasonBody):
    """What to purge: `delayed` means what waits for its time as well."""

    delayed: bool = False


class LettersQuery(_Input):
    """Which dead letters to list."""

    queue: QueueName | None = None
    type: TypeName | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class LettersBody(ReasonBody):
    """Which dead letters are meant. At least one of `queue`, `type` and `all` must be given."""

    queue: QueueName | None = None
    type: TypeName | None = None
    all: bool | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most this many at a time.")] = 1000


class EventsQuery(_Input):
    """Which events to list."""

    queue: QueueName | None = None
    type: (
        Annotated[
            str,
            Meta(
                pattern=r"^[A-Z_]{1,64}$(?!\n)",
                description="The name of an event, in upper-case letters and `_`.",
                examples=["TASK_FAILED"],
            ),
        ]
        | None
    ) = None
    task_id: TaskId | None = None
    worker_id: Annotated[str, Meta(min_length=1, max_length=128, examples=["web-1-7-c0ffee"])] | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class AuditQuery(_Input):
    """Which actions to list."""

    queue: QueueName | None = None
    limit: Limit = 50
    cursor: Cursor | None = None
