"""Addresses of one server: TLS, a Unix socket, a password, a user with few rights."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.errors import RedisUnavailable
from dtq_engine.model import Settled
from dtq_engine.store import Store
from tests.servers.tls import Terminator, make_certificate
from tests.store.hand import Hand

StoreAt = Callable[..., Store]

# What docs/guarantees.md says that dtq needs.
RIGHTS = ("+@all", "-@dangerous", "-@admin", "+info")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    directory = tmp_path_factory.mktemp("valkey")
    with EmbeddedValkey(directory, appendonly=False, options={"unixsocket": str(directory / "redis.sock")}) as server:
        yield server


@pytest.fixture(scope="module")
def tls(server: EmbeddedValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """A port that speaks TLS, and the certificate to trust."""
    certificate, key = make_certificate(tmp_path_factory.mktemp("tls"))
    terminator = Terminator(server.port, certificate, key)
    yield terminator.port, certificate
    terminator.close()


@pytest.fixture
def admin(server: EmbeddedValkey) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url, protocol=2) as client:
        yield client


def works(store: Store) -> bool:
    """Whether a task can be submitted, claimed, waited for and finished."""
    hand = Hand(store)
    with store.connection.listen([store.keys.done_channel("p")]) as messages:
        claim = hand.start("a")
        store.leases.watch("a", "default", "p")
        assert store.connection.blpop([store.keys.wake("default")], 1)
        assert hand.end(claim) is Settled.OK
        assert messages.get(2) == (store.keys.done_channel("p"), b"a succeeded")
    return store.sweep.run() == {} and store.inspect.queue("default").succeeded == 1


def test_a_certificate_that_nobody_signed_is_refused_unless_the_address_says_otherwise(tls, store_at: StoreAt):
    port, _ = tls
    with pytest.raises(RedisUnavailable, match=r"not trusted here.*ssl_ca_certs.*DTQ_REDIS_TLS_VERIFY=0"):
        store_at(f"rediss://127.0.0.1:{port}/0").connection.ping()
    assert works(store_at(f"rediss://127.0.0.1:{port}/0?ssl_cert_reqs=none"))


def test_where_the_platform_gives_the_address_a_setting_says_that_any_certificate_will_do(tls, store_at: StoreAt):
    assert works(store_at(f"rediss://127.0.0.1:{tls[0]}/0", redis_tls_verify=False))


def test_the_setting_changes_nothing_where_there_is_no_certificate(server: EmbeddedValkey, store_at: StoreAt):
    assert works(store_at(server.url, prefix="plain", redis_tls_verify=False))


def test_a_certificate_may_be_trusted_by_the_address(tls, store_at: StoreAt):
    port, certificate = tls
    assert works(store_at(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={certificate}"))


def test_a_wait_over_tls_may_be_longer_than_a_reply_takes(tls, store_at: StoreAt):
    store = store_at(f"rediss://127.0.0.1:{tls[0]}/0?ssl_cert_reqs=none")
    assert store.connection.blpop([store.keys.wake("default")], 2.2) is None


def test_a_unix_socket_is_an_address(server: EmbeddedValkey, store_at: StoreAt):
    assert works(store_at(f"unix://{server.directory}/redis.sock?db=0"))


def test_a_user_with_few_rights_is_enough(server: EmbeddedValkey, admin: redis.Redis, store_at: StoreAt):
    admin.execute_command("ACL", "SETUSER", "dtq", "on", ">p@ss:word/", "~few:*", "&few:*", *RIGHTS)
    address = f"redis://dtq:p%40ss%3Aword%2F@127.0.0.1:{server.port}/0"
    assert works(store_at(address, prefix="few"))
    with pytest.raises(RedisUnavailable, match="rights"):
        Hand(store_at(address, prefix="other"), announced=False).submit("a")


def test_a_password_alone_is_that_of_the_default_user(server: EmbeddedValkey, admin: redis.Redis, store_at: StoreAt):
    admin.config_set("requirepass", "secret")
    try:
        assert works(store_at(f"redis://:secret@127.0.0.1:{server.port}/0"))
        for wrong in ("", ":other@"):
            with pytest.raises(RedisUnavailable, match="password"):
                store_at(f"redis://{wrong}127.0.0.1:{server.port}/0").connection.ping()
    finally:
        admin.config_set("requirepass", "")


def test_another_database_is_another_world(server: EmbeddedValkey, store_at: StoreAt):
    assert works(store_at(server.url.replace("/0", "/3"), prefix="db"))
    assert store_at(server.url, prefix="db").inspect.queues() == []
