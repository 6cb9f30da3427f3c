"""The JSON Schemas of task types, as processes without handlers find them."""

from typing import Any

import pytest

from dtq_engine.model import TaskSchema
from dtq_engine.registry import Handler
from tests.store.hand import info

pytestmark = pytest.mark.both_servers


def schema_of(fn: Any, name: str = "mail") -> TaskSchema:
    return Handler(name, fn).published()


def old_mail(to: str) -> None:
    """Send a mail."""


def new_mail(address: str, urgent: bool = False) -> int:
    return len(address)


OLD, NEW = schema_of(old_mail), schema_of(new_mail)


def test_what_a_worker_publishes_is_found_under_its_type(store):
    store.schemas.publish([OLD])
    store.workers.beat(info("w1", release="v1", schemas={"mail": OLD.digest}), 30)
    [found] = store.schemas.list()
    assert (found.type, found.description, found.releases, found.workers) == ("mail", "Send a mail.", ("v1",), ("w1",))
    assert (found.parameters, found.result, found.defaults) == (OLD.parameters, OLD.result, OLD.defaults)


def test_two_releases_side_by_side_are_both_seen_and_old_ones_leave_with_their_last_worker(store):
    store.schemas.publish([OLD])
    store.schemas.publish([NEW])
    for name, release, schema in (("w1", "v1", OLD), ("w2", "v1", OLD), ("w3", "v2", NEW)):
        store.workers.beat(info(name, release=release, schemas={"mail": schema.digest}), 30)

    def seen() -> dict[str, tuple[str, ...]]:
        return {schema.digest: schema.workers for schema in store.schemas.list("mail")}

    assert seen() == {OLD.digest: ("w1", "w2"), NEW.digest: ("w3",)}
    store.workers.leave("w1")
    assert seen() == {OLD.digest: ("w2",), NEW.digest: ("w3",)}
    store.workers.leave("w2")
    assert seen() == {NEW.digest: ("w3",)}


def test_types_are_listed_in_order_and_one_can_be_asked_for(store):
    schemas = [schema_of(old_mail, name) for name in ("b", "a")]
    store.schemas.publish(schemas)
    store.workers.beat(info("w1", schemas={schema.type: schema.digest for schema in schemas}), 30)
    assert [schema.type for schema in store.schemas.list()] == ["a", "b"]
    assert [schema.type for schema in store.schemas.list("b")] == ["b"]
    assert store.schemas.list("c") == []


def test_a_schema_expires_unless_it_is_kept_and_comes_back_if_it_was_lost(store, client, clock):
    key = store.keys.schema("mail", OLD.digest)
    store.schemas.publish([OLD])
    clock.advance(200, ttls=True)
    store.schemas.keep([OLD])
    assert client.ttl(key) > 290
    client.delete(key)
    store.schemas.keep([OLD, NEW])
    assert client.ttl(key) > 290
    store.workers.beat(info("w1", schemas={"mail": NEW.digest}), 30)
    assert [schema.digest for schema in store.schemas.list()] == [NEW.digest]


@pytest.mark.keeps_keys
@pytest.mark.parametrize("damage", ["a later format", "another kind of key"])
def test_one_damaged_schema_does_not_hide_the_others(store, client, damage):
    schemas = [schema_of(old_mail, name) for name in ("a", "b")]
    store.schemas.publish(schemas)
    store.workers.beat(info("w1", schemas={schema.type: schema.digest for schema in schemas}), 30)
    key = store.keys.schema("a", schemas[0].digest)
    if damage == "a later format":
        client.hset(key, "schema", b'{"type": 5}')
    else:
        client.delete(key)
        client.set(key, "no hash")
    assert [schema.type for schema in store.schemas.list()] == ["b"]
