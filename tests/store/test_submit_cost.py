"""What submitting and claiming cost: round trips, scripts, and bytes in one call."""

from dtq_engine.limits import Declared, Limit, Numbers
from dtq_engine.model import Deduplication, NewTask, SubmitOutcome, Succeed, Unique
from dtq_engine.store import intake


def test_a_submit_is_one_round_trip(hand, calls):
    hand.submit("first")
    calls()
    hand.submit("a", payload=b'{"n":1}', idempotency_key="k", headers={"h": "1"})
    assert calls() == {"fcall": 1}


def test_a_claim_and_an_end_are_one_round_trip_each(hand, calls):
    hand.end(hand.start("first"))
    hand.submit(*[f"t{n}" for n in range(50)])
    calls()
    claims = hand.claim()
    assert calls() == {"fcall": 1}
    hand.end_all(claims)
    assert calls() == {"fcall": 1}


def test_what_a_task_costs_in_commands_does_not_rise(hand, commands):
    """Beside these, a call has a number of its own that does not depend on how many tasks it carries."""
    hand.end(hand.start("first"))
    commands()
    hand.submit(*[f"t{n}" for n in range(100)])
    submitted = commands()
    claims = hand.claim(100)
    claimed = commands()
    hand.end_all(claims)
    ended = commands()
    for_tasks = [{name: calls for name, calls in each.items() if calls >= 50} for each in (submitted, claimed, ended)]
    assert for_tasks == [
        {"hget": 100, "xadd": 101, "hset": 100},
        {"hgetall": 100, "hset": 100},
        {"hgetall": 100, "hset": 100, "pexpire": 100},
    ]
    of_calls = [sum(calls for calls in each.values() if calls < 50) for each in (submitted, claimed, ended)]
    assert [most >= calls for most, calls in zip((30, 40, 30), of_calls, strict=True)] == [True] * 3, of_calls


def test_a_submit_counts_the_queue_once_a_second_at_most(hand, commands):
    hand.submit("first")
    commands()
    hand.submit("second")
    assert "xlen" not in commands()


def test_what_makes_a_task_unique_costs_only_those_that_are(hand, client, store):
    hand.submit("plain")
    hand.submit("unique", deduplication=Deduplication(unique=Unique.WAITING))
    plain, unique = (client.hgetall(store.keys.task("default", each)).keys() for each in ("plain", "unique"))
    assert unique - plain == {b"u"}
    kinds = {key.split(b":")[1] for key in client.keys(f"{store.keys.prefix}:*plain*")}
    assert kinds == {b"task"}


def test_tasks_with_limits_cost_a_few_commands_more_and_the_others_none(store, hand, commands):
    store.limits.declare("default", Declared((Limit("account", Numbers(2)),), {"account": "default"}))
    hand.end(hand.start("first"))
    hand.submit(*[f"free{n}" for n in range(100)])
    commands()
    claims = hand.claim(100)
    assert {name for name, calls in commands().items() if calls >= 50} == {"hgetall", "hset"}
    hand.end_all(claims)
    assert {name for name, calls in commands().items() if calls >= 50} == {"hgetall", "hset", "pexpire"}
    for number in range(100):
        hand.submit(f"t{number}", limits=(f"account/{number}",))
    commands()
    claims = hand.claim(100)
    claimed = {name: calls for name, calls in commands().items() if calls >= 50}
    assert claimed == {"hgetall": 100, "hset": 100, "zrange": 100, "zcard": 100, "zadd": 100}
    hand.end_all(claims)
    ended = {name: calls for name, calls in commands().items() if calls >= 50}
    assert ended == {"hgetall": 100, "hset": 100, "pexpire": 100, "zrem": 100, "zrange": 101}


def test_many_tasks_go_five_hundred_a_script(store, hand, calls):
    hand.submit("first")
    calls()
    receipts = store.intake.submit([NewTask(id=f"t{n}", type="mail") for n in range(1100)])
    assert calls()["fcall"] == 3
    assert {receipt.outcome for receipt in receipts} == {SubmitOutcome.NEW}
    assert [receipt.id for receipt in receipts] == [f"t{n}" for n in range(1100)]


def test_large_tasks_go_four_mebibytes_a_script(store, hand, calls):
    hand.submit("first")
    calls()
    payload = b'"' + b"x" * 1_000_000 + b'"'
    store.intake.submit([NewTask(id=f"t{n}", type="mail", payload=payload) for n in range(9)])
    assert calls()["fcall"] == 3


def test_large_results_go_four_mebibytes_a_script(hand, calls):
    hand.end(hand.start("first"))
    hand.submit(*[f"t{n}" for n in range(9)])
    claims = hand.claim()
    calls()
    assert set(hand.end_all(claims, Succeed(b'"' + b"x" * 1_000_000 + b'"'))) == {"OK"}
    assert calls()["fcall"] == 3


def test_a_task_larger_than_a_call_still_goes(hand):
    payload = b'"' + b"x" * 5_000_000 + b'"'
    hand.submit("small", "huge", payload=payload)
    assert hand.claim_one().payload == payload


def test_a_refused_task_does_not_stop_the_others(hand, store, monkeypatch):
    monkeypatch.setattr(intake, "TASKS_PER_CALL", 10)
    hand.submit("taken", payload=b"1", idempotency_key="k")
    tasks = [NewTask(id=f"t{n}", type="mail") for n in range(30)]
    tasks[15] = NewTask(id="bad", type="mail", payload=b"2", idempotency_key="k")
    receipts = store.intake.submit(tasks)
    assert receipts[15].outcome is SubmitOutcome.MISMATCH
    assert [receipt.outcome for receipt in receipts].count(SubmitOutcome.NEW) == 29


def test_fifty_idle_workers_and_one_task_cost_one_claim(hand, store, client, conn, calls):
    """One token wakes one worker, whose claim is not full and so wakes no other."""
    hand.submit("first")
    hand.end(hand.claim_one())
    client.delete(store.keys.wake("default"))
    hand.submit("a")
    calls()
    woken = [worker for worker in range(50) if conn.pop([store.keys.wake("default")])]
    assert len(woken) == 1
    assert len(hand.claim(10)) == 1
    assert calls()["fcall"] == 1
