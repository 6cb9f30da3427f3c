"""Threads for sync handlers."""

import contextvars
import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

log = logging.getLogger("dtq.worker")

Job = Callable[[], None]


class Pool:
    """Up to `size` daemon threads that run jobs as they come; a thread is started when none would be idle.

    Not a `ThreadPoolExecutor`: the interpreter joins the threads of one at its exit, and a handler that
    sleeps on would keep the process alive.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._submitting = threading.Lock()
        self._submitted = 0
        # Counted without a lock: a moment too low costs a thread too many, nothing else.
        self._done = 0
        self._dones = itertools.count(1)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Run these, each as soon as a thread is free."""
        with self._submitting:
            self._submitted += len(jobs)
            wanted = min(self._size, self._submitted - self._done)
            while len(self._threads) < wanted:
                self._start_thread()
        for job in jobs:
            self._jobs.put(job)

    def stop(self) -> None:
        """Let the threads end after the jobs they are in; nobody waits for them."""
        for _ in self._threads:
            self._jobs.put(None)

    def _start_thread(self) -> None:
        name = f"dtq-handler-{len(self._threads) + 1}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            # In a context of its own, so that no task sees the context variables of the one before it.
            contextvars.copy_context().run(self._run, job)
            self._done = next(self._dones)

    def _run(self, job: Job) -> None:
        try:
            job()
        except BaseException:
            log.exception("an error escaped from a handler's thread")
