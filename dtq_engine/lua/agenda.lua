-- agenda: the periodic tasks of this queue, and the time; names behind which nothing is any more are dropped.
--
-- ARGV     none
-- Returns  now, then per task: its fields and values

open()
local reply = {whole(now_ms())}
for _, name in ipairs(redis.call('SMEMBERS', KEY.periodic)) do
  local fields = redis.pcall('HGETALL', KEY.periodic .. ':' .. name)
  if #fields > 0 then reply[#reply + 1] = fields
  elseif not fields.err then redis.call('SREM', KEY.periodic, name) end
end
return reply
