-- watch: have a process told when a task ends. At most 16 processes wait by name; more share `*`.
--
-- ARGV     [2] id  [3] process
-- Returns  the task's state ('B' where it cannot be read: the task will end of that), '' when there is no record

open()
local id, process = ARGV[2], ARGV[3]
local record = read(id)
if not record.s then return '' end
if FINAL[record.s] then return record.s end
local waiting, number = ' ' .. (record.W or '') .. ' ', 0
for _ in string.gmatch(waiting, '%S+') do number = number + 1 end
if number >= 16 then process = '*' end
if not string.find(waiting, ' ' .. process .. ' ', 1, true) then set(id, 'W', ((record.W and record.W .. ' ') or '') .. process) end
return is_lost(record) and 'B' or record.s
