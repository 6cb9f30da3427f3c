"""What docs/benchmarks.md says around its figures."""

from collections.abc import Mapping

QUIET = 0.1
"""Which share of the machine others may take before the page says so in bold: then the figures are for trial only."""

HEAD = """# Benchmarks

<!-- Made from benchmarks/results/*.json by `python -m benchmarks.report`; `make bench ARGS=--save` measures anew. -->

How fast dtq is, what it costs, and where others are better. All is measured with everything on that is on in
production: records, history, events, counters, indexes and results. Figures are medians of the runs, with the
extremes beside them. Machines are shared and differ; so beside a rate stands, where that makes sense, what a bare
loop of small Lua scripts that only move ids did in the same run (`benchmarks/limit.py`), and other task queues are
measured in one run with dtq. Where the time goes is told in [performance.md](performance.md).

Measured on"""

DISTURBED = """**Some of these figures were taken while other processes and machines used up to {others:.0%} of this
machine. They show that the tools work, and at best how things compare; they do not show how fast anything is. Each
part says how it was.**"""

AIMS = """## What is aimed at, and what came out

A bound in tasks per second is for a machine of two cores like this one. Others are ratios within one run, which
hold anywhere."""

PEERS = """## Beside other task queues

One worker process each, handlers that do nothing, results kept, an embedded Valkey of its own without persistence,
payloads of 40 bytes. A drain is timed from its first task on, when the worker is up, by what the handlers note; CPU
and memory of a worker are those of all its processes. All are installed by `make bench-peers` in their newest
release. What a drain cost is shown for async handlers, and for sync ones where there are no others. They are
measured one after the other; so that a machine that drifts meanwhile is noticed, a bare loop of scripts runs before
each drain."""

AHEAD = """### Where others are ahead

A peer may be ahead because it promises less (no results, no acknowledgement, no history); it is named all the
same."""

SETTINGS = """### Settings

Each is set to what its documentation recommends for throughput; sending many one after the other, 100 at a time, is
shown as “many” where an asyncio client has no call for it. Sidekiq is not measured: it needs Ruby."""

OURS = """## dtq alone"""

FOOT = """## Measuring yourself

| command | measures | takes about |
| --- | --- | --- |
| `make bench` | submit, drain, two workers, idle start, idling, memory, append-only file | 3 min |
| `make bench-peers` | other task queues beside dtq (installs them into build/peers) | 15 min |
| `make bench-growth` | a million waiting or delayed tasks, many queues, dead letters, lost workers, a cluster | 7 min |
| `make bench-http` | submits over HTTP beside a Flask hello-world | 1 min |
| `make bench-anatomy` | where the time of a task goes, for [performance.md](performance.md) (needs valgrind) | 1 min |

All take `ARGS="--runs 3 --tasks 20000 --only drain,start"`; with `--save` the figures are kept in
benchmarks/results and this page is written anew, part by part, so that a single part can be measured again. Nothing
else should run meanwhile: each part says how much of the machine others took."""

TITLES: Mapping[str, str] = {
    "submit": "Submit",
    "drain": "Drain",
    "two": "Two worker processes",
    "start": "Idle start",
    "idle": "Idling",
    "memory": "Memory",
    "durability": "Append-only file",
    "backlog": "Many waiting tasks",
    "queues": "Many queues",
    "delayed": "Many delayed tasks",
    "dead": "Many dead letters",
    "promotion": "Promotion",
    "reclaim": "Lost workers",
    "workers": "Worker processes",
    "back": "Memory after many tasks",
    "cluster": "A cluster of three primaries",
    "http": "HTTP",
}

BESIDE: Mapping[str, str] = {
    "submit": "of the bare scripts",
    "drain": "of the bare loop",
    "two": "of one",
    "durability": "of none",
    "backlog": "of few",
    "queues": "of one queue",
    "delayed": "of none",
    "dead": "of none",
    "workers": "of one",
    "back": "of that after few",
    "cluster": "of one server",
    "http": "of hello-world",
}

TEXTS: Mapping[str, str] = {
    "submit": "From one process. Bulk includes checking and encoding each task's arguments. The bare scripts write a "
    "hash of two fields and push an id, through redis-py's own client.",
    "drain": "One worker process with 300 slots (200 for handlers that sleep), up and idle before the tasks are let "
    "go. The bare loop fetches and finishes 50 ids a call, one call after the other.",
    "two": "The same drain by one process and by two, on a machine whose cores the server needs as well.",
    "start": "From before the submit to the handler's first line, over a worker that serves ten queues and idles; and "
    "from the handler's return to the caller of `result()`. The bands are those of the first queue.",
    "idle": "A worker that serves ten queues and leads, with nothing to do.",
    "backlog": "The same drain with little waiting, and with a part of very much.",
    "delayed": "Tasks that are due tomorrow, in the same queue.",
    "promotion": "Due tasks of a queue that nobody serves, made available by the leader.",
    "reclaim": "A worker vanishes; from the first execution that another takes over to the last that is decided.",
    "back": "Tasks without a result, beyond what the settings keep. Redis has to hold each for a minute after its end.",
    "cluster": "Three queues, one on each primary, drained by one worker; beside them the same three on one server. "
    "All of it shares the cores of this machine, so the rate cannot rise; what each server has to do can be read.",
    "durability": "Three servers in turns: one that writes nothing, and two with an append-only file.",
}
