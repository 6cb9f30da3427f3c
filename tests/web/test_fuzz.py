"""The short form of `make fuzz-http`."""

import pytest

from dtq_engine.embedded import free_port
from tools.fuzz_http import main


@pytest.mark.timeout(300)
def test_a_short_run_of_the_fuzzer_finds_nothing(capfd):
    code = main(["--max-examples", "2", "--port", str(free_port())])
    assert code == 0, capfd.readouterr().out[-8000:]
