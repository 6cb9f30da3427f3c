-- tick: deal with all ticks of a periodic task up to one of them, once: that one's task comes in by the same step.
--
-- At maxmemory it is refused as a submit is, and comes again. No limit of depth holds it back: it adds one task to a
-- tick at most, and a tick that found the queue full would never come again.
--
-- ARGV     [2] name  [3] digest and  [4] `at` of the task as the caller knows it  [5] the tick, or 0: deal with them
--          without a task, up to  [6] this ms; with a tick, the task follows as _accept says
-- Returns  OK, or STALE: the task is another by now, paused, removed, or somebody else has dealt with the tick

local name, digest, at, tick, up_to = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local key = KEY.periodic .. ':' .. name
local bad = damaged(key, 'hash')
if bad then return bad end
local now = now_ms()
local known, dealt_with, paused, removed = unpack(redis.call('HMGET', key, 'digest', 'at', 'paused', 'removed'))
if known ~= digest or dealt_with ~= at or paused or removed or tonumber(up_to) > now then return 'STALE' end

if tick ~= '0' then
  local task = parse(7, now)
  bad = damaged_places({task})
  if bad then return bad end
  -- A tick comes again after the clock was put back by hours; its task may still be known.
  local outcome = 'NEW'
  if redis.call('EXISTS', TASK .. task.id) == 0 then outcome = let_in(task, now, 'periodic') end
  if outcome == 'DAMAGED' then return redis.error_reply('DAMAGED a unique key or throttle of ' .. name) end
  forget_depth()  -- not before: a DEL would let a full server go on
  if outcome == 'NEW' then redis.call('HSET', key, 'last', tick, 'task', task.id) end
end
redis.call('HSET', key, 'at', up_to)
finish(now)
return 'OK'
