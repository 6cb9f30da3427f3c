-- link: make a task the parent of one in another queue, which asks; if it has ended, say how.
--
-- ARGV     [2] id  [3] the child, as 'queue id'
-- Returns  LIVING (it will tell) · GONE · LATER (what it has to tell this child may wait in its outbox: ask again) · or how
--          often it has told, its state, the reason, '1' if it has a result, that

open()
local id, record = ARGV[2], read(ARGV[2])
if not record.s then return 'GONE' end
if is_newer(record) then return 'LIVING' end
local knows = type(redis.pcall('ZSCORE', satellite('c', id), ARGV[3])) == 'string'
links.adopt(id, record, ARGV[3])
if not FINAL[record.s] then return 'LIVING' end
local news = links.news_of(id, record)
-- A message may bring the result that was not kept here.
if knows and news.state == 'S' and not news.result and number(redis.pcall('XLEN', KEY.outbox)) > 0 then return 'LATER' end
return {whole(news.told), news.state, news.reason, news.result and '1' or '0', news.result or ''}
