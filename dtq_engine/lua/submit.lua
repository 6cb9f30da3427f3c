-- submit: accept a batch of tasks for one queue, each exactly once.
--
-- ARGV     [2] '1': the client has registered the queue  [3] depth limit (0: none), then the tasks, as _accept says
-- Returns  REGISTER when the queue is not registered yet (nothing was written), else per task
--          outcome, id, state: NEW · EXISTS · DUPLICATE (id of the earlier task) · MISMATCH · FULL

local now = now_ms()
if redis.call('EXISTS', KEYS[1]) == 0 and ARGV[2] ~= '1' then return 'REGISTER' end

local function depth()
  local total = redis.call('ZCARD', KEY.schedule) + redis.call('ZCARD', KEY['retry:schedule']) + redis.call('ZCARD', KEY.blocked)
  for p = 0, 9 do total = total + redis.call('XLEN', STREAM .. p) end
  return total
end

local limit = tonumber(ARGV[3])
local room = limit > 0 and limit - depth() or math.huge
local ids, keys = {}, {}

-- Who holds the idempotency key: fingerprint, id, state. A living holder without a record is nobody.
local function holder(key)
  if keys[key] then return unpack(keys[key]) end
  local print, id, state = string.match(redis.call('GET', idempotency_key(key)) or '', '^(%S+) (%S+) (%S+)$')
  if state == 'L' then state = redis.call('HGET', TASK .. id, 's') end
  if state then return print, id, state end
end

local function judge(task)
  local state = ids[task.id] or redis.call('HGET', TASK .. task.id, 's')
  if state then return 'EXISTS', task.id, state end
  if task.i then
    local print, id, held = holder(task.i)
    if id and print ~= task['+print'] then return 'MISMATCH', id, held end
    if id then return 'DUPLICATE', id, held end
  end
  if room <= 0 then return 'FULL', task.id, '' end
  room, ids[task.id] = room - 1, task.due and 'P' or 'Q'
  if task.i then keys[task.i] = {task['+print'], task.id, ids[task.id]} end
  return 'NEW', task.id, ids[task.id]
end

local reply, accepted, at = {}, {}, 4
while at <= #ARGV do
  local task
  task, at = parse(at, now)
  local outcome, id, state = judge(task)
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = outcome, id, state
  if outcome == 'NEW' then accepted[#accepted + 1] = task end
  if outcome == 'DUPLICATE' then event('TASK_DUPLICATE_ABSORBED', id, {t = task.type}) end
end

local bad = damaged_places(accepted)
if bad then return bad end

if ARGV[2] == '1' then redis.call('SET', KEYS[1], '1') end
for _, task in ipairs(accepted) do accept(task, now) end
finish(now)
return reply
