-- resume: let workers claim from this queue again, and wake one of them.
--
-- ARGV     [2] request id  [3] actor  [4] reason
-- Returns  resumed

open()
local request, actor, reason = ARGV[2], ARGV[3], ARGV[4]
local before = remembered('resume', QUEUE, request)
if before then return before end
local now = now_ms()
redis.call('DEL', paused_key())
wake = true
remember('resumed')
audit(now, 'resume', QUEUE, actor, reason, request)
changed('resume')
finish(now)
return 'resumed'
