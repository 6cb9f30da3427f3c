-- promote: make due tasks available: delayed ones, retries, and blocked ones for another look.
--
-- A schedule that is damaged is passed over, and what a damaged key keeps from moving looks again in a minute: the others
-- do not wait for somebody to mend it.
--
-- ARGV     [2] most tasks to move
-- Returns  how many members were dealt with, ms until the next one is due ('' when none waits; a day at most), how many
--          entries the outbox has, what is damaged ('' for nothing)

open()
local now, room, moved, damage = now_ms(), tonumber(ARGV[2]), 0, nil
local LATER_MS = 60000

local sources, records, obstacles = {{key = KEY.schedule, state = 'P'}, {key = KEY['retry:schedule'], state = 'T'}, {key = KEY.blocked, state = 'B'}}, {}, {}

local function has_expired(record)
  local expires = tonumber(record.z)
  return expires and expires <= now and not record.b and not is_newer(record)
end

-- Why a member has to stay where it is; nil when it may go.
local function obstacle(record)
  if is_lost(record) then return damaged(KEY.blocked, 'zset') end
  if has_expired(record) then return damaged(index_key('E'), 'zset') end
  return damaged(STREAM .. (band(record) or 5), 'stream')
end

for _, source in ipairs(sources) do
  local bad = damaged(source.key, 'zset')
  source.due = bad and {} or redis.call('ZRANGEBYSCORE', source.key, '-inf', whole(now), 'LIMIT', 0, room - moved)
  source.is_sound = not bad
  damage = damage or bad
  for _, id in ipairs(source.due) do
    local record = read(id)
    records[#records + 1] = record
    obstacles[#records] = obstacle(record)
    damage = damage or obstacles[#records]
  end
  moved = moved + #source.due
end

local function release(id, record, state)
  if is_lost(record) then return salvage(id, record, now) end
  if record.s ~= state then return end
  if has_expired(record) then return settle(id, record, 'E', now) end
  if state == 'B' and record.A and links.waits(record) then return links.wait(id, record) end
  if record.c and state == 'B' and limits.look_again(id, record, now) then return end
  push(id, band(record) or 5)
  if record.u then free_key(id, record, 'b') end
  if state == 'T' then event('TASK_RETRIED', id, record) end
end

local at = 0
for _, source in ipairs(sources) do
  if #source.due > 0 then redis.call('ZREM', source.key, unpack(source.due)) end
  for i, id in ipairs(source.due) do
    if obstacles[at + i] then redis.call('ZADD', source.key, whole(now + LATER_MS), id)
    else release(id, records[at + i], source.state) end
  end
  at = at + #source.due
end
flush_ended(now)
finish(now)

local next_due
for _, source in ipairs(sources) do
  local head = source.is_sound and redis.call('ZRANGE', source.key, 0, 0, 'WITHSCORES') or {}
  if head[2] and (not next_due or tonumber(head[2]) < next_due) then next_due = tonumber(head[2]) end
end
return {moved, next_due and whole(math.max(0, math.min(next_due - now, 86400000))) or '', number(redis.pcall('XLEN', KEY.outbox)),
  damage and damage.err or ''}
