"""When another process may be started, after one could not be."""

import logging
import time

log = logging.getLogger("dtq.worker")

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0


class Starts:
    """Whether processes can be started; after one that failed the next is tried a while later, as it costs much.

    `problem` is why the last one failed, None if it did not.
    """

    def __init__(self) -> None:
        self.problem: BaseException | None = None
        self._failures = 0
        self._paused_until = 0.0

    @property
    def are_paused(self) -> bool:
        """Whether it is too soon for another."""
        return time.monotonic() < self._paused_until

    def failed(self, problem: BaseException) -> None:
        """Wait longer with each failure in a row; those of processes started at the same time are one."""
        if self.problem is not None and self.are_paused:
            return
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**self._failures)
        self.problem, self._paused_until = problem, time.monotonic() + pause_s
        self._failures += 1
        log.error(
            "no process could be started for tasks that need one, which are blocked; another is tried in %g s: %s",
            pause_s,
            problem,
        )

    def worked(self) -> None:
        """One has started."""
        self.problem, self._failures, self._paused_until = None, 0, 0.0
