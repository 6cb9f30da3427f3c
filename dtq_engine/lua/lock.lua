-- lock: acquire or refresh a lock for its holder; what is no lock is nobody's. It stands alone, without _lib.
--
-- KEYS[1]  the lock
-- ARGV     token, time to live in ms
-- Returns  1 when the caller holds the lock now, else 0

local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'string' and holder ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
