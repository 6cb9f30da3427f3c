-- announce: publish the task types that a build of workers knows, and free the tasks that waited for such a build.
--
-- The living builds are kept in a sorted set, by the ms when their types lapse.
--
-- ARGV     [2] digest  [3] time to live in ms  [4] '1' to free them although the build is known, then the types
-- Returns  OK

open()
local key = KEY.types .. ':' .. ARGV[2]
local bad = damaged(key, 'set', KEY.builds, 'zset', KEY.blocked, 'zset')
if bad then return bad end
local is_news = redis.call('EXISTS', key) == 0
redis.call('SADD', key, '', unpack(ARGV, 5))
redis.call('PEXPIRE', key, ARGV[3])
-- By Redis' own clock, as the times to live are.
local real = raw_ms()
redis.call('ZREMRANGEBYSCORE', KEY.builds, '-inf', whole(real))
redis.call('ZADD', KEY.builds, whole(real + ARGV[3]), ARGV[2])
redis.call('PEXPIRE', KEY.builds, ARGV[3])
if is_news or ARGV[4] == '1' then
  local now, known = now_ms(), {}
  for i = 5, #ARGV do known['unknown_task_type:' .. ARGV[i]], known['payload_misfit:' .. ARGV[i]] = true, true end
  for _, id in ipairs(redis.call('ZRANGE', KEY.blocked, 0, 999)) do
    if known[redis.pcall('HGET', TASK .. id, 'm') or ''] then
      redis.call('ZADD', KEY.blocked, 'XX', whole(now), id)
      earliest = now
    end
  end
  finish(now)
end
return 'OK'
