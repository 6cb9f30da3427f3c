"""The Lua scripts: read from the package, called as functions or by digest, sent whole when the server lacks them."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from dtq_engine.connection import Connection, NotOffered, Patience
from dtq_engine.errors import MemoryFull, RedisRefused, RedisUnavailable
from dtq_engine.functions import FAMILY, Function, as_function
from dtq_engine.linker import needed

STANDALONE = frozenset({"lock", "unlock", "beat", "enlist", "miss", "publish"})
ACCEPTING = frozenset({"submit", "tick", "trigger"})

PLAIN = "submit_plain"
"""`submit` for tasks that have no parents, children or unique keys, in half the time: it often carries but one task."""
_UNTIED = frozenset({"absorbed_before", "absorbed_by", "absorb", "will_accept", "take_keys", "links", "flush_ended"})


KEPT = frozenset({"submit", PLAIN, "claim", "finalize"})
"""What is called for each task is kept by the server as functions, if it lets us."""

LIBRARIES = 24
"""So many functions may be there, of this release and others; with more, those that are not ours make room."""

ABSTAIN_S = 60.0
"""For how long scripts do instead where a function could not be loaded."""


class Script:
    """One script, which is put together when it is first used."""

    def __init__(self, name: str, read: Callable[[str], str]) -> None:
        """`read` gives the text of a file."""
        self._name = name
        self._read = read

    @cached_property
    def source(self) -> str:
        """The whole text: what it uses of the shared libraries in front, unless it stands alone."""
        library, own = self._texts()
        return library + own

    @cached_property
    def digest(self) -> str:
        """What the server knows it by."""
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    @cached_property
    def function(self) -> Function | None:
        """The same as a function; None for what is not called often."""
        return as_function(self._name, *self._texts()) if self._name in KEPT else None

    def _texts(self) -> tuple[str, str]:
        *shared, own = map(self._read, parts(self._name))
        return needed("".join(shared), own, without=_UNTIED if self._name == PLAIN else frozenset()), own


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
    """The script `name`."""
    return Script(name, read)


def read(part: str) -> str:
    """The text of one file."""
    return (files("dtq_engine") / "lua" / f"{part}.lua").read_text(encoding="utf-8")


def run(
    connection: Connection, name: str, key: str, args: Sequence[str | bytes | int], patience: Patience | None = None
) -> Any:
    """Run a script on the node that holds `key`; raises as `Connection.call` does."""
    script, may_have_run = load(name), False
    for way in _ways(connection, script):
        try:
            return connection.call(*way, 1, key, *args, patience=patience, may_have_run=may_have_run)
        except NotOffered as error:
            may_have_run = error.may_have_run
    return connection.call("EVAL", script.source, 1, key, *args, patience=patience, may_have_run=may_have_run)


def _ways(connection: Connection, script: Script) -> Iterator[tuple[str, str]]:
    """How to call a script that the server has, best first: the next one where it turns out that it has not."""
    if (function := script.function) and time.monotonic() >= connection.abstains_until:
        yield "FCALL", function.name
        if _teach(connection, function):
            yield "FCALL", function.name
        connection.abstains_until = time.monotonic() + ABSTAIN_S
    yield "EVALSHA", script.digest


def _teach(connection: Connection, function: Function) -> bool:
    """Load a function wherever it may be called; False if that cannot be done."""
    try:
        for node in connection.nodes():
            _load(node, function)
    except (MemoryFull, RedisRefused, RedisUnavailable):
        return False
    return True


def _load(node: Connection, function: Function) -> None:
    """Those of other releases are dropped when they have become many: who needs one loads it again."""
    try:
        node.once("FUNCTION", "LOAD", function.source)
    except RedisRefused as error:
        if "already exists" not in str(error):
            raise
    with suppress(RedisRefused, RedisUnavailable):
        there = {_name_of(library) for library in node.once("FUNCTION", "LIST", "LIBRARYNAME", f"{FAMILY}*")}
        if len(there) > LIBRARIES:
            _drop(node, there - {each.name for each in (load(name).function for name in KEPT) if each})


def _drop(node: Connection, names: Iterable[str]) -> None:
    for name in names:
        with suppress(RedisRefused):  # another process was quicker
            node.once("FUNCTION", "DELETE", name)


def _name_of(library: Sequence[bytes]) -> str:
    """Of what FUNCTION LIST says of a library, its name."""
    return library[library.index(b"library_name") + 1].decode()
