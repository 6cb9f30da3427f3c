"""What a command of the command line did."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ran:
    """Its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value that it printed."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The lines of JSON that it printed."""
        return [json.loads(line) for line in self.out.splitlines()]
