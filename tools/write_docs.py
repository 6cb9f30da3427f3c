"""Writes the pages of docs/ that are made from the code."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from dtq_engine.config import PREFIX, SETTINGS, Settings, variable

SETTINGS_PAGE = Path(__file__).parents[1] / "docs" / "settings.md"

HEAD = f"""# Settings

<!-- Made from dtq_engine/config.py by `make docs`. -->

Everything is set by environment variables. They are read once, when a process starts; if any is wrong, the process
does not start and says so: all the problems at once, each with what to do. A variable that is empty counts as not set.
A name that begins with `{PREFIX}` but is no setting is a problem too, so that a misspelt one is not silently ignored.

Durations are in seconds; their names end in `_S`. The same settings can be given in Python, in small letters and
without the `{PREFIX}`: `Dtq(Settings(worker_concurrency=4))`. Then the environment is not read at all.

| variable | default | meaning | values |
| --- | --- | --- | --- |
"""


def settings_page() -> str:
    """The page of all settings, as Markdown."""
    defaults = {each.name: each.default for each in fields(Settings)}
    return HEAD + "".join(_row(name, defaults[name]) for name in SETTINGS)


def _row(name: str, default: Any) -> str:
    kind = SETTINGS[name]
    meaning = kind.doc
    if kind.aliases:
        meaning += f" Not set: {' or '.join(f'`{alias}`' for alias in kind.aliases)}, the first that is."
    expects = kind.expects.replace("|", "\\|")
    return f"| `{variable(name)}` | {_shown(default)} | {meaning} | {expects} |\n"


def _shown(default: Any) -> str:
    if default is None or default == "":
        return "–"
    if isinstance(default, tuple):
        return f"`{','.join(default)}`"
    return f"`{default}`" if isinstance(default, str) else f"`{default:.15g}`"


if __name__ == "__main__":
    SETTINGS_PAGE.write_text(settings_page())
