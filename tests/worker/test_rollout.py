"""Two releases side by side: what one of them cannot run waits for the other."""

from dataclasses import replace
from typing import Any

import pytest

from dtq_engine import Dtq, Settings, Store
from dtq_engine.model import Block
from dtq_engine.worker import Worker
from tests.support.waiting import wait_until


def release(settings: Settings, queue: str, *, new: bool) -> tuple[Dtq, Worker]:
    """A worker of the old release, whose `mail` takes `to`, or of the new one, whose `mail` takes `address`."""
    app = Dtq(replace(settings, worker_queues=(queue,)))

    def old_mail(to: str) -> str:
        return f"old {to}"

    def new_mail(address: str) -> str:
        return f"new {address}"

    app.task("mail")(new_mail if new else old_mail)
    return app, Worker(app, app.settings)


@pytest.mark.drains
def test_a_payload_that_only_the_new_release_can_read_waits_for_it(app: Dtq, quick: Settings) -> None:
    old_app, old = release(quick, "default", new=False)
    new_app, elsewhere = release(quick, "other", new=True)
    elsewhere.start()
    old.start()
    handle = new_app.named("mail").submit(address="ann")
    wait_until(lambda: handle.info().reason == "payload_misfit:mail")
    task = handle.info()
    assert (task.status, task.attempt, task.errors) == ("blocked", 0, ())
    _, new = release(quick, "default", new=True)
    old.stop()
    old.join(10)
    new.start()
    assert handle.result(timeout=10) == "new ann"
    for worker in (elsewhere, new):
        worker.stop()
        worker.join(10)
    for each in (old_app, new_app):
        each.close()


@pytest.mark.drains
def test_what_an_old_worker_took_before_the_new_one_polled_is_freed_again(
    app: Dtq, quick: Settings, store: Store, client: Any
) -> None:
    @app.task("mail")
    def mail() -> str:
        return "sent"

    worker = Worker(app, quick)
    worker.parts.types.announce()
    handle = mail.submit()
    client.hset(store.keys.task("default", handle.id), "N", 6)
    digest = store.workers.announce(["default"], ["mail"], build="old")
    (claim,) = store.leases.claim("default", worker="old", token="x" * 22, limit=1, types_digest=digest).claims
    store.leases.finalize([(claim, Block("payload_misfit:mail"))])
    assert handle.status() == "blocked"
    worker.start()
    assert handle.result(timeout=10) == "sent"
    worker.stop()
    worker.join(10)


@pytest.mark.drains
def test_a_payload_that_all_agree_is_wrong_fails_at_once(app: Dtq, quick: Settings, start: Any) -> None:
    @app.task("mail")
    def mail(to: str) -> None: ...

    stranger = Dtq(app.settings)
    handle = stranger.named("mail").submit(address="ann")
    start()
    wait_until(lambda: handle.status().is_final)
    task = handle.info()
    assert (task.status, task.reason, task.errors[0].type) == ("dead_lettered", "permanent", "BadPayload")
    stranger.close()


def test_builds_that_differ_in_a_parameter_tell_so_by_their_schemas() -> None:
    def schema(fn: Any) -> str:
        app = Dtq(Settings())
        app.task("mail")(fn)
        return app.registry.schemas()["mail"]

    def one(to: str) -> None: ...
    def same(to: str) -> None: ...
    def other(to: int) -> None: ...

    assert schema(one) == schema(same) != schema(other)


@pytest.mark.drains
def test_a_process_without_handlers_sees_the_schemas_of_both_releases(app: Dtq, quick: Settings) -> None:
    stranger = Dtq(quick)
    old_app, old = release(replace(quick, release="v1"), "default", new=False)
    new_app, new = release(replace(quick, release="v2"), "other", new=True)

    def seen() -> dict[tuple[str, ...], list[str]]:
        return {found.releases: list(found.parameters["properties"]) for found in stranger.store.schemas.list("mail")}

    assert seen() == {}
    old.start()
    assert seen() == {("v1",): ["to"]}
    new.start()
    assert seen() == {("v1",): ["to"], ("v2",): ["address"]}
    old.stop()
    assert old.join(10) == 0
    assert seen() == {("v2",): ["address"]}
    new.stop()
    assert new.join(10) == 0
    assert seen() == {}
    for each in (old_app, new_app, stranger):
        each.close()
