"""Settings as environment variables, for tests that start other processes."""

import os

from dtq_engine.config import SETTINGS, Settings, variable


def environ_of(settings: Settings) -> dict[str, str]:
    """This process' environment without its own settings of dtq, but with these."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DTQ_")}
    given = {name: getattr(settings, name) for name in SETTINGS}
    return inherited | {variable(name): _text(value) for name, value in given.items() if value is not None}


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(int(value)) if isinstance(value, bool) else str(value)
