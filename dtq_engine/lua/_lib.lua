-- _lib: what every queue script shares. It is put in front of each of them; it makes no call by itself.
--
-- KEYS[1] dtq:queue:{q}   routes the call to the queue's slot; prefix and queue are read off it, and every
--                         other key is built below, in the queue's slot (keys.py builds the same names)
-- ARGV[1] settings        the caller's, as words: retention_ms keep result_ms idem_ms dlq (0 or 1) dlq_max dlq_ms channel
--
-- Fields of a task's record, few and short because every waiting task pays for them, and every call for each:
--   s state       t type         e entry        d payload up to 64 bytes     h headers up to 64 bytes
--   r what was asked for: priority, created_ms, most attempts, base ms, most ms, jitter in thousandths, timeout_ms
--   L its execution, once there was one: token ('-': nobody holds it), attempt, fence, started_ms, lease_ms
--   w worker      j token of the last recorded outcome                       O 'r': held by a reaper
--   v version, of newer ones     z expires_ms   i idempotency key            S satellite keys: p h e r l s c a
--   x cancel asked                n restarts    y lease expiries
--   F finished_ms R result up to 64 bytes       G true size of a cut result  K '0': do not keep the result
--   E dead letter m reason       P previous attempts          W processes that wait for the end
--   B blocked since ms            N times blocked             Z '1': a single attempt may be given back
--   U '1': its state could not be read, so that nobody knows whether it may start
--   g progress: attempt, ms, done, total ('-': not known), note
--   A its links to parents and children; _links says how
--   u unique key: a letter for how long it is held (see holds_key), and the key's digest
--   c the buckets of its limits, as _limits says

-- No prefix has a colon.
local PREFIX, QUEUE = string.match(KEYS[1], '^([^:]*):queue:{(.*)}$')
local VERSION = 1
local SMALL = 64             -- a hash value over 64 bytes ends the compact encoding
local FINAL = {S = 'succeeded', F = 'failed', D = 'dead_lettered', C = 'cancelled', E = 'expired'}
local SATELLITE = {p = 'payload', h = 'headers', e = 'errors', r = 'result', l = 'logs', s = 'steps', c = 'children',
  a = 'awaits'}

-- The queue's keys by name, each built when it is first asked for: no call needs them all.
local KEY = setmetatable({}, {__index = function(built, name)
  built[name] = PREFIX .. ':' .. name .. ':{' .. QUEUE .. '}'
  return built[name]
end})

local TASK = KEY.task .. ':'
local STREAM = KEY.stream .. ':p'
local SCHEDULES = {P = 'schedule', T = 'retry:schedule', B = 'blocked'}

local function schedule_of(state) return SCHEDULES[state] and KEY[SCHEDULES[state]] end
local function paused_key() return KEYS[1] .. ':paused' end
local function satellite(letter, id) return KEY[SATELLITE[letter]] .. ':' .. id end
local function index_key(state) return KEY['tasks:' .. FINAL[state]] end
local function idempotency_key(key) return KEY.idempotency .. ':' .. key end

local LIVING = {P = 'pending', Q = 'queued', R = 'running', T = 'retrying', B = 'blocked'}
-- The status behind a record's letter, as it is called outside.
local function status_of(record) return LIVING[record.s] or FINAL[record.s] or 'unreadable' end

-- Time ----------------------------------------------------------------------------------------------

local function raw_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Redis' clock, plus what the tests moved it by; what else somebody has put there moves nothing.
local function now_ms()
  local ahead = redis.pcall('GET', KEY.clock)
  ahead = type(ahead) == 'string' and tonumber(ahead)
  return raw_ms() + (ahead and math.abs(ahead) < 1e14 and ahead or 0)
end

-- A number as whole digits: Lua prints large ones as 1.7e+12. The same few come again and again; of integers the
-- digits are found twice as quickly.
local digits = {}
local function whole(number)
  if not digits[number] then digits[number] = string.format(math.abs(number) < 1e15 and '%d' or '%.0f', number) end
  return digits[number]
end

local settings
-- The caller's settings; most calls never need them.
local function conf()
  if not settings then
    local retention, keep, result, idem, dlq, dlq_max, dlq_ms =
      string.match(ARGV[1], '^(%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+) ')
    settings = {retention_ms = tonumber(retention), keep = tonumber(keep), result_ms = tonumber(result), idem_ms = tonumber(idem),
      dlq = dlq == '1', dlq_max = tonumber(dlq_max), dlq_ms = tonumber(dlq_ms)}
  end
  return settings
end

-- What the channels of this database begin with: the last of the settings, and all that most calls need of them.
local function channel() return string.match(ARGV[1], '^.* (.*)$') end

-- Guards --------------------------------------------------------------------------------------------

-- A server at maxmemory refuses a script whose first write needs memory; after a DEL it lets it go on.
local function open() redis.call('DEL', KEY.scratch) end

local sound = {}
-- damaged(key, type, …): an error reply when a shared key holds another type, before anything is written.
local function damaged(...)
  local want = {...}
  for i = 1, #want, 2 do
    local kind = sound[want[i]] or redis.call('TYPE', want[i])['ok']
    if kind ~= 'none' and kind ~= want[i + 1] then
      return redis.error_reply('DAMAGED ' .. want[i] .. ' is a ' .. kind .. ', not a ' .. want[i + 1])
    end
    sound[want[i]] = want[i + 1]
  end
end

-- What a string holds; nil when there is none, or when the key is no string.
local function text(key)
  local value = redis.pcall('GET', key)
  return type(value) == 'string' and value or nil
end

-- The record as a table by field letter; empty when there is none, or when the key is no hash. One that has lost its
-- state has '?' for it. Of its execution it has k token, a attempt, f fence, b started_ms and l lease_ms as well (k, b: false
-- for none). All read for every task: the table begins with room for what each record has, as growing takes longer than
-- filling, and band() and created() are asked only where they matter.
local function read(id)
  local flat = redis.pcall('HGETALL', TASK .. id)
  local record = {s = false, t = false, e = false, r = false, d = false, L = false, w = false, k = false, a = false, f = false,
    b = false, l = false}
  if flat.err then return record end
  for i = 1, #flat, 2 do record[flat[i]] = flat[i + 1] end
  if record.L then
    local token, attempt, fence, started, lease = string.match(record.L, '^(%S+) (%d+) (%d+) (%d+) (%d+)$')
    if token ~= '-' then record.k = token end
    if started ~= '0' then record.b = started end
    record.a, record.f, record.l = attempt, fence, lease
  end
  if #flat > 0 and not record.s then record.s = '?' end
  return record
end

-- Fields are read through these where a damaged one would stop the script, and with it every other task: one that says
-- 'nan' as well, which Lua takes for a number that no table can be asked for.
local function number(value, otherwise)
  local found = tonumber(value)
  return found and found == found and found or otherwise or 0
end
local function entry_of(record) return string.match(record.e or '', '^%d+%-%d+$') or '0-0' end
local function letter_of(record) return string.match(record.E or '', '^%d+%-%d+$') end
local function satellites_of(record) return string.gmatch(record.S or '', '[pherlsca]') end

-- A count that is written with `..`: Lua prints numbers of over 14 digits as 1e+15, which nobody could read back.
local function counted(value) return math.min(number(value), 99999999999999) end

-- The reverse of what read() does with an execution: the value of L.
local function execution(record)
  return (record.k or '-') .. ' ' .. counted(record.a) .. ' ' .. counted(record.f) .. ' ' .. (record.b or '0') .. ' ' .. (record.l or '0')
end

-- A record's limits: the last of its numbers is the timeout.
local function timeout_of(record) return tonumber(string.match(record.r or '', '^%d %d+ %d+ %d+ %d+ %d+ (%d+)$')) end
local readable = {}
local TOO_LONG = string.rep('%d', 15)
-- Whether priority, creation and limits (of up to 14 digits each) can be read. Of the times that concern us each has 13
-- digits, so that the limits begin with the 17th character; they are mostly alike.
local function is_readable(record)
  local asked = record.r or ''
  local limits = string.sub(asked, 17)
  if readable[limits] == nil then
    readable[limits] = string.find(limits, '^%d+ %d+ %d+ %d+ %d+$') ~= nil and not string.find(limits, TOO_LONG)
  end
  return readable[limits] and string.find(asked, '^%d %d%d%d%d%d%d%d%d%d%d%d%d%d ') ~= nil
end

local bands = {}
-- Its priority as a digit, and when it was made, in ms; nil when it is none.
local function band(record)
  local head = string.sub(record.r or '', 1, 2)
  if bands[head] == nil then bands[head] = string.match(head, '^(%d) ') or false end
  return bands[head] or nil
end
local function created(record)
  local made = tonumber(string.sub(record.r or '', 3, 15))
  return made == made and made or nil
end

-- As damaged(), for the streams of these records.
local function damaged_bands(records)
  local want = {}
  for _, record in ipairs(records) do want[STREAM .. (band(record) or 5)] = true end
  for stream in pairs(want) do
    local bad = damaged(stream, 'stream')
    if bad then return bad end
  end
end

local function is_newer(record) return (tonumber(record.v) or 0) > VERSION end

-- Counters and events: collected while a script runs, written once by finish(). -----------------------

local counts, observed, lines, labels = {}, {}, {}, {}

-- The counter label of a task type: that of types which are not known, and of all new ones beyond 1,000, is `_other`.
local function label(type)
  if not labels[type] then
    labels[type] = redis.pcall('HEXISTS', KEY.counters, type .. ' submitted') == 0 and '_other' or type
  end
  return labels[type]
end

local function count(type, name, by)
  type = type or '_other'
  local of_type = counts[type] or {}
  counts[type] = of_type
  of_type[name] = (of_type[name] or 0) + (by or 1)
end

-- One observation: bucket k holds durations of up to 2^k ms. Durations of one call are mostly alike, so they are
-- counted as they are, and put into buckets at the end.
local function observe(type, name, ms)
  local of_type = observed[type] or {}
  local seen = of_type[name] or {}
  observed[type], of_type[name] = of_type, seen
  seen[ms] = (seen[ms] or 0) + 1
end

-- What is submitted for the first time makes its type known.
local function count_submitted(type, of_type)
  local by, field = of_type.submitted, type .. ' submitted'
  of_type.submitted, labels[type] = nil, type
  if redis.pcall('HINCRBY', KEY.counters, field, whole(by)) ~= by then return end
  local known = redis.pcall('HINCRBY', KEY.counters, '_types', 1)
  if (tonumber(known) or 0) > 1000 then
    redis.pcall('HDEL', KEY.counters, field)
    of_type.submitted, labels[type] = by, '_other'
  end
end

local function write_counters()
  for type, of_type in pairs(observed) do
    for name, seen in pairs(of_type) do
      for ms, number in pairs(seen) do
        local bucket = ms <= 1 and 0 or math.ceil(math.log(ms) / math.log(2) - 1e-9)
        count(type, name .. ' ' .. bucket, number)
        count(type, name .. '_ms', math.max(0, ms) * number)
      end
    end
  end
  for type, of_type in pairs(counts) do
    if of_type.submitted then count_submitted(type, of_type) end
    for name, by in pairs(of_type) do redis.pcall('HINCRBY', KEY.counters, label(type) .. ' ' .. name, whole(by)) end
  end
end

-- Lines of blank-separated words: what, task id, task type, attempt, worker, detail.
local NO_TASK = '*'
local function event(what, id, record, detail)
  local worker = (record.w and record.w ~= '') and record.w or '-'
  lines[#lines + 1] = what .. ' ' .. id .. ' ' .. (record.t or '-') .. ' ' .. (record.a or '0') .. ' ' .. worker .. ' '
    .. (detail and string.gsub(detail, '%s', '_') or '-')
end

-- Something about the queue itself was changed, by this verb, maybe as to one thing of several.
local function changed(verb, name) event('CONFIGURATION_CHANGED', NO_TASK, {}, name and verb .. ':' .. name or verb) end

-- One log entry and one PUBLISH per script call. An entry's id is the number of its last event, so that
-- the log is bounded by events, not by entries, and a reader sees a gap. It is cut every hundred events.
local function write_events(now)
  local last = redis.pcall('HINCRBY', KEY.counters, '_events', #lines)
  if type(last) ~= 'number' then return end
  local text = table.concat(lines, '\n')
  local function add() return redis.pcall('XADD', KEY['stream:events'], whole(last) .. '-0', 't', whole(now), 'd', text) end
  local reply = add()
  if reply.err then
    redis.pcall('DEL', KEY['stream:events'])
    add()
  end
  if last % 100 < #lines then redis.pcall('XTRIM', KEY['stream:events'], 'MINID', '~', whole(math.max(0, last - 10000))) end
  redis.pcall('PUBLISH', channel() .. ':events:{' .. QUEUE .. '}', whole(last) .. ' ' .. whole(now) .. '\n' .. text)
end

-- Wake-ups --------------------------------------------------------------------------------------------

local wake, earliest, posted = false, nil, false

local function push_token(key)
  local length = redis.pcall('LPUSH', key, '1')
  if type(length) == 'number' and length > 64 then redis.pcall('LTRIM', key, 0, 31) end
end

-- Tell an idle worker that this queue has work, unless it is paused.
local function wake_worker() if redis.pcall('EXISTS', paused_key()) ~= 1 then push_token(KEY.wake) end end

local restrain
-- How many tasks may run at once: _limits has what is in here, and restrain() puts it in.
local limits = setmetatable({}, {__index = function(limits, name)
  setmetatable(limits, nil)
  restrain(limits)
  return rawget(limits, name)
end})

-- Every script that writes ends with this.
local function finish(now)
  if rawget(limits, 'in_use') then limits.flush(now, not limits.is_purge) end
  write_counters()
  if #lines > 0 then write_events(now) end
  if wake then wake_worker() end
  if posted then return push_token(KEY['wake:schedule']) end
  if earliest then
    for state in pairs(SCHEDULES) do
      local head = redis.pcall('ZRANGE', schedule_of(state), 0, 0, 'WITHSCORES')
      if head[2] and tonumber(head[2]) == earliest then return push_token(KEY['wake:schedule']) end
    end
  end
end

-- Moves -----------------------------------------------------------------------------------------------

local acks = {}

-- Take a delivery out of its stream; written by flush_acks, one XACK and one XDEL for all of a stream.
local function ack(priority, entry)
  priority = priority or 5
  local entries = acks[priority]
  if not entries then
    entries = {}
    acks[priority] = entries
  end
  entries[#entries + 1] = entry
end

local function flush_acks()
  for priority, entries in pairs(acks) do
    local stream = STREAM .. priority
    redis.call('XACK', stream, 'workers', unpack(entries))
    redis.call('XDEL', stream, unpack(entries))
  end
  acks = {}
end

local function set(id, ...) redis.call('HSET', TASK .. id, ...) end

-- Let a task wait in one of the three schedules until `due`: → PENDING, RETRYING or BLOCKED. Where push() needs a place
-- nobody has checked it: its record then says where it belongs, for a sweep to put it there.
local function park(id, schedule, state, due, ...)
  redis.pcall('ZADD', schedule, whole(due), id)
  set(id, 's', state, 'e', '', ...)
  if not earliest or due < earliest then earliest = due end
end

-- Make a task available: → QUEUED. A stream whose last id is the largest there can be takes no more entries until somebody
-- mends it; the task then looks again each minute, and costs the others of its call nothing.
local function push(id, priority, ...)
  local entry = redis.pcall('XADD', STREAM .. (priority or 5), '*', 'i', id)
  if type(entry) == 'table' then return park(id, KEY.blocked, 'B', now_ms() + 60000, 'm', 'stream_refuses', ...) end
  set(id, 's', 'Q', 'e', entry, ...)
  wake = true
end

-- Whether nobody can tell where a task is; a newer release may.
local function is_lost(record) return record.s and status_of(record) == 'unreadable' and not is_newer(record) end

-- Such a task must not be started, as it may have been: it waits to die of it after the grace time.
local function salvage(id, record, now)
  record.k = nil
  park(id, KEY.blocked, 'B', now + 1000, 'B', whole(now), 'N', 1, 'm', 'undecodable_record', 'U', '1', 'L', execution(record))
end

-- Add a satellite's letter to the record, so that settle, trim and requeue know which keys exist.
local function note_satellite(id, record, letter)
  if not string.find(record.S or '', letter, 1, true) then
    record.S = (record.S or '') .. letter
    set(id, 'S', record.S)
  end
end

-- For what lets a task in beside submit: the count that submit keeps for a second would be too low.
local function forget_depth() redis.pcall('DEL', KEY.depth) end

-- With the satellites that its record names in S.
local function delete_task(id, record)
  local doomed = {TASK .. id}
  for letter in satellites_of(record) do doomed[#doomed + 1] = satellite(letter, id) end
  redis.call('DEL', unpack(doomed))
end

-- How an attempt ended, as JSON made by the caller: the last ten are kept.
local function keep_error(id, record, now, json)
  local key = satellite('e', id)
  local entry = whole(now) .. ' ' .. json
  if type(redis.pcall('RPUSH', key, entry)) ~= 'number' then
    redis.call('DEL', key)
    redis.call('RPUSH', key, entry)
  end
  redis.call('LTRIM', key, -10, -1)
  note_satellite(id, record, 'e')
end

-- What a worker needs to run a task, its parents' results with it, or a reaper to decide on it (the worker that was lost,
-- too); store/records.py reads it.
local function describe(id, record, inputs)
  local out = {id, record.t or '', record.r or '', record.e or '', record.L or '', record.d or text(satellite('p', id)) or ''}
  local headers = record.h or (record.S and string.find(record.S, 'h', 1, true) and text(satellite('h', id)))
  local saved = record.S and string.find(record.S, 's', 1, true) and redis.pcall('HGETALL', satellite('s', id))
  if headers or inputs or saved or record.n or record.y or record.K or record.Z or record.x then
    for _, value in ipairs({record.n or '0', record.y or '0', record.K or '', record.Z or '', record.x or '', headers or '',
      record.w or ''}) do
      out[#out + 1] = value
    end
    out[#out + 1] = inputs or (saved and '')
    if saved and not saved.err then out[#out + 1] = saved end
  end
  return out
end

-- Unique keys -----------------------------------------------------------------------------------------

local function unique_key(digest) return KEY.unique .. ':' .. digest end
local function digest_of(record) return string.sub(record.u or '', 2) end

-- Whether a task holds the unique key of this digest. Its record decides, so that a key left behind is nobody's. With w
-- it does until it starts for the first time, with d until it ends, with b (debounced) until its time has come; one that
-- has waited too long for its start does not, even before somebody finds that it expired.
local function holds_key(record, digest, now)
  if digest_of(record) ~= digest then return false end
  local letter, waits = string.sub(record.u, 1, 1), SCHEDULES[record.s] ~= nil or record.s == 'Q'
  if waits and not record.b and number(record.z, math.huge) <= now then return false end
  if letter == 'd' then return waits or record.s == 'R' end
  if letter == 'w' then return waits and not record.b end
  return letter == 'b' and record.s == 'P'
end

-- Give a unique key back, if the task has it; with `letter`, only one that is held for so long.
local function free_key(id, record, letter)
  if letter and string.sub(record.u, 1, 1) ~= letter then return end
  local key = unique_key(digest_of(record))
  if text(key) == id then redis.call('DEL', key) end
end

-- Retention -------------------------------------------------------------------------------------------

-- No finished task goes before this time, whatever the limits say: a submit or finalize that is sent again
-- must meet the record of the first one.
local GUARD_MS = 60000

local lifetimes = {}
-- How long a task that ended as `state` lives, unless trim comes first.
local function lifetime(state)
  if not lifetimes[state] then
    local ms = state == 'D' and conf().dlq_ms or math.max(conf().retention_ms, state == 'S' and conf().result_ms or 0)
    lifetimes[state] = whole(math.max(GUARD_MS, ms))
  end
  return lifetimes[state]
end

local function trim_dead_letter(letter, fields)
  redis.call('XDEL', KEY['stream:dead-letter'], letter)
  local found = fields.i and redis.pcall('HMGET', TASK .. fields.i, 'E', 'S') or {}
  local own = found[1]
  if own == letter then delete_task(fields.i, {S = found[2]}) end
  -- A record that expired before its letter has left its place in the index.
  if own == letter or own == false then redis.call('ZREM', index_key('D'), fields.i) end
  count(fields.t or '_other', 'dead_letters_trimmed')
end

-- Dead letters over the bounds go, each with its task and history; they live exactly equally long.
local function trim_dead_letters(now)
  local excess, from = redis.call('XLEN', KEY['stream:dead-letter']) - conf().dlq_max, '-'
  for _ = 1, 100 do
    local letter, fields = redis.call('XRANGE', KEY['stream:dead-letter'], from, '+', 'COUNT', 1)[1], {}
    if not letter then return end
    for i = 1, #letter[2], 2 do fields[letter[2][i]] = letter[2][i + 1] end
    local died = tonumber(fields.d) or 0
    if died > now then
      -- The clock was set back: how old this one is can only be told later, and it must not hold up the others.
      from = '(' .. letter[1]
    elseif died > now - GUARD_MS or (excess <= 0 and died > now - conf().dlq_ms) then return
    else
      excess = excess - 1
      trim_dead_letter(letter[1], fields)
    end
  end
end

-- Whether trim may delete this finished task; it is GUARD_MS old and holds no result that is still to be kept.
local function may_trim(record, state, ended, now)
  if record.s ~= state or tonumber(record.F) ~= ended then return true, false end
  local holds_result = record.R or record.G or string.find(record.S or '', 'r', 1, true)
  local keep = (holds_result and state == 'S') and math.max(GUARD_MS, conf().result_ms) or GUARD_MS
  return ended <= now - keep, true
end

-- Look at up to `looks` of the oldest tasks that ended as `state`: too old ones go, and of the succeeded
-- ones all over `keep`. Members that a result still guards are passed over: their number is remembered, and
-- forgotten when the oldest may be old enough. Returns how many members went.
local function trim_finished(state, now, looks)
  local index, passed_field = index_key(state), '_passed_' .. state
  local oldest = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
  if not oldest[1] then return 0 end
  local passed = math.floor(math.max(0, math.min(number(redis.pcall('HGET', KEY.counters, passed_field)), 1e9)))
  if passed > 0 and tonumber(oldest[2]) <= now - conf().result_ms then passed = 0 end
  local excess = state == 'S' and redis.call('ZCARD', index) - conf().keep or 0
  if excess <= 0 and tonumber(oldest[2]) > now - conf().retention_ms then return 0 end
  local members, gone, before = redis.call('ZRANGE', index, passed, passed + looks - 1, 'WITHSCORES'), {}, passed
  for i = 1, #members, 2 do
    local id, ended = members[i], tonumber(members[i + 1])
    if #gone >= excess - passed and ended > now - conf().retention_ms then break end
    local record = read(id)
    local free, is_mine = may_trim(record, state, ended, now)
    if free then
      if is_mine then delete_task(id, record) end
      gone[#gone + 1] = id
    elseif ended > now - GUARD_MS then break
    else passed = passed + 1 end
  end
  if #gone > 0 then redis.call('ZREM', index, unpack(gone)) end
  if passed ~= before then redis.pcall('HSET', KEY.counters, passed_field, passed) end
  return #gone
end

-- The end ---------------------------------------------------------------------------------------------

-- What ended, to be indexed; and of that what has children, to tell them how.
local ended, endings = {}, {}

local weave
-- How tasks wait for others: _links has what is in here, and weave() puts it in.
local links = setmetatable({}, {__index = function(links, name)
  weave(links)
  return rawget(links, name)
end})

local function expire(id, record, ttl)
  redis.call('PEXPIRE', TASK .. id, ttl)
  if record.S then for letter in satellites_of(record) do redis.call('PEXPIRE', satellite(letter, id), ttl) end end
end

-- An idempotency key outlives its task by `idem_ms` and then answers with the final state.
local function end_idempotency(id, record, state)
  local key = idempotency_key(record.i)
  local print, holder = string.match(text(key) or '', '^(%S+) (%S+)')
  if holder == id then redis.call('SET', key, print .. ' ' .. id .. ' ' .. state, 'PX', conf().idem_ms) end
end

local function tell_waiters(id, record, state)
  for process in string.gmatch(record.W, '%S+') do
    redis.pcall('PUBLISH', channel() .. ':done:' .. process, id .. ' ' .. FINAL[state])
  end
end

local SETTLED_EVENT = {S = 'TASK_SUCCEEDED', F = 'TASK_FAILED', D = 'TASK_DEAD_LETTERED', C = 'TASK_CANCELLED', E = 'TASK_EXPIRED'}

-- Remember to tell the children of a task how it ended; `...` as settle has it. `news`: what finalize knows of its result.
local function note_ending(id, record, state, ...)
  local mine, news, fields = links.of(record), record.news or {}, {...}
  if not mine then return end
  mine.told = mine.told + 1
  set(id, 'A', links.packed(mine))
  local ending = {id = id, told = mine.told, state = news.is_cut and 'G' or state, result = news.result}
  for i = 1, #fields, 2 do if fields[i] == 'm' then ending.reason = fields[i + 1] end end
  endings[#endings + 1] = ending
end

-- settle: the only way to end a task. The caller has taken it out of streams and schedules; `...` are more
-- fields for the record. What a requeue needs (payload, history, headers) stays with it.
local function settle(id, record, state, now, detail, ...)
  if record.c then limits.leave(id, record) end
  set(id, 's', state, 'F', whole(now), ...)
  expire(id, record, lifetime(state))
  if record.i then end_idempotency(id, record, state) end
  if record.u then free_key(id, record) end
  if record.W then tell_waiters(id, record, state) end
  if record.A then note_ending(id, record, state, ...) end
  local members = ended[state] or {}
  ended[state], members[#members + 1] = members, whole(now)
  members[#members + 1] = id
  local task_type = record.t or '_other'
  count(task_type, FINAL[state])
  if tonumber(record.b) then observe(task_type, 'execution', now - record.b) end
  local made = created(record)
  if made then observe(task_type, 'duration', now - made) end
  event(SETTLED_EVENT[state], id, record, detail)
end

local function add_letter(id, record, now, reason, summary)
  local letter = redis.call('XADD', KEY['stream:dead-letter'], '*', 'i', id, 't', record.t or '', 'r', reason, 'x', summary,
    'a', record.a or 0, 'w', record.w or '', 'd', whole(now))
  set(id, 'E', letter)
end

-- The end without success: a dead letter, or FAILED where dead-lettering is off.
local function die(id, record, now, reason, summary)
  if not conf().dlq then return settle(id, record, 'F', now, reason, 'm', reason) end
  add_letter(id, record, now, reason, summary)
  settle(id, record, 'D', now, reason, 'm', reason)
end

-- Index what this call ended, with what that ends among its children; then trim about as much as it added.
local function flush_ended(now)
  if #endings > 0 then links.tell(now) end
  for state, members in pairs(ended) do
    redis.call('ZADD', index_key(state), unpack(members))
    if state == 'D' then trim_dead_letters(now) else trim_finished(state, now, math.min(200, #members)) end
  end
  ended = {}
end

-- The shared keys that settle writes to; to be checked by damaged() before the first write.
local function settle_keys()
  return KEY['stream:dead-letter'], 'stream', index_key('S'), 'zset', index_key('F'), 'zset', index_key('D'), 'zset',
    index_key('C'), 'zset', index_key('E'), 'zset'
end

-- Park a task that no worker here can run: 1 s, doubling up to 60 s; after the grace time it dies, unless it is
-- a newer release's to judge.
local function block(id, record, now, reason, grace_ms)
  local since, times = math.min(number(record.B, now), now), number(record.N)
  if now - since > grace_ms and not is_newer(record) then return die(id, record, now, reason, reason) end
  park(id, KEY.blocked, 'B', now + math.min(60000, 1000 * 2 ^ times), 'B', whole(since), 'N', times + 1, 'm', reason)
end

-- One that was debounced does not wait for its time in its next life, and so has no use for its unique key.
local function retakes_key(record) return record.u and string.sub(record.u, 1, 1) ~= 'b' end

-- 'conflict' when a task's idempotency key is another's by now, 'held' when its unique key is; else nil.
local function robbed_of(id, record, now)
  local holder = record.i and string.match(text(idempotency_key(record.i)) or '', '^%S+ (%S+)')
  if holder and holder ~= id then return 'conflict' end
  holder = retakes_key(record) and text(unique_key(digest_of(record)))
  if holder and holder ~= id and holds_key(read(holder), digest_of(record), now) then return 'held' end
end

-- A new life for a task that ended without success and was not robbed: same id, payload and history, attempts from 0.
-- Returns the fields for push or park.
local function begin_again(id, record)
  redis.call('PERSIST', TASK .. id)
  for letter in satellites_of(record) do redis.call('PERSIST', satellite(letter, id)) end
  -- A key that has expired stands for it again; what it was given for is not known any more, so it matches everything.
  local print = record.i and string.match(text(idempotency_key(record.i)) or '', '^(%S+) %S+')
  if record.i then redis.call('SET', idempotency_key(record.i), (print or '*') .. ' ' .. id .. ' L') end
  if retakes_key(record) then redis.call('SET', unique_key(digest_of(record)), id) end
  redis.call('ZREM', index_key(record.s), id)
  if letter_of(record) then redis.call('XDEL', KEY['stream:dead-letter'], record.E) end
  redis.call('HDEL', TASK .. id, 'x', 'z', 'F', 'R', 'G', 'E', 'm', 'B', 'N', 'O', 'U', 'w', 'n', 'y')
  forget_depth()
  count(record.t or '_other', 'requeued')
  event('TASK_QUEUED', id, {t = record.t}, 'requeued')
  return 'P', number(record.P) + number(record.a), 'j', record.k or '', 'L', execution({f = record.f})
end

-- Requests of operators: answered again when sent again, and audited where they act. -------------------

local memo
-- What this request was answered before; one request may be for several verbs and targets, of which each has its own.
local function remembered(verb, target, request)
  memo = KEY.request .. ':' .. verb .. ':' .. target .. ':' .. request
  return redis.call('GET', memo)
end

local function remember(answer)
  redis.call('SET', memo, answer, 'PX', 120000)
  return answer
end

local function audit(now, action, target, actor, reason, request, number)
  redis.pcall('XADD', KEY['stream:audit'], 'MAXLEN', '~', 10000, '*', 't', whole(now), 'action', action, 'target', target,
    'actor', actor, 'reason', reason, 'request', request, 'count', number or 1)
end
