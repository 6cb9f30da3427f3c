"""Names of keys and channels."""

import inspect
import re

import pytest

from dtq_engine.keys import PRIORITIES, Keys
from dtq_engine.model import FINAL

QUEUE_KEYS = [
    name
    for name, function in inspect.getmembers(Keys, inspect.isfunction)
    if not name.startswith("_")
    and list(inspect.signature(function).parameters)[1:2] == ["queue"]
    and inspect.signature(function).return_annotation is str
]


def built(keys: Keys, name: str) -> str:
    """The name that a function builds from words that stand for its parameters."""
    function = getattr(keys, name)
    words = {"queue": "q", "priority": 5, "status": next(iter(FINAL)), "task_id": "a"}
    result: str = function(*(words.get(each, each) for each in inspect.signature(function).parameters))
    return result


@pytest.mark.parametrize("name", QUEUE_KEYS)
def test_each_name_of_a_queue_begins_with_the_prefix_and_carries_its_tag_once(name):
    assert built(Keys("pre"), name).startswith("pre:")
    assert re.findall(r"\{.*?\}", built(Keys("pre"), name)) == ["{q}"]


def test_no_two_names_are_the_same():
    keys = Keys()
    names = [built(keys, name) for name in QUEUE_KEYS]
    names += [keys.stream("q", priority) for priority in PRIORITIES if priority != 5]
    names += [keys.queues(), keys.workers(), keys.worker("w"), keys.leader(), keys.rejections()]
    assert len(names) == len(set(names))


def test_queues_never_share_a_name():
    keys = Keys()
    for name in set(QUEUE_KEYS) - {"events_channel"}:
        assert built(keys, name).replace("{q}", "{other}") != built(keys, name)


def test_satellites_are_all_the_side_keys_of_a_task():
    keys = Keys()
    assert set(keys.satellites("q", "a")) == {
        keys.payload("q", "a"),
        keys.headers("q", "a"),
        keys.errors("q", "a"),
        keys.result("q", "a"),
        keys.logs("q", "a"),
        keys.steps("q", "a"),
        keys.children("q", "a"),
        keys.awaits("q", "a"),
    }


def test_channels_of_different_databases_differ():
    first, second = Keys("dtq", 0), Keys("dtq", 1)
    for name in ("control_channel", "done_channel", "events_channel"):
        assert getattr(first, name)("x") != getattr(second, name)("x")


def test_bands_go_from_the_most_urgent_to_the_least():
    assert list(PRIORITIES) == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_each_final_status_has_an_index():
    assert Keys().indexes("q").keys() == FINAL
    assert len(set(Keys().indexes("q").values())) == len(FINAL)
