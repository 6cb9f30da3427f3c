"""Instants as other programs read them."""

from datetime import UTC, datetime


def at(ms: int | None) -> str | None:
    """Epoch milliseconds as ISO 8601 in UTC; None for None, 0, and what lies beyond the year 9999."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z" if ms else None
    except (OverflowError, ValueError, OSError):
        return None
