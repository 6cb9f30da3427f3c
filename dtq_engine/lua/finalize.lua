-- finalize: end executions, each once and only by its holder, in one step with no state in between.
--
-- ARGV     [2] grace ms before a blocked task dies, then per execution: id, token, verb, number, word, summary, body
--            S succeed     number = true size of a cut result (else 0), word = 'v' when body holds a result
--            Y reschedule  number = delay ms, word = error type, body = error as JSON
--            D die         word = reason, summary = one line, body = error as JSON
--            C cancel      word = error type, body = error as JSON
--            L release   Z postpone (number = delay ms)   B block (word = reason): these give the attempt back
-- Returns  per execution OK · DUP (recorded by you before) · FENCED (not yours any more) · GONE

open()
local now, grace_ms = now_ms(), tonumber(ARGV[2])
local reply, accepted, records, seen = {}, {}, {}, {}

local function judge(id, token, record)
  if not record.s then return 'GONE' end
  if seen[id] == token or record.j == token or (FINAL[record.s] and record.k == token) then return 'DUP' end
  if record.s ~= 'R' or record.k ~= token then return 'FENCED' end
  seen[id] = token
  return 'OK'
end

for at = 3, #ARGV, 7 do
  local id, token = ARGV[at], ARGV[at + 1]
  local record = read(id)
  local answer = judge(id, token, record)
  reply[#reply + 1] = answer
  if answer == 'OK' then
    accepted[#accepted + 1], records[#records + 1] = {at = at, id = id, record = record}, record
  end
  if answer == 'FENCED' then event('TASK_FENCED', id, record) end
end

local bad = damaged(SCHEDULE, 'zset', RETRY, 'zset', BLOCKED, 'zset', settle_keys()) or damaged_bands(records)
if bad then return bad end

local apply = {}

function apply.S(id, record, size, word, _, body)
  local late = record.x and 'cancel_came_too_late' or nil
  if word ~= 'v' or record.K == '0' then return settle(id, record, 'S', now, late) end
  if #body <= SMALL and size == '0' then return settle(id, record, 'S', now, late, 'R', body) end
  redis.call('SET', satellite('r', id), body)
  record.S = (record.S or '') .. 'r'
  settle(id, record, 'S', now, late, 'S', record.S, 'G', size)
end

function apply.C(id, record, _, word, _, body)
  keep_error(id, record, now, body)
  settle(id, record, 'C', now, word, 'm', 'cancelled')
end

function apply.D(id, record, _, word, summary, body)
  keep_error(id, record, now, body)
  count(record.t, 'attempts_failed')
  die(id, record, now, word, summary)
end

-- A recorded outcome shows that the task does not kill its workers; a reaper's decision does not.
local function wait_or_go(id, record, token, delay, ...)
  if record.B then redis.call('HDEL', TASK .. id, 'B', 'N') end
  local resets = {}
  if record.O ~= 'r' then resets = {'n', 0, 'y', 0} end
  local fields = {'j', token, 'k', '', ...}
  for _, field in ipairs(resets) do fields[#fields + 1] = field end
  if delay > 0 then park(id, RETRY, 'T', now + delay, unpack(fields)) else push(id, band(record), unpack(fields)) end
end

function apply.Y(id, record, delay, word, _, body)
  keep_error(id, record, now, body)
  count(record.t, 'attempts_failed')
  count(record.t, 'retried')
  wait_or_go(id, record, record.k, tonumber(delay))
  event('TASK_RETRY_SCHEDULED', id, record, word)
end

function apply.Z(id, record, delay) wait_or_go(id, record, record.k, tonumber(delay), 'a', number(record.a) - 1) end

function apply.L(id, record)
  push(id, band(record), 'j', record.k, 'k', '', 'a', number(record.a) - 1, 'n', number(record.n) + 1)
end

function apply.B(id, record, _, word)
  set(id, 'j', record.k, 'k', '', 'a', number(record.a) - 1)
  record.a = number(record.a) - 1
  block(id, record, now, word, grace_ms)
end

for _, item in ipairs(accepted) do ack(band(item.record), entry_of(item.record)) end
flush_acks()
for _, item in ipairs(accepted) do
  local verb = ARGV[item.at + 2]
  -- Of a task whose cancel was asked for, only a success still counts: it happened.
  if item.record.x and verb ~= 'S' and verb ~= 'C' then
    local body = ARGV[item.at + 6]
    if body ~= '' then keep_error(item.id, item.record, now, body) end
    settle(item.id, item.record, 'C', now, nil, 'm', 'cancelled')
  else
    apply[verb](item.id, item.record, unpack(ARGV, item.at + 3, item.at + 6))
  end
end
flush_ended(now)
finish(now)
return reply
