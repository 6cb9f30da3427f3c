"""The layering of the engine, and its limits of size, as tests: both rot silently otherwise."""

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

ENGINE = Path(__file__).parents[2] / "dtq_engine"

# A module imports from its own layer and from lower ones. A package stands for all its modules.
LAYERS = (
    {"errors", "model", "kinds", "config", "consistency", "credentials", "crash"},
    {"policy", "periodic", "validate", "workflow", "ids", "codec", "describe", "keys", "harmless", "shapes", "cursors"}
    | {"branches", "copies", "instants", "report_shapes", "tree_shapes"}
    | {"fields", "limits", "limit_states", "losses", "logs", "masking", "places", "stdio", "strict", "words"},
    {"addresses", "cluster", "links", "refusals", "subscription", "connection", "linker", "functions", "scripts"},
    {"store"},
    {"arguments", "context", "engine", "handle", "options", "registry", "signature", "submission", "task", "waiters"}
    | {"after", "around", "decorator", "deduplication", "flow", "hooks", "isolation", "limiter", "limit_shapes"}
    | {"operator_shapes", "report", "results", "steps", "timetable", "unique_keys"},
    {"cli", "embedded", "findings", "metrics", "otel", "testing", "worker"},
)
LAYER = {module: number for number, layer in enumerate(LAYERS) for module in layer}

# Modules that may be longer than 300 lines, and why.
LONG = {
    "model.py": "the values of the domain, read side by side; apart they would hide how they belong together",
    "config.py": "a table of settings, and the little that reads it",
}

# Classes that may be longer than 200 lines, and why.
LARGE = {
    "Settings": "a table of settings, one field each",
    "Keys": "a table of keys, one method each",
    "Dtq": "what apps call, read side by side; each method is a line or two of its own",
}

MODULES = sorted(path for path in ENGINE.rglob("*.py") if path != ENGINE / "__init__.py")


def name_of(path: Path) -> str:
    """The module or package directly under dtq_engine that a file belongs to."""
    return path.relative_to(ENGINE).parts[0].removesuffix(".py")


def exported() -> set[str]:
    """The public names of the package itself; only the outer layers may come in by the front door."""
    tree = ast.parse((ENGINE / "__init__.py").read_text())
    return {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def imported_by(path: Path) -> Iterator[str]:
    """What a file imports of dtq_engine, anywhere in it: a local import is one too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.split(".")[0] == "dtq_engine")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ENGINE)))
def test_a_module_imports_nothing_from_a_higher_layer(path):
    name = name_of(path)
    assert name in LAYER, f"{name} has no layer yet: give it one"
    allowed = set().union(*LAYERS[: LAYER[name] + 1])
    public = {} if LAYER[name] < 5 else exported()
    assert {each for each in imported_by(path) if each not in allowed and each not in public} == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ENGINE)))
def test_only_config_reads_the_environment(path):
    read = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    assert name_of(path) == "config" or not read & {"environ", "getenv", "environb"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ENGINE)))
def test_modules_classes_and_functions_stay_short(path):
    tree = ast.parse(path.read_text())
    assert len(path.read_text().splitlines()) <= 300 or str(path.relative_to(ENGINE)) in LONG
    large = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and lines(node) > 200}
    assert large <= LARGE.keys()
    assert [node.name for node in functions(tree) if lines(node) > 40] == []


def test_half_of_all_functions_have_at_most_eight_lines():
    assert median(lines(node) for path in MODULES for node in functions(ast.parse(path.read_text()))) <= 8


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods in a tree."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def lines(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """The length of a definition, docstring included."""
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1
