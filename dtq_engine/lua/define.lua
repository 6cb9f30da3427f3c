-- define: take over what living workers say of a periodic task; or note that none of them has it any more.
--
-- ARGV     [2] name  [3] digest ('': it was removed)  [4] when its ticks are  [5] its definition, as JSON
--          [6] where it moves here from another queue, its `at` there or `now` ('': it does not)  [7] its `paused` there
-- Returns  SAME · DEFINED · REMOVED
--
-- Fields of a periodic task: digest, schedule and definition as given; at: its ticks up to this ms have been dealt
-- with; last, task: the tick (or the time of the trigger) and the id of its latest task; paused: JSON of who, why and
-- since when; removed: since this ms no living worker has had it, and a day later it is gone.

open()
local name, digest, schedule, moved_at, moved_paused = ARGV[2], ARGV[3], ARGV[4], ARGV[6], ARGV[7]
local key = KEY.periodic .. ':' .. name
local bad = damaged(KEY.periodic, 'set', key, 'hash')
if bad then return bad end
local now = now_ms()
local known, when, removed, at, definition, last, task = unpack(redis.call('HMGET', key, 'digest', 'schedule', 'removed', 'at',
  'definition', 'last', 'task'))

-- What says an instant, as Python reads it: anything else is damage.
local function is_instant(value) return string.find(value, '^%d+$') ~= nil and #value <= 14 end

if digest == '' then
  if not known or removed then return 'SAME' end
  redis.call('HSET', key, 'removed', whole(now))
  redis.call('PEXPIRE', key, 86400000)
  changed('withdraw', name)
  finish(now)
  return 'REMOVED'
end
local is_dealt_with = at and is_instant(at)
local is_run = not last or (is_instant(last) and string.find(task or 'none', '^[%w_-]+$'))
if known == digest and not removed and definition == ARGV[5] and is_dealt_with and is_run then return 'SAME' end

redis.call('SET', KEYS[1], '1')
redis.call('SADD', KEY.periodic, name)
redis.call('HSET', key, 'digest', digest, 'schedule', schedule, 'definition', ARGV[5])
if moved_at ~= '' then
  redis.call('HDEL', key, 'paused')
  redis.call('HSET', key, 'at', moved_at == 'now' and whole(now) or moved_at)
  if moved_paused ~= '' then redis.call('HSET', key, 'paused', moved_paused) end
elseif when ~= schedule or not is_dealt_with then
  -- Under another schedule it has missed nothing yet.
  redis.call('HSET', key, 'at', whole(now))
end
if not is_run then redis.call('HDEL', key, 'last', 'task') end
redis.call('HDEL', key, 'removed')
redis.call('PERSIST', key)
push_token(KEY['wake:schedule'])
changed('define', name)
finish(now)
return 'DEFINED'
