-- reprioritise: move a task that waits to another priority; in its new band it comes last.
--
-- ARGV     [2] id  [3] request id  [4] actor  [5] reason  [6] priority
-- Returns  moved · invalid:<status> · newer · missing

open()
local id, request, actor, reason, priority = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local before = remembered('reprioritise', id, request)
if before then return before end
local record = read(id)
if not record.s then return 'missing' end
if is_newer(record) then return 'newer' end
if record.s == 'R' or FINAL[record.s] then return 'invalid:' .. status_of(record) end
local bad = damaged_bands({record}) or damaged(STREAM .. priority, 'stream')
if bad then return bad end

local now, asked = now_ms(), priority .. string.sub(record.r or '', 2)
if record.s == 'Q' and band(record) ~= priority then
  ack(band(record), entry_of(record))
  flush_acks()
  push(id, priority, 'r', asked)
else
  record.r = asked
  set(id, 'r', asked)
  if record.c then limits.reorder(id, record, now) end
end
remember('moved')
audit(now, 'reprioritise', id, actor, reason, request)
finish(now)
return 'moved'
