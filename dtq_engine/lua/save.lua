-- save: keep what an execution wants later ones of its task to find: a step's value, where to go on, that a thing is done.
--
-- ARGV     [2] id  [3] token  [4] field  [5] value  [6] '1': only if nothing is kept under the field yet
-- Returns  saved · known (something else is kept there, and stays) · lost (the execution does not hold its task any more)

open()
local id, token, field, value, is_first = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] == '1'
local record = read(id)
if record.s ~= 'R' or record.k ~= token then return 'lost' end
local steps = satellite('s', id)
local bad = damaged(steps, 'hash')
if bad then return bad end

if is_first then
  local kept = redis.call('HGET', steps, field)
  -- A call that is sent again finds its own value.
  if kept then return kept == value and 'saved' or 'known' end
end
redis.call('HSET', steps, field, value)
note_satellite(id, record, 's')
return 'saved'
