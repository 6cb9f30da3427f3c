"""The recipes' tests run on the workers that the worker tests use, with the recipes as the guide has them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recipes import guide
from tests.worker.conftest import app, ended, gate, log, quick, spawn, start
from tests.worker.processes import WorkerProcess

__all__ = ["app", "cook", "ended", "gate", "log", "quick", "spawn", "start"]

Cook = Callable[..., WorkerProcess]


@pytest.fixture
def cook(spawn: Callable[..., WorkerProcess], tmp_path: Path) -> Cook:
    """Start a worker process on a recipe, with more handlers for the test: `cook("flask_tasks", SOURCE)`."""

    def start_on(recipe: str, more: str = "") -> WorkerProcess:
        (tmp_path / f"{recipe}.py").write_text(guide.files()[f"{recipe}.py"])
        # The recipe's `app` takes the place of the module's own.
        return spawn(f"from {recipe} import *\n{more}")

    return start_on
