"""Failed attempts to sign in: counted over all processes, forgotten in time, one key for each origin."""

import pytest

pytestmark = pytest.mark.both_servers

ADDRESS, PERSON = "from 10.0.0.7", "ada from 10.0.0.7"


def test_the_first_ones_are_free_and_then_each_costs_twice_as_much(store):
    assert [store.logins.miss(PERSON, 3) for _ in range(5)] == [0, 0, 1000, 2000, 4000]


def test_nobody_waits_for_more_than_five_minutes(store):
    assert [store.logins.miss(PERSON, 1) for _ in range(12)][-3:] == [300_000] * 3


def test_who_comes_from_several_origins_waits_for_the_longest(store):
    assert store.logins.wait_ms([ADDRESS, PERSON]) == 0
    for origin, misses in ((ADDRESS, 7), (PERSON, 8)):
        for _ in range(misses):
            store.logins.miss(origin, 1)
    assert 64_000 < store.logins.wait_ms([ADDRESS, PERSON]) <= 128_000
    assert 0 < store.logins.wait_ms([ADDRESS]) <= 64_000


def test_an_origin_may_begin_anew(store):
    store.logins.miss(PERSON, 1)
    store.logins.forget(PERSON)
    assert store.logins.wait_ms([PERSON]) == 0


def test_an_origin_of_any_text_has_one_short_key_that_expires(store, client, settings):
    for origin in ("x" * 100_000, "\ud800 {a} \n", PERSON):
        for _ in range(3):
            store.logins.miss(origin, 1)
    keys = client.keys(f"{settings.prefix}:*")
    assert len(keys) == 3
    assert all(len(key) < 60 and 0 < client.pttl(key) <= 3_600_000 for key in keys)


def test_what_is_known_of_an_origin_may_be_damaged(store, client):
    key = store.logins._key(PERSON)
    for junk in ("", "nan nan", "5", "99999999999999999999 1e400", "1 -5"):
        client.set(key, junk, px=9000)
        assert store.logins.wait_ms([PERSON]) == 0
        assert store.logins.miss(PERSON, 5) in {0, 1000}
    client.delete(key)
    client.rpush(key, "x")
    assert store.logins.wait_ms([PERSON]) == 0
    assert store.logins.miss(PERSON, 5) == 0
