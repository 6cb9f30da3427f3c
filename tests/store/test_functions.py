"""Scripts that the server keeps as functions: loaded when they are missing, and done without where there are none."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from dtq_engine import scripts
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.functions import FAMILY
from dtq_engine.store import Store
from tests.store.hand import Hand
from tests.support.servers import plain

has_users = pytest.mark.not_on_a_cluster("each node of a cluster has its own users")


@pytest.fixture
def limited(own_server: EmbeddedValkey, store_at: Callable[..., Store]) -> Callable[..., Hand]:
    """A hand at a server whose default user lacks some rights: `limited("-fcall")`."""

    def make(*without: str) -> Hand:
        with admin_of(own_server) as admin:
            admin.execute_command("ACL", "SETUSER", "default", *without)
        return Hand(store_at(own_server.url))

    return make


@pytest.fixture
def own_server(own_server: EmbeddedValkey) -> EmbeddedValkey:
    """With a user that may do everything."""
    with redis.Redis.from_url(plain(own_server.url), protocol=2) as client:
        client.execute_command("ACL", "SETUSER", "admin", "on", ">secret", "~*", "&*", "+@all")
    return own_server


def admin_of(server: EmbeddedValkey) -> Any:
    """A client with all rights."""
    return redis.Redis.from_url(plain(server.url), protocol=2, username="admin", password="secret")


def libraries(client: Any) -> set[str]:
    """The names of all libraries of the server."""
    return {library[library.index(b"library_name") + 1].decode() for library in client.execute_command("FUNCTION LIST")}


def play(hand: Hand) -> None:
    """Let two tasks come in, start and end."""
    hand.submit("a", "b")
    for claim in hand.claim():
        assert hand.end(claim) == "OK"
    assert [hand.status(each) for each in ("a", "b")] == ["succeeded", "succeeded"]


def commands(client: Any) -> set[str]:
    """Of the ways to run a script, those that were called and did what they should."""
    stats = client.info("commandstats")
    ways = ("fcall", "evalsha", "eval")
    return {way for way in ways if (each := stats.get(f"cmdstat_{way}")) and each["calls"] > each["failed_calls"]}


@pytest.mark.parametrize("name", sorted(scripts.KEPT))
def test_each_that_is_to_be_kept_can_be_loaded(name, own_server, client):
    function = scripts.load(name).function
    assert function is not None
    with redis.Redis.from_url(plain(own_server.url), protocol=2) as there:
        assert there.execute_command("FUNCTION LOAD", function.source).decode() == function.name


def test_functions_that_the_server_lost_are_loaded_again(own_server, store_at):
    hand = Hand(store_at(own_server.url))
    client = hand.store.connection.client
    client.execute_command("FUNCTION FLUSH")
    hand.end(hand.start("first"))
    assert {name.rpartition("_")[0] for name in libraries(client)} == {
        f"{FAMILY}{name}" for name in ("submit_plain", "claim", "finalize")
    }
    client.execute_command("FUNCTION FLUSH")
    client.config_resetstat()
    play(hand)
    assert commands(client) == {"fcall"}


def test_two_who_load_the_same_one_at_once_are_both_served(own_server, store_at, monkeypatch):
    one, two = Hand(store_at(own_server.url)), Hand(store_at(own_server.url))
    once = one.store.connection.once

    def late(*command: Any, **options: Any) -> Any:
        if command[:2] == ("FUNCTION", "LOAD"):
            two.submit("other")
        return once(*command, **options)

    monkeypatch.setattr(one.store.connection, "nodes", lambda: [one.store.connection])
    monkeypatch.setattr(one.store.connection, "once", late)
    one.submit("a")
    assert one.store.connection.abstains_until == 0
    assert [one.status(each) for each in ("a", "other")] == ["queued", "queued"]


@has_users
@pytest.mark.parametrize("without", [["-fcall"], ["-function"], ["-function|load"], ["-fcall", "-function"]])
def test_without_the_rights_for_functions_scripts_do_the_same(limited, own_server, without):
    hand = limited(*without)
    play(hand)
    with admin_of(own_server) as admin:
        assert commands(admin) == {"evalsha", "eval"}
        admin.config_resetstat()
        hand.submit("c")
        assert commands(admin) == {"evalsha"}


@has_users
@pytest.mark.parametrize("place", ["shop:secret@", "?username=shop&password=secret"])
def test_a_user_by_name_runs_scripts_only_for_others_may_load_functions_too(own_server, store_at, place):
    with admin_of(own_server) as admin:
        admin.execute_command("ACL", "SETUSER", "shop", "on", ">secret", "~*", "&*", "+@all")
        address = own_server.url.replace("redis://", f"redis://{place}") if "@" in place else own_server.url + place
        play(Hand(store_at(address)))
        assert commands(admin) == {"evalsha", "eval"}
        assert libraries(admin) == set()
        assert "cmdstat_fcall" not in admin.info("commandstats")


@has_users
def test_they_are_tried_again_after_a_minute(limited, own_server, monkeypatch):
    hand = limited("-function")
    hand.submit("a")
    with admin_of(own_server) as admin:
        admin.execute_command("ACL", "SETUSER", "default", "+function")
        hand.submit("b")
        assert libraries(admin) == set()
        later = time.monotonic() + 60
        monkeypatch.setattr("dtq_engine.scripts.time.monotonic", lambda: later)
        hand.submit("c")
        assert len(libraries(admin)) == 1
    assert [hand.status(each) for each in ("a", "b", "c")] == ["queued"] * 3


def test_many_of_other_releases_make_room_and_those_of_others_stay(own_server, store_at):
    hand = Hand(store_at(own_server.url))
    client = hand.store.connection.client

    def library(name: str) -> str:
        return f"#!lua name={name}\nredis.register_function('{name}', function() return 1 end)"

    client.execute_command("FUNCTION LOAD", library("theirs"))
    for number in range(scripts.LIBRARIES - 1):
        client.execute_command("FUNCTION LOAD", library(f"{FAMILY}older_{number}"))
    hand.submit("a")
    assert len(libraries(client)) == scripts.LIBRARIES + 1
    hand.claim()
    left = libraries(client)
    assert "theirs" in left
    assert {name.rpartition("_")[0] for name in left - {"theirs"}} == {f"{FAMILY}submit_plain", f"{FAMILY}claim"}


def test_on_a_full_server_that_lost_its_functions_tasks_still_end(make_server, store_at):
    server = make_server(maxmemory="64mb", maxmemory_policy="noeviction")
    hand = Hand(store_at(server.url, admit_memory_percent=100))
    hand.submit("a", "b")
    client = hand.store.connection.client
    client.execute_command("FUNCTION FLUSH")
    client.config_set("maxmemory", "1mb")
    for claim in hand.claim():
        assert hand.end(claim) == "OK"
    assert libraries(client) == set()
    assert [hand.status(each) for each in ("a", "b")] == ["succeeded", "succeeded"]


def test_nothing_of_a_call_is_left_for_the_next(own_server, store_at):
    """Of other queues, prefixes and settings, after one that was refused midway as well."""
    brief, plain = store_at(own_server.url, prefix="one", dlq_enabled=False), store_at(own_server.url, prefix="two")
    hands = [Hand(brief, queue="q"), Hand(plain, queue="q"), Hand(plain, queue="r")]
    client = plain.connection.client
    client.set(brief.keys.stream("q", 5), "damage")
    for number in range(3):
        for hand in hands:
            hand.submit(f"t{number}", priority=6, payload=b"%d" % number)
            hands[0].submit(f"d{number}", priority=5)
            (claim,) = hand.claim()
            assert (claim.queue, claim.payload, claim.task_id) == (hand.queue, b"%d" % number, f"t{number}")
            assert hand.end(claim) == "OK"
    for hand in hands:
        counters = hand.store.inspect.queue(hand.queue)
        assert (counters.succeeded, counters.running) == (3, 0)
    client.delete(brief.keys.stream("q", 5))
