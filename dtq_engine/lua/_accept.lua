-- _accept: how a task comes into a queue, for the scripts that let one in. It is put between _lib and each of them.
--
-- A task as they take it is id type payload priority limits n, and n pairs: record fields (i K Z) or
-- +delay ms, +at ms, +expires ms, +headers json, +print fingerprint of type and payload, and its links: +after, +takes,
-- +children (links.tie reads them), +flow (it comes in with all others of the call that have this, or none does)

-- The task at ARGV[at], with `due` unless that is at once, and where the next one begins.
local function parse(at, now)
  local task = {id = ARGV[at], type = ARGV[at + 1], payload = ARGV[at + 2], p = ARGV[at + 3], limits = ARGV[at + 4], fields = {}}
  local last = at + 5 + 2 * ARGV[at + 5]
  for i = at + 6, last, 2 do
    local name, value = ARGV[i], ARGV[i + 1]
    task[name] = value
    if string.byte(name) ~= 43 then
      task.fields[#task.fields + 1] = name
      task.fields[#task.fields + 1] = value
    end
  end
  local due = tonumber(task['+at']) or (now + tonumber(task['+delay'] or 0))
  task.due = due > now and due or nil
  return task, last + 1
end

-- As damaged(), for the places where these tasks will wait.
local function damaged_places(tasks)
  local shared = {KEY.schedule, 'zset'}
  for _, task in ipairs(tasks) do
    if not shared[task.p] then
      shared[task.p] = true
      shared[#shared + 1], shared[#shared + 2] = STREAM .. task.p, 'stream'
    end
  end
  return damaged(unpack(shared))
end

-- A value of up to 64 bytes goes into the record, a longer one into its own key.
local function store_value(task, letter, field, value)
  if #value <= SMALL then
    task.fields[#task.fields + 1], task.fields[#task.fields + 2] = field, value
  else
    task.satellites = task.satellites or {}
    task.satellites[letter] = value
  end
end

-- Write a task that was judged to be new. `detail` is for its event. Only the delivery may be refused, so it comes
-- first: nothing is left of a task that did not come in.
local function accept(task, now, detail)
  store_value(task, 'p', 'd', task.payload)
  if task['+headers'] then store_value(task, 'h', 'h', task['+headers']) end
  local more = {'t', task.type, 'r', task.p .. ' ' .. whole(now) .. ' ' .. task.limits, unpack(task.fields)}
  local names = task.satellites and (task.satellites.p and 'p' or '') .. (task.satellites.h and 'h' or '') or ''
  if task['+children'] then names = names .. 'c' end
  if task['+after'] then names = names .. 'a' end
  if names ~= '' then more[#more + 1], more[#more + 2] = 'S', names end
  if task['+expires'] then more[#more + 1], more[#more + 2] = 'z', whole(now + task['+expires']) end
  if task['+after'] then links.wait(task.id, {z = task['+expires'] and whole(now + task['+expires'])}, unpack(more))
  elseif task.due then park(task.id, KEY.schedule, 'P', task.due, unpack(more))
  else push(task.id, task.p, unpack(more)) end
  if task['+after'] or task['+children'] then set(task.id, 'A', links.tie(task)) end
  for letter, value in pairs(task.satellites or {}) do redis.call('SET', satellite(letter, task.id), value) end
  if task.i then redis.call('SET', idempotency_key(task.i), task['+print'] .. ' ' .. task.id .. ' L') end
  label(task.type, true)
  count(task.type, 'submitted')
  event('TASK_QUEUED', task.id, {t = task.type}, detail or (task['+after'] and 'waits_for_parents') or (task.due and 'delayed') or nil)
end
