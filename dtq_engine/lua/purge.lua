-- purge: cancel what waits in a queue, up to 100 tasks a call; never what runs.
--
-- Tasks that came after the first call stay. The cursor names the place to go on from: a band or a schedule, and
-- how many of its tasks were passed over because they run or a newer release wrote them.
--
-- ARGV     [2] request id of this call  [3] actor  [4] reason  [5] '1': what waits for its time too
--          [6] place ('9' … '0', 'P', 'T', 'B'; '' at first)  [7] passed over there  [8] ms of the first call ('' then)
-- Returns  'cancelled place passed since': how many ended, where to go on ('-' at the end), and the ms to give back

open()
local request, actor, reason, delayed, place, passed = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local before = remembered('purge', QUEUE, request)
if before then return before end
local bad = damaged(KEY.schedule, 'zset', KEY['retry:schedule'], 'zset', KEY.blocked, 'zset', settle_keys())
if bad then return bad end
local now = now_ms()
-- Slots that come free are not handed on at once, or purging would call from its line what it does not look at.
limits.is_purge = true
local since = ARGV[8] ~= '' and tonumber(ARGV[8]) or now
local PLACES = {'9', '8', '7', '6', '5', '4', '3', '2', '1', '0', 'P', 'T', 'B'}
local LAST = delayed == '1' and 13 or 10
if place == '' then place = '9' end

local function last_delivered(stream)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if groups.err or not groups[1] then return '0-0' end
  for i = 1, #groups[1], 2 do if groups[1][i] == 'last-delivered-id' then return groups[1][i + 1] end end
  return '0-0'
end

-- Up to 100 candidates of a place: pairs of id and, for a band, entry.
local function candidates()
  local found = {}
  if tonumber(place) then
    local stream = STREAM .. place
    local entries = redis.call('XRANGE', stream, '(' .. last_delivered(stream), '+', 'COUNT', 100 + passed)
    for i = passed + 1, #entries do found[#found + 1] = {entries[i][2][2], entries[i][1]} end
  else
    for _, id in ipairs(redis.call('ZRANGE', schedule_of(place), passed, passed + 99)) do found[#found + 1] = {id} end
  end
  return found
end

local cancelled = 0
local function end_task(id, entry)
  local record = read(id)
  if is_newer(record) or record.s == 'R' or (created(record) or 0) > since then
    passed = passed + 1
    return
  end
  if entry then ack(place, entry) else redis.call('ZREM', schedule_of(place), id) end
  if record.s == (entry and 'Q' or place) and (not entry or record.e == entry) then
    flush_acks()
    settle(id, record, 'C', now, nil, 'm', reason ~= '' and reason or 'purged')
    cancelled = cancelled + 1
  end
end

local found = candidates()
for _, item in ipairs(found) do end_task(item[1], item[2]) end
flush_acks()
flush_ended(now)
if #found < 100 then
  for i, name in ipairs(PLACES) do
    if name == place then
      place, passed = i < LAST and PLACES[i + 1] or '-', 0
      break
    end
  end
end
local answer = cancelled .. ' ' .. place .. ' ' .. passed .. ' ' .. whole(since)
remember(answer)
if cancelled > 0 or ARGV[8] == '' then audit(now, 'purge', QUEUE, actor, reason, request, cancelled) end
finish(now)
return answer
