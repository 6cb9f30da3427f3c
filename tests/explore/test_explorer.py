"""Random histories keep all promises. `make explore` plays many more of them."""

import pytest

from tests.explore.explorer import Failure, explore
from tests.explore.mutants import mutated
from tests.explore.mutations import MUTATIONS
from tests.explore.world import Server

SEEDS = range(1, 11)


@pytest.mark.parametrize("damage", [0.0, 1.5])
def test_random_histories_keep_every_promise(server: Server, damage: float):
    for seed in SEEDS:
        result = explore(server, seed=seed, steps=60, damage=damage)
        assert not isinstance(result, Failure), str(result)


@pytest.mark.parametrize(
    "name", ["finalize without token check", "claim memo dropped", "reclaim keeps the token", "trim without guard"]
)
def test_a_broken_script_is_noticed_and_its_history_can_be_replayed(server: Server, name: str):
    with mutated(next(mutation for mutation in MUTATIONS if mutation.name == name)):
        found = (explore(server, seed=seed, steps=60, damage=0) for seed in range(1, 60))
        failure = next(result for result in found if isinstance(result, Failure))
        again = explore(server, seed=failure.seed, steps=failure.steps, damage=failure.damage)
    assert isinstance(again, Failure)
    assert f"--seed {failure.seed}" in str(failure)
    assert len(again.history) == len(failure.history)
