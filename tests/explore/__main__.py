"""Explore random histories: `python -m tests.explore --histories 1000 --steps 80 --seed 1 --damage 1`."""

import argparse
import sys
import time
from collections import Counter

from tests.explore.explorer import Failure, explore
from tests.explore.world import own_server


def main() -> int:
    """Explore, print figures, and the whole history of the first failure. The exit code says whether all was well."""
    options = _options()
    began, calls, outcomes = time.monotonic(), 0, Counter[str]()
    with own_server(options.server) as server:
        for seed in range(options.seed, options.seed + options.histories):
            result = explore(server, seed=seed, steps=options.steps, damage=options.damage)
            if isinstance(result, Failure):
                print(result)
                return 1
            calls += len(result.history)
            outcomes.update(str(known.outcome or "lost") for known in result.promises.tasks.values())
    seconds = time.monotonic() - began
    print(f"{options.histories} histories of {options.steps} steps, {calls} calls, {seconds:.0f} s: promises kept.")
    print("outcomes: " + ", ".join(f"{number} {name}" for name, number in sorted(outcomes.items())))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--histories", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--steps", type=int, default=80, help="operations in each (default 80)")
    parser.add_argument("--seed", type=int, default=1, help="of the first history; the next ones count up (default 1)")
    parser.add_argument("--damage", type=float, default=1.0, help="how often keys are damaged (0: never, default 1)")
    parser.add_argument("--server", help="path of a server to run on, such as /usr/bin/redis-server (default: Valkey)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
