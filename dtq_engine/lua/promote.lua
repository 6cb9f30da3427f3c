-- promote: make due tasks available: delayed ones, retries, and blocked ones for another look.
--
-- ARGV     [2] most tasks to move
-- Returns  how many members were dealt with, ms until the next one is due ('' when none waits; a day at most), how many
--          entries the outbox has

open()
local now, room, moved = now_ms(), tonumber(ARGV[2]), 0
local bad = damaged(KEY.schedule, 'zset', KEY['retry:schedule'], 'zset', KEY.blocked, 'zset', settle_keys())
if bad then return bad end

local sources, records = {{key = KEY.schedule, state = 'P'}, {key = KEY['retry:schedule'], state = 'T'}, {key = KEY.blocked, state = 'B'}}, {}
for _, source in ipairs(sources) do
  source.due = redis.call('ZRANGEBYSCORE', source.key, '-inf', whole(now), 'LIMIT', 0, room - moved)
  for _, id in ipairs(source.due) do records[#records + 1] = read(id) end
  moved = moved + #source.due
end
bad = damaged_bands(records)
if bad then return bad end

local function release(id, record, state)
  if record.s ~= state then return end
  local expires = tonumber(record.z)
  if expires and expires <= now and not record.b and not is_newer(record) then return settle(id, record, 'E', now) end
  if state == 'B' and record.A and links.waits(record) then return links.wait(id, record) end
  if record.c and state == 'B' and limits.look_again(id, record, now) then return end
  push(id, band(record) or 5)
  if record.u then free_key(id, record, 'b') end
  if state == 'T' then event('TASK_RETRIED', id, record) end
end

local at = 0
for _, source in ipairs(sources) do
  if #source.due > 0 then redis.call('ZREM', source.key, unpack(source.due)) end
  for i, id in ipairs(source.due) do release(id, records[at + i], source.state) end
  at = at + #source.due
end
flush_ended(now)
finish(now)

local next_due
for _, schedule in ipairs({KEY.schedule, KEY['retry:schedule'], KEY.blocked}) do
  local head = redis.call('ZRANGE', schedule, 0, 0, 'WITHSCORES')
  if head[2] and (not next_due or tonumber(head[2]) < next_due) then next_due = tonumber(head[2]) end
end
return {moved, next_due and whole(math.max(0, math.min(next_due - now, 86400000))) or '', number(redis.pcall('XLEN', KEY.outbox))}
