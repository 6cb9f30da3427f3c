-- attend: note that a worker has begun to serve this queue, has stopped, or fell silent; each is told once.
--
-- The workers that say they serve the queue are kept with the life of each, a token that it drew at its start. Under its
-- name another life may have begun meanwhile: then nothing that is said of the former one is news. A list that is
-- damaged begins anew, since all that depends on it is what is told.
--
-- ARGV     [2] started, stopped or stale  [3] worker  [4] life  [5] detail of its event, '' for none
-- Returns  TOLD · SAME

open()
local EVENT = {started = 'WORKER_STARTED', stopped = 'WORKER_STOPPED', stale = 'WORKER_STALE'}
local what, worker, life, detail = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local known = redis.pcall('HGET', KEY.crew, worker)
if type(known) == 'table' then
  redis.call('DEL', KEY.crew)
  known = false
end
if (known == life) == (what == 'started') then return 'SAME' end

if what ~= 'started' then redis.call('HDEL', KEY.crew, worker)
else
  redis.call('HSET', KEY.crew, worker, life)
  -- The one before it did not stop: it was killed, or both run under one name.
  if known then detail = 'restarted' end
end
event(EVENT[what], NO_TASK, {w = (string.gsub(worker, '%s', '_'))}, detail ~= '' and detail or nil)
finish(now_ms())
return 'TOLD'
