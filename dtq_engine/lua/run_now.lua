-- run_now: make a task that waits for its time (delayed, to be retried, blocked) available at once.
--
-- ARGV     [2] id  [3] request id  [4] actor  [5] reason
-- Returns  queued · waits (its parents are not through) · invalid:<status> · newer · missing

open()
local id, request, actor, reason = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local before = remembered('run_now', id, request)
if before then return before end
local record = read(id)
if not record.s then return 'missing' end
if is_newer(record) then return 'newer' end
local schedule = schedule_of(record.s)
if record.A and record.s == 'B' and links.waits(record) then return 'waits' end
if not schedule then return 'invalid:' .. status_of(record) end
local priority = band(record) or 5
local bad = damaged(schedule, 'zset', STREAM .. priority, 'stream')
if bad then return bad end

local now = now_ms()
redis.call('ZREM', schedule, id)
-- Its limits still count: without room it is back in its old place.
if record.c then limits.leave(id, record) end
push(id, priority)
if record.u then free_key(id, record, 'b') end
remember('queued')
audit(now, 'run_now', id, actor, reason, request)
finish(now)
return 'queued'
