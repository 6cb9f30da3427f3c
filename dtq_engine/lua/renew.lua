-- renew: keep the leases of the executions that this worker still owns.
--
-- A lease whose task has moved on (finished, reclaimed, cancelled) is not renewed but named in the reply, so
-- that the worker can stop that execution. A deadline passed by more than a lease ends it too, unless the
-- worker marks the execution overdue: a thread that has not returned must not run again beside itself.
-- The worker's own clock tells how long it has run, where it says so: Redis' may have been set meanwhile.
-- A pending entry that went missing is restored; it is the lease. Where its stream takes no more entries, the task
-- goes on without one: its holder still ends it.
--
-- ARGV     [2] worker, then per execution: id, token, for how many ms it has run ('overdue': to be kept all the same;
--          '': Redis' clock tells)
-- Returns  {1-based positions lost}, {1-based positions whose cancel was asked for}

open()
local worker, now = ARGV[2], now_ms()
local lost, cancel, renewals = {}, {}, {}

local function owns(record, token, ran)
  if record.s ~= 'R' or record.k ~= token then return false end
  return ran == 'overdue' or (tonumber(ran) or now - number(record.b)) <= number(timeout_of(record)) + number(record.l)
end

for at = 3, #ARGV, 3 do
  local id, position = ARGV[at], (at - 3) / 3 + 1
  local record = read(id)
  if owns(record, ARGV[at + 1], ARGV[at + 2]) then
    local stream = STREAM .. (band(record) or 5)
    renewals[stream] = renewals[stream] or {}
    table.insert(renewals[stream], {id = id, entry = entry_of(record)})
    if record.x then cancel[#cancel + 1] = position end
  else
    lost[#lost + 1] = position
  end
end

for stream in pairs(renewals) do
  local bad = damaged(stream, 'stream')
  if bad then return bad end
end

-- XCLAIM FORCE may resurrect an acknowledged entry: only ever on a running record's own entry.
local function restore(stream, item)
  redis.pcall('XGROUP', 'CREATE', stream, 'workers', '0', 'MKSTREAM')
  if #redis.call('XRANGE', stream, item.entry, item.entry) == 0 then
    local entry = redis.pcall('XADD', stream, '*', 'i', item.id)
    if type(entry) == 'table' then return end
    item.entry = entry
    set(item.id, 'e', entry)
  end
  redis.call('XCLAIM', stream, 'workers', worker, 0, item.entry, 'IDLE', 0, 'FORCE', 'JUSTID')
end

for stream, items in pairs(renewals) do
  local entries, renewed = {}, {}
  for i, item in ipairs(items) do entries[i] = item.entry end
  local command = {'XCLAIM', stream, 'workers', worker, 0}
  for _, entry in ipairs(entries) do command[#command + 1] = entry end
  for _, word in ipairs({'IDLE', 0, 'JUSTID'}) do command[#command + 1] = word end
  local answer = redis.pcall(unpack(command))
  if not answer.err then for _, entry in ipairs(answer) do renewed[entry] = true end end
  for _, item in ipairs(items) do if not renewed[item.entry] then restore(stream, item) end end
end
return {lost, cancel}
