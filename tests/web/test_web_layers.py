"""The web process stands on what dtq_engine makes public; the same limits of size hold for it."""

import ast
from pathlib import Path

import pytest

import dtq_engine
from webapp.rights import allowed_by

WEBAPP = Path(__file__).parents[2] / "webapp"
PUBLIC_MODULES = {
    "dtq_engine",
    *(
        f"dtq_engine.{name}"
        for name in (
            *("after", "branches", "cursors", "deduplication", "findings", "instants", "logs", "masking", "metrics"),
            *("limit_shapes", "operator_shapes", "report_shapes", "shapes", "strict", "tree_shapes", "unique_keys"),
            "validate",
        )
    ),
}
MODULES = sorted(WEBAPP.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(WEBAPP)))
def test_a_module_imports_only_public_names_of_the_engine(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not [each.name for each in node.names if each.name.startswith("dtq_engine.")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dtq_engine":
            assert node.module in PUBLIC_MODULES
            if node.module == "dtq_engine":
                assert {each.name for each in node.names} <= set(dtq_engine.__all__)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(WEBAPP)))
def test_modules_classes_and_functions_stay_short(path):
    tree = ast.parse(path.read_text())
    assert len(path.read_text().splitlines()) <= 300
    for node in ast.walk(tree):
        length = getattr(node, "end_lineno", 0) - getattr(node, "lineno", 0) + 1
        assert not (isinstance(node, ast.ClassDef) and length > 200), node.name
        assert not (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length > 40), node.name


def test_every_endpoint_says_who_may_call_it(web):
    undecided = [name for name, view in web.view_functions.items() if allowed_by(view) is None]
    assert undecided == []
