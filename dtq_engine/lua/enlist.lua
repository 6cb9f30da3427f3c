-- enlist: add a name to the list of all queues or workers. It stands alone; the SREM lets it pass at maxmemory.
--
-- KEYS[1]  the list, a set
-- ARGV     name
-- Returns  OK

redis.call('SREM', KEYS[1], ARGV[1])
redis.call('SADD', KEYS[1], ARGV[1])
return 'OK'
