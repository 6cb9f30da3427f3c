"""All that can happen to one task within a few calls keeps all promises."""

import pytest

from tests.explore.small_model import check_all
from tests.explore.world import Server


@pytest.mark.timeout(300)
def test_every_interleaving_of_five_calls_keeps_every_promise(server: Server):
    checker = check_all(server, depth=5)
    assert len(checker.seen) > 2000
