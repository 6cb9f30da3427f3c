-- unlock: give a lock back, only if it is still the caller's. It stands alone, without _lib.
--
-- KEYS[1]  the lock
-- ARGV     token
-- Returns  1 when it was given back, else 0

if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
