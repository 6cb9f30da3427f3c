"""What the demonstration submits: tasks about the text files of this repository, and one of each kind."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dtq_engine import NewTask
from examples import tasks

ROOT = Path(__file__).resolve().parent.parent
TEXT = frozenset(
    {".cfg", ".css", ".html", ".ini", ".js", ".lua", ".md", ".py", ".rst", ".toml", ".txt", ".yaml", ".yml"}
)
MOST_FILES = 1_000
MOST_COMPRESSED = 25
DELAY_S = 2.0
PRIMES_BELOW = 300_000
PRIMES = 25_997

Submit = Callable[[Sequence[NewTask]], list[str]]
"""Submits tasks, and gives their ids in the same order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The ids of one run's tasks, by what they are there to show."""

    words: Mapping[str, str]
    hashes: Mapping[str, str]
    compressions: Mapping[str, str]
    report: str
    report_path: str
    flaky: str
    always_fails: str
    overruns: str
    delayed: str
    urgent: str
    watch: str
    primes: str
    twice: tuple[str, str]

    @property
    def files(self) -> tuple[str, ...]:
        """The tasks about files; the urgent one was submitted after them."""
        return (*self.words.values(), *self.hashes.values(), *self.compressions.values())

    @property
    def ids(self) -> tuple[str, ...]:
        """All of them."""
        singles = (self.report, self.flaky, self.always_fails, self.overruns, self.delayed, self.urgent, self.watch)
        return tuple(dict.fromkeys((*self.files, *singles, self.primes, *self.twice)))


def text_files(root: Path = ROOT) -> list[str]:
    """The text files of the repository, as paths from its root; hidden folders and installed packages left out."""
    return sorted(_walk(root))[:MOST_FILES]


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [
            each for each in folders if not each.startswith((".", "__")) and each not in {"venv", "node_modules"}
        ]
        yield from (str((Path(folder) / name).relative_to(root)) for name in names if Path(name).suffix in TEXT)


def submit(run: str, paths: list[str], output: Path, send: Submit) -> Workload:
    """Submit everything. `run` tells this run from others on the same server; files are written to `output`."""
    large = sorted(paths, key=lambda path: -(ROOT / path).stat().st_size)[:MOST_COMPRESSED]
    words = {path: tasks.count_words.prepare(path) for path in paths}
    hashes = {path: tasks.hash_file.prepare(path) for path in paths}
    compressions = {path: tasks.compress.prepare(path, str(output)) for path in large}
    target = str(output / "report.md")
    singles = {
        "watch": tasks.watch.prepare(".", seconds=60.0),
        "overruns": tasks.overruns.prepare(str(output / "never.txt")),
        "delayed": tasks.delayed.options(delay=DELAY_S).prepare(),
        "flaky": tasks.flaky.prepare(),
        "always_fails": tasks.always_fails.prepare("twelve"),
        "primes": tasks.count_primes.prepare(PRIMES_BELOW),
        "report": tasks.build_report.prepare(counts=_ids(words), hashes=_ids(hashes), target=target),
        "urgent": tasks.urgent.prepare("A customer's call"),
    }
    once = tasks.hash_file.options(idempotency_key=f"demo-{run}")
    *files, urgent = [*words.values(), *hashes.values(), *compressions.values(), singles.pop("urgent")]
    # The urgent one is the last of those about files, which are many: the worker must prefer it.
    send([*(singles[name] for name in singles if name != "report"), *files, urgent, singles["report"]])
    first, second = send([once.prepare(paths[0]), once.prepare(paths[0])])
    return Workload(
        words=_ids(words),
        hashes=_ids(hashes),
        compressions=_ids(compressions),
        urgent=urgent.id,
        twice=(first, second),
        report_path=target,
        **{name: task.id for name, task in singles.items()},
    )


def _ids(prepared: Mapping[str, NewTask]) -> dict[str, str]:
    return {path: task.id for path, task in prepared.items()}
