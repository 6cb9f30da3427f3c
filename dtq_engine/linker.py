"""Scripts with that part of the library in front that they use: Redis sets up all of it anew on each call."""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

# A word that is no field's name.
_WORD = re.compile(r"(?<![\w)\]]\.)\b\w+")
_COMMENT = re.compile(r"--.*")
_FUNCTION = re.compile(r"(?:local )?function (\w+)")
NAMES = re.compile(r"local ([\w, ]+?) *(?:=|$)", re.MULTILINE)
"""The names that a definition which is no function begins with."""

_BEGINNING = ("local ", "function ")
# What a definition goes on with, in the first column: its own lines are indented or empty, all else there ends it.
_CLOSING = (" ", "end", "}", ")", "\n")


@dataclass(frozen=True, slots=True)
class Piece:
    """A definition in the first column up to its end, with the names that it defines; or a line between definitions."""

    text: str
    names: frozenset[str] = frozenset()
    is_function: bool = False

    @property
    def code(self) -> str:
        """Its text without comments."""
        return _COMMENT.sub("", self.text)


def needed(library: str, script: str, without: Set[str] = frozenset()) -> str:
    """Those definitions of `library` that `script` needs, directly or through others.

    A definition is a `local` in the first column, or the function for one, up to its end; whatever else the library
    has is kept. What is left out leaves empty lines behind, so that errors name the lines of the file. Those in
    `without` stay undefined: the caller knows that they are not reached.
    """
    all_pieces = list(pieces(library))
    wanted = words(script) - without
    kept: set[int] = set()
    while more := {
        at for at, each in enumerate(all_pieces) if at not in kept and (not each.names or each.names & wanted)
    }:
        kept |= more
        wanted = wanted.union(*(words(all_pieces[at].text) for at in more)) - without
    return "".join(each.text if at in kept else "\n" * each.text.count("\n") for at, each in enumerate(all_pieces))


def pieces(library: str) -> Iterator[Piece]:
    """All of a library's text, cut into its definitions and the lines between them."""
    piece: list[str] = []
    for line in library.splitlines(keepends=True):
        if piece and not (piece[0].startswith(_BEGINNING) and line.startswith(_CLOSING)):
            yield _piece("".join(piece))
            piece = []
        piece.append(line)
    if piece:
        yield _piece("".join(piece))


def _piece(text: str) -> Piece:
    if found := _FUNCTION.match(text):
        return Piece(text, frozenset({found[1]}), is_function=True)
    if found := NAMES.match(text):
        return Piece(text, frozenset(found[1].replace(" ", "").split(",")))
    return Piece(text)


def words(code: str) -> set[str]:
    """The names that a text mentions, outside of comments; those of fields are none."""
    return set(_WORD.findall(_COMMENT.sub("", code)))
