-- report: keep what executions say of themselves, their progress and their log lines, as long as they hold their task.
--
-- A line's entry is named by its number in the task and the bytes of all lines up to it. So the log itself says how much
-- it holds and where to read on, and numbers that are missing are lines that are gone: the oldest ones, over the bounds,
-- and those that a worker had to drop before it could send them. Sent again, nothing is doubled: the last entry says
-- which execution wrote it, and which of that one's lines it is.
--
-- ARGV     [2] most lines of a task  [3] most bytes of them, then per execution: id, token, progress ('': as it was),
--          number of lines, and per line its number in the execution and its text
-- Returns  the 1-based positions of the executions that do not hold their task any more

open()
local most_lines, most_bytes = tonumber(ARGV[2]), tonumber(ARGV[3])
local now, lost = now_ms(), {}

-- The last line of a task's log: its number, the bytes up to it, and whose it is.
local function last_line(log)
  local found = redis.pcall('XREVRANGE', log, '+', '-', 'COUNT', 1)
  local entry = found[1]
  if not entry then return {number = 0, bytes = 0}, found.err end
  local number, bytes = string.match(entry[1], '^(%d+)%-(%d+)$')
  return {number = tonumber(number), bytes = tonumber(bytes), fence = entry[2][2], own = tonumber(entry[2][4]) or 0}
end

-- The oldest lines go while the log has too many, or too many bytes; the newest stays in any case.
local function cut(log, last)
  redis.call('XTRIM', log, 'MAXLEN', most_lines)
  while true do
    local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 50)
    if #oldest <= 1 then return end
    for i, entry in ipairs(oldest) do
      local before = tonumber(string.match(entry[1], '%d+$')) - #(entry[2][8] or '')
      if last.bytes - before <= most_bytes or (i == #oldest and i < 50) then return end
      redis.call('XDEL', log, entry[1])
    end
  end
end

-- The lines are at ARGV[from], ARGV[from + 2], …
local function keep_lines(id, record, from, count)
  local log = satellite('l', id)
  local last, err = last_line(log)
  if err then redis.call('DEL', log) end
  local own = last.fence == record.f and last.own or 0
  for at = from, from + 2 * count - 2, 2 do
    local number, line = tonumber(ARGV[at]), ARGV[at + 1]
    if number > own then
      last.number, last.bytes, own = last.number + number - own, last.bytes + #line, number
      local entry = whole(last.number) .. '-' .. whole(last.bytes)
      local fields = {'f', record.f, 'n', number, 'a', record.a, 'l', line}
      if redis.pcall('XADD', log, entry, unpack(fields)).err then
        -- Somebody has put something behind all numbers that may come: the log begins anew.
        last.number, last.bytes = 1, #line
        redis.call('DEL', log)
        redis.call('XADD', log, '1-' .. #line, unpack(fields))
      end
    end
  end
  cut(log, last)
  note_satellite(id, record, 'l')
end

local at, position = 4, 0
while at <= #ARGV do
  local id, token, progress, count = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local record = read(id)
  position = position + 1
  if record.s == 'R' and record.k == token then
    if progress ~= '' then set(id, 'g', record.a .. ' ' .. progress) end
    if count > 0 then keep_lines(id, record, at + 4, count) end
    local done, total = string.match(progress, '^%d+ (%S+) (%S+)')
    event('TASK_PROGRESS', id, record, done and done .. '/' .. total)
  else
    lost[#lost + 1] = position
  end
  at = at + 4 + 2 * count
end

-- These are for whoever looks on at this moment: they have no number, and are not in the log of events, which they would
-- fill within minutes.
if #lines > 0 then
  redis.pcall('PUBLISH', channel() .. ':events:{' .. QUEUE .. '}', '- ' .. whole(now) .. '\n' .. table.concat(lines, '\n'))
end
return lost
