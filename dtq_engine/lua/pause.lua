-- pause: let nobody claim from this queue; what runs goes on, and submits are still accepted.
--
-- ARGV     [2] request id  [3] actor  [4] reason  [5] ms until it resumes by itself ('' never)
-- Returns  paused

open()
local request, actor, reason, span = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local before = remembered('pause', QUEUE, request)
if before then return before end
local now = now_ms()
local note = {by = actor, reason = reason, since = now}
if span ~= '' then note['until'] = now + span end
redis.call('SET', paused_key(), cjson.encode(note))
if span ~= '' then redis.call('PEXPIRE', paused_key(), span) end
redis.call('DEL', KEY.wake)
remember('paused')
audit(now, 'pause', QUEUE, actor, reason, request)
changed('pause')
finish(now)
return 'paused'
