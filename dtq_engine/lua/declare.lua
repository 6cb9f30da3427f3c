-- declare: put in force what a build of workers says of limits; whoever waits for one that changed may go on.
--
-- Fields of limits:{q}: for each limit its name, with the definitions of builds that live, blanks between, the one in force
-- first; and the name with '!' behind it, with what an operator said instead and a note about that. A definition is
-- max/count/ms/home/since/seen: most that may run (0: any number), starts per ms (0: no rate), '1' where tasks of this
-- queue have it, when a build first said so, and last. The newest is in force, so that an old worker brings no old one back.
--
-- ARGV     [2] ms after which what nobody repeats is gone, then per limit: name ('*': the queue's own), max/count/ms/home
-- Returns  how many limits changed

open()
local now, lapse = now_ms(), tonumber(ARGV[2])
if damaged(KEY.limits, 'hash') then redis.call('DEL', KEY.limits) end
local before = redis.call('HGETALL', KEY.limits)

local said, known = {}, {}
for i = 3, #ARGV, 2 do said[ARGV[i]] = ARGV[i + 1] end
for i = 1, #before, 2 do
  local name, is_override = string.match(before[i], '^([^!]+)(!?)$')
  if name and is_override == '' then known[name] = before[i + 1] end
end
for name in pairs(said) do known[name] = known[name] or '' end

-- The definitions of a limit that still count, with what is said now; the newest first.
local function merged(name)
  local found, own = {}, said[name]
  for numbers, since, seen in string.gmatch(known[name], '(%d+/%d+/%d+/%d+)/(%d+)/(%d+)') do
    -- A clock that was put back has said of what lives that it was seen in the future: that is now, or no limit would hold.
    since, seen = tonumber(since), math.min(tonumber(seen), now)
    if numbers == own then
      found[#found + 1] = {numbers = numbers, since = math.min(since, now), seen = now}
      own = nil
    elseif now - seen <= lapse then found[#found + 1] = {numbers = numbers, since = since, seen = seen} end
  end
  if own then found[#found + 1] = {numbers = own, since = now, seen = now} end
  table.sort(found, function(a, b) return a.since > b.since or (a.since == b.since and a.numbers > b.numbers) end)
  return found
end

local changes = 0
for name, value in pairs(known) do
  local words, found = {}, merged(name)
  for i, each in ipairs(found) do words[i] = each.numbers .. '/' .. whole(each.since) .. '/' .. whole(each.seen) end
  if #found > 0 then redis.call('HSET', KEY.limits, name, table.concat(words, ' ')) else redis.call('HDEL', KEY.limits, name) end
  if string.match(value, '^%d+/%d+/%d+') ~= (found[1] and string.match(found[1].numbers, '^%d+/%d+/%d+')) then
    changes = changes + 1
    limits.changed(name, now)
    changed('declare_limit', name == '*' and QUEUE or name)
  end
end
finish(now)
return changes
