"""The bare limit: what small Lua scripts that only move ids can do here, with no task behind them, through redis-py."""

import time
from typing import Any

import redis

BATCH = 50
BULK = 500
KEY = "{bare}"
DATA = '{"a":1,"b":"hello"}'

SUBMIT = """
for i = 1, #ARGV, 2 do
  redis.call('HSET', KEYS[1] .. ARGV[i], 's', 'Q', 'd', ARGV[i + 1])
  redis.call('LPUSH', KEYS[1], ARGV[i])
end
"""

FETCH = """
local out = {}
for _, id in ipairs(redis.call('RPOP', KEYS[1], ARGV[1]) or {}) do
  redis.call('HSET', KEYS[1] .. id, 's', 'R')
  redis.call('ZADD', KEYS[1] .. ':lease', 1, id)
  out[#out + 1] = {id, redis.call('HGET', KEYS[1] .. id, 'd')}
end
return out
"""

FINISH = """
for _, id in ipairs(ARGV) do
  redis.call('HSET', KEYS[1] .. id, 's', 'S')
  redis.call('ZREM', KEYS[1] .. ':lease', id)
end
"""


class Bare:
    """A loop without a task queue, against one server, with one connection."""

    def __init__(self, url: str) -> None:
        self._client: Any = redis.Redis.from_url(url, protocol=2)
        self._submit, self._fetch, self._finish = (
            self._client.register_script(source) for source in (SUBMIT, FETCH, FINISH)
        )

    def single(self, tasks: int) -> float:
        """Ids submitted per second, one a call."""
        return self._submitted(tasks, 1)

    def bulk(self, tasks: int) -> float:
        """Ids submitted per second, `BULK` a call."""
        return self._submitted(tasks, BULK)

    def loop(self, tasks: int) -> float:
        """Ids fetched and finished per second, `BATCH` at a time, five commands each."""
        self._fill(tasks, BULK)
        began, done = time.perf_counter(), 0
        while batch := [task[0] for task in self._fetch(keys=[KEY], args=[BATCH])]:
            self._finish(keys=[KEY], args=batch)
            done += len(batch)
        rate = done / (time.perf_counter() - began)
        self._clear(tasks)
        return rate

    def _submitted(self, tasks: int, at_once: int) -> float:
        began = time.perf_counter()
        self._fill(tasks, at_once)
        rate = tasks / (time.perf_counter() - began)
        self._clear(tasks)
        return rate

    def _fill(self, tasks: int, at_once: int) -> None:
        for first in range(0, tasks, at_once):
            numbers = range(first, min(tasks, first + at_once))
            self._submit(keys=[KEY], args=[part for number in numbers for part in (number, DATA)])

    def _clear(self, tasks: int) -> None:
        """Delete what is left, in parts: a command that is too long would hold up the server."""
        for first in range(0, tasks, 1000):
            self._client.unlink(*(f"{KEY}{number}" for number in range(first, first + 1000)))
        self._client.delete(KEY, KEY + ":lease")
