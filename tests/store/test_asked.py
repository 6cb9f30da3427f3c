"""Operators' verbs say which of what they were given they cannot take, before anything is sent."""

from collections.abc import Callable

import pytest

from dtq_engine.errors import InvalidTask
from dtq_engine.store import Store

VERBS: dict[str, Callable[..., object]] = {
    "cancel": lambda store, **said: store.control.cancel("a", **said),
    "requeue": lambda store, **said: store.control.requeue("a", **said),
    "discard": lambda store, **said: store.control.discard("a", **said),
    "run_now": lambda store, **said: store.control.run_now("a", **said),
    "reprioritise": lambda store, **said: store.control.reprioritise("a", 3, **said),
    "pause": lambda store, **said: store.control.pause("default", **said),
    "resume": lambda store, **said: store.control.resume("default", **said),
    "purge": lambda store, **said: store.control.purge("default", **said),
}
BAD = {"surrogate": "\udc80", "nothing": None, "number": 7, "bytes": b"x", "huge": "x" * 10_000_000}
SAID = [
    pytest.param(field, value, id=f"{field}-{what}")
    for field in ("actor", "reason", "request")
    for what, value in BAD.items()
    if (field, value) != ("request", None)  # then there is a new one
]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("field", "value"), SAID)
def test_a_verb_names_what_is_no_text(store: Store, hand, verb: str, field: str, value: object) -> None:
    hand.submit("a")
    with pytest.raises(InvalidTask, match=f"^{field} ") as refused:
        VERBS[verb](store, **{field: value})
    assert refused.value.field == field
    assert len(str(refused.value).encode()) < 200
    assert hand.status("a") == "queued"
    assert list(store.events.audit("default", 10)) == []


@pytest.mark.parametrize("verb", ["cancel", "requeue", "discard", "run_now", "reprioritise"])
@pytest.mark.parametrize("queue", ["A B", "", "\udc80", 7, "q" * 65])
def test_a_queue_that_there_cannot_be_is_refused_by_verbs_on_tasks(store: Store, verb: str, queue: object) -> None:
    with pytest.raises(InvalidTask, match="queue cannot be"):
        VERBS[verb](store, queue=queue)


@pytest.mark.parametrize("queue", ["A B", "", None, "\udc80", 7, "q" * 65])
def test_a_queue_that_there_cannot_be_is_refused_by_verbs_on_queues(store: Store, queue: object) -> None:
    for verb in (store.control.pause, store.control.resume, store.control.purge):
        with pytest.raises(InvalidTask, match="queue cannot be") as refused:
            verb(queue)  # type: ignore[arg-type]
        str(refused.value).encode()


@pytest.mark.parametrize("task_id", [None, 7, "\udc80", "x" * 100_000])
def test_an_id_that_there_cannot_be_is_refused(store: Store, task_id: object) -> None:
    for verb in (store.control.cancel, store.control.requeue, store.control.discard, store.control.run_now):
        with pytest.raises(InvalidTask, match=r"^id "):
            verb(task_id)  # type: ignore[arg-type]


def test_who_is_at_the_keyboard_is_told_safely(dtq, hand, store, monkeypatch) -> None:
    hand.submit("a")
    monkeypatch.setenv("LOGNAME", "ev\udc80il\x1b" + "x" * 1000)
    assert dtq("cancel", "a").code == 0
    (entry,) = store.events.audit("default", 10)
    assert entry.actor.startswith("ev\\udc80il\\x1bxxx")
    assert len(entry.actor) == 500


def test_a_reason_that_is_no_text_is_refused_on_the_command_line(dtq, hand) -> None:
    hand.submit("a")
    ran = dtq("cancel", "a", "--reason", "x\udc80")
    assert ran.code != 0
    assert "reason has half a character" in ran.err


@pytest.mark.parametrize("span", ["0", "0.0001s", "4000d"])
def test_a_pause_for_no_time_or_for_ever_blames_the_option(dtq, hand, span: str) -> None:
    hand.submit("a")
    ran = dtq("pause", "default", "--for", span)
    assert ran.code == 2
    assert "--for" in ran.err
    assert "for_ms" not in ran.err
