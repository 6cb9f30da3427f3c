-- trigger: run a periodic task now, out of turn, paused or not; its ticks go on as they were.
--
-- ARGV     [2] request id  [3] actor  [4] reason  [5] name, then the task, as _accept says
-- Returns  triggered:<id of the task> · unique:<id> · throttled:<id> · replaced:<id> (another task stands for it) ·
--          missing · removed

local request, actor, reason, name = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local before = remembered('trigger_periodic', name, request)
if before then return before end
local now = now_ms()
local key, task = KEY.periodic .. ':' .. name, parse(6, now)
local bad = damaged(key, 'hash') or damaged_places({task})
if bad then return bad end
local known, removed = unpack(redis.call('HMGET', key, 'digest', 'removed'))
if not known then return 'missing' end
if removed then return 'removed' end
local outcome, id = let_in(task, now, 'periodic')
if outcome == 'DAMAGED' then return redis.error_reply('DAMAGED a unique key or throttle of ' .. name) end
forget_depth()  -- not before: a DEL would let a full server go on
if outcome == 'NEW' then redis.call('HSET', key, 'last', whole(now), 'task', id) end
audit(now, 'trigger_periodic', name, actor, reason, request)
finish(now)
return remember((DETAIL[outcome] or 'triggered') .. ':' .. id)
