-- sweep: compare records with the keys that they depend on, and repair what damage has put out of step.
--
-- What a damaged shared key has to do with is left alone until that is mended.
-- A waiting task without a delivery, a running one without a lease, a delayed one without its place in the schedule,
-- a finished one without index, letter or time to live, one that waits for parents that have ended: each gets what it
-- lacks; one whose state cannot be read, and so nobody knows where it belongs, is blocked to die of it. Members of schedules and indexes without a record go, as do satellites, idempotency keys and dead letters of
-- tasks that are gone, unique keys that no task holds, and deliveries that lead to no task and will reach nobody any
-- more. A group that is ahead of its stream would skip what comes.
--
-- ARGV     [2] number of ids  [3] number of keys, then task ids, idempotency keys, and pairs of priority and entry
--          ('letter' and a dead letter's entry, 'unique' and a unique key's digest, 'slot:' or 'line:' with a limit's
--          bucket, and a member of that)
-- Returns  names and numbers of repairs: what, how many, …

open()
local now, repairs = now_ms(), {}
local LAST_ID = '18446744073709551615-18446744073709551615'

local function repaired(what) repairs[what] = (repairs[what] or 0) + 1 end

local function is_pending(stream, entry)
  local pending = redis.pcall('XPENDING', stream, 'workers', entry, entry, 1)
  return not pending.err and #pending > 0
end

local function is_after(entry, other)
  local ms, sequence = string.match(entry, '^(%d+)-(%d+)$')
  local other_ms, other_sequence = string.match(other, '^(%d+)-(%d+)$')
  ms, sequence, other_ms, other_sequence = tonumber(ms), tonumber(sequence), tonumber(other_ms), tonumber(other_sequence)
  return ms > other_ms or (ms == other_ms and sequence > other_sequence)
end

-- A value of a flat list of names and values.
local function among(flat, name)
  for i = 1, #flat, 2 do if flat[i] == name then return flat[i + 1] end end
end

-- What the group has delivered last; nil without a group.
local function last_delivered(stream)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  return not groups.err and groups[1] and among(groups[1], 'last-delivered-id') or nil
end

-- Whether the group has passed an entry, so that it is never delivered again.
local function was_delivered(stream, entry)
  local last = last_delivered(stream)
  return last ~= nil and not is_after(entry, last)
end

-- A stream that has had the largest id there can be takes no more. It goes on from its newest entry, where Redis lets it;
-- else it goes, as its tasks are found without their deliveries and leases, and get them anew.
local function reopen(stream)
  local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  local id = newest and newest[1] or LAST_ID
  if id == LAST_ID or redis.pcall('XSETID', stream, id).err then redis.call('DEL', stream) end
  repaired('band')
end

-- Before any delivery is mended: a group that is ahead would skip the new ones too.
for priority = 0, 9 do
  local stream = STREAM .. priority
  local about = redis.pcall('XINFO', 'STREAM', stream)
  local newest = not about.err and among(about, 'last-generated-id')
  if newest == LAST_ID then
    reopen(stream)
    about = redis.pcall('XINFO', 'STREAM', stream)
    newest = not about.err and among(about, 'last-generated-id')
  end
  local last = newest and last_delivered(stream)
  if last and is_after(last, newest) then
    redis.call('XGROUP', 'SETID', stream, 'workers', newest)
    repaired('group')
  end
end

local mend = {}

function mend.Q(id, record)
  local priority, entry = band(record) or 5, entry_of(record)
  local stream = STREAM .. priority
  local there = #redis.call('XRANGE', stream, entry, entry) > 0
  if there and (is_pending(stream, entry) or not was_delivered(stream, entry)) then return end
  if there then
    ack(priority, entry)
    flush_acks()
  end
  push(id, priority)
  repaired('delivery')
end

local function give_up(id, record)
  if now <= number(record.b) + number(timeout_of(record)) + number(record.l) then return end
  record.k = nil
  push(id, band(record), 'L', execution(record))
  repaired('lease')
end

-- The lease is renewed by a living worker, else it runs out and a reaper decides.
function mend.R(id, record)
  local stream, entry = STREAM .. (band(record) or 5), entry_of(record)
  redis.pcall('XGROUP', 'CREATE', stream, 'workers', '0', 'MKSTREAM')
  local there = #redis.call('XRANGE', stream, entry, entry) > 0
  if there and is_pending(stream, entry) then return end
  if not there then
    entry = redis.pcall('XADD', stream, '*', 'i', id)
    -- A stream that takes no more: whoever runs the task ends it all the same, unless its time was over long ago.
    if type(entry) == 'table' then return give_up(id, record) end
    set(id, 'e', entry)
  end
  redis.call('XCLAIM', stream, 'workers', record.w or 'sweep', 0, entry, 'IDLE', 0, 'FORCE', 'JUSTID')
  repaired('lease')
end

-- Whether a sorted set has a member, with a score that is a time.
local function is_in(key, id)
  local score = tonumber(redis.call('ZSCORE', key, id) or nil)
  return score ~= nil and math.abs(score) < 1e14
end

local function mend_schedule(id, record)
  if is_in(schedule_of(record.s), id) then return end
  redis.call('ZADD', schedule_of(record.s), whole(now), id)
  earliest = now
  repaired('schedule')
end
mend.P, mend.T = mend_schedule, mend_schedule

function mend.B(id, record)
  if not (record.A and links.waits(record)) then return mend_schedule(id, record) end
  if not is_in(KEY.blocked, id) then
    links.wait(id, record)
    repaired('schedule')
  end
  for _ = 1, links.mend(id, record, now) do repaired('link') end
end

local function mend_end(id, record)
  local at = number(record.F, now)
  if math.abs(at) >= 1e14 then at = now end
  if not is_in(index_key(record.s), id) then
    redis.call('ZADD', index_key(record.s), whole(at), id)
    repaired('index')
  end
  if record.s == 'D' and not (letter_of(record) and #redis.call('XRANGE', KEY['stream:dead-letter'], record.E, record.E) > 0) then
    add_letter(id, record, now, record.m or 'unknown', '')
    repaired('dead_letter')
  end
  local left = redis.call('PTTL', TASK .. id)
  if left < 0 then
    expire(id, record, lifetime(record.s))
    return repaired('time_to_live')
  end
  -- A release that did not know these yet may have ended the task.
  for letter in satellites_of(record) do
    if redis.call('PTTL', satellite(letter, id)) == -1 then
      redis.call('PEXPIRE', satellite(letter, id), left)
      repaired('time_to_live')
    end
  end
end
for state in pairs(FINAL) do mend[state] = mend_end end

-- One that has ended is still where its end has put it.
local function mend_state(id, record)
  for state in pairs(record.F and FINAL or {}) do
    if not damaged(index_key(state), 'zset') and is_in(index_key(state), id) then
      set(id, 's', state)
      return repaired('state')
    end
  end
  if damaged(KEY.blocked, 'zset') or redis.call('PTTL', TASK .. id) >= 0 then return end
  salvage(id, record, now)
  repaired('state')
end

-- Whether the shared keys are sound that a task of this state is looked for in.
local function is_mendable(record)
  if SCHEDULES[record.s] then return not damaged(schedule_of(record.s), 'zset') end
  if record.s == 'Q' or record.s == 'R' then return not damaged_bands({record}) end
  if record.s == 'D' and damaged(KEY['stream:dead-letter'], 'stream') then return false end
  return not damaged(index_key(record.s), 'zset')
end

-- Nothing may point at a task that is gone.
local function drop_members(id)
  for state in pairs(SCHEDULES) do
    if redis.pcall('ZREM', schedule_of(state), id) == 1 then repaired('member_without_record') end
  end
  for state in pairs(FINAL) do
    if redis.pcall('ZREM', index_key(state), id) == 1 then repaired('member_without_record') end
  end
  if redis.call('EXISTS', TASK .. id) == 1 then return end
  for letter in pairs(SATELLITE) do
    if redis.call('DEL', satellite(letter, id)) == 1 then repaired('satellite_without_record') end
  end
end

-- A stray that is still to be delivered is dropped by the claim that gets it, one that is pending by a reaper.
local function drop_stray(priority, entry)
  local stream = STREAM .. priority
  if damaged(stream, 'stream') then return end
  local found = redis.call('XRANGE', stream, entry, entry)[1]
  if not found or is_pending(stream, entry) or not was_delivered(stream, entry) then return end
  local record = found[2][2] and read(found[2][2]) or {}
  if record.e == entry and (record.s == 'Q' or record.s == 'R') then return end
  ack(priority, entry)
  flush_acks()
  repaired('stray_delivery')
end

-- A letter lives and goes with its task.
local function drop_letter(letter)
  if damaged(KEY['stream:dead-letter'], 'stream') then return end
  local found = redis.call('XRANGE', KEY['stream:dead-letter'], letter, letter)[1]
  local id = found and among(found[2], 'i') or ''
  local record = read(id)
  if not found or is_newer(record) or (record.s == 'D' and record.E == letter) then return end
  redis.call('XDEL', KEY['stream:dead-letter'], letter)
  if not record.s then redis.pcall('ZREM', index_key('D'), id) end
  repaired('letter_without_task')
end

-- A unique key is its holder's, as that one's record says; it may have lost it.
local function mend_unique(id, record)
  local digest = digest_of(record)
  if not holds_key(record, digest, now) or redis.pcall('GET', unique_key(digest)) then return end
  redis.call('SET', unique_key(digest), id)
  repaired('unique_key')
end

-- One that has expired holds it until somebody finds that it has.
local function drop_unique(digest)
  local id = text(unique_key(digest))
  local record = id and read(id) or {}
  if not id or is_newer(record) or holds_key(record, digest, -math.huge) then return end
  redis.call('DEL', unique_key(digest))
  repaired('unique_key')
end

local function drop_limited(kind, bucket, member)
  local drop = kind == 'slot' and limits.drop_slot or limits.drop_place
  if drop(bucket, member) then repaired(kind .. '_without_task') end
end

local last_id = 3 + ARGV[2]
local last_key = last_id + ARGV[3]
for i = 4, last_id do
  local record = read(ARGV[i])
  if not record.s then drop_members(ARGV[i])
  elseif is_lost(record) then mend_state(ARGV[i], record)
  elseif mend[record.s] and not is_newer(record) and is_mendable(record) then
    mend[record.s](ARGV[i], record)
    if record.u then mend_unique(ARGV[i], record) end
    local missing = record.c and limits.mend(ARGV[i], record, now)
    if missing then repaired(missing) end
  end
end
for i = last_id + 1, last_key do
  local key = idempotency_key(ARGV[i])
  local id = string.match(text(key) or '', '^%S+ (%S+) L$')
  -- One that expires was given for a task for which another stood.
  if id and redis.call('EXISTS', TASK .. id) == 0 and redis.call('PTTL', key) == -1 then
    redis.call('DEL', key)
    repaired('idempotency_key')
  end
end
for i = last_key + 1, #ARGV, 2 do
  local kind, bucket = string.match(ARGV[i], '^(%l+):(.*)$')
  if kind then drop_limited(kind, bucket, ARGV[i + 1])
  elseif ARGV[i] == 'letter' then drop_letter(ARGV[i + 1])
  elseif ARGV[i] == 'unique' then drop_unique(ARGV[i + 1])
  else drop_stray(ARGV[i], ARGV[i + 1]) end
end
flush_ended(now)
finish(now)

local reply = {}
for what, number in pairs(repairs) do
  reply[#reply + 1] = what
  reply[#reply + 1] = number
end
return reply
