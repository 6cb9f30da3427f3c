-- override: let an operator's numbers be in force for a limit instead of those of the code; or clear them again.
--
-- ARGV     [2] name ('*': the queue's own)  [3] request id  [4] actor  [5] reason
--          [6] max/count/ms, each '-' for what the code says, 0 for none; '' to clear
-- Returns  set · cleared · missing (there is no such limit here, or nothing to clear)

open()
local name, request, actor, reason, numbers = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local verb = numbers == '' and 'clear_limit' or 'set_limit'
local before = remembered(verb, name, request)
if before then return before end
if damaged(KEY.limits, 'hash') then redis.call('DEL', KEY.limits) end
local now = now_ms()
local own, said = unpack(redis.call('HMGET', KEY.limits, name, name .. '!'))
if (numbers == '' and not said) or (numbers ~= '' and name ~= '*' and not (own or said)) then return 'missing' end

if numbers == '' then redis.call('HDEL', KEY.limits, name .. '!')
else redis.call('HSET', KEY.limits, name .. '!', numbers .. ' ' .. cjson.encode({by = actor, reason = reason, since = now})) end
limits.changed(name, now)
local answer = remember(numbers == '' and 'cleared' or 'set')
audit(now, verb, name == '*' and QUEUE or name, actor, reason, request)
changed(verb, name == '*' and QUEUE or name)
finish(now)
return answer
