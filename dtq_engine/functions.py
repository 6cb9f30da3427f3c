"""Scripts as functions that a server keeps ready.

A script begins from nothing on each call: before its first command Redis makes all of its functions and tables anew,
which for a call of one task is most of the work. The library of a function is set up once, when it is loaded. So what
stays the same goes there, and what belongs to a call is set again by each one.
"""

import hashlib
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from dtq_engine.linker import NAMES, Piece, pieces, words

FAMILY = "dtq_"
"""What the names of all libraries begin with."""

_KEEPS_GOING = "open()\n"
"""The call that lets a script go on at maxmemory; of a function a flag says so."""
_MEMBER = re.compile(r"function (\w+)\.")
_SILENT = re.compile(r"^ *(--.*)?\n", re.MULTILINE)

_LIBRARY = """#!lua name={name}
local KEYS, ARGV
{once}
local function _begin()
{begin}
end
{own}
local function _main()
{main}
end
redis.register_function{{function_name = '{name}', flags = {{{flags}}}, callback = function(keys, args)
  KEYS, ARGV = keys, args
  _begin()
  return _main()
end}}
"""


@dataclass(frozen=True, slots=True)
class Function:
    """A library of one function, which is called as the library is; other text has another name."""

    name: str
    source: str


def as_function(name: str, library: str, script: str) -> Function:
    """What does the same as `script` behind `library`, but is set up once.

    What is in capitals and made of nothing but itself is a constant; all other locals are set anew by each call.
    """
    library, script = (_SILENT.sub("", text) for text in (library, script))
    shared, own = list(pieces(library)), list(pieces(script.replace(_KEEPS_GOING, "", 1)))
    everything = words(library + script)
    once, begin, of_call = _divided(shared, everything, words("KEYS, ARGV"))
    used = frozenset[str]().union(*(words(piece.text) for piece in own if piece.is_function))
    made, main, _ = _divided(own, used, of_call)
    flags = "'allow-oom'" if _KEEPS_GOING in script else ""
    parts = {"once": once, "begin": begin, "own": made, "main": main, "flags": flags}
    body = {part: text.rstrip("\n") for part, text in parts.items()}
    digest = hashlib.sha1(repr(sorted(body.items())).encode(), usedforsecurity=False).hexdigest()[:12]
    full = f"{FAMILY}{name}_{digest}"
    return Function(full, _LIBRARY.format(name=full, **body))


def _divided(found: Sequence[Piece], used: Set[str], of_call: Set[str]) -> tuple[str, str, Set[str]]:
    """What is done once, what by each call, and the names of all that belongs to a call.

    Locals that functions use (`used` has their names) are declared once and set by each call; others are its own.
    """
    once, each, constants = "", "", set[str]()
    filled = {name for piece in found if piece.text.startswith("function ") for name in piece.names}
    for piece in found:
        if _is_kept(piece, constants) or (piece.is_function and not _MEMBER.match(piece.text)):
            once += piece.text
        elif _is_constant(piece, of_call):
            once += piece.text
            constants |= piece.names
        elif piece.names and not piece.is_function:
            of_call = of_call | piece.names
            declared, setting = _taken_apart(piece, filled) if piece.names & used else ("", piece.text)
            once += declared
            each += setting
        else:
            each += piece.text
    return once, each, of_call


def _is_kept(piece: Piece, constants: Set[str]) -> bool:
    """Whether it is a member of a table that stays."""
    member = _MEMBER.match(piece.text)
    return member is not None and member[1] in constants


def _is_constant(piece: Piece, of_call: Set[str]) -> bool:
    # Libraries of Lua itself are not there when a function is loaded, so that a constant calls nothing.
    is_plain = "(" not in piece.code and not (words(piece.text) - piece.names) & of_call
    return bool(piece.names) and not piece.is_function and all(map(str.isupper, piece.names)) and is_plain


def _taken_apart(piece: Piece, filled: Set[str]) -> tuple[str, str]:
    """The declaration of locals, and what sets them; those that a function fills stay as they are."""
    names = NAMES.match(piece.text)
    assert names is not None
    declared, value = f"local {names[1]}\n", piece.code.removeprefix("local ")
    if "=" in value:
        return declared, value
    return declared, "".join(f"{name} = nil\n" for name in sorted(piece.names - filled))
