"""What the worker's log lines say of an execution."""

from dtq_engine.model import Claim


def facts(claim: Claim) -> dict[str, object]:
    """What a line about an execution carries as `extra`, for machines."""
    return {"task_id": claim.task_id, "task_type": claim.type, "queue": claim.queue, "attempt": claim.attempt}


def title(claim: Claim) -> str:
    """How a line about an execution names it, for people."""
    return f"{claim.type} {claim.task_id} (attempt {claim.attempt})"
