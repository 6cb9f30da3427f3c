"""dtq: a task queue for Python on Redis Streams.

Every accepted task reaches exactly one terminal outcome. It may start more than once; only one execution can
record a result. What is named here is public; everything else may change between releases.
"""

from dtq_engine.config import Settings
from dtq_engine.context import TaskContext
from dtq_engine.engine import Dtq, load_app
from dtq_engine.errors import (
    ConfigurationError,
    DtqError,
    HookFailed,
    IdempotencyConflict,
    IdempotencyMismatch,
    InvalidCursor,
    InvalidHandler,
    InvalidTask,
    InvalidTransition,
    MemoryFull,
    NewerRecord,
    NotJson,
    PayloadTooLarge,
    PeriodicNotFound,
    PermanentError,
    ProcessDied,
    QueueFull,
    RedisDamaged,
    RedisRefused,
    RedisUnavailable,
    ResultNotReady,
    ResultTruncated,
    Retry,
    Snooze,
    SubmitUncertain,
    TaskFailed,
    TaskNotFound,
    UnknownTaskType,
)
from dtq_engine.handle import Handle
from dtq_engine.hooks import Failure
from dtq_engine.ids import new_id
from dtq_engine.model import (
    AttemptError,
    CancelOutcome,
    DeadLetterEntry,
    NewTask,
    Page,
    QueueStats,
    Receipt,
    RetryPolicy,
    SubmitOutcome,
    Task,
    TaskSchema,
    TaskStatus,
    WorkerInfo,
)
from dtq_engine.periodic import PeriodicTask
from dtq_engine.store import Store
from dtq_engine.store.events import AuditEntry, Event
from dtq_engine.store.feed import EventFeed, EventGap, EventReplay
from dtq_engine.store.history import Snapshot, Span

__all__ = [
    "AttemptError",
    "AuditEntry",
    "CancelOutcome",
    "ConfigurationError",
    "DeadLetterEntry",
    "Dtq",
    "DtqError",
    "Event",
    "EventFeed",
    "EventGap",
    "EventReplay",
    "Failure",
    "Handle",
    "HookFailed",
    "IdempotencyConflict",
    "IdempotencyMismatch",
    "InvalidCursor",
    "InvalidHandler",
    "InvalidTask",
    "InvalidTransition",
    "MemoryFull",
    "NewTask",
    "NewerRecord",
    "NotJson",
    "Page",
    "PayloadTooLarge",
    "PeriodicNotFound",
    "PeriodicTask",
    "PermanentError",
    "ProcessDied",
    "QueueFull",
    "QueueStats",
    "Receipt",
    "RedisDamaged",
    "RedisRefused",
    "RedisUnavailable",
    "ResultNotReady",
    "ResultTruncated",
    "Retry",
    "RetryPolicy",
    "Settings",
    "Snapshot",
    "Snooze",
    "Span",
    "Store",
    "SubmitOutcome",
    "SubmitUncertain",
    "Task",
    "TaskContext",
    "TaskFailed",
    "TaskNotFound",
    "TaskSchema",
    "TaskStatus",
    "UnknownTaskType",
    "WorkerInfo",
    "load_app",
    "new_id",
]
