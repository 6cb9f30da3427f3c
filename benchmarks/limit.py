"""The bare limit: what two Lua scripts that only move ids can do here, with no task behind them."""

import time
from typing import Any

from dtq_engine.connection import Connection

BATCH = 50

FILL = """
for i = 1, tonumber(ARGV[1]) do
  redis.call('HSET', KEYS[1] .. i, 's', 'Q', 'd', '{"a":1,"b":"hello"}')
  redis.call('LPUSH', KEYS[1], i)
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


def bare_loop(connection: Connection, tasks: int) -> float:
    """Ids fetched and finished per second by one loop, `BATCH` at a time, five commands each."""
    fill, fetch, finish = (connection.client.register_script(source) for source in (FILL, FETCH, FINISH))
    key = "{bare}"
    for _ in range(tasks // 1000):
        fill(keys=[key], args=[1000])
    began, done = time.perf_counter(), 0
    while batch := _fetch(fetch, key):
        finish(keys=[key], args=batch)
        done += len(batch)
    rate = done / (time.perf_counter() - began)
    connection.client.delete(key, key + ":lease", *(f"{key}{number}" for number in range(1, 1001)))
    return rate


def _fetch(fetch: Any, key: str) -> list[bytes]:
    return [task[0] for task in fetch(keys=[key], args=[BATCH])]
