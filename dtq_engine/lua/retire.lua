-- retire: forget consumers of workers that are gone. Only those with nothing pending: their list is the lease.
--
-- ARGV     [2] idle ms from which a consumer may go, then the workers that are alive
-- Returns  how many consumers went

open()
local alive, gone = {}, 0
for i = 3, #ARGV do alive[ARGV[i]] = true end
for priority = 0, 9 do
  local stream = STREAM .. priority
  local consumers = redis.pcall('XINFO', 'CONSUMERS', stream, 'workers')
  if consumers.err then consumers = {} end
  for _, flat in ipairs(consumers) do
    local consumer = {}
    for i = 1, #flat, 2 do consumer[flat[i]] = flat[i + 1] end
    if consumer.pending == 0 and consumer.idle >= tonumber(ARGV[2]) and not alive[consumer.name] then
      redis.call('XGROUP', 'DELCONSUMER', stream, 'workers', consumer.name)
      gone = gone + 1
    end
  end
end
return gone
