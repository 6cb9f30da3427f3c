"""The Lua scripts: read from the package, sent by their digest, sent whole when the server lacks them."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError

from dtq_engine.connection import Connection, Patience
from dtq_engine.linker import link

STANDALONE = frozenset({"lock", "unlock", "beat", "enlist", "miss", "publish"})
ACCEPTING = frozenset({"submit", "tick", "trigger"})

PLAIN = "submit_plain"
"""`submit` for tasks that have no parents, children or unique keys, in half the time: it often carries but one task."""
_UNTIED = frozenset({"absorbed_before", "absorbed_by", "absorb", "will_accept", "take_keys", "links", "flush_ended"})


@dataclass(frozen=True, slots=True)
class Script:
    """One script's source and the digest that the server knows it by."""

    source: str
    digest: str


def parts(name: str) -> tuple[str, ...]:
    """The files that the script `name` is put together from: its own behind those that it shares with others."""
    if name in STANDALONE:
        return (name,)
    if name == PLAIN:
        return parts("submit")
    shared = ("_lib", "_limits", "_links")
    return (*shared, "_accept", name) if name in ACCEPTING else (*shared, name)


@cache
def load(name: str) -> Script:
    """The script `name`, with what it uses of the shared libraries in front unless it stands alone."""
    return put_together(name, read)


def read(part: str) -> str:
    """The text of one file."""
    return (files("dtq_engine") / "lua" / f"{part}.lua").read_text(encoding="utf-8")


def put_together(name: str, read: Callable[[str], str]) -> Script:
    """The script `name`, made from its parts as `read` gives them."""
    *shared, own = map(read, parts(name))
    source = link("".join(shared), own, without=_UNTIED if name == PLAIN else frozenset())
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
