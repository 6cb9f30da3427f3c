"""Scripts with that part of the library in front that they use: Redis sets up all of it anew on each call."""

import re
from collections.abc import Iterator, Sequence, Set

# A word that is no field's name.
_WORD = re.compile(r"(?<![\w)\]]\.)\b\w+")
_COMMENT = re.compile(r"--.*")
_FUNCTION = re.compile(r"(?:local )?function (\w+)")
_NAMES = re.compile(r"local ([\w, ]+?) *(?:=|$)", re.MULTILINE)

_BEGINNING = ("local ", "function ")
# What a definition goes on with, in the first column: its own lines are indented or empty, all else there ends it.
_CLOSING = (" ", "end", "}", ")", "\n")


def link(library: str, script: str, without: Set[str] = frozenset()) -> str:
    """`script` behind those definitions of `library` that it needs, directly or through others.

    A definition is a `local` in the first column, or the function for one, up to its end; whatever else the library
    has is kept. What is left out leaves empty lines behind, so that errors name the lines of the file. Those in
    `without` stay undefined: the caller knows that they are not reached.
    """
    pieces = list(_pieces(library))
    wanted = _words(script) - without
    kept: set[int] = set()
    while more := {at for at, (names, _) in enumerate(pieces) if at not in kept and (not names or names & wanted)}:
        kept |= more
        wanted = wanted.union(*(_words(pieces[at][1]) for at in more)) - without
    return "".join(text if at in kept else "\n" * text.count("\n") for at, (_, text) in enumerate(pieces)) + script


def _pieces(library: str) -> Iterator[tuple[set[str], str]]:
    """The library's definitions with the names that each defines; none for what is between them."""
    piece: list[str] = []
    for line in library.splitlines(keepends=True):
        if piece and not (piece[0].startswith(_BEGINNING) and line.startswith(_CLOSING)):
            yield _piece(piece)
            piece = []
        piece.append(line)
    if piece:
        yield _piece(piece)


def _piece(lines: Sequence[str]) -> tuple[set[str], str]:
    text = "".join(lines)
    if found := _FUNCTION.match(text) or _NAMES.match(text):
        return set(found[1].replace(" ", "").split(",")), text
    return set(), text


def _words(code: str) -> set[str]:
    return set(_WORD.findall(_COMMENT.sub("", code)))
