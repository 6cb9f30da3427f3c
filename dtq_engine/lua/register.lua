-- register: mark a queue as known, though nothing may be in it yet.
--
-- ARGV     none
-- Returns  OK

open()
redis.call('SET', KEYS[1], '1')
return 'OK'
