-- arrive: tell tasks how a parent of theirs ended, or that it lives again; each takes notice once.
--
-- ARGV     [2] the parent, as 'queue id'  [3] how often it has told  [4] state, as _links has it  [5] reason, one word
--          [6] '1': [7] is its result, then the ids of its children
-- Returns  OK · LATER (the place of a child holds something else, or the parent may be on its way: tell them again)

open()
local now, is_told = now_ms(), true
local news = {parent = ARGV[2], told = number(ARGV[3]), state = ARGV[4], reason = ARGV[5], result = ARGV[6] == '1' and ARGV[7] or nil}
for i = 8, #ARGV do is_told = links.arrive(ARGV[i], news, now) and is_told end
flush_ended(now)
finish(now)
return is_told and 'OK' or 'LATER'
