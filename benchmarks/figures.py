"""What a benchmark measured, as values, and the file that keeps it."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

RESULTS = Path(__file__).parent / "results"


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One number, measured in several runs; `beside` is what it is compared with, measured in the same runs."""

    name: str
    unit: str
    runs: tuple[float, ...]
    beside: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        """The middle of the runs."""
        return statistics.median(self.runs)

    @property
    def ratio(self) -> float | None:
        """The median over the runs of the ratio to what was measured beside it; None where that was nothing."""
        if not self.beside:
            return None
        return statistics.median(ours / theirs for ours, theirs in zip(self.runs, self.beside, strict=True))


class Machine(msgspec.Struct, frozen=True):
    """Where it was measured."""

    processor: str
    cores: int
    memory_gib: float
    system: str
    python: str
    redis_py: str
    server: str


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """What belongs together and was measured in one go.

    `load` is the machine's load average when the command began; `others` the share of the machine's time that was
    used by other processes, or taken by other machines, while this part ran.
    """

    name: str
    at: str
    commit: str
    load: float
    others: float
    runs: int
    tasks: int
    figures: tuple[Figure, ...]
    notes: dict[str, str] = {}
    failure: str = ""

    def get(self, name: str) -> Figure | None:
        """The figure of that name, if it was measured."""
        return next((figure for figure in self.figures if figure.name == name), None)


class Results(msgspec.Struct, frozen=True):
    """All parts of one kind of benchmark on one machine."""

    machine: Machine
    parts: tuple[Part, ...]

    def get(self, part: str, figure: str) -> Figure | None:
        """A figure by the names of its part and of itself."""
        return next((each.get(figure) for each in self.parts if each.name == part), None)


def load(kind: str) -> Results | None:
    """What was kept of that kind of benchmark; None before the first time. Raises msgspec.DecodeError."""
    path = RESULTS / f"{kind}.json"
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else None


def keep(kind: str, machine: Machine, parts: Sequence[Part]) -> None:
    """Keep these parts, in place of those of the same names; those of another machine are dropped."""
    before = load(kind)
    merged = {part.name: part for part in before.parts} if before and before.machine == machine else {}
    merged |= {part.name: part for part in parts}
    RESULTS.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(Results(machine, tuple(merged.values()))), indent=1)
    (RESULTS / f"{kind}.json").write_bytes(text + b"\n")
