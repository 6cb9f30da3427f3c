-- snapshot: everything under a prefix as it is at one moment. For tests only: it looks at every key there is.
--
-- KEYS[1]  the queue's movable clock
-- KEYS[2]  the queue's event log, of which only new entries are returned
-- ARGV     prefix, number of the last event seen, hash tag of another queue, of which nothing is read
-- Returns  ms by the queue's clock, then per key: name, type, ms to live, contents

local now = redis.call('TIME')
local rows = {string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + (tonumber(redis.call('GET', KEYS[1]) or 0)))}

local function pending_of(key)
  local pending = redis.pcall('XPENDING', key, 'workers', '-', '+', 10000)
  return pending.err and {} or pending
end

local function last_delivered(key)
  local groups = redis.call('XINFO', 'GROUPS', key)
  if not groups[1] then return '' end
  for i = 1, #groups[1], 2 do if groups[1][i] == 'last-delivered-id' then return groups[1][i + 1] end end
end

local contents = {}
function contents.hash(key) return redis.call('HGETALL', key) end
function contents.string(key) return redis.call('GET', key) end
function contents.list(key) return redis.call('LRANGE', key, 0, -1) end
function contents.set(key) return redis.call('SMEMBERS', key) end
function contents.zset(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
function contents.stream(key)
  if key == KEYS[2] then return redis.call('XRANGE', key, '(' .. ARGV[2], '+') end
  return {redis.call('XRANGE', key, '-', '+'), pending_of(key), last_delivered(key)}
end

for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do
  if not string.find(key, ARGV[3], 1, true) then
    local kind = redis.call('TYPE', key)['ok']
    rows[#rows + 1] = {key, kind, redis.call('PTTL', key), contents[kind](key)}
  end
end
return rows
