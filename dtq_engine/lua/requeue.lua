-- requeue: give a task that ended without success a new life: same id, payload and history, attempts from 0.
--
-- With it live again the tasks that were cancelled because it failed; they wait for it as they did before. What it saved
-- (steps, where to go on, marks) stays, so that it goes on where it was, unless that is to be forgotten.
--
-- ARGV     [2] id  [3] request id  [4] actor  [5] reason  [6] '0': forget what it saved
-- Returns  requeued · invalid:<status> · conflict (its idempotency key is another task's by now) · held (its unique key
--          is) · parent:<id> (that one has failed, and this one cannot start without it) · newer · missing

open()
local id, request, actor, reason, keeps_steps = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] ~= '0'
local before = remembered('requeue', id, request)
if before then return before end
local record = read(id)
if not record.s then return 'missing' end
if is_newer(record) then return 'newer' end
if not FINAL[record.s] or record.s == 'S' then return 'invalid:' .. status_of(record) end
local priority = band(record) or 5
local bad = damaged(STREAM .. priority, 'stream', KEY.blocked, 'zset', settle_keys())
if bad then return bad end

local now = now_ms()
local robbed = robbed_of(id, record, now)
if robbed then return robbed end
local obstacle = links.obstacle(id, record)
if obstacle then return 'parent:' .. obstacle end

if not keeps_steps then
  redis.call('DEL', satellite('s', id))
  redis.call('HDEL', TASK .. id, 'g')
  if record.S then
    record.S = string.gsub(record.S, 's', '')
    set(id, 'S', record.S)
  end
end
if record.A and links.of(record) then
  links.revive(id, record, now)
  flush_ended(now)
else
  push(id, priority, begin_again(id, record))
end
remember('requeued')
audit(now, 'requeue', id, actor, reason, request)
finish(now)
return 'requeued'
