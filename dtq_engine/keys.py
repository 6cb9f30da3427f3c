"""The name of every key and channel, in one place. `lua/_lib.lua` builds the same names; a test compares them.

All keys of one queue carry its name as a hash tag, `{queue}`, so that they share a slot of a Redis Cluster
and one script may touch them all. Global keys are never written by a script that also writes a queue.
"""

from dataclasses import dataclass

from dtq_engine.model import FINAL, TaskStatus

PRIORITIES = range(9, -1, -1)
"""The bands of a queue, the most urgent first."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Key names under one prefix; channel names carry the database number too, as Redis does not part them."""

    prefix: str = "dtq"
    database: int = 0

    # One queue

    def queue(self, queue: str) -> str:
        """String: the marker of a registered queue; it routes the scripts."""
        return f"{self.prefix}:queue:{{{queue}}}"

    def paused(self, queue: str) -> str:
        """String: who paused the queue, why, since when and until when, as JSON."""
        return f"{self.queue(queue)}:paused"

    def stream(self, queue: str, priority: int) -> str:
        """Stream: waiting and running deliveries of one band; an entry holds a task id."""
        return f"{self.prefix}:stream:{{{queue}}}:p{priority}"

    def dead_letters(self, queue: str) -> str:
        """Stream: the dead letters, oldest first."""
        return f"{self.prefix}:stream:dead-letter:{{{queue}}}"

    def schedule(self, queue: str) -> str:
        """Sorted set: PENDING ids by the ms when they are due."""
        return f"{self.prefix}:schedule:{{{queue}}}"

    def retry_schedule(self, queue: str) -> str:
        """Sorted set: RETRYING ids by the ms when they are due."""
        return f"{self.prefix}:retry:schedule:{{{queue}}}"

    def blocked(self, queue: str) -> str:
        """Sorted set: BLOCKED ids by the ms of the next look."""
        return f"{self.prefix}:blocked:{{{queue}}}"

    def index(self, queue: str, status: TaskStatus) -> str:
        """Sorted set: ids that ended as `status`, by the ms of their end."""
        return f"{self.prefix}:tasks:{status.value}:{{{queue}}}"

    def counters(self, queue: str) -> str:
        """Hash: exact totals and histogram buckets by task type."""
        return f"{self.prefix}:counters:{{{queue}}}"

    def events(self, queue: str) -> str:
        """Stream: the event log."""
        return f"{self.prefix}:stream:events:{{{queue}}}"

    def audit(self, queue: str) -> str:
        """Stream: what operators did."""
        return f"{self.prefix}:stream:audit:{{{queue}}}"

    def history(self, queue: str, span: str) -> str:
        """Hash: a ring of notes of the counters as they were, over a span of time."""
        return f"{self.prefix}:history:{{{queue}}}:{span}"

    def wake(self, queue: str) -> str:
        """List: tokens that wake idle workers."""
        return f"{self.prefix}:wake:{{{queue}}}"

    def wake_schedule(self, queue: str) -> str:
        """List: tokens that wake the scheduler when a schedule has a new head."""
        return f"{self.prefix}:wake:schedule:{{{queue}}}"

    def types(self, queue: str, digest: str) -> str:
        """Set: the task types that a build of workers knows."""
        return f"{self.prefix}:types:{{{queue}}}:{digest}"

    def builds(self, queue: str) -> str:
        """Sorted set: the digests of the builds of workers that live, by the ms when their types lapse."""
        return f"{self.prefix}:builds:{{{queue}}}"

    def crew(self, queue: str) -> str:
        """Hash: the workers that say they serve the queue, each with the token of its life."""
        return f"{self.prefix}:crew:{{{queue}}}"

    def claim(self, queue: str, worker: str, token: str) -> str:
        """String: the ids of one claim, for when it is sent again."""
        return f"{self.prefix}:claim:{{{queue}}}:{worker}:{token}"

    def periodic(self, queue: str) -> str:
        """Set: the names of the queue's periodic tasks."""
        return f"{self.prefix}:periodic:{{{queue}}}"

    def periodic_task(self, queue: str, name: str) -> str:
        """Hash: one periodic task; `lua/define.lua` lists its fields."""
        return f"{self.periodic(queue)}:{name}"

    def outbox(self, queue: str) -> str:
        """Stream: what children in other queues have yet to be told, and parents there have yet to be asked."""
        return f"{self.prefix}:outbox:{{{queue}}}"

    def limits(self, queue: str) -> str:
        """Hash: the numbers of the queue's limits; `lua/declare.lua` lists its fields."""
        return f"{self.prefix}:limits:{{{queue}}}"

    def slots(self, queue: str, bucket: str) -> str:
        """Sorted set: who holds a slot of a limit's bucket, `id token` with 1 while it runs, `id -` with 0 before."""
        return f"{self.prefix}:limit:{{{queue}}}:{bucket}"

    def lines(self, queue: str) -> str:
        """Sorted set: the buckets that tasks wait for, all with 0."""
        return f"{self.prefix}:limited:{{{queue}}}"

    def line(self, queue: str, bucket: str) -> str:
        """Sorted set: the ids that wait for a bucket, in order; for `*` a string: a claim was turned away."""
        return f"{self.lines(queue)}:{bucket}"

    def starts(self, queue: str, bucket: str) -> str:
        """List: when tasks of a bucket started, in ms, newest first, as many as its rate allows."""
        return f"{self.prefix}:starts:{{{queue}}}:{bucket}"

    def request(self, queue: str, verb: str, target: str, request: str) -> str:
        """String: the answer to an operator's request about a task or queue, for when it is sent again."""
        return f"{self.prefix}:request:{{{queue}}}:{verb}:{target}:{request}"

    def pulse(self, queue: str) -> str:
        """String: when heartbeats or reapers last saw Redis' clock, and when it last stood still."""
        return f"{self.prefix}:pulse:{{{queue}}}"

    def clock(self, queue: str) -> str:
        """String: ms that tests moved the clock by; absent in production."""
        return f"{self.prefix}:clock:{{{queue}}}"

    def depth(self, queue: str) -> str:
        """String: at most how many tasks wait or run, for a second from when they were counted."""
        return f"{self.prefix}:depth:{{{queue}}}"

    def scratch(self, queue: str) -> str:
        """Never exists: the key whose DEL opens a script."""
        return f"{self.prefix}:scratch:{{{queue}}}"

    # One task

    def task(self, queue: str, task_id: str) -> str:
        """Hash: the record, which is the truth about the task."""
        return f"{self.prefix}:task:{{{queue}}}:{task_id}"

    def payload(self, queue: str, task_id: str) -> str:
        """String: a payload of over 64 bytes."""
        return f"{self.prefix}:payload:{{{queue}}}:{task_id}"

    def headers(self, queue: str, task_id: str) -> str:
        """String: headers of over 64 bytes."""
        return f"{self.prefix}:headers:{{{queue}}}:{task_id}"

    def errors(self, queue: str, task_id: str) -> str:
        """List: how the last ten attempts failed, oldest first."""
        return f"{self.prefix}:errors:{{{queue}}}:{task_id}"

    def result(self, queue: str, task_id: str) -> str:
        """String: a result of over 64 bytes."""
        return f"{self.prefix}:result:{{{queue}}}:{task_id}"

    def logs(self, queue: str, task_id: str) -> str:
        """Stream: the latest log lines of the task's executions; `lua/report.lua` says how they are named."""
        return f"{self.prefix}:logs:{{{queue}}}:{task_id}"

    def steps(self, queue: str, task_id: str) -> str:
        """Hash: what executions saved for later ones: values of steps (`s…`), marks (`o…`), where to go on (`c`)."""
        return f"{self.prefix}:steps:{{{queue}}}:{task_id}"

    def children(self, queue: str, task_id: str) -> str:
        """Sorted set: the tasks that wait for this one, as `queue id`, in the order in which they were linked."""
        return f"{self.prefix}:children:{{{queue}}}:{task_id}"

    def awaits(self, queue: str, task_id: str) -> str:
        """Hash: by parent, as `queue id`, what became of it, and its result; `lua/_links.lua` says how."""
        return f"{self.prefix}:awaits:{{{queue}}}:{task_id}"

    def satellites(self, queue: str, task_id: str) -> tuple[str, ...]:
        """All the side keys a task can have; they live and go with its record."""
        return (
            self.payload(queue, task_id),
            self.headers(queue, task_id),
            self.errors(queue, task_id),
            self.result(queue, task_id),
            self.logs(queue, task_id),
            self.steps(queue, task_id),
            self.children(queue, task_id),
            self.awaits(queue, task_id),
        )

    def idempotency(self, queue: str, key: str) -> str:
        """String: fingerprint, task id and state behind an idempotency key."""
        return f"{self.prefix}:idempotency:{{{queue}}}:{key}"

    def unique(self, queue: str, digest: str) -> str:
        """String: the id of the task that holds a unique key; that task's record says whether it still does."""
        return f"{self.prefix}:unique:{{{queue}}}:{digest}"

    def throttle(self, queue: str, digest: str, per_ms: int) -> str:
        """List: the latest acceptances under a key, each `ms id`, newest first; gone `per_ms` after the last."""
        return f"{self.prefix}:throttle:{{{queue}}}:{digest}:{per_ms}"

    def absorbed(self, queue: str, task_id: str) -> str:
        """String: the outcome of a submit for which another task stands, and that task's id; for its resend."""
        return f"{self.prefix}:absorbed:{{{queue}}}:{task_id}"

    # The whole deployment

    def queues(self) -> str:
        """Set: the names of all queues."""
        return f"{self.prefix}:queues"

    def workers(self) -> str:
        """Set: the ids of workers that have been seen."""
        return f"{self.prefix}:workers"

    def worker(self, worker: str) -> str:
        """Hash: what a worker last said of itself; gone when it stops saying so."""
        return f"{self.prefix}:worker:{worker}"

    def schema(self, type: str, digest: str) -> str:
        """Hash: the JSON Schemas of a task type, as the builds have it whose parameters have this digest."""
        return f"{self.prefix}:schema:{type}:{digest}"

    def definition(self, name: str, digest: str) -> str:
        """Hash: what workers say of a periodic task, as the builds have it whose definition has this digest."""
        return f"{self.prefix}:definition:{name}:{digest}"

    def rejections(self) -> str:
        """Hash: how many tasks were not accepted, by reason."""
        return f"{self.prefix}:rejections"

    def redacted(self, type: str) -> str:
        """Hash: the names in tasks of this type whose values are shown to nobody."""
        return f"{self.prefix}:redacted:{type}"

    def login(self, origin: str) -> str:
        """String: how often signing in failed from an origin, and until when it waits; expires in an hour."""
        return f"{self.prefix}:login:{origin}"

    def leader(self) -> str:
        """String: the token of the scheduler that leads."""
        return f"{self.prefix}:lock:scheduler"

    # Channels

    def channels(self) -> str:
        """What every channel begins with."""
        return f"{self.prefix}:{self.database}"

    def control_channel(self, worker: str) -> str:
        """Channel: cancel requests to one worker."""
        return f"{self.channels()}:control:{worker}"

    def done_channel(self, process: str) -> str:
        """Channel: ends of tasks that one process waits for (`*`: that any process may wait for)."""
        return f"{self.channels()}:done:{process}"

    def events_channel(self, queue: str) -> str:
        """Channel: the events of one queue as they happen."""
        return f"{self.channels()}:events:{{{queue}}}"

    def indexes(self, queue: str) -> dict[TaskStatus, str]:
        """The index of each final status."""
        return {status: self.index(queue, status) for status in FINAL}
