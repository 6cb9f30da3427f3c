-- submit: accept a batch of tasks for one queue, each exactly once.
--
-- ARGV     [2] '1': the client has registered the queue  [3] depth limit (0: none), then per task:
--          id type payload n, and n pairs: record fields (p r i …) or
--          +delay ms, +at ms, +expires ms, +headers json, +print fingerprint of type and payload
-- Returns  REGISTER when the queue is not registered yet (nothing was written), else per task
--          outcome, id, state: NEW · EXISTS · DUPLICATE (id of the earlier task) · MISMATCH · FULL

local now = now_ms()
if redis.call('EXISTS', KEYS[1]) == 0 and ARGV[2] ~= '1' then return 'REGISTER' end

local function depth()
  local total = redis.call('ZCARD', SCHEDULE) + redis.call('ZCARD', RETRY) + redis.call('ZCARD', BLOCKED)
  for p = 0, 9 do total = total + redis.call('XLEN', STREAM .. p) end
  return total
end

local limit = tonumber(ARGV[3])
local room = limit > 0 and limit - depth() or math.huge
local ids, keys = {}, {}

local function parse(at)
  local task = {id = ARGV[at], type = ARGV[at + 1], payload = ARGV[at + 2], fields = {}}
  local last = at + 3 + 2 * ARGV[at + 3]
  for i = at + 4, last, 2 do
    local name, value = ARGV[i], ARGV[i + 1]
    task[name] = value
    if string.byte(name) ~= 43 then
      task.fields[#task.fields + 1] = name
      task.fields[#task.fields + 1] = value
    end
  end
  return task, last + 1
end

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
  local due = tonumber(task['+at']) or (now + tonumber(task['+delay'] or 0))
  task.due = due > now and due or nil
  room, ids[task.id] = room - 1, task.due and 'P' or 'Q'
  if task.i then keys[task.i] = {task['+print'], task.id, ids[task.id]} end
  return 'NEW', task.id, ids[task.id]
end

local reply, accepted, at = {}, {}, 4
while at <= #ARGV do
  local task
  task, at = parse(at)
  local outcome, id, state = judge(task)
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = outcome, id, state
  if outcome == 'NEW' then accepted[#accepted + 1] = task end
  if outcome == 'DUPLICATE' then event('TASK_DUPLICATE_ABSORBED', id, {t = task.type}) end
end

local shared = {SCHEDULE, 'zset'}
for _, task in ipairs(accepted) do
  if not shared[task.p] then
    shared[task.p] = true
    shared[#shared + 1], shared[#shared + 2] = STREAM .. task.p, 'stream'
  end
end
local bad = damaged(unpack(shared))
if bad then return bad end

-- A value of up to 64 bytes goes into the record, a longer one into its own key.
local function store_value(task, letter, field, value)
  if #value <= SMALL then
    task.fields[#task.fields + 1], task.fields[#task.fields + 2] = field, value
  else
    redis.call('SET', satellite(letter, task.id), value)
    task.satellites = (task.satellites or '') .. letter
  end
end

local function write(task)
  store_value(task, 'p', 'd', task.payload)
  if task['+headers'] then store_value(task, 'h', 'h', task['+headers']) end
  if task.i then redis.call('SET', idempotency_key(task.i), task['+print'] .. ' ' .. task.id .. ' L') end
  local more = {'v', VERSION, 't', task.type, 'c', whole(now), unpack(task.fields)}
  if task.satellites then more[#more + 1], more[#more + 2] = 'S', task.satellites end
  if task['+expires'] then more[#more + 1], more[#more + 2] = 'z', whole(now + task['+expires']) end
  if task.due then park(task.id, SCHEDULE, 'P', task.due, unpack(more)) else push(task.id, task.p, unpack(more)) end
  label(task.type, true)
  count(task.type, 'submitted')
  event('TASK_QUEUED', task.id, {t = task.type}, task.due and 'delayed' or nil)
end

if ARGV[2] == '1' then redis.call('SET', KEYS[1], '1') end
for _, task in ipairs(accepted) do write(task) end
finish(now)
return reply
