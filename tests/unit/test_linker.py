"""Of the library a script gets what it needs, and errors still name the lines of the file."""

import pytest

from dtq_engine.linker import needed

LIBRARY = """-- a library

local LIMIT = 10
local first, second = {}, {}

-- What is used by others only.
local function inner(value)
  first[value] = LIMIT
end

local function outer(value) return inner(value) end  -- not unused
local table = setmetatable({}, {__index = function(all, name)
  return second
end})

local function unused()
  return {
    LIMIT,
}
end
local last = 3
"""


def link(library: str, script: str, without: frozenset[str] = frozenset()) -> str:
    return needed(library, script, without) + script


def kept(script: str) -> set[str]:
    linked = link(LIBRARY, script)
    return {name for name in ("LIMIT", "first", "inner", "outer", "table", "unused", "last") if defines(linked, name)}


def defines(source: str, name: str) -> bool:
    return any(line.startswith((f"local {name}", f"local function {name}")) for line in source.splitlines())


@pytest.mark.parametrize(
    ("script", "needed"),
    [
        ("return 1", set()),
        ("return last", {"last"}),
        ("return outer(1)", {"outer", "inner", "first", "LIMIT"}),
        ("return table.x", {"table", "first"}),
        ("unused()  -- outer", {"unused", "LIMIT"}),
    ],
)
def test_a_script_gets_what_it_uses_directly_or_through_others(script, needed):
    assert kept(script) == needed


def test_what_is_left_out_leaves_its_lines_empty():
    lines = link(LIBRARY, "return last").splitlines()
    assert lines.index("local last = 3") == LIBRARY.splitlines().index("local last = 3")
    assert lines[-1] == "return last"


def test_a_script_that_needs_everything_gets_the_whole_library():
    assert link(LIBRARY, "outer() unused() return table, last") == LIBRARY + "outer() unused() return table, last"


def test_a_name_that_the_script_can_do_without_stays_undefined_with_what_only_it_needs():
    linked = link(LIBRARY, "if task.x then return outer(1) end return last", without=frozenset({"outer"}))
    assert {name for name in ("outer", "inner", "last") if defines(linked, name)} == {"last"}


def test_the_name_of_a_field_is_no_use_of_the_definition():
    assert kept("return task.last .. other[1].unused .. ('x'..inner)") == {"inner", "first", "LIMIT"}
