-- cancel: end a task that has not started, or ask its worker to stop it.
--
-- ARGV     [2] id  [3] request id  [4] actor  [5] reason
-- Returns  cancelled · requested (it runs; its worker was told) · finished (it had ended) · newer · missing

open()
local id, request, actor, reason = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local before = remembered('cancel', id, request)
if before then return before end
local bad = damaged(KEY.schedule, 'zset', KEY['retry:schedule'], 'zset', KEY.blocked, 'zset', settle_keys())
if bad then return bad end
local now, record = now_ms(), read(id)
if not record.s then return 'missing' end
if FINAL[record.s] then return 'finished' end
if is_newer(record) then return 'newer' end

local answer = 'cancelled'
if record.s == 'R' then
  answer = 'requested'
  set(id, 'x', '1')
  -- Of a damaged record nobody knows whose it is: the holder's next heartbeat tells it.
  if record.w and record.k then
    redis.pcall('PUBLISH', channel() .. ':control:' .. record.w, 'cancel ' .. id .. ' ' .. record.k)
  end
else
  if record.s == 'Q' then ack(band(record), entry_of(record)) end
  flush_acks()
  if schedule_of(record.s) then redis.call('ZREM', schedule_of(record.s), id) end
  settle(id, record, 'C', now, nil, 'm', reason ~= '' and reason or 'cancelled')
end
remember(answer)
audit(now, 'cancel', id, actor, reason, request)
flush_ended(now)
finish(now)
return answer
