"""Settings: what an operator may decide, read from the environment and from nowhere else.

The dataclass below is the table: name, default, kind, bounds and meaning of each setting.
"""

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from dtq_engine.consistency import HEARTBEATS_PER_LEASE, contradictions
from dtq_engine.credentials import api_keys, header, signing_key, users
from dtq_engine.errors import ConfigurationError
from dtq_engine.kinds import KIND, Kind, as_written, choice, number, queue_names, redis_url, switch, text, whole

PREFIX = "DTQ_"

_DAY = 86_400
_YEARS = 10 * 365 * _DAY
_MIB = 1_048_576
_CRASH = "DTQ_CRASH"
_NOT_SETTINGS = frozenset({_CRASH})
KIN_MARK = "_DTQ_KIN"  # no setting: it is handed down to whatever the processes of a worker start


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything configurable. Wrong values raise ConfigurationError, which names all the problems at once."""

    redis_url: str = field(
        default="redis://127.0.0.1:6379/0",
        metadata=redis_url("Where Redis (7.0 or later) or Valkey (7.2 or later) is.", "REDIS_TLS_URL", "REDIS_URL"),
    )
    redis_tls_verify: bool = field(
        default=True, metadata=switch("Whether the certificate of a rediss:// server must be one that is trusted here.")
    )
    redis_connections: int = field(
        default=2,
        metadata=whole(
            "How many calls to Redis one process makes at the same time, each by a socket of its own.", 1, 1000
        ),
    )
    prefix: str = field(
        default="dtq",
        metadata=text(
            "What every key and channel begins with; apps that share a Redis need different ones.",
            r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}",
            "1 to 32 letters, digits, '_', '.' or '-', the first a letter or digit",
        ),
    )
    tasks: str | None = field(
        default=None,
        metadata=text(
            "The app whose tasks a worker runs.",
            r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*",
            "module:attribute, such as shop.tasks:app",
            optional=True,
        ),
    )
    env: Literal["development", "production"] = field(
        default="development",
        metadata=choice("Which rules apply: strict ones in production.", "development", "production"),
    )
    queues: tuple[str, ...] | None = field(
        default=None, metadata=queue_names("The only queues that may be used; not set: any.", optional=True)
    )
    release: str = field(
        default="",
        metadata=text(
            "The release that this process runs, shown beside its workers.",
            r"[\x21-\x7e]{0,128}",
            "at most 128 visible ASCII characters",
            aliases=("HEROKU_SLUG_COMMIT", "SOURCE_VERSION"),
        ),
    )

    worker_concurrency: int = field(
        default=10, metadata=whole("How many tasks one worker process runs at the same time.", 1, 1000)
    )
    worker_processes: int = field(default=1, metadata=whole("How many worker processes one command starts.", 1, 256))
    worker_queues: tuple[str, ...] = field(
        default=("default",), metadata=queue_names("The queues a worker serves, most urgent first.")
    )
    worker_id: str | None = field(
        default=None,
        metadata=text(
            "The worker's name, unique among those alive; several processes add a number; not set: one is made up.",
            r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
            "1 to 64 letters, digits, '_', '.' or '-', the first a letter or digit",
            optional=True,
        ),
    )
    visibility_timeout_s: float = field(
        default=30,
        metadata=number("After how long without a heartbeat a running task is taken from its worker.", 0.2, _DAY),
    )
    heartbeat_interval_s: float = field(
        default=5,
        metadata=number(
            f"How often a worker renews its leases; {HEARTBEATS_PER_LEASE} must fit into the visibility timeout.",
            0.05,
            3600,
        ),
    )
    drain_timeout_s: float = field(
        default=20, metadata=number("How long a worker that was told to stop waits for running tasks.", 0, _DAY)
    )
    process_start_timeout_s: float = field(
        default=60,
        metadata=number("How long a process that a task asked for may take to start: to import the app.", 0.1, _DAY),
    )
    alive_file: str | None = field(
        default=None,
        metadata=text(
            "A file touched only while the worker, or each of several processes, makes progress: a liveness check.",
            r"[^\x00]{1,4096}",
            "the path of a file",
            optional=True,
        ),
    )

    max_queue_depth: int = field(
        default=100_000,
        metadata=whole("How many unfinished tasks a queue holds before it refuses more; 0: no limit.", 0, 10**9),
    )
    submit_patience_s: float = field(
        default=15,
        metadata=number("How long a submit is sent again whose answer got lost; the web process: not at all.", 0, 15),
    )
    admit_memory_percent: int = field(
        default=85, metadata=whole("How full (percent of maxmemory) Redis may be before new tasks are refused.", 1, 100)
    )
    max_payload_bytes: int = field(
        default=262_144, metadata=whole("The largest payload of a task, as JSON.", 2, 2 * _MIB)
    )
    task_timeout_s: float = field(
        default=300.0, metadata=number("How long an attempt may run, unless its task says otherwise.", 0.001, _DAY)
    )
    max_attempts: int = field(
        default=12, metadata=whole("How many attempts a task has, unless it says otherwise.", 1, 100)
    )
    retry_base_delay_s: float = field(
        default=5.0,
        metadata=number("The delay before the second attempt; it doubles with each further one.", 0, _YEARS),
    )
    retry_max_delay_s: float = field(default=3600.0, metadata=number("The longest delay between attempts.", 0, _YEARS))
    retry_jitter: float = field(
        default=0.2, metadata=number("By which part of itself a delay is varied at random.", 0, 1)
    )
    max_lease_expiries: int = field(
        default=3, metadata=whole("How many workers a task may lose before it is dead-lettered.", 1, 100)
    )
    unknown_type_grace_s: int = field(
        default=3600, metadata=whole("How long a task whose type no worker knows waits for one that does.", 0, _YEARS)
    )

    task_retention_s: int = field(
        default=604_800, metadata=whole("How long finished tasks can be looked up.", 0, _YEARS)
    )
    keep_succeeded: int = field(
        default=10_000, metadata=whole("How many succeeded tasks are kept per queue.", 0, 10**8)
    )
    result_retention_s: int = field(default=3600, metadata=whole("How long a result is certain to be kept.", 0, _YEARS))
    result_max_bytes: int = field(
        default=262_144,
        metadata=whole("The largest result kept whole, as JSON; of a larger one only the beginning.", 64, 2 * _MIB),
    )
    idem_ttl_s: int = field(
        default=_DAY, metadata=whole("How long an idempotency key is remembered after its task's end.", 1, _YEARS)
    )
    idem_conflict: Literal["return", "reject"] = field(
        default="return",
        metadata=choice(
            "What a repeated idempotency key does: return the earlier task, or be rejected.", "return", "reject"
        ),
    )
    dlq_enabled: bool = field(default=True, metadata=switch("Whether tasks that failed for good are kept."))
    dlq_maxlen: int = field(default=10_000, metadata=whole("How many dead letters are kept per queue.", 1, 10**7))
    dlq_retention_s: int = field(default=15_552_000, metadata=whole("How long dead letters are kept.", 1, _YEARS))
    task_logs: Literal["DEBUG", "INFO", "WARNING", "ERROR", "OFF"] = field(
        default="INFO",
        metadata=choice(
            "The least severe log records of a handler that are kept with its task; OFF: only what ctx.log is told.",
            "DEBUG", "INFO", "WARNING", "ERROR", "OFF", ignore_case=True,
        ),
    )  # fmt: skip
    task_log_lines: int = field(
        default=1000, metadata=whole("How many log lines are kept of a task, the latest ones; 0: none.", 0, 100_000)
    )
    task_log_line_bytes: int = field(default=4096, metadata=whole("How many bytes are kept of a log line.", 16, _MIB))
    task_log_bytes: int = field(
        default=262_144, metadata=whole("How many bytes of log lines are kept of a task.", 1024, 4 * _MIB)
    )
    task_steps: int = field(
        default=1000, metadata=whole("How many steps and marks the executions of a task may save.", 1, 100_000)
    )
    task_steps_bytes: int = field(
        default=262_144, metadata=whole("How many bytes the executions of a task may save in all.", 64, 4 * _MIB)
    )

    allow_eviction: bool = field(
        default=False, metadata=switch("Whether to run on a Redis that may evict keys at will, and so lose tasks.")
    )

    secret_key: str | None = field(
        default=None,
        repr=False,
        metadata=signing_key("What signs the sessions of the web pages; a new one ends them all."),
    )
    api_keys: tuple[str, ...] = field(
        default=(), repr=False, metadata=api_keys("Which programs may use the HTTP API, by which keys.")
    )
    users: tuple[str, ...] = field(default=(), repr=False, metadata=users("Which people may use the web process."))
    trusted_user_header: str | None = field(
        default=None,
        metadata=header("How a proxy names the user whom it has authenticated; it must let no such header in itself."),
    )
    trusted_proxies: int = field(
        default=0, metadata=whole("How many proxies stand before the web process and add X-Forwarded headers.", 0, 10)
    )
    open: bool = field(default=False, metadata=switch("Whether the web process gives every right to everybody."))
    read_only: bool = field(
        default=False, metadata=switch("Whether the web process only shows, and changes nothing for anybody.")
    )
    viewers_see_payloads: bool = field(
        default=False, metadata=switch("Whether the role viewer sees payloads, results and errors of tasks.")
    )
    web_threads: int = field(
        default=64, metadata=whole("How many requests and open sockets a web process serves at a time.", 4, 1000)
    )
    web_wait_s: float = field(
        default=60,
        metadata=number("How long a request may wait for a task, at most; routers end it at their own limit.", 0, 60),
    )
    web_processes: int = field(default=1, metadata=whole("How many web processes one command starts.", 1, 64))

    log_level: str = field(
        default="INFO",
        metadata=choice(
            "The least severe messages that are logged.", "DEBUG", "INFO", "WARNING", "ERROR", ignore_case=True
        ),
    )
    log_json: bool = field(default=False, metadata=switch("Whether to log JSON, one object a line."))

    def __post_init__(self) -> None:
        """Raise ConfigurationError if values are wrong, whichever way they were given."""
        values = {name: getattr(self, name) for name in SETTINGS}
        problems = [problem(variable(name), SETTINGS[name], value) for name, value in _wrong(values)]
        if problems := problems or list(contradictions(self)):
            raise ConfigurationError(problems)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """The settings as the environment has them; an empty variable counts as not set.

        Raises ConfigurationError with every problem: wrong values, values at odds, and unknown `DTQ_…` names.
        """
        given = os.environ if environ is None else environ
        values, problems = _read(given)
        problems += _unknown(given)
        try:
            settings = cls(**values)
        except ConfigurationError as error:
            raise ConfigurationError([*problems, *error.problems]) from None
        if problems:
            raise ConfigurationError(problems)
        return settings


SETTINGS: Mapping[str, Kind] = {each.name: each.metadata[KIND] for each in fields(Settings)}
"""The kind of each setting, by field name."""


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def crash_point(environ: Mapping[str, str] | None = None) -> str:
    """Where a test wants this process to crash (`DTQ_CRASH`); empty, as it must be in production: nowhere."""
    return (os.environ if environ is None else environ).get(_CRASH, "")


def marked_environ(mark: str) -> dict[str, str]:
    """The environment for a process to be started, whose mark begins with that of this one."""
    return {**os.environ, KIN_MARK: f"{os.environ.get(KIN_MARK, '')}/{mark}"}


def _read(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, kind in SETTINGS.items():
        source = next((each for each in (variable(name), *kind.aliases) if environ.get(each, "").strip()), None)
        if source is None:
            continue
        written = environ[source].strip()
        try:
            value = kind.parse(written)
        except ValueError:
            value = None
        if value is not None and kind.accepts(value):
            values[name] = value
        else:
            problems.append(problem(source, kind, written))
    return values, problems


def _unknown(environ: Mapping[str, str]) -> Iterator[str]:
    known = [variable(name) for name in SETTINGS]
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known and name not in _NOT_SETTINGS:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
            yield f"{name} is not a setting; " + (f"did you mean {near[0]}?" if near else "remove it.")


def _wrong(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    return ((name, value) for name, value in values.items() if not SETTINGS[name].accepts(value))


def problem(source: str, kind: Kind, value: object) -> str:
    """The sentence about a value that its source, a variable or an option, must not give."""
    shown = "cannot be used" if kind.secret else f"cannot be {as_written(value)[:80]!r}"
    return f"{source} {shown}: set it to {kind.expects}."
