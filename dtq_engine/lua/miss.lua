-- miss: note that signing in failed from one origin, and until when it has to wait. It stands alone, without _lib; the
-- DEL lets it pass at maxmemory.
--
-- KEYS[1]  what is known of the origin, a string: how often it failed, until when it waits (ms)
-- ARGV     how often it may fail before it waits: 1 s, then twice as long each time; longest wait in ms; ms to remember
-- Returns  ms to wait

local known = redis.pcall('GET', KEYS[1])
local many = tonumber(string.match(type(known) == 'string' and known or '', '^(%d%d?%d?%d?) ')) or 0
redis.call('DEL', KEYS[1])
many = math.min(many + 1, 9999)
local wait = many >= tonumber(ARGV[1]) and math.min(tonumber(ARGV[2]), 1000 * 2 ^ (many - ARGV[1])) or 0
local time = redis.call('TIME')
local until_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + wait)
redis.call('SET', KEYS[1], many .. ' ' .. until_ms, 'PX', ARGV[3])
return wait
