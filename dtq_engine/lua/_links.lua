-- _links: how tasks wait for others, their parents. It is put between _lib and each queue script, and set up by the first
-- use of `links` in a call: most tasks have none.
--
-- A task that waits for parents is BLOCKED. Its record has a field A, and so has that of each parent; four words:
--   how many parents it still awaits
--   what of their results becomes its first argument: n nothing, o the one, l the list of all
--   when it may start once they are through: '-' at once, +ms after that, or at an instant in ms
--   how often it has told its children how it ended, or that it lives again
-- Its satellite `awaits` is a hash with a field 'queue id' for each parent, of which the value is
--   position policy (c cancel, r run) told state reason, and behind a line break its result, if it has one
-- where state is '-' while the parent is awaited, that of its end, G (succeeded; its result was cut) or X (it is gone).
-- A parent's satellite `children` is a sorted set of 'queue id' in the order in which they were linked.
--
-- A parent that settles tells its children: in the same step those of its queue, up to AT_ONCE; the others by entries of
-- `outbox`, which the leader carries to their queues (arrive.lua). `told` makes a message that comes again, or
-- too late, harmless. As results travel along, no child depends on how long its parents are kept.

function weave(links)
  local AT_ONCE = 100
  local NEVER = 90000000000000  -- where waiting children have their place in `blocked`; releases that do not know them leave it
  local MOST_INPUT = 4194304
  local WAITS = 'waits_for_parents'

  -- What a record says of its links; nil where it has none.
  function links.of(record)
    local awaited, takes, start, told = string.match(record.A or '', '^(%d+) (%a) (%S+) (%d+)$')
    return awaited and {awaited = number(awaited), takes = takes, start = start, told = number(told)}
  end

  function links.packed(mine) return counted(mine.awaited) .. ' ' .. mine.takes .. ' ' .. mine.start .. ' ' .. counted(mine.told) end

  -- Whether the task waits for parents.
  function links.waits(record)
    local mine = links.of(record)
    return mine ~= nil and mine.awaited > 0
  end

  local function split(ref) return string.match(ref, '^(%S+) (%S+)$') end

  local function unpacked(value)
    local at, policy, told, state, reason, rest = string.match(value or '', '^(%d+) (%a) (%d+) (%S) ([^%s]+)(.*)$')
    return at and {at = at, policy = policy, told = number(told), state = state, reason = reason, rest = rest}
  end

  local function packed(place)
    return place.at .. ' ' .. place.policy .. ' ' .. counted(place.told) .. ' ' .. place.state .. ' ' .. place.reason .. place.rest
  end

  local DID_NOT_FAIL = {['-'] = true, S = true, G = true}
  -- Whether what is known of a parent means that the child must not run.
  local function fails(place, takes)
    return place.policy ~= 'r' and (not DID_NOT_FAIL[place.state] or (place.state == 'G' and takes ~= 'n'))
  end

  -- All that a child knows of its parents, as pairs of 'queue id' and place.
  local function places(id)
    local flat, found = redis.pcall('HGETALL', satellite('a', id)), {}
    for i = 1, flat.err and 0 or #flat, 2 do
      local place = unpacked(flat[i + 1])
      if place then found[#found + 1] = {flat[i], place} end
    end
    return found
  end

  -- The id of a parent for whose sake the child must not run; nil when there is none.
  function links.obstacle(id, record)
    local mine = links.of(record)
    for _, each in ipairs(mine and places(id) or {}) do
      if fails(each[2], mine.takes) then
        local _, parent = split(each[1])
        return parent
      end
    end
  end

  -- What a worker is to know of its parents: what it takes of them, then 'queue id' and value of each.
  function links.inputs(id, record)
    local mine = links.of(record)
    local flat = mine and redis.pcall('HGETALL', satellite('a', id)) or {}
    return (flat.err or #flat == 0) and '' or {mine.takes, unpack(flat)}
  end

  -- The outbox ------------------------------------------------------------------------------------------

  local function post(...)
    if redis.pcall('XADD', KEY.outbox, '*', ...).err then
      redis.pcall('DEL', KEY.outbox)
      redis.pcall('XADD', KEY.outbox, '*', ...)
    end
    posted = true
  end

  -- Ask a parent in another queue how it is, and to tell this child how it ends.
  function links.ask(parent, id) post('k', 'ask', 'p', parent, 'c', QUEUE .. ' ' .. id) end

  -- Have these children told later, 500 an entry.
  local function post_news(news, children)
    for from = 1, #children, 500 do
      post('k', 'tell', 'p', news.parent, 'n', whole(news.told), 's', news.state, 'm', news.reason, 'v', news.result and '1' or '0',
        'r', news.result or '', 'c', table.concat(children, '\n', from, math.min(from + 499, #children)))
    end
  end

  -- Children ------------------------------------------------------------------------------------------

  -- Where a waiting child is looked for by nobody but its parents, and at its expiry by promote.
  local function place_of(record)
    local expires = tonumber(record.z)
    if expires and expires == expires and not record.b then
      earliest = math.min(earliest or expires, expires)
      return math.min(expires, NEVER)
    end
    return NEVER
  end

  -- Let a task wait for its parents: → BLOCKED.
  function links.wait(id, record, ...)
    redis.call('ZADD', KEY.blocked, whole(place_of(record)), id)
    set(id, 's', 'B', 'e', '', 'm', WAITS, ...)
  end

  -- Its parents are through: let it start, now or in its time.
  local function start(id, record, mine, now)
    local due = string.sub(mine.start, 1, 1) == '+' and now + number(string.sub(mine.start, 2)) or number(mine.start)
    if record.m then redis.call('HDEL', TASK .. id, 'm') end
    if due > now then park(id, KEY.schedule, 'P', math.min(due, NEVER)) else push(id, band(record)) end
  end

  -- Whether the places that a child may go to can take it.
  local function is_sound(record)
    return not damaged(KEY.blocked, 'zset', KEY.schedule, 'zset', STREAM .. (band(record) or 5), 'stream', settle_keys())
  end

  local function input_size(id)
    local total = 0
    for _, each in ipairs(places(id)) do total = total + #each[2].rest end
    return total
  end

  -- A child whose parents are not what they were: it starts, ends, lives again, or waits on.
  local function judge(id, record, mine, parent, place, was_failing, now)
    local is_failing = fails(place, mine.takes)
    local reason = (place.state == 'G' and 'parent_result_too_large:' or 'parent_failed:') .. parent
    if record.s == 'B' then
      local is_large = mine.awaited == 0 and mine.takes ~= 'o' and input_size(id) > MOST_INPUT
      if is_failing or is_large then
        redis.call('ZREM', KEY.blocked, id)
        settle(id, record, 'C', now, nil, 'm', is_failing and reason or 'inputs_too_large')
      elseif mine.awaited == 0 then
        redis.call('ZREM', KEY.blocked, id)
        start(id, record, mine, now)
      end
    elseif was_failing and not is_failing and string.find(record.m or '', '^parent_') and not robbed_of(id, record, now) then
      local other = links.obstacle(id, record)
      if other then return set(id, 'm', 'parent_failed:' .. other) end
      links.revive(id, record, now)
    end
  end

  -- Give a task that ended a new life: it waits for the parents that it has yet to hear of, or starts.
  function links.revive(id, record, now)
    local mine = links.of(record)
    mine.told = mine.told + 1
    endings[#endings + 1] = {id = id, told = mine.told, state = 'Q'}
    record.A, record.z, record.m = links.packed(mine), nil, nil
    if mine.awaited > 0 then links.wait(id, record, 'A', record.A, begin_again(id, record))
    else push(id, band(record), 'A', record.A, begin_again(id, record)) end
  end

  -- A parent's news reach a child. False when they must come again: its places are damaged, or it is too early for them.
  function links.arrive(id, news, now)
    local record = read(id)
    local mine = links.of(record)
    if not mine or is_newer(record) then return true end
    local is_waiting = record.s == 'B' and mine.awaited > 0
    if not is_waiting and record.s ~= 'C' and record.s ~= 'E' then return true end
    local value = redis.pcall('HGET', satellite('a', id), news.parent)
    local place = type(value) == 'string' and unpacked(value)
    if not place then return true end
    -- What is gone says nothing of how often it told; for a minute it may be on its way.
    if news.state == 'X' and (created(record) or 0) > now - GUARD_MS then return false end
    if news.state == 'X' and place.state ~= '-' or news.state ~= 'X' and news.told <= place.told then return true end
    if not is_sound(record) then return false end

    local was_open, was_failing = place.state == '-', fails(place, mine.takes)
    local _, parent = split(news.parent)
    place.told, place.state = math.max(news.told, place.told), news.state == 'Q' and '-' or news.state
    place.reason, place.rest = news.reason, news.result and '\n' .. news.result or ''
    local is_open = place.state == '-'
    if was_open and not is_open then mine.awaited = math.max(0, mine.awaited - 1) end
    if is_open and not was_open then mine.awaited = mine.awaited + 1 end
    record.A = links.packed(mine)
    redis.call('HSET', satellite('a', id), news.parent, packed(place))
    set(id, 'A', record.A)
    judge(id, record, mine, parent, place, was_failing, now)
    return true
  end

  -- Parents ---------------------------------------------------------------------------------------------

  -- Make a task the parent of this child; 'queue id' of one in any queue.
  function links.adopt(id, record, child)
    if not links.of(record) then
      record.A = '0 n - ' .. (FINAL[record.s] and '1' or '0')
      set(id, 'A', record.A)
    end
    local key = satellite('c', id)
    if type(redis.pcall('ZADD', key, 'NX', whole(number(redis.pcall('ZCARD', key))), child)) ~= 'number' then
      redis.call('DEL', key)
      redis.call('ZADD', key, 0, child)
    end
    note_satellite(id, record, 'c')
    local left = redis.call('PTTL', TASK .. id)
    if left > 0 then redis.call('PEXPIRE', key, left) end
  end

  local function word(text) return text and text ~= '' and string.gsub(text, '%s', '_') or '-' end

  -- What a parent that has ended has to say, from its record.
  function links.news_of(id, record)
    local mine, result = links.of(record), record.R
    if not result and record.s == 'S' and string.find(record.S or '', 'r', 1, true) then result = text(satellite('r', id)) end
    local is_cut = result and number(record.G) > #result
    return {parent = QUEUE .. ' ' .. id, told = math.max(1, mine and mine.told or 1), state = is_cut and 'G' or record.s,
      reason = is_cut and 'cut' or word(record.s ~= 'S' and record.m), result = record.s == 'S' and not is_cut and result or nil}
  end

  -- Link a new child to its parent in this queue, which may have ended.
  function links.join(parent, child, now)
    local record = read(parent)
    links.adopt(parent, record, QUEUE .. ' ' .. child)
    if FINAL[record.s] and not links.arrive(child, links.news_of(parent, record), now) then
      post_news(links.news_of(parent, record), {QUEUE .. ' ' .. child})
    end
  end

  -- Tell the children of all that ended in this call, and of those that end by it.
  function links.tell(now)
    local budget, at = AT_ONCE, 1
    while endings[at] do
      local ending, left = endings[at], {}
      local children = redis.pcall('ZRANGE', satellite('c', ending.id), 0, -1)
      local news = {parent = QUEUE .. ' ' .. ending.id, told = ending.told, state = ending.state,
        reason = ending.state == 'G' and 'cut' or word(ending.reason),
        result = ending.result}
      for _, child in ipairs(children.err and {} or children) do
        local queue, id = split(child)
        if queue == QUEUE and budget > 0 then
          budget = budget - 1
          if not links.arrive(id, news, now) then left[#left + 1] = child end
        elseif queue then left[#left + 1] = child end
      end
      post_news(news, left)
      at = at + 1
    end
    endings = {}
  end

  -- New tasks -------------------------------------------------------------------------------------------

  -- The links of a new task: `+after` has four words for each parent (queue, id, policy, l: to be asked, or f: it is yet to
  -- come and brings this task as its child); `+children` has two for each child. Returns the value of its field A.
  function links.tie(task)
    local awaited, values = 0, {}
    for queue, id, policy in string.gmatch(task['+after'] or '', '(%S+) (%S+) (%a) %a') do
      values[#values + 1], values[#values + 2] = queue .. ' ' .. id, awaited .. ' ' .. policy .. ' 0 - -'
      awaited = awaited + 1
    end
    for from = 1, #values, 200 do redis.call('HSET', satellite('a', task.id), unpack(values, from, math.min(from + 199, #values))) end
    local position = 0
    for queue, id in string.gmatch(task['+children'] or '', '(%S+) (%S+)') do
      redis.call('ZADD', satellite('c', task.id), position, queue .. ' ' .. id)
      position = position + 1
    end
    local start = task['+at'] or (task['+delay'] and '+' .. task['+delay']) or '-'
    return links.packed({awaited = awaited, takes = task['+takes'] or 'n', start = start, told = 0})
  end

  -- Once a call's tasks are in: ask their parents, wherever they are. `joined`: one of this queue was asked.
  function links.introduce(task, now)
    for queue, id, kind in string.gmatch(task['+after'] or '', '(%S+) (%S+) %a (%a)') do
      if kind == 'l' and queue == QUEUE then
        task.joined = true
        links.join(id, task.id, now)
      elseif kind == 'l' then links.ask(queue .. ' ' .. id, task.id) end
    end
  end

  -- A task that was there already may lack the children that it comes with.
  function links.complete(task)
    for queue, id in string.gmatch(task['+children'] or '', '(%S+) (%S+)') do
      local record = read(task.id)
      links.adopt(task.id, record, queue .. ' ' .. id)
      if FINAL[record.s] then post_news(links.news_of(task.id, record), {queue .. ' ' .. id}) end
    end
  end

  -- Damage -----------------------------------------------------------------------------------------------

  -- What a waiting child has yet to hear, asked anew of each parent; how often it had missed something. A parent that is not
  -- there may be on its way for a minute.
  function links.mend(id, record, now)
    local mine, awaited, missed = links.of(record), 0, 0
    for _, each in ipairs(places(id)) do
      local queue, parent = split(each[1])
      local is_open = each[2].state == '-'
      if is_open then awaited = awaited + 1 end
      if is_open and queue ~= QUEUE then links.ask(each[1], id)
      elseif is_open then missed = missed + links.look_up(id, record, parent, now) end
    end
    if read(id).A == record.A and awaited ~= mine.awaited then
      mine.awaited, missed = awaited, missed + 1
      set(id, 'A', links.packed(mine))
      if awaited == 0 and is_sound(record) then
        redis.call('ZREM', KEY.blocked, id)
        start(id, record, mine, now)
      end
    end
    return missed
  end

  -- Ask a parent in this queue; 1 if its child had missed something.
  function links.look_up(id, record, parent, now)
    local found = read(parent)
    if is_newer(found) then return 0 end
    if found.s and not FINAL[found.s] then
      local knows = tonumber(redis.pcall('ZSCORE', satellite('c', parent), QUEUE .. ' ' .. id) or nil)
      if not knows then links.adopt(parent, found, QUEUE .. ' ' .. id) end
      return knows and 0 or 1
    end
    if not found.s and (created(record) or 0) > now - GUARD_MS then return 0 end
    -- What waits in the outbox may bring a result that was not kept.
    local is_recent = found.s == 'S' and now - number(found.F) < 60 * GUARD_MS
    if is_recent and number(redis.pcall('XLEN', KEY.outbox)) > 0 then return 0 end
    local gone = {parent = QUEUE .. ' ' .. parent, told = 0, state = 'X', reason = 'gone'}
    links.arrive(id, found.s and links.news_of(parent, found) or gone, now)
    return 1
  end
end

