"""The Lua scripts: read from the package, sent by their digest, sent whole when the server lacks them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError

from dtq_engine.connection import Connection, Patience

STANDALONE = frozenset({"lock", "unlock", "beat", "enlist"})


@dataclass(frozen=True, slots=True)
class Script:
    """One script's source and the digest that the server knows it by."""

    source: str
    digest: str


@cache
def load(name: str) -> Script:
    """The script `name`, with the shared library in front unless it stands alone."""
    folder = files("dtq_engine") / "lua"
    library = "" if name in STANDALONE else (folder / "_lib.lua").read_text(encoding="utf-8")
    source = library + (folder / f"{name}.lua").read_text(encoding="utf-8")
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


def run(
    connection: Connection, name: str, key: str, args: Sequence[str | bytes | int], patience: Patience | None = None
) -> Any:
    """Run a script on the node that holds `key`; raises as `Connection.call` does."""
    script = load(name)
    try:
        return connection.call("EVALSHA", script.digest, 1, key, *args, patience=patience)
    except NoScriptError:
        return connection.call("EVAL", script.source, 1, key, *args, patience=patience)
