-- finalize: end executions, each once and only by its holder, in one step with no state in between.
--
-- ARGV     [2] grace ms before a blocked task dies, then per execution: id, token, end, where end is a verb of one
--          letter, or that with 'number word', a line break and a body behind it:
--            S succeed     word = 'v' when body holds a result, number = true size of a cut one (else 0)
--            Y reschedule  number = delay ms, word = error type, body = error as JSON
--            D die         word = reason, body = summary, a line break, error as JSON
--            C cancel      word = error type, body = error as JSON
--            L release   H hand over: a release that does not count as a restart
--            Z postpone (number = delay ms)   B block (word = reason): these four give the attempt back
-- Returns  a word per execution, blanks between: OK · DUP (recorded by you before) · FENCED (not yours any more) · GONE ·
--          DAMAGED (a key that this end has to write to is no such thing: nothing was written, send it again later)

open()
local now, grace_ms = now_ms(), tonumber(ARGV[2])
local reply, records, seen = {}, {}, {}

local function judge(id, token, record)
  if not record.s then return 'GONE' end
  if seen[id] == token or record.j == token or (FINAL[record.s] and record.k == token) then return 'DUP' end
  if record.s ~= 'R' or record.k ~= token then return 'FENCED' end
  return 'OK'
end

local function grave()
  if not conf().dlq then return index_key('F'), 'zset' end
  return KEY['stream:dead-letter'], 'stream', index_key('D'), 'zset'
end

-- The shared keys that an end writes to, beside the stream of the delivery.
local NEEDS = {}
function NEEDS.S() return index_key('S'), 'zset' end
function NEEDS.C() return index_key('C'), 'zset' end
function NEEDS.Y(delay) if delay > 0 then return KEY['retry:schedule'], 'zset' end end
function NEEDS.B() return KEY.blocked, 'zset', grave() end
NEEDS.D, NEEDS.Z = grave, NEEDS.Y

-- Most ends of a call are alike, so each kind is looked at once.
local known = {}
local function is_damaged(record, ending)
  local priority, verb = band(record) or 5, string.sub(ending, 1, 1)
  if record.x and verb ~= 'S' then verb = 'C' end
  local delay = verb == 'S' and 0 or number(string.match(ending, '^%a(%d+)'))
  local kind = priority .. verb .. (delay > 0 and '+' or '')
  if known[kind] == nil then
    known[kind] = damaged(STREAM .. priority, 'stream') ~= nil or (NEEDS[verb] and damaged(NEEDS[verb](delay)) ~= nil)
  end
  return known[kind]
end

for at = 3, #ARGV, 3 do
  local id, token = ARGV[at], ARGV[at + 1]
  local record = read(id)
  local answer = judge(id, token, record)
  if answer == 'OK' and is_damaged(record, ARGV[at + 2]) then answer = 'DAMAGED' end
  reply[#reply + 1] = answer
  if answer == 'OK' then records[#records + 1], record.id, record.ending, seen[id] = record, id, ARGV[at + 2], token end
  if answer == 'FENCED' then event('TASK_FENCED', id, record) end
end

local APPLY = {}

function APPLY.S(id, record, size, word, body)
  local late = record.x and 'cancel_came_too_late' or nil
  -- Its children get the result with the news, whether it is kept or not.
  if record.A and word == 'v' then record.news = size == '0' and {result = body} or {is_cut = true} end
  if word ~= 'v' or record.K == '0' then return settle(id, record, 'S', now, late) end
  if #body <= SMALL and size == '0' then return settle(id, record, 'S', now, late, 'R', body) end
  redis.call('SET', satellite('r', id), body)
  record.S = (record.S or '') .. 'r'
  settle(id, record, 'S', now, late, 'S', record.S, 'G', size)
end

function APPLY.C(id, record, _, word, body)
  keep_error(id, record, now, body)
  settle(id, record, 'C', now, word, 'm', 'cancelled')
end

function APPLY.D(id, record, _, word, body, summary)
  keep_error(id, record, now, body)
  count(record.t, 'attempts_failed')
  die(id, record, now, word, summary)
end

-- A recorded outcome shows that the task does not kill its workers; a reaper's decision does not.
local function wait_or_go(id, record, delay)
  if record.B then redis.call('HDEL', TASK .. id, 'B', 'N') end
  local token, resets = record.k, {}
  record.k = nil
  if record.O ~= 'r' and (record.n or record.y) then resets = {'n', 0, 'y', 0} end
  local fields = {'j', token, 'L', execution(record), unpack(resets)}
  if delay > 0 then park(id, KEY['retry:schedule'], 'T', now + delay, unpack(fields)) else push(id, band(record), unpack(fields)) end
end

function APPLY.Y(id, record, delay, word, body)
  keep_error(id, record, now, body)
  count(record.t, 'attempts_failed')
  count(record.t, 'retried')
  wait_or_go(id, record, tonumber(delay))
  event('TASK_RETRY_SCHEDULED', id, record, word)
end

function APPLY.Z(id, record, delay)
  record.a = math.max(0, number(record.a) - 1)
  wait_or_go(id, record, tonumber(delay))
end

-- Nobody holds it any more, and its attempt does not count: the fields that say so.
local function given_back(record)
  local token = record.k
  record.a, record.k = math.max(0, number(record.a) - 1), nil
  return 'j', token, 'L', execution(record)
end

function APPLY.L(id, record)
  local restarts = number(record.n) + 1
  push(id, band(record), 'n', restarts, given_back(record))
end

function APPLY.H(id, record) push(id, band(record), given_back(record)) end

function APPLY.B(id, record, _, word)
  set(id, given_back(record))
  block(id, record, now, word, grace_ms)
end

for i = 1, #records do ack(band(records[i]), entry_of(records[i])) end
flush_acks()
for i = 1, #records do
  local record = records[i]
  local id, verb, number, word, body, summary = record.id, record.ending, '0', '', '', ''
  if record.c then limits.leave(id, record) end
  if #verb > 1 then verb, number, word, body = string.match(verb, '^(%a)(%d+) (%S*)\n(.*)$') end
  if verb == 'D' then summary, body = string.match(body, '^(.*)\n([^\n]*)$') end
  -- Of a task whose cancel was asked for, only a success still counts: it happened.
  if record.x and verb ~= 'S' and verb ~= 'C' then
    if body ~= '' then keep_error(id, record, now, body) end
    settle(id, record, 'C', now, nil, 'm', 'cancelled')
  else
    APPLY[verb](id, record, number, word, body, summary)
  end
end
flush_ended(now)
finish(now)
return table.concat(reply, ' ')
