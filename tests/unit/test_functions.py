"""A script as a function: what stays is made once, and what belongs to a call is made anew by each."""

import re

import pytest

from dtq_engine.functions import as_function

LIBRARY = """-- a library

local FINAL = {S = 'succeeded'}
local NAME = string.match(KEYS[1], '.*')
local PLACES = {first = NAME}
local seen, lines = {}, {}
local settings
local fill

-- Adds one.
local function add(line) lines[#lines + 1] = line end
local table = setmetatable({}, {__index = function(all, name)
  return FINAL[name]
end})
function fill(all)
  all.x = NAME
end
"""

SCRIPT = """-- script: adds.

open()
local alone, shared = ARGV[2], ARGV[3]
local VERBS = {}
function VERBS.go() add(shared) end
local later
local function keep() later = shared end
local members = {}
function members.go() return settings end
for i = 1, 2 do
  VERBS.go()
end
return alone
"""


def source() -> str:
    return as_function("adds", LIBRARY, SCRIPT).source


def part(name: str) -> list[str]:
    """The lines of one of the functions that a library is made of."""
    found = re.search(rf"^local function {name}\(\)\n(.*?)\nend\n(?=local|redis)", source(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].splitlines()


def once() -> list[str]:
    """The lines that are run when it is loaded."""
    return [line for line in source().splitlines() if line not in part("_begin") + part("_main")]


def test_constants_and_functions_are_made_once():
    made = once()
    assert "local FINAL = {S = 'succeeded'}" in made
    assert "local function add(line) lines[#lines + 1] = line end" in made
    assert "function fill(all)" in made


def test_what_hangs_on_the_keys_or_is_changed_is_made_by_each_call():
    assert part("_begin") == [
        "NAME = string.match(KEYS[1], '.*')",
        "PLACES = {first = NAME}",
        "seen, lines = {}, {}",
        "settings = nil",
        "table = setmetatable({}, {__index = function(all, name)",
        "  return FINAL[name]",
        "end})",
    ]
    assert {"local NAME", "local PLACES", "local seen, lines", "local settings", "local fill"} <= set(once())


def test_of_the_script_functions_and_what_they_use_are_outside_and_all_else_is_the_call():
    assert {"local VERBS = {}", "function VERBS.go() add(shared) end", "local later", "local alone, shared"} <= set(
        once()
    )
    assert part("_main") == [
        "alone, shared = ARGV[2], ARGV[3]",
        "later = nil",
        "members = {}",
        "function members.go() return settings end",
        "for i = 1, 2 do",
        "  VERBS.go()",
        "end",
        "return alone",
    ]


@pytest.mark.parametrize(("script", "flags"), [("open()\nreturn 1", "{'allow-oom'}"), ("return 1", "{}")])
def test_a_script_that_goes_on_at_maxmemory_is_a_function_that_does(script, flags):
    made = as_function("adds", LIBRARY, script).source
    assert f"flags = {flags}," in made
    assert "open()" not in made


def test_another_text_is_another_function_and_comments_make_no_difference():
    names = {
        as_function("adds", library, script).name
        for library, script in ((LIBRARY, SCRIPT), (LIBRARY, SCRIPT + "-- end\n"), (LIBRARY, SCRIPT + "\nreturn 2"))
    }
    assert len(names) == 2
    assert all(re.fullmatch("dtq_adds_[0-9a-f]{12}", name) for name in names)
