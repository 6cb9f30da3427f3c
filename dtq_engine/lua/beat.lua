-- beat: say that a worker is alive. It stands alone, without _lib; the DEL lets it pass at maxmemory.
--
-- KEYS[1]  the worker's hash
-- ARGV     time to live in ms, then field, value …
-- Returns  1 when it was said before and is not forgotten, else 0

local known = redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return known
