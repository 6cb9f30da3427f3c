-- shift: let time pass for everything under a prefix, or jump back: the clock, the idle times of deliveries, and
-- the times to live. A key left with under 2 s to live goes at once, so that none expires in the middle of a step.
--
-- KEYS     the queues' movable clocks
-- ARGV     prefix, ms
-- Returns  OK

local ms = tonumber(ARGV[2])
for _, clock in ipairs(KEYS) do redis.call('INCRBY', clock, ARGV[2]) end

local function age_deliveries(stream)
  local pending = redis.pcall('XPENDING', stream, 'workers', '-', '+', 10000)
  for _, item in ipairs(pending.err and {} or pending) do
    local idle = math.max(0, item[3] + ms)
    redis.call('XCLAIM', stream, 'workers', item[2], 0, item[1], 'IDLE', string.format('%.0f', idle), 'JUSTID')
  end
end

for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 and left - ms < 2000 then redis.call('DEL', key)
  elseif left >= 0 then redis.call('PEXPIRE', key, string.format('%.0f', left - ms))
  elseif redis.call('TYPE', key)['ok'] == 'stream' then age_deliveries(key) end
end
return 'OK'
