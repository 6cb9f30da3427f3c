"""Where the time of a task goes: `make bench-anatomy`, about a minute; docs/performance.md tells what follows.

Instructions of the server by callgrind, its time by command, a submit's by module, a worker's by thread.
"""

import cProfile
import logging
import pstats
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import run, stage
from benchmarks.figures import Figure
from benchmarks.instructions import instructions
from benchmarks.run import Plan
from benchmarks.submit import in_bulk, one_by_one
from benchmarks.tasks import app, noop_async, noop_sync
from dtq_engine import Settings
from dtq_engine.worker import Worker

SCRIPTS = ("fcall", "evalsha", "eval")
# Commands that only scripts call here; what the benchmark itself asks meanwhile is none of them.
IN_SCRIPTS = frozenset(
    """hset hget hgetall hdel hincrby hmget xadd xack xdel xreadgroup xlen xclaim zadd zrem zcard zrange zscore expire
    pexpire persist set get del exists type incrby lpush rpush lrange ltrim llen publish sismember unlink""".split()  # noqa: SIM905
)
SHARE = 0.015
"""What is less than this share of the whole is not shown by itself."""


def redis(plan: Plan) -> tuple[Figure, ...]:
    """µs per task that the server spends in each command, for a submit and for a drain."""
    with stage.server() as server:
        stage.attach(server.url)
        one_by_one(10)
        singles = plan.tasks // 10
        single = spent("submit, one by one", singles, lambda: one_by_one(singles))
        bulk = spent("submit, bulk", plan.tasks, lambda: in_bulk(plan.tasks))
        with stage.worker(server.url):
            stage.until(lambda: stage.succeeded(noop_async.name) >= plan.tasks + singles + 10)
            app.store.control.pause("default")
            in_bulk(plan.tasks)
            drained = spent("drain", plan.tasks, lambda: let_go(noop_async.name, plan.tasks))
        app.close()
    return (*single, *bulk, *drained)


def let_go(kind: str, tasks: int) -> None:
    """Let what waits be run to its end."""
    goal = stage.succeeded(kind) + tasks
    app.store.control.resume("default")
    stage.until(lambda: stage.succeeded(kind) >= goal)


def spent(name: str, tasks: int, work: Callable[[], None]) -> tuple[Figure, ...]:
    """The server's µs per task while it does some work: in all, by command in scripts, and outside of them."""
    app.connection.client.config_resetstat()
    cpu = stage.server_cpu_s()
    work()
    whole = (stage.server_cpu_s() - cpu) * 1e6
    spent_us = microseconds()
    scripts = sum(spent_us.pop(each, 0) for each in SCRIPTS)
    inside = {each: us for each, us in spent_us.items() if each in IN_SCRIPTS}
    rows = {"in all": whole, "network, and calls that are no scripts": max(0.0, whole - scripts)}
    rows |= {"Lua around the commands": scripts - sum(inside.values())}
    rows |= {each.upper(): us for each, us in ordered(inside) if us > SHARE * whole}
    return tuple(Figure(f"{name}: {row}", "µs per task", (us / tasks,)) for row, us in rows.items())


def microseconds() -> dict[str, float]:
    """What the server has spent in each command since the statistics began anew."""
    stats = app.connection.info("commandstats")
    return {name.removeprefix("cmdstat_"): float(re.findall(r"usec=(\d+)", value)[0]) for name, value in stats.items()}


def client(plan: Plan) -> tuple[Figure, ...]:
    """Where the time of a single submit goes in its caller, by module; the waiting for the answer is a part of it."""
    calls = plan.tasks // 5
    with stage.server() as server:
        stage.attach(server.url)
        one_by_one(100)
        began = time.perf_counter()
        one_by_one(calls)
        whole = (time.perf_counter() - began) / calls * 1e6
        profile = cProfile.Profile()
        profile.runcall(one_by_one, calls)
        app.close()
    groups: dict[str, float] = defaultdict(float)
    for (file, _, function), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        groups[module_of(file, function)] += own
    profiled = sum(groups.values())
    shown = {name: own / profiled * whole for name, own in ordered(groups) if own > SHARE * profiled}
    rest = whole - sum(shown.values())
    return tuple(
        Figure(name, "µs per submit", (us,)) for name, us in ({"in all": whole} | shown | {"all else": rest}).items()
    )


def module_of(file: str, function: str) -> str:
    """What a function of a profile belongs to: a module of dtq, a package, or what is done in C."""
    if found := re.search(r"dtq_engine/(.*)\.py$", file):
        return f"dtq_engine.{found[1].replace('/', '.')}"
    if found := re.search(r"site-packages/(\w+)", file):
        return found[1]
    if file == "~":
        found = re.search(r"'(\w+)' of '([\w.]+)' objects|method ([\w.]+)", function)
        name = next((f"{part[1]}.{part[0]}" if part[1] else part[2] for part in [found.groups()]), "") if found else ""
        return f"{name} (in C)" if re.search(r"socket|poll|recv|send", name) else "other functions in C"
    return f"standard library: {Path(file).stem}"


def worker(plan: Plan) -> tuple[Figure, ...]:
    """A worker's CPU by thread, for async handlers and for those in threads."""
    figures: list[Figure] = []
    logging.getLogger("dtq").setLevel(logging.ERROR)
    for name, task in (("async", noop_async), ("threads", noop_sync)):
        with stage.server() as server:
            settings = Settings(redis_url=server.url, worker_concurrency=300, max_queue_depth=stage.MOST_WAITING)
            app.configure(settings)
            app.store.control.pause("default")
            stage.fill(task.name, plan.tasks)
            running = Worker(app, settings)
            running.start()
            before = by_thread()
            let_go(task.name, plan.tasks)
            after = by_thread()
            running.stop()
            running.join(30)
            app.close()
        used = {thread: (after[thread] - before.get(thread, 0.0)) / plan.tasks * 1e6 for thread in after}
        figures += [Figure(f"{name}: in all", "µs of CPU per task", (sum(used.values()),))]
        figures += [
            Figure(f"{name}: {thread}", "µs of CPU per task", (us,))
            for thread, us in ordered(used)
            if us > SHARE * sum(used.values())
        ]
    return tuple(figures)


def ordered(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    """The largest first."""
    return sorted(parts.items(), key=lambda row: -row[1])


def by_thread() -> dict[str, float]:
    """CPU seconds of each thread of this process but this one, those of a pool together."""
    found: dict[str, float] = defaultdict(float)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.native_id is not None:
            name = re.sub(r"[-_]?\d+$", "", thread.name)
            found[name] += int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0]) / 1e9
    return found


if __name__ == "__main__":
    PARTS = {"instructions": instructions, "redis": redis, "submit": client, "worker": worker}
    run.main("anatomy", __doc__, PARTS, tasks=10_000)
