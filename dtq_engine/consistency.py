"""Settings that are right each by itself and wrong together."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtq_engine.config import Settings  # which asks this module when it is made

HEARTBEATS_PER_LEASE = 4


def contradictions(settings: "Settings") -> Iterator[str]:
    """A sentence for each contradiction, which says what to change."""
    if settings.heartbeat_interval_s * HEARTBEATS_PER_LEASE > settings.visibility_timeout_s:
        yield (
            f"DTQ_HEARTBEAT_INTERVAL_S ({settings.heartbeat_interval_s:g}) must fit {HEARTBEATS_PER_LEASE} times into "
            f"DTQ_VISIBILITY_TIMEOUT_S ({settings.visibility_timeout_s:g}): lower the first or raise the second."
        )
    if settings.retry_base_delay_s > settings.retry_max_delay_s:
        yield (
            f"DTQ_RETRY_BASE_DELAY_S ({settings.retry_base_delay_s:g}) must not exceed "
            f"DTQ_RETRY_MAX_DELAY_S ({settings.retry_max_delay_s:g}): lower the first or raise the second."
        )
    stray = set(settings.worker_queues) - set(settings.queues or settings.worker_queues)
    if stray:
        yield (
            f"DTQ_WORKER_QUEUES names {', '.join(sorted(stray))}, which DTQ_QUEUES does not allow: "
            "add to the second or remove from the first."
        )
    yield from _about_rights(settings)


def _about_rights(settings: "Settings") -> Iterator[str]:
    names = [entry.partition(":")[0] for entry in settings.users]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        yield f"DTQ_USERS names {', '.join(twice)} more than once: give each person one entry."
    if any(not entry.endswith(":-") for entry in settings.users) and settings.secret_key is None:
        yield "DTQ_USERS have passwords, and DTQ_SECRET_KEY, which signs their sessions, is not set: set it."
