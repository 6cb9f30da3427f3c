-- discard: forget a task that ended without success: its dead letter, record, payload and history. One whose
-- state cannot be read can be discarded too.
--
-- Its idempotency key lives on for its own time, so that a late duplicate still starts nothing.
--
-- ARGV     [2] id  [3] request id  [4] actor  [5] reason
-- Returns  discarded · invalid:<status> · newer · missing

open()
local id, request, actor, reason = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local before = remembered('discard', id, request)
if before then return before end
local record = read(id)
if not record.s then return 'missing' end
if is_newer(record) then return 'newer' end
local is_known = status_of(record) ~= 'unreadable'
if is_known and (not FINAL[record.s] or record.s == 'S') then return 'invalid:' .. status_of(record) end
local bad = damaged(settle_keys())
if bad then return bad end

local now = now_ms()
if is_known then redis.call('ZREM', index_key(record.s), id) end
if letter_of(record) then redis.call('XDEL', KEY['stream:dead-letter'], record.E) end
if record.u then free_key(id, record) end
delete_task(id, record)
count(record.t or '_other', 'discarded')
remember('discarded')
audit(now, 'discard', id, actor, reason, request)
finish(now)
return 'discarded'
