-- trim: let finished tasks go that are over the limits of age or number; for queues where nothing ends.
--
-- ARGV     none
-- Returns  how many members of the indexes went (call again while it is not 0), and 1 if there are more succeeded tasks
--          than are kept, of which none may go as yet, else 0

open()
local bad = damaged(settle_keys())
if bad then return bad end
local now, gone = now_ms(), 0
for state in pairs(FINAL) do if state ~= 'D' then gone = gone + trim_finished(state, now, 200) end end
trim_dead_letters(now)
finish(now)
return {gone, redis.call('ZCARD', index_key('S')) > conf().keep and 1 or 0}
