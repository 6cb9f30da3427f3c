"""Numbers as people say them."""


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`, `1,200 tasks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def span(ms: float | None) -> str:
    """A length of time, short: `350 ms`, `2.5 s`, `3m 20s`, `5h 10m`, `12d`; `-` for None."""
    if ms is None:
        return "-"
    if ms < 1_000:
        return f"{max(0, round(ms))} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    return _long_span(round(ms / 1000))


def _long_span(seconds: int) -> str:
    if seconds < 3_600:
        return f"{seconds // 60}m {seconds % 60:02}s"
    if seconds < 86_400:
        return f"{seconds // 3600}h {seconds % 3600 // 60:02}m"
    return f"{seconds // 86_400}d {seconds % 86_400 // 3600}h" if seconds < 864_000 else f"{seconds // 86_400}d"
