-- submit: accept a batch of tasks for one queue, each exactly once.
--
-- ARGV     [2] '1': the client has registered the queue  [3] depth limit (0: none), then the tasks, as _accept says
-- Returns  REGISTER when the queue is not registered yet (nothing was written), else per task
--          outcome, id, state: NEW · EXISTS · DUPLICATE · UNIQUE · THROTTLED · REPLACED (these with the id of the
--          earlier task) · MISMATCH · FULL · DAMAGED (its record, a key of it or the place where it would wait holds
--          something else; the others go on) · ORPHAN (there is no parent of this id) · WITHHELD (another task of its
--          workflow did not come in)

local now = now_ms()
if redis.call('EXISTS', KEYS[1]) == 0 and ARGV[2] ~= '1' then return 'REGISTER' end

local function depth()
  local function size(command, key) return number(redis.pcall(command, key)) end
  local total = size('ZCARD', KEY.schedule) + size('ZCARD', KEY['retry:schedule']) + size('ZCARD', KEY.blocked)
  for p = 0, 9 do total = total + size('XLEN', STREAM .. p) end
  return total
end

-- Counting takes thirteen commands, so a count holds for a second, and each submit adds what it lets in. What leaves
-- meanwhile makes it too high: then it is counted anew, and whatever else comes in forgets the count.
local limit, counted = tonumber(ARGV[3]), nil
local function room_for(tasks)
  if limit == 0 then return math.huge end
  local known = tonumber(text(KEY.depth))
  if known and known >= 0 and limit - known >= tasks then return limit - known end
  counted = depth()
  return limit - counted
end
local room = room_for((#ARGV - 3) / 6)

local function note_depth(more)
  if counted then redis.call('SET', KEY.depth, whole(counted + more), 'PX', 1000)
  elseif limit > 0 and more > 0 then redis.pcall('INCRBY', KEY.depth, more) end
end
local ids, keys = {}, {}

local places = {}
-- Whether the place where a task would wait can take it.
local function has_place(task)
  local place = task['+after'] and 'blocked' or task.due and 'schedule' or task.p
  if places[place] == nil then
    if task['+after'] then places[place] = not damaged(KEY.blocked, 'zset')
    elseif task.due then places[place] = not damaged(KEY.schedule, 'zset')
    else places[place] = not damaged(STREAM .. task.p, 'stream') end
  end
  return places[place]
end

-- Who holds the idempotency key: the error if that cannot be read, else nil; fingerprint, id, state. A living holder
-- without a record is nobody.
local function holder(key)
  if keys[key] then return nil, unpack(keys[key]) end
  local held = redis.pcall('GET', idempotency_key(key))
  if type(held) == 'table' then return held end
  local print, id, state = string.match(held or '', '^(%S+) (%S+) (%S+)$')
  if state == 'L' then state = redis.pcall('HGET', TASK .. id, 's') end
  if type(state) == 'table' then return state end
  if state then return nil, print, id, state end
end

-- A parent that ought to be in this queue and is not; one that is yet to come is not looked for.
local function missing_parent(task)
  for queue, id, kind in string.gmatch(task['+after'] or '', '(%S+) (%S+) %a (%a)') do
    if kind == 'l' and queue == QUEUE and not ids[id] and redis.pcall('HEXISTS', TASK .. id, 's') ~= 1 then return id end
  end
end

local function state_of(id) return ids[id] or redis.pcall('HGET', TASK .. id, 's') end

-- As `find` says, with the state of the task that stands for this one.
local function find_other(task, find)
  local outcome, id = find(task, now)
  if not outcome then return end
  local state = outcome ~= 'DAMAGED' and state_of(id)
  return {outcome, id, type(state) == 'string' and state or ''}
end

local function judge(task)
  local state = state_of(task.id)
  if type(state) == 'table' then return 'DAMAGED', task.id, '' end
  if state then return 'EXISTS', task.id, state end
  local other = may_be_absorbed(task) and find_other(task, absorbed_before)
  if other then return unpack(other) end
  if task.i then
    local damage, print, id, held = holder(task.i)
    if damage then return 'DAMAGED', task.id, '' end
    -- A key that was taken up again by a requeue does not know what it was given for.
    if id and print ~= '*' and print ~= task['+print'] then return 'MISMATCH', id, held end
    if id then return 'DUPLICATE', id, held end
  end
  other = may_be_absorbed(task) and find_other(task, absorbed_by)
  if other and (other[1] ~= 'REPLACED' or has_place(task)) then return unpack(other) end
  if not has_place(task) then return 'DAMAGED', task.id, '' end
  local missing = task['+after'] and missing_parent(task)
  if missing then return 'ORPHAN', missing, '' end
  if room <= 0 then return 'FULL', task.id, '' end
  room, ids[task.id] = room - 1, task['+after'] and 'B' or task.due and 'P' or 'Q'
  if may_be_absorbed(task) then will_accept(task) end
  return 'NEW', task.id, ids[task.id]
end

local reply, coming, linked, at, is_broken = {}, {}, {}, 4, false
while at <= #ARGV do
  local task
  task, at = parse(at, now)
  local outcome, id, state = judge(task)
  task.at, task.outcome, task.other = #reply + 1, outcome, id
  reply[task.at], reply[task.at + 1], reply[task.at + 2] = outcome, id, state
  if outcome == 'DUPLICATE' then event('TASK_DUPLICATE_ABSORBED', id, task)
  elseif outcome == 'NEW' or (DETAIL[outcome] and not task.known) then
    coming[#coming + 1] = task
    if task.i then keys[task.i] = {task['+print'], id, state} end
  end
  if task['+after'] or task['+children'] then linked[#linked + 1] = task end
  if task['+flow'] and outcome ~= 'NEW' and outcome ~= 'EXISTS' then is_broken = true end
end

if ARGV[2] == '1' then redis.call('SET', KEYS[1], '1') end
-- Of a workflow of which one task is refused none comes in.
local function is_withheld(task) return is_broken and task['+flow'] end
local accepted = 0
for _, task in ipairs(coming) do
  if task.outcome == 'NEW' and not is_withheld(task) then accepted = accepted + 1 end
end
note_depth(accepted)
-- In the order in which they came, as the later ones may be absorbed by the earlier.
for _, task in ipairs(coming) do
  if is_withheld(task) then reply[task.at], reply[task.at + 2] = 'WITHHELD', ''
  elseif task.outcome == 'NEW' then accept(task, now)
  else absorb(task, task.outcome, task.other, now) end
end
for _, task in ipairs(linked) do
  local link = ({NEW = links.introduce, EXISTS = links.complete})[task.outcome]
  if link and not is_withheld(task) then link(task, now) end
end
if #linked > 0 then flush_ended(now) end
-- What found its parents ended does not wait: it starts, or ends at once.
for _, task in ipairs(linked) do
  local state = task.joined and redis.pcall('HGET', TASK .. task.id, 's')
  if type(state) == 'string' then reply[task.at + 2] = state end
end
finish(now)
return reply
