"""Break the scripts one way at a time and see that it is noticed: `python -m tests.explore.mutants`.

Writes the list into docs/testing.md. The exit code is 1 if a mutant survives or no longer fits its script.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dtq_engine import scripts
from tests.explore.explorer import Failure, explore
from tests.explore.mutated import source_of, with_source
from tests.explore.mutations import MUTATIONS, Mutation
from tests.explore.world import Server, own_server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"
BEGIN, END = "<!-- mutants -->", "<!-- /mutants -->"
FIRST_SEED = 1
HISTORIES = 80
STEPS = 160
DAMAGE = 3.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one mutant: who noticed it and how; `caught` False: nobody did."""

    mutation: Mutation
    caught: bool
    how: str
    seconds: float


def main() -> int:
    """Try all mutants, or those whose name contains a given word."""
    options, began = _options(), time.monotonic()
    chosen = [each for each in MUTATIONS if options.only in each.name]
    verdicts = _try_all(chosen, options.jobs)
    survivors = [verdict for verdict in verdicts if not verdict.caught]
    print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} mutants caught in {time.monotonic() - began:.0f} s.")
    if not options.only:
        _write_page(verdicts)
    return 1 if survivors else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.explore.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of the mutants to try")
    parser.add_argument("--jobs", type=int, default=3, help="how many to try at a time (default 3)")
    return parser.parse_args()


def _try_all(mutations: Sequence[Mutation], jobs: int) -> list[Verdict]:
    """Try them side by side, in processes, for each breaks the scripts of its whole process."""
    shares = [mutations[first::jobs] for first in range(jobs)]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        verdicts = [verdict for share in pool.map(_try_some, shares) for verdict in share]
    return sorted(verdicts, key=lambda verdict: mutations.index(verdict.mutation))


def _try_some(mutations: Sequence[Mutation]) -> list[Verdict]:
    with own_server() as server:
        return [_show(_try(server, mutation)) for mutation in mutations]


def _try(server: Server, mutation: Mutation) -> Verdict:
    began = time.monotonic()
    if source_of(mutation) is None:
        caught, how = False, f"no longer fits {mutation.script}.lua: bring it up to date"
    elif mutation.test:
        caught, how = _by_test(mutation)
    else:
        caught, how = _by_explorer(server, mutation)
    return Verdict(mutation, caught, how, time.monotonic() - began)


def _by_explorer(server: Server, mutation: Mutation) -> tuple[bool, str]:
    with mutated(mutation):
        for seed in range(FIRST_SEED, FIRST_SEED + HISTORIES):
            # Every other history is without damage: some promises hold only there.
            result = explore(server, seed=seed, steps=STEPS, damage=DAMAGE * (seed % 2))
            if isinstance(result, Failure):
                return True, f"seed {seed}: {result.message.partition(': ')[0]}"
    return False, f"survived {HISTORIES} histories"


def _by_test(mutation: Mutation) -> tuple[bool, str]:
    """Run its test in a process of its own, in which `mutated.py` breaks the script."""
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "tests.explore.mutated", mutation.test]
    environ = os.environ | {"MUTANT": mutation.name}
    code = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=False).returncode
    return code == 1, mutation.test.rpartition("::")[2] if code == 1 else f"survived {mutation.test} (code {code})"


@contextmanager
def mutated(mutation: Mutation) -> Iterator[None]:
    """Play with one script broken."""
    original = scripts.load
    scripts.load = with_source(mutation)  # type: ignore[assignment]
    try:
        yield
    finally:
        scripts.load = original


def _show(verdict: Verdict) -> Verdict:
    mark = "caught  " if verdict.caught else "SURVIVED"
    name = f"{verdict.mutation.script.removeprefix('_')}: {verdict.mutation.name}"
    print(f"{mark} {verdict.seconds:5.1f} s  {name:58} {verdict.how}", flush=True)
    return verdict


def _write_page(verdicts: Sequence[Verdict]) -> None:
    """Put the table between its marks in docs/testing.md."""
    rows = [f"| `{verdict.mutation.script}` | {verdict.mutation.name} | {_noticed(verdict)} |" for verdict in verdicts]
    caught = sum(verdict.caught for verdict in verdicts)
    head = [
        f"{caught} of {len(verdicts)} are caught.",
        "",
        "| script | broken so | noticed as |",
        "| --- | --- | --- |",
    ]
    table = "\n".join([*head, *rows])
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")


def _noticed(verdict: Verdict) -> str:
    if not verdict.caught:
        return f"**{verdict.how}**"
    return f"`{verdict.how}`" if verdict.mutation.test else verdict.how.partition(": ")[2]


if __name__ == "__main__":
    sys.exit(main())
