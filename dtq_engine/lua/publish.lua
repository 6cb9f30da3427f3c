-- publish: keep what workers say of something, and since when they have. It stands alone, without _lib.
--
-- KEYS[1]  the hash
-- ARGV     time to live in ms, what they say
-- Returns  OK

local since = redis.call('HGET', KEYS[1], 'since')
if not since then
  local time = redis.call('TIME')
  since = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'since', since, 'body', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 'OK'
