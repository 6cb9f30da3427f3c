"""How much memory a worker says it uses."""

import os
import sys
from pathlib import Path

import pytest

from dtq_engine.worker.memory import resident_kib


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_memory_that_is_used_is_counted() -> None:
    before = resident_kib()
    block = bytearray(os.urandom(1)) * (64 << 20)
    after = resident_kib()
    assert before is not None
    assert after is not None
    assert after - before > 60_000
    assert len(block) == 64 << 20


@pytest.mark.parametrize("text", ["", "12", "12 many 3"])
def test_what_is_no_such_file_tells_nothing(tmp_path: Path, text: str) -> None:
    assert resident_kib(tmp_path / "gone") is None
    (tmp_path / "statm").write_text(text)
    assert resident_kib(tmp_path / "statm") is None
