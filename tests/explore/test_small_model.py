"""All that can happen to one task within a few calls keeps all promises."""

import pytest

from tests.explore.small_model import check_all
from tests.explore.world import Server


@pytest.mark.timeout(300)
def test_every_interleaving_of_five_calls_keeps_every_promise(server: Server):
    checker = check_all(server, depth=5)
    assert len(checker.seen) > 2000


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["unique", "linked", "limited"])
def test_every_interleaving_of_four_calls_with_another_task_keeps_every_promise(server: Server, kind: str):
    checker = check_all(server, depth=4, kind=kind)
    assert len(checker.seen) > 1500
