"""Ways to break the scripts, as `mutations.toml` lists them."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mutation:
    """One textual change of one script: `find` becomes `replace`. `test`: what must catch it, not the explorer."""

    script: str
    name: str
    find: str
    replace: str = ""
    test: str = ""


def read_mutations() -> tuple[Mutation, ...]:
    """The list, in its order."""
    text = (Path(__file__).parent / "mutations.toml").read_text(encoding="utf-8")
    return tuple(Mutation(script, **fields) for script, tables in tomllib.loads(text).items() for fields in tables)


MUTATIONS = read_mutations()
