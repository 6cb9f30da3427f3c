-- claim: start up to `limit` waiting tasks, the most urgent first, oldest first within a priority.
--
-- Only a record whose `entry` is the delivered entry may start. On the way, tasks that waited too long
-- expire, tasks of types this worker's build lacks are blocked (for a second at most where another living build has
-- them: its workers are to get them), and deliveries of anything else are dropped; a delivery of a running task (a
-- recreated group delivers it again) is left to its lease.
--
-- ARGV     [2] worker  [3] token, also this request's id  [4] limit  [5] lease ms  [6] digest of the known
--          types  [7] grace ms before a blocked task dies
-- Returns  TASKS, EMPTY, PAUSED, AGAIN (its bound of work; claim again under a new token), TYPES (publish them
--          first), REGISTER, or LIMITED (the queue's own limit allows no more; who gets 'LIMITED ms' asks again then), then the tasks: most as one line of words and the payload (brief), the others as
--          describe() gives them. Sent again under its token it answers with what still runs under it, leases renewed.

open()
local worker, token, limit, lease_ms, grace_ms = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[7])
local memo, types_key = KEY.claim .. ':' .. worker .. ':' .. token, KEY.types .. ':' .. ARGV[6]
local now, real = now_ms(), raw_ms()

local earlier = redis.call('GET', memo)
if earlier then
  local reply = {'TASKS'}
  for id in string.gmatch(earlier, '%S+') do
    local record = read(id)
    if record.s == 'R' and record.k == token then
      redis.pcall('XCLAIM', STREAM .. (band(record) or 5), 'workers', worker, 0, record.e, 'IDLE', 0, 'JUSTID')
      reply[#reply + 1] = describe(id, record, record.A and links.inputs(id, record))
    end
  end
  return reply
end

-- One look at four keys: EXISTS counts a key as often as it is named.
local there = redis.call('EXISTS', KEYS[1], paused_key(), paused_key(), types_key, types_key, types_key, types_key,
  KEY.limits, KEY.limits, KEY.limits, KEY.limits, KEY.limits, KEY.limits, KEY.limits, KEY.limits)
if there % 2 < 1 then return {'REGISTER'} end
if there % 4 >= 2 then return {'PAUSED'} end
if there % 8 < 4 then return {'TYPES'} end
local bad = damaged(types_key, 'set')
if bad then return bad end

-- A queue with a limit of its own is not looked through: what waits there goes on waiting where it is.
local asked, is_counted = limit, there >= 8 and limits.has_own()
if is_counted then
  limit = limits.queue_room(limit, now)
  if limit == 0 and asked > 0 then return {limits.turn_away(now)} end
end

local known = {}
local function knows(type)
  if known[type] == nil then known[type] = redis.call('SISMEMBER', types_key, type) == 1 end
  return known[type]
end

local elsewhere = {}
-- Whether another build of workers that live knows the type.
local function knows_elsewhere(type)
  if elsewhere[type] == nil then
    elsewhere[type] = false
    for _, digest in ipairs(redis.pcall('ZRANGE', KEY.builds, 0, -1)) do
      if redis.pcall('SISMEMBER', KEY.types .. ':' .. digest, type) == 1 then elsewhere[type] = true end
    end
  end
  return elsewhere[type]
end

-- Why no worker of this build may run the record; nil when it may. Then, whether those of another build may.
local function obstacle(record)
  if is_newer(record) then return 'newer_record' end
  if record.U or not (record.t and is_readable(record)) then return 'undecodable_record' end
  if not knows(record.t) then return 'unknown_task_type:' .. record.t, knows_elsewhere(record.t) end
end

local reply, claimed = {'TASKS'}, {}
local started, lease = whole(now), whole(lease_ms)
local first = execution({k = token, a = 1, f = 1, b = started, l = lease})

-- As describe(), for a task with nothing unusual about it, which is cheaper to send; nil for the others.
local function brief(id, record)
  if record.h or record.n or record.y or record.K or record.Z or record.x then return end
  local payload = record.d or (record.S == 'p' and text(satellite('p', id)))
  if not payload or (record.d and record.S) then return end
  return id .. ' ' .. record.t .. ' ' .. record.e .. ' ' .. record.L .. ' ' .. record.r .. '\n' .. payload
end

local function start(id, record, entry)
  if record.u and not record.b then free_key(id, record, 'w') end
  if record.L then
    record.a, record.f, record.b, record.l, record.k = number(record.a) + 1, number(record.f) + 1, started, lease, token
    record.L = execution(record)
  else
    record.a, record.L = '1', first
  end
  set(id, 's', 'R', 'L', record.L, 'w', worker)
  if record.c or is_counted then limits.start(id, record, token, is_counted, now) end
  -- Since when it was blocked stays until an outcome: its worker may find that it cannot run it either.
  if record.m or record.O then redis.call('HDEL', TASK .. id, 'm', 'O') end
  record.w, claimed[#claimed + 1] = worker, id
  count(record.t, 'started')
  observe(record.t, 'wait', real - string.match(entry, '^%d+'))
  event('TASK_STARTED', id, record)
  reply[#reply + 1] = brief(id, record) or describe(id, record, record.A and links.inputs(id, record))
end

-- Only to expire or block a task are more keys needed. With one of them damaged, such a delivery is left to a reaper's
-- second look, and the others start.
local sound
local function is_sound()
  if sound == nil then sound = damaged(KEY.blocked, 'zset', settle_keys()) == nil end
  return sound
end

local function take(priority, entry, id)
  local record = id and read(id) or {}
  if record.s == 'R' and record.e == entry then return end
  local is_unknown = is_lost(record)
  if is_unknown and not is_sound() then return end
  if is_unknown then salvage(id, record, now) end
  if record.s ~= 'Q' or record.e ~= entry then return ack(priority, entry) end
  local why, is_others = obstacle(record)
  local is_early = record.A and links.waits(record)
  local expires = tonumber(record.z)
  local bucket
  if not why and not is_early and not (expires and expires <= now and not record.b) then
    bucket = record.c and limits.obstacle(id, record, now)
    if not bucket then return start(id, record, entry) end
  end
  if not is_sound() then return end
  ack(priority, entry)
  if bucket then return limits.hold_back(id, record, bucket, now) end
  flush_acks()
  if record.c then limits.leave(id, record) end
  if is_early then return links.wait(id, record) end
  if is_others then park(id, KEY.blocked, 'B', now + 1000, 'm', why)
  elseif why then block(id, record, now, why, grace_ms)
  else settle(id, record, 'E', now) end
end

local function deliver(stream, want)
  if redis.pcall('XLEN', stream) == 0 then return {} end
  local function next_entries() return redis.pcall('XREADGROUP', 'GROUP', 'workers', worker, 'COUNT', want, 'STREAMS', stream, '>') end
  local got = next_entries()
  if got and got.err and string.find(tostring(got.err), 'NOGROUP', 1, true) then
    redis.call('XGROUP', 'CREATE', stream, 'workers', '0', 'MKSTREAM')
    got = next_entries()
  end
  return got and not got.err and got[1] and got[1][2] or {}
end

local looks = 2 * limit + 100
for priority = 9, 0, -1 do
  while #claimed < limit and looks > 0 do
    local want = limit - #claimed
    local entries = deliver(STREAM .. priority, want)
    looks = looks - #entries
    for _, entry in ipairs(entries) do take(priority, entry[1], entry[2] and entry[2][2]) end
    if #entries < want then break end
  end
end
flush_acks()
flush_ended(now)
if #claimed > 0 then redis.call('SET', memo, table.concat(claimed, ' '), 'PX', 120000) end
local is_turned_away = limit < asked and #claimed == limit
wake = wake or (#claimed == limit and not is_turned_away) or looks <= 0
-- With every band empty, wake-ups that are left would only cause claims in vain.
if not wake then redis.call('DEL', KEY.wake) end
finish(now)
if is_turned_away then reply[1] = limits.turn_away(now)
elseif looks <= 0 and #claimed < limit then reply[1] = 'AGAIN' elseif #claimed == 0 then reply[1] = 'EMPTY' end
return reply
