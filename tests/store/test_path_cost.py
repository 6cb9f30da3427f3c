"""What each path of a task costs, as numbers that do not depend on the machine: they may fall, and must not rise.

Commands are counted by the server, from inside of scripts as well. Of a hundred tasks in one call those that come with
each task are told from those that come with the call; of one task all are counted together.
"""

from collections.abc import Callable

import pytest

from dtq_engine.model import DeadLetter, NewTask, Reschedule, Succeed
from tests.store.hand import Hand, error

MANY = 100
TIMED = 25
ROUNDS = 30

# Of each path: commands for each task of many; all commands of a call for one task; how long a script for some may
# take, as a multiple of the calibration below (twice what was measured, since servers and processors differ).
MOST = {
    "submit": (3, 17, 5),
    "submit, delayed": (3, 18, 5),
    "promote": (3, 21, 5),
    "claim": (2, 27, 5),
    "succeed": (3, 24, 6),
    "retry": (6, 23, 8),
    "dead-letter": (9, 31, 11),
}

CALIBRATION = """
for i = 1, 75 do
  redis.call('HSET', KEYS[1], 'field', i)
  if redis.call('HGET', KEYS[1], 'field') ~= tostring(i) then return 'wrong' end
end
redis.call('DEL', KEYS[1])
"""

Step = dict[str, Callable[[int], Callable[[], object]]]


@pytest.fixture
def step(hand: Hand, store, clock) -> Step:
    """Take so many new tasks along a path, up to its last call, and leave that call to the test."""
    hand.end(hand.start("first"))
    names = iter(range(10_000))

    def submit(count, **fields):
        tasks = [NewTask(id=f"t{next(names)}", type="mail", **fields) for _ in range(count)]
        return lambda: store.intake.submit(tasks)

    def claimed(count):
        submit(count)()
        return hand.claim(count)

    def ending(count, transition):
        claims = claimed(count)
        return lambda: hand.end_all(claims, transition)

    def promote(count):
        submit(count, delay_ms=1000)()
        clock.advance(2)
        return lambda: store.schedule.promote("default")

    def claim(count):
        submit(count)()
        return lambda: hand.claim(count)

    return {
        "submit": submit,
        "submit, delayed": lambda count: submit(count, delay_ms=60_000),
        "promote": promote,
        "claim": claim,
        "succeed": lambda count: ending(count, Succeed(None)),
        "retry": lambda count: ending(count, Reschedule(error(), 60_000)),
        "dead-letter": lambda count: ending(count, DeadLetter(error(), "max_attempts")),
    }


@pytest.mark.parametrize("path", MOST)
def test_a_task_among_many_and_a_task_by_itself_cost_no_more_commands_than_they_did(path, step: Step, commands):
    found = []
    for count in (MANY, 1):
        last = step[path](count)
        commands()
        last()
        found.append(commands())
    with_each = sum(calls // MANY for calls in found[0].values())
    for_each, for_one, _ = MOST[path]
    assert with_each <= for_each, found[0]
    assert sum(found[1].values()) <= for_one, found[1]


@pytest.mark.parametrize("path", MOST)
def test_each_path_is_one_round_trip_whatever_it_carries(path, step: Step, calls):
    step[path](1)()
    for count in (1, MANY):
        last = step[path](count)
        calls()
        last()
        assert calls() == {"evalsha" if path == "promote" else "fcall": 1}


@pytest.mark.alone
@pytest.mark.parametrize("path", MOST)
def test_a_script_takes_no_more_time_beside_plain_commands_than_it_did(path, step: Step, client):
    """The best of some rounds, for a busy machine only makes them slower; once it is good enough no more are needed."""
    calibration = client.register_script(CALIBRATION)
    calibration(keys=["{default}calibration"])
    ours, plain = [], []
    for _ in range(ROUNDS):
        ours.append(spent_us(client, step[path](TIMED)))
        plain.append(spent_us(client, lambda: calibration(keys=["{default}calibration"])))
        if min(ours) <= MOST[path][2] * min(plain):
            return
    pytest.fail(f"{path} took {min(ours) / min(plain):.1f} times as long as the calibration")


def spent_us(client, call) -> float:
    """How long the server was in the one script that a call runs, by its own clock."""
    client.config_resetstat()
    call()
    stats = client.info("commandstats")
    return sum(stats[name]["usec"] for name in ("cmdstat_fcall", "cmdstat_evalsha") if name in stats)
