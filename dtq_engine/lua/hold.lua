-- hold: pause a periodic task, or let it go on; ticks that pass meanwhile are not made up for.
--
-- ARGV     [2] request id  [3] actor  [4] reason  [5] name  [6] 1: pause, 0: go on
-- Returns  paused · resumed · missing · removed

open()
local request, actor, reason, name, pauses = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] == '1'
local verb = pauses and 'pause_periodic' or 'resume_periodic'
local before = remembered(verb, name, request)
if before then return before end
local now, key = now_ms(), KEY.periodic .. ':' .. name
local bad = damaged(key, 'hash')
if bad then return bad end
local known, removed, paused = unpack(redis.call('HMGET', key, 'digest', 'removed', 'paused'))
if not known then return 'missing' end
if removed then return 'removed' end
if pauses then
  redis.call('HSET', key, 'paused', cjson.encode({by = actor, reason = reason, since = now}))
elseif paused then
  redis.call('HDEL', key, 'paused')
  redis.call('HSET', key, 'at', whole(now))
  push_token(KEY['wake:schedule'])
end
audit(now, verb, name, actor, reason, request)
changed(verb, name)
finish(now)
return remember(pauses and 'paused' or 'resumed')
