-- _limits: how many tasks may run and start at once. It is put between _lib and each queue script, and set up by the first
-- use of `limits` in a call: most tasks have none.
--
-- A task's record names its buckets in `c`, one word each: a limit, or that, '/' and a key. Two more words say where it
-- stands: '+' in front that it was called, '*' behind that it counts against its queue's own limit, whose bucket that is.
--
--   limits:{q}       hash    the numbers in force; declare.lua lists its fields
--   limit:{q}:<b>    zset    who holds a slot of the bucket: '<id> <token>' with 1 while it runs, '<id> -' with 0 from when
--                            it is called until it starts, so that nobody is overtaken on the way
--   limited:{q}:<b>  zset    who waits for the bucket, in the order to be called: most urgent, then oldest first
--   limited:{q}      zset    the buckets that somebody waits for, all with 0
--   limited:{q}:*    string  a claim was turned away since the last slot came free; when time makes room (0: it does not)
--   starts:{q}:<b>   list    when tasks started, newest first: as many as the rate allows
--
-- A task waits in one line only, that of the first bucket without room, and holds no slot meanwhile: two that want the
-- same two limits cannot wait for each other.

function restrain(limits)
  local FAR_MS = 3600000       -- a waiting task's own look, in case that its bucket forgot it
  local HEAD_MS = 60000        -- the same for the first one in line, which then looks for slots that nobody holds
  local MOST_CALLED = 100      -- in one script and line; the line goes on when the next in it looks
  local MOST_LINES = 10000     -- that a limit which changes has looked at at once; the others go on within a minute
  local looks_left = 1000      -- in one script, at whoever is first in a line: those of further lines look a moment later
  local MOST_STARTS = 100000   -- the validated bound of a rate; what is beyond it is damage

  local rules, states, suspects, tended, queued = {}, {}, {}, {}, {}
  local taken, given_up, starts = {}, {}, {}

  local touched, is_touched = {}, {}
  -- Have a bucket's line looked at when the script ends, in the order in which something happened to them.
  local function touch(bucket)
    if not is_touched[bucket] then touched[#touched + 1], is_touched[bucket] = bucket, true end
  end

  local function slots_key(bucket) return KEY.limit .. ':' .. bucket end
  local function line_key(bucket) return KEY.limited .. ':' .. bucket end
  local function starts_key(bucket) return KEY.starts .. ':' .. bucket end
  local function buckets_of(record) return string.gmatch(record.c or '', '[^%s+*]%S*') end
  local function is_called(record) return string.sub(record.c or '', 1, 1) == '+' end
  local function plain(record) return (string.gsub(string.gsub(record.c or '', '^%+ ?', ''), ' ?%*$', '')) end
  -- Whether a worker runs it: what a reaper took over has given its slots back.
  local function runs(record) return record.s == 'R' and record.O ~= 'r' end
  local function waits_for(record) return record.s == 'B' and string.match(record.m or '', '^limit:(%S+)$') or nil end

  -- A command on a key of one bucket; a key of another type is thrown away, for it can be told again from the records.
  local function on(key, command, ...)
    local reply = redis.pcall(command, key, ...)
    if type(reply) ~= 'table' or not reply.err then return reply end
    redis.call('DEL', key)
    return redis.call(command, key, ...)
  end

  local function amount(word, most)
    local found = tonumber(word)
    return found and found >= 1 and found <= most and math.floor(found) or nil
  end

  -- The numbers in force for a limit, an operator's before those of the code: max, count, ms, each nil where there is none.
  local function rule_of(bucket)
    local name = string.match(bucket, '^[^/]+')
    if rules[name] == nil then
      local own = redis.pcall('HMGET', KEY.limits, name .. '!', name)
      local max, count, ms = string.match(own.err and '' or own[2] or '', '^(%d+)/(%d+)/(%d+)')
      local other_max, other_count, other_ms = string.match(own.err and '' or own[1] or '', '^([%d-]+)/([%d-]+)/([%d-]+)')
      if other_max and other_max ~= '-' then max = other_max end
      if other_count and other_count ~= '-' then count, ms = other_count, other_ms end
      local rule = {max = amount(max, 1e9), count = amount(count, MOST_STARTS), ms = amount(ms, 1e12)}
      if not rule.ms then rule.count = nil end
      rules[name] = (rule.max or rule.count) and rule or false
    end
    return rules[name]
  end

  local function flush_bucket(bucket)
    if given_up[bucket] then
      on(slots_key(bucket), 'ZREM', unpack(given_up[bucket]))
      given_up[bucket] = nil
    end
    if taken[bucket] then
      on(slots_key(bucket), 'ZADD', unpack(taken[bucket]))
      taken[bucket] = nil
    end
  end

  -- A clock that was set back leaves starts that are still to come: they count as of now.
  local function settle_starts(bucket, rule, now)
    local times = on(starts_key(bucket), 'LRANGE', 0, -1)
    redis.call('DEL', starts_key(bucket))
    for i = 1, #times, 1000 do
      local part = {}
      for j = i, math.min(i + 999, #times) do part[#part + 1] = whole(math.min(number(times[j]), now)) end
      redis.call('RPUSH', starts_key(bucket), unpack(part))
    end
    redis.call('PEXPIRE', starts_key(bucket), whole(rule.ms + 60000))
  end

  -- What a script knows of a bucket: `held` slots, of which `called` have yet to start (nil: not asked yet).
  local function state_of(bucket, now)
    local state = states[bucket]
    if state then return state end
    flush_bucket(bucket)
    state = {rule = rule_of(bucket), held = 0}
    states[bucket] = state
    if not state.rule then return state end
    state.held = on(slots_key(bucket), 'ZCARD')
    if state.rule.count and number(on(starts_key(bucket), 'LINDEX', 0)) > now then settle_starts(bucket, state.rule, now) end
    return state
  end

  local function called_of(bucket, state)
    if not state.called then state.called = on(slots_key(bucket), 'ZCOUNT', 0, 0) end
    return state.called
  end

  local function add(state, held, called)
    state.held = state.held + held
    if state.called then state.called = state.called + called end
  end

  -- Whether a task has its slot by right: it runs under that token, or was called and is on its way.
  local function holds(record, token)
    if token == '-' then return record.s == 'Q' and is_called(record) end
    return record.s == 'R' and record.k == token
  end

  -- Slots of the bucket whose holder neither runs under its token nor was called are free: only damage leaves such.
  local function free_stale(bucket, state)
    for _, member in ipairs(on(slots_key(bucket), 'ZRANGE', 0, 99)) do
      local id, token = string.match(member, '^(%S+) (%S+)$')
      if not (id and holds(read(id), token)) then
        on(slots_key(bucket), 'ZREM', member)
        add(state, -1, token == '-' and -1 or 0)
      end
    end
  end

  -- Whether one more may start. One that was called has its slot and counts what runs only, so that of several that were
  -- called under a limit that is lower now the first ones start. If there is no room, also the ms when time alone makes some.
  local function has_room(bucket, called, now)
    local state = state_of(bucket, now)
    local rule = state.rule
    if not rule then return true end
    local on_their_way = (called or rule.count) and called_of(bucket, state) or 0
    if rule.max and state.held - (called and on_their_way or 0) >= rule.max then
      if not suspects[bucket] or called then return false end
      suspects[bucket] = nil
      free_stale(bucket, state)
      if state.held >= rule.max then return false end
    end
    if not rule.count then return true end
    -- This one would be the newest of `count` starts: the oldest of them must be out of the window by now.
    local nth = rule.count - 1 - (called and 0 or called_of(bucket, state)) - (starts[bucket] and #starts[bucket] or 0)
    if nth < 0 then return false end
    local oldest = tonumber(on(starts_key(bucket), 'LINDEX', nth) or nil)
    if oldest and oldest + rule.ms >= now then return false, oldest + rule.ms + 1 end
    return true
  end

  -- Waiting ---------------------------------------------------------------------------------------------

  -- Places in line by priority, then by age; a task that comes again has the place that it had.
  local function line_up(id, record, bucket, now)
    on(line_key(bucket), 'ZADD', whole((9 - (band(record) or 5)) * 1e14 + (created(record) or now)), id)
    on(KEY.limited, 'ZADD', 0, bucket)
  end

  local function leave_line(id, bucket)
    on(line_key(bucket), 'ZREM', id)
    if redis.call('EXISTS', line_key(bucket)) == 0 then on(KEY.limited, 'ZREM', bucket) end
  end

  -- When a waiting task looks by itself: within `ms`, and as soon as it may have expired, which one that had started cannot.
  local function own_look(record, ms, now) return math.min(now + ms, record.b and now + ms or number(record.z, now + ms)) end

  local function remind(id, due)
    redis.pcall('ZADD', KEY.blocked, whole(due), id)
    if not earliest or due < earliest then earliest = due end
  end

  -- The first bucket in which a task lacks room, `first` before the others; and when time alone makes some.
  local function lacks(record, first, now)
    if first then
      local has, at = has_room(first, false, now)
      if not has then return first, at end
    end
    for bucket in buckets_of(record) do
      if bucket ~= first and not has_room(bucket, false, now) then return bucket end
    end
  end

  local function call(id, record)
    for bucket in buckets_of(record) do
      on(slots_key(bucket), 'ZADD', 0, id .. ' -')
      add(states[bucket], 1, 1)
    end
    redis.call('ZREM', KEY.blocked, id)
    push(id, band(record), 'c', '+ ' .. plain(record))
  end

  -- Call those in a bucket's line for which there is room, the first ones first. If only time makes room, the next in line
  -- looks again exactly then.
  local function tend(bucket, now)
    tended[bucket], queued[bucket] = true, true
    for _ = 1, math.min(MOST_CALLED, looks_left) do
      looks_left = looks_left - 1
      local id = on(line_key(bucket), 'ZRANGE', 0, 0)[1]
      if not id then
        queued[bucket] = nil
        return
      end
      local record = read(id)
      if waits_for(record) ~= bucket then leave_line(id, bucket)
      else
        local lacking, at = lacks(record, bucket, now)
        if lacking == bucket and at then return remind(id, math.min(at, own_look(record, HEAD_MS, now))) end
        if lacking == bucket or (not lacking and damaged(STREAM .. (band(record) or 5), 'stream')) then
          redis.pcall('ZADD', KEY.blocked, whole(own_look(record, HEAD_MS, now)), id)
          return
        end
        leave_line(id, bucket)
        if lacking then
          line_up(id, record, lacking, now)
          set(id, 'm', 'limit:' .. lacking)
          touch(lacking)
        else call(id, record) end
      end
    end
    local id = on(line_key(bucket), 'ZRANGE', 0, 0)[1]
    if id then remind(id, now) else queued[bucket] = nil end
  end

  -- What scripts do --------------------------------------------------------------------------------------

  -- A task leaves the state that its record says: its slots are free, or it waits no longer.
  function limits.leave(id, record)
    local slot = record.s == 'R' and id .. ' ' .. (record.k or '-') or is_called(record) and id .. ' -'
    local waits = waits_for(record)
    for bucket in buckets_of(record) do
      if slot then
        given_up[bucket] = given_up[bucket] or {}
        table.insert(given_up[bucket], slot)
      end
      if waits == bucket then leave_line(id, bucket) end
      touch(bucket)
      states[bucket] = nil
    end
    if record.s == 'R' and string.sub(record.c, -1) == '*' then
      given_up['*'] = given_up['*'] or {}
      table.insert(given_up['*'], slot)
    end
    record.c = nil
  end

  -- The bucket that keeps a task from starting now; nil if none does. Those who wait come before one that has just come.
  function limits.obstacle(id, record, now)
    local called = is_called(record)
    for bucket in buckets_of(record) do
      local has_slot = called and on(slots_key(bucket), 'ZSCORE', id .. ' -') and true or false
      if not has_slot and not tended[bucket] then tend(bucket, now) end
      if (not has_slot and queued[bucket]) or not has_room(bucket, has_slot, now) then return bucket end
    end
  end

  -- Let a task wait in line: QUEUED → BLOCKED. That it waits is no fault of its type, and no reason to die of.
  function limits.hold_back(id, record, bucket, now)
    if is_called(record) then
      local words = plain(record)
      limits.leave(id, record)
      record.c = words
    end
    line_up(id, record, bucket, now)
    park(id, KEY.blocked, 'B', own_look(record, FAR_MS, now), 'm', 'limit:' .. bucket, 'c', record.c)
    if record.B then redis.call('HDEL', TASK .. id, 'B', 'N') end
    touch(bucket)
    queued[bucket] = true
  end

  local function take_slot(bucket, slot, now)
    taken[bucket] = taken[bucket] or {}
    local list, state = taken[bucket], state_of(bucket, now)
    list[#list + 1], list[#list + 2] = 1, slot
    add(state, 1, 0)
    if state.rule and state.rule.count then
      starts[bucket] = starts[bucket] or {}
      table.insert(starts[bucket], whole(now))
    end
  end

  -- A task starts under `token`: it takes a slot in each of its buckets, and in its queue's if that `is_counted`.
  function limits.start(id, record, token, is_counted, now)
    local slot, words = id .. ' ' .. token, plain(record)
    for bucket in buckets_of(record) do
      local state = is_called(record) and state_of(bucket, now)
      if state and on(slots_key(bucket), 'ZREM', id .. ' -') == 1 then
        add(state, -1, -1)
      end
      take_slot(bucket, slot, now)
      if starts[bucket] then touch(bucket) end
    end
    if is_counted then
      take_slot('*', slot, now)
      words = words == '' and '*' or words .. ' *'
    end
    if words ~= record.c then set(id, 'c', words) end
  end

  -- How many more tasks of the whole queue may start, up to `most`; if fewer, also the ms when time alone makes room.
  function limits.queue_room(most, now)
    local state = state_of('*', now)
    local rule, at = state.rule, nil
    if not rule then return most end
    if rule.max then
      -- Now and then, should all be taken, whether all who hold a slot are there.
      if state.held >= rule.max and redis.call('EXISTS', line_key('*')) == 0 then free_stale('*', state) end
      most = math.max(0, math.min(most, rule.max - state.held))
    end
    if rule.count and most > 0 then
      local started = starts['*'] and #starts['*'] or 0
      local last = rule.count - 1 - started
      local times = last < 0 and {} or on(starts_key('*'), 'LRANGE', math.max(0, last - most + 1), last)
      local room = math.max(0, math.min(most, last + 1) - #times)
      for i = #times, 1, -1 do
        if number(times[i]) + rule.ms >= now then
          at = number(times[i]) + rule.ms + 1
          break
        end
        room = room + 1
      end
      if last < 0 then at = now + rule.ms + 1 end
      most = math.min(most, room)
    end
    return most, at
  end

  -- The answer to a claim that was turned away, in whole or in part. Of all who are, one comes again when time makes room, and
  -- one is woken by the next slot that comes free.
  function limits.turn_away(now)
    local _, at = limits.queue_room(1, now)
    local comes = number(text(line_key('*')))
    if at and comes > now and comes <= at then return 'LIMITED' end
    redis.call('SET', line_key('*'), whole(at or 0), 'PX', HEAD_MS)
    return at and 'LIMITED ' .. whole(at - now) or 'LIMITED'
  end

  -- A waiting task's look: at the line it stands in, and whether all who hold a slot there are really there.
  function limits.look_again(id, record, now)
    local bucket = waits_for(record)
    local belongs = false
    for each in buckets_of(record) do belongs = belongs or each == bucket end
    if not belongs then return false end
    redis.call('ZADD', KEY.blocked, whole(own_look(record, FAR_MS, now)), id)
    line_up(id, record, bucket, now)
    touch(bucket)
    suspects[bucket] = true
    return true
  end

  -- A task that waits got another priority.
  function limits.reorder(id, record, now)
    local bucket = waits_for(record)
    if not bucket then return end
    line_up(id, record, bucket, now)
    touch(bucket)
  end

  -- What runs already counts against a queue's own limit that is new.
  local function count_running()
    for priority = 0, 9 do
      local stream = STREAM .. priority
      local pending = redis.pcall('XPENDING', stream, 'workers', '-', '+', 1000)
      for _, item in ipairs(pending.err and {} or pending) do
        local found = redis.call('XRANGE', stream, item[1], item[1])[1]
        local id = found and found[2][2]
        local record = id and read(id) or {}
        if runs(record) and record.e == item[1] and record.k and string.sub(record.c or '', -1) ~= '*' then
          on(slots_key('*'), 'ZADD', 1, id .. ' ' .. record.k)
          set(id, 'c', record.c and record.c .. ' *' or '*')
        end
      end
    end
  end

  -- For sweep: a running task has its slots, and one that waits its place in line. What was missing, if anything.
  function limits.mend(id, record, now)
    local missing
    local waits = waits_for(record)
    for bucket in buckets_of(record) do
      if runs(record) and not on(slots_key(bucket), 'ZSCORE', id .. ' ' .. (record.k or '-')) then
        on(slots_key(bucket), 'ZADD', 1, id .. ' ' .. (record.k or '-'))
        missing = 'slot'
      elseif waits == bucket then
        if not on(line_key(bucket), 'ZSCORE', id) then
          line_up(id, record, bucket, now)
          missing = 'line'
        end
        touch(bucket)
      end
    end
    return missing
  end

  -- For sweep: what stands in a bucket for no task goes. Whether that was so.
  function limits.drop_slot(bucket, member)
    local id, token = string.match(member, '^(%S+) (%S+)$')
    if (id and holds(read(id), token)) or on(slots_key(bucket), 'ZREM', member) == 0 then return false end
    touch(bucket)
    return true
  end
  function limits.drop_place(bucket, id)
    if waits_for(read(id)) == bucket or not on(line_key(bucket), 'ZSCORE', id) then return false end
    leave_line(id, bucket)
    touch(bucket)
    return true
  end

  -- Whether the queue has a limit of its own.
  function limits.has_own() return rule_of('*') and true or false end

  -- The numbers of a limit have changed: whoever waits for it may go on.
  function limits.changed(name, now)
    rules[name], states = nil, {}
    if name == '*' then
      if limits.has_own() then count_running() end
      redis.call('DEL', line_key('*'))
      wake = true
      return
    end
    touch(name)
    local lines = on(KEY.limited, 'ZRANGEBYLEX', '[' .. name .. '/', '(' .. name .. '0', 'LIMIT', 0, MOST_LINES)
    for _, bucket in ipairs(lines) do touch(bucket) end
  end

  -- At the end of a script: write the slots, then call who may go on. Not `calls`: whoever is next looks a moment later.
  function limits.flush(now, calls)
    for bucket in pairs(given_up) do
      flush_bucket(bucket)
      if bucket == '*' and rule_of('*') and rule_of('*').max and redis.call('DEL', line_key('*')) == 1 then wake = true end
    end
    for bucket in pairs(taken) do flush_bucket(bucket) end
    for bucket, times in pairs(starts) do
      local rule = rule_of(bucket)
      on(starts_key(bucket), 'LPUSH', unpack(times))
      redis.call('LTRIM', starts_key(bucket), 0, rule.count - 1)
      redis.call('PEXPIRE', starts_key(bucket), whole(rule.ms + 60000))
    end
    starts = {}
    if touched[1] and damaged(KEY.blocked, 'zset') then return end
    local at = 1
    while touched[at] do
      local bucket = touched[at]
      at, is_touched[bucket] = at + 1, nil
      if calls then tend(bucket, now)
      else
        local id = on(line_key(bucket), 'ZRANGE', 0, 0)[1]
        if id then remind(id, now) end
      end
    end
    touched = {}
  end

  limits.in_use = true
end
