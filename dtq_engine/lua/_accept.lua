-- _accept: how a task comes into a queue, for the scripts that let one in. It is put between _lib and each of them.
--
-- A task as they take it is id type payload priority limits n, and n pairs: record fields (i K Z u) or
-- +delay ms, +at ms, +expires ms, +headers json, +print fingerprint of type and payload, +debounce ms, +longest ms of
-- postponement, +throttle 'number ms digest' (at most so many in so long), and its links: +after, +takes, +children
-- (links.tie reads them), +flow (it comes in with all others of the call that have this, or none does)

-- The task at ARGV[at], with `due` unless that is at once, and where the next one begins. It begins with room for all that
-- becomes known of a plain one: growing takes longer than filling.
local function parse(at, now)
  local task = {id = ARGV[at], t = ARGV[at + 1], payload = ARGV[at + 2], p = ARGV[at + 3], limits = ARGV[at + 4], fields = false,
    due = false, at = false, outcome = false, other = false}
  local last = at + 5 + 2 * ARGV[at + 5]
  for i = at + 6, last, 2 do
    local name, value = ARGV[i], ARGV[i + 1]
    task[name] = value
    if string.byte(name) ~= 43 and name ~= 'i' then
      task.fields = task.fields or {}
      table.insert(task.fields, name)
      table.insert(task.fields, value)
    end
  end
  local due = tonumber(task['+at']) or (now + tonumber(task['+delay'] or task['+debounce'] or 0))
  task.due = due > now and due
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

-- A value of up to 64 bytes goes among the fields of the record, a longer one into its own key.
local function store_value(task, fields, letter, field, value)
  if #value <= SMALL then
    fields[#fields + 1], fields[#fields + 2] = field, value
  else
    task.satellites = task.satellites or {}
    task.satellites[letter] = value
  end
end

-- What of its record a task decides itself, however it comes in.
local function own_fields(task, now, made)
  local more = {'t', task.t, 'r', task.p .. ' ' .. whole(made) .. ' ' .. task.limits, unpack(task.fields or {})}
  store_value(task, more, 'p', 'd', task.payload)
  if task['+headers'] then store_value(task, more, 'h', 'h', task['+headers']) end
  if task['+expires'] then more[#more + 1], more[#more + 2] = 'z', whole(now + task['+expires']) end
  return more
end

local function letters_of(task)
  local beside = task.satellites
  return beside and (beside.p and 'p' or '') .. (beside.h and 'h' or '') or ''
end

local function set_satellites(id, task)
  for letter, value in pairs(task.satellites or {}) do redis.call('SET', satellite(letter, id), value) end
end

-- Throttles: the latest acceptances under a key, each 'ms id', newest first; as many of them as matter.
local function throttle_of(task)
  local most, per, digest = string.match(task['+throttle'], '^(%d+) (%d+) (%x+)$')
  return KEY.throttle .. ':' .. digest .. ':' .. per, tonumber(most), tonumber(per)
end

local function take_keys(task, now)
  if task.u then redis.call('SET', unique_key(digest_of(task)), task.id) end
  if task['+throttle'] then
    local key, most, per = throttle_of(task)
    redis.call('LPUSH', key, whole(now) .. ' ' .. task.id)
    redis.call('LTRIM', key, 0, most - 1)
    redis.call('PEXPIRE', key, per)
  end
end

-- Write a task that was judged to be new. `detail` is for its event. Only the delivery may be refused, so it comes
-- first: nothing is left of a task that did not come in.
local function accept(task, now, detail)
  local more = own_fields(task, now, now)
  if task.i then more[#more + 1], more[#more + 2] = 'i', task.i end
  local names = letters_of(task) .. (task['+children'] and 'c' or '') .. (task['+after'] and 'a' or '')
  if names ~= '' then more[#more + 1], more[#more + 2] = 'S', names end
  if task['+after'] then links.wait(task.id, {z = task['+expires'] and whole(now + task['+expires'])}, unpack(more))
  elseif task.due then park(task.id, KEY.schedule, 'P', task.due, unpack(more))
  else push(task.id, task.p, unpack(more)) end
  if task['+after'] or task['+children'] then set(task.id, 'A', links.tie(task)) end
  set_satellites(task.id, task)
  if task.i then redis.call('SET', idempotency_key(task.i), task['+print'] .. ' ' .. task.id .. ' L') end
  if task.u or task['+throttle'] then take_keys(task, now) end
  count(task.t, 'submitted')
  event('TASK_QUEUED', task.id, task, detail or (task['+after'] and 'waits_for_parents') or (task.due and 'delayed') or nil)
end

-- Tasks that others stand for -------------------------------------------------------------------------

local DETAIL = {UNIQUE = 'unique', THROTTLED = 'throttled', REPLACED = 'replaced'}
local ABSORBED_MS = 30000  -- twice as long as a client sends a submit again

-- What this call will have accepted, which nobody can read yet: by digest who holds a unique key, by key the ids that a
-- throttle let pass.
local holders, passed = {}, {}

local function will_accept(task)
  if task.u then holders[digest_of(task)] = task.id end
  if task['+throttle'] then
    local key = throttle_of(task)
    passed[key] = passed[key] or {}
    table.insert(passed[key], task.id)
  end
end

local function held_by(task, now)
  local digest = digest_of(task)
  local id = holders[digest] or redis.pcall('GET', unique_key(digest))
  if type(id) == 'table' then return 'DAMAGED', task.id end
  if not holders[digest] then
    local record = id and read(id) or {}
    if not holds_key(record, digest, now) or (task['+debounce'] and is_newer(record)) then return end
  end
  return task['+debounce'] and 'REPLACED' or 'UNIQUE', id
end

-- A window that does not expire within its time is damaged: it would hold tasks back for ever.
local function throttled_by(task, now)
  local key, most, per = throttle_of(task)
  local ours = passed[key] or {}
  if #ours >= most then return 'THROTTLED', ours[#ours] end
  local oldest = redis.pcall('LINDEX', key, most - 1 - #ours)
  if type(oldest) == 'table' then return 'DAMAGED', task.id end
  if number(string.match(oldest or '', '^(%d+) ')) <= now - per then return end
  local left, newest = redis.call('PTTL', key), redis.call('LINDEX', key, 0)
  if left < 0 or left > per then return end
  local id = ours[#ours] or string.match(newest, '^%d+ (%S+)$')
  return id and 'THROTTLED' or 'DAMAGED', id or task.id
end

local function may_be_absorbed(task) return task.u or task['+throttle'] end

-- What a task was answered that is sent again, though it was absorbed: as below, or nil.
local function absorbed_before(task)
  local outcome, id = string.match(text(KEY.absorbed .. ':' .. task.id) or '', '^(%S+) (%S+)$')
  task.known = DETAIL[outcome] ~= nil
  if task.known then return outcome, id end
end

-- UNIQUE, THROTTLED or REPLACED and the id of the task that stands for this one; nil when it is to come in; DAMAGED when
-- that cannot be told.
local function absorbed_by(task, now)
  local outcome, id
  if task.u then outcome, id = held_by(task, now) end
  if not outcome and task['+throttle'] then outcome, id = throttled_by(task, now) end
  return outcome, id
end

-- Let a debounced task that waits be what was submitted last, and wait from now on again, but not for longer than it may.
local function replace(task, id, now)
  local record = read(id)
  local made = created(record) or now
  local due = math.min(now + task['+debounce'], task['+longest'] and made + task['+longest'] or math.huge)
  local more = own_fields(task, now, made)
  redis.call('HDEL', TASK .. id, 'd', 'h', 'z', 'K', 'Z', 'S', 'c')
  redis.call('DEL', satellite('p', id), satellite('h', id))
  local letters = letters_of(task) .. string.gsub(record.S or '', '[ph]', '')
  if letters ~= '' then more[#more + 1], more[#more + 2] = 'S', letters end
  park(id, KEY.schedule, 'P', due, unpack(more))
  set_satellites(id, task)
end

-- Write that another task stands for this one. Its idempotency key leads there too, for as long as if that ended now.
local function absorb(task, outcome, id, now)
  if outcome == 'REPLACED' then replace(task, id, now) end
  redis.call('SET', KEY.absorbed .. ':' .. task.id, outcome .. ' ' .. id, 'PX', ABSORBED_MS)
  if task.i then redis.call('SET', idempotency_key(task.i), task['+print'] .. ' ' .. id .. ' L', 'PX', conf().idem_ms) end
  count(task.t, DETAIL[outcome])
  event('TASK_DUPLICATE_ABSORBED', id, task, DETAIL[outcome])
end

-- Accept a task that nobody submits, unless another stands for it: its outcome and the id that it leads to. With DAMAGED
-- nothing was written.
local function let_in(task, now, detail)
  local outcome, id
  if may_be_absorbed(task) then outcome, id = absorbed_by(task, now) end
  if not outcome then
    accept(task, now, detail)
    return 'NEW', task.id
  end
  if outcome ~= 'DAMAGED' then absorb(task, outcome, id, now) end
  return outcome, id
end
