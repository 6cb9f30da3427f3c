-- requeue: give a task that ended without success a new life: same id, payload and history, attempts from 0.
--
-- ARGV     [2] id  [3] request id  [4] actor  [5] reason
-- Returns  requeued · invalid:<status> · conflict (its idempotency key is another task's by now) · newer · missing

open()
local id, request, actor, reason = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local before = remembered('requeue', id, request)
if before then return before end
local record = read(id)
if not record.s then return 'missing' end
if is_newer(record) then return 'newer' end
if not FINAL[record.s] or record.s == 'S' then return 'invalid:' .. status_of(record) end
local priority = band(record) or 5
local bad = damaged(STREAM .. priority, 'stream', settle_keys())
if bad then return bad end

local print, holder
if record.i then
  print, holder = string.match(redis.call('GET', idempotency_key(record.i)) or '', '^(%S+) (%S+)')
  if holder and holder ~= id then return 'conflict' end
end

local now = now_ms()
redis.call('PERSIST', TASK .. id)
for letter in satellites_of(record) do redis.call('PERSIST', satellite(letter, id)) end
-- A key that has expired stands for it again; what it was given for is not known any more, so it matches everything.
if record.i then redis.call('SET', idempotency_key(record.i), (print or '*') .. ' ' .. id .. ' L') end
redis.call('ZREM', index_key(record.s), id)
if letter_of(record) then redis.call('XDEL', KEY['stream:dead-letter'], record.E) end
redis.call('HDEL', TASK .. id, 'x', 'z', 'F', 'R', 'G', 'E', 'm', 'B', 'N', 'O', 'w', 'n', 'y')
forget_depth()
push(id, priority, 'P', number(record.P) + number(record.a), 'j', record.k or '', 'L', execution({f = record.f}))
count(record.t or '_other', 'requeued')
event('TASK_QUEUED', id, {t = record.t}, 'requeued')
remember('requeued')
audit(now, 'requeue', id, actor, reason, request)
finish(now)
return 'requeued'
