"""The list of mutants fits the scripts. `make mutants` tries them."""

from collections import Counter
from pathlib import Path

import pytest

from tests.explore.mutants import PAGE
from tests.explore.mutated import source_of
from tests.explore.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_fits_its_script_exactly_once(mutation: Mutation):
    assert source_of(mutation) is not None


def test_every_mutation_has_its_own_name():
    assert max(Counter(mutation.name for mutation in MUTATIONS).values()) == 1


def test_a_test_that_must_catch_a_mutant_exists():
    for file, _, name in (mutation.test.partition("::") for mutation in MUTATIONS if mutation.test):
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_the_page_on_testing_lists_every_mutant_as_caught():
    page = PAGE.read_text(encoding="utf-8")
    assert f"{len(MUTATIONS)} of {len(MUTATIONS)} are caught" in page
    assert [mutation.name for mutation in MUTATIONS if f"| {mutation.name} |" not in page] == []
