-- reclaim: hand one page of expired leases to a reaper, which decides what becomes of each.
--
-- The pending list is the lease: an entry idle for longer than its record's lease belongs to a worker that
-- is gone. A new token fences that worker here; the reaper has 10 s to finalize its decision, else the
-- entry comes back. Deliveries of waiting tasks that nobody started are pushed again, strays are dropped.
--
-- A server that stood still has renewals to read that came meanwhile, and whose leases look expired until it has. So a
-- call that was under way then does nothing at all, and the first one after it gives all leases their full time again.
--
-- ARGV     [2] reaper  [3] token  [4] priority and [5] entry to go on from ('9', '-' at first)
--          [6] most tasks to hand out  [7] the caller's lease in ms: idle time of a delivery that was never started
--          [8] when it was sent, by this server's clock as far as the caller knows it  [9] most ms on the way
--          [10] ms for which every exchange of the caller with Redis was quick
-- Returns  the time by this server's clock, next priority ('' at the end), next entry, then the tasks as claim returns them

open()
local reaper, token, limit, unstarted_ms = ARGV[2], ARGV[3], tonumber(ARGV[6]), tonumber(ARGV[7])
local now, real = now_ms(), raw_ms()
if real - tonumber(ARGV[8]) > tonumber(ARGV[9]) then return {whole(real), '', '-'} end

-- When Redis last came back after it stood still, by its own clock (0: not known to have). That no reaper was heard of for
-- a while tells of it, unless this caller knows better: without workers, or with many queues, nobody comes for long.
local function pulse(steady_ms)
  local last, resumed = string.match(text(KEY.pulse) or '', '^(%d+) (%d+)$')
  last, resumed = tonumber(last), tonumber(resumed) or 0
  local silence = last and real - last or 0
  if silence > math.min(2000, unstarted_ms / 2) and silence > steady_ms then resumed = real end
  if silence < 0 then resumed = math.min(resumed, real) end  -- the clock was set back
  if not last or silence < 0 or silence > 100 then redis.call('SET', KEY.pulse, whole(real) .. ' ' .. whole(resumed)) end
  return resumed
end

local resumed = pulse(tonumber(ARGV[10]))
local priority, from, page = tonumber(ARGV[4]), ARGV[5], 100
local stream = STREAM .. priority
local reply = {}
local LONGEST_LEASE = 86400000  -- the setting's bound: a damaged record must not be held for ever

local function fence(id, record)
  if record.c then limits.leave(id, record) end
  if record.O ~= 'r' then
    record.n, record.y = whole(number(record.n) + 1), whole(number(record.y) + 1)
    count(record.t or '_other', 'lease_expired')
  end
  record.f, record.l, record.k = number(record.f) + 1, 10000, token
  record.L = execution(record)
  set(id, 'L', record.L, 'O', 'r', 'n', record.n or 0, 'y', record.y or 0)
  redis.call('XCLAIM', stream, 'workers', reaper, 0, record.e, 'IDLE', 0, 'JUSTID')
  reply[#reply + 1] = describe(id, record)
end

local function consider(entry, idle)
  local found = redis.call('XRANGE', stream, entry, entry)[1]
  local id = found and found[2][2]
  local record = id and read(id) or {}
  -- Time that Redis itself was away does not count against a worker.
  if resumed > 0 then idle = math.min(idle, real - resumed) end
  if record.s == 'R' and record.e == entry then
    if idle >= math.min(number(record.l), LONGEST_LEASE) then fence(id, record) end
  elseif record.s == 'Q' and record.e == entry then
    if idle >= unstarted_ms then
      ack(priority, entry)
      push(id, priority)
    end
  elseif not (is_lost(record) and damaged(KEY.blocked, 'zset')) then
    if is_lost(record) then salvage(id, record, now) end
    ack(priority, entry)
  end
end

local function look()
  local found = redis.pcall('XPENDING', stream, 'workers', 'IDLE', 1, from, '+', page)
  return found.err and {} or found
end

-- Most queues are idle: they cost one call, and not one for each band.
local pending = look()
while #pending == 0 and priority > 0 do
  priority, from = priority - 1, '-'
  stream = STREAM .. priority
  pending = look()
end
local last
for _, item in ipairs(pending) do
  if #reply >= limit then break end
  last = item[1]
  consider(item[1], tonumber(item[3]))
end
flush_acks()
finish(now)
local next_priority, next_entry = priority, last and '(' .. last
if #pending < page and #reply < limit then next_priority, next_entry = priority - 1, '-' end
return {whole(real), next_priority >= 0 and whole(next_priority) or '', next_entry or '-', unpack(reply)}
