-- The places of a quota: their holders, and how many more there are.
--
-- A rate counts functions that begin. The window has the latest time at which each may have begun: a caller that requests places
-- to begin with them states the time within which it does, and requests the places again with which it is late. Other places are
-- reserved: no function begins with them before another request. They count as well, and do not leave the window, so that a
-- repeated request for a reserved place succeeds.

-- Maximum number of values that are read with one command.
local MAX_AT_A_TIME = 1000

-- Maximum number of places that one call grants.
quota_places.MAX_GRANTS = 256

-- Time (ms) for which the guard of the contract records, without a window, that an execution was admitted. A place that is
-- neither used nor given back counts for the rate for no longer.
local KEPT_MS = 86400000

function quota_places.next_grant(q) return number.text(redis.call('HINCRBY', q.record, 'grants', 1)) end

-- Returns how many places are taken, read once in a call.
function quota_places.running(q)
  q.running = q.running or tonumber(redis.call('GET', q.concurrency) or nil) or 0
  return q.running
end

-- Counts the places that a call gives back and grants; write_count writes the sum.
function quota_places.count(q, change)
  q.stored_running = q.stored_running or quota_places.running(q)
  q.running = math.max(0, quota_places.running(q) + change)
end

function quota_places.write_count(q)
  if q.stored_running and q.stored_running ~= q.running then
    redis.call('SET', q.concurrency, number.text(q.running))
    q.stored_running = q.running
  end
end

-- Reads the existing places that a call concerns, before it changes any.
function quota_places.read(q, ...)
  local ids = {}
  q.places, q.released, q.refunded, q.joining, q.at_once, q.renewing = {}, {}, {}, {}, {}, {}
  for _, list in ipairs({ ... }) do
    for _, entry in ipairs(list) do
      if q.places[entry.execution] == nil then
        q.places[entry.execution] = false
        ids[#ids + 1] = entry.execution
      end
    end
  end
  for from = 1, #ids, MAX_AT_A_TIME do
    local to = math.min(from + MAX_AT_A_TIME - 1, #ids)
    for i, place in ipairs(redis.call('HMGET', q.holders, unpack(ids, from, to))) do q.places[ids[from + i - 1]] = place end
  end
end

-- Gives the place of an execution back, when it is held under this very token. `refund`: it was not used, so it does not count
-- for the rate; nor does one that is still reserved. `answer` is the number of the reply in which it was given, or 0.
-- quota_places.write_released writes the change.
function quota_places.release(q, execution_id, token, refund, answer, needs)
  local held, _, given, reserved = quota_queue.split(q.places[execution_id] or '')
  if held ~= token then
    redis.call('ZREM', q.waiting, quota_queue.member_of(execution_id, token, needs))
    return
  end
  if answer ~= '0' and answer ~= given then return end
  q.places[execution_id] = false
  q.released[#q.released + 1] = execution_id
  if refund or is_set(reserved) then q.refunded[#q.refunded + 1] = execution_id .. ' ' .. token end
end

-- Writes which executions gave a place back.
function quota_places.write_released(c, q)
  if #q.released > 0 then
    local guards = {}
    for i, execution_id in ipairs(q.released) do guards[i] = key.quota_admitted(c, q.id, execution_id) end
    call.chunked('HDEL', q.holders, q.released)
    call.chunked('DEL', guards[1], guards)
    call.chunked('SREM', q.admitted_set, q.released)
    call.chunked('ZREM', q.window, q.refunded)
    quota_places.count(q, -#q.released)
    q.released, q.refunded, q.in_window, q.given_back = {}, {}, nil, (q.given_back or 0) + #q.released
  end
end

-- Returns how many starts count in a window of another length.
function quota_places.counted(c, q, other)
  return redis.call('ZCOUNT', q.window, '(' .. number.text(c.now - other.window), '+inf')
end

-- Returns how many starts count in the window, read once in a call.
function quota_places.in_window(c, q, l)
  if not q.in_window then
    redis.call('ZREMRANGEBYSCORE', q.window, '-inf', c.now - l.longest)
    q.in_window = l.longest > l.window and quota_places.counted(c, q, l) or redis.call('ZCARD', q.window)
  end
  return q.in_window
end

-- Returns how many more may be admitted now, and when the next place of a full window is free (ms).
function quota_places.room(c, q, l)
  local free, at = quota_places.MAX_GRANTS, nil
  if l.cap > 0 then free = math.min(free, l.cap - quota_places.running(q)) end
  if l.rate > 0 then
    local left = l.rate - quota_places.in_window(c, q, l)
    if left <= 0 then
      -- When the limit was lowered, more than one entry has to leave the window.
      local oldest = redis.call('ZRANGE', q.window, 0 - left, 0 - left, 'WITHSCORES')
      at = (tonumber(oldest[2] or nil) or c.now) + l.window
      if l.longest > l.window then at = nil end -- it is checked again soon
    end
    free = math.min(free, left)
    for _, other in ipairs(l.others) do free = math.min(free, other.rate - quota_places.counted(c, q, other)) end
  end
  return math.max(0, free), at
end

-- Returns how many places there are before the limit comes near, which is when half of it is used.
function quota_places.spare(c, q, l)
  local places = quota_places.MAX_GRANTS
  if l.cap > 0 then places = math.min(places, math.floor(l.cap / 2) - quota_places.running(q)) end
  if l.rate > 0 then
    places = math.min(places, math.floor(l.rate / 2) - quota_places.in_window(c, q, l))
    for _, other in ipairs(l.others) do
      places = math.min(places, math.floor(other.rate / 2) - quota_places.counted(c, q, other))
    end
  end
  return math.max(0, places)
end

-- Counts those that got a place from a time on (`entries` are for ZADD), unless they keep it (`renewed`). Returns how many count
-- more. A start under the same token whose place was given back continues to count, under a separate name: this place may be
-- given back unused.
local function count_places(q, list, entries, given, renewed)
  if renewed then return redis.call('ZADD', q.window, unpack(entries)) end
  local added = redis.call('ZADD', q.window, 'NX', unpack(entries))
  local earlier, counts_at, same = #list - added, entries[1], {}
  for i = 1, earlier > 0 and #list or 0 do
    local member = list[i][3]
    local score = tonumber(redis.call('ZSCORE', q.window, member))
    if score == counts_at then
      same[#same + 1] = member
    else
      redis.call('ZADD', q.window, counts_at, member, score, member .. ' ' .. given)
      earlier = earlier - 1
    end
  end
  -- Executions whose earlier start counts from the same millisecond cannot be distinguished from the others, but their number is
  -- known.
  for i = 1, earlier do redis.call('ZADD', q.window, counts_at, same[i] .. ' ' .. given) end
  return #list
end

-- Writes which executions got a place. `begins`: they begin with it in time; otherwise it is reserved.
local function write_places(c, q, l, list, begins, renewed)
  local places, entries, ids = {}, {}, {}
  local given = quota_places.next_grant(q)
  local counts_at, mark = c.now + (begins and q.within or KEPT_MS), l.rate > 0 and not begins and ' r' or ''
  for _, entry in ipairs(list) do
    entry.grant = given
    places[#places + 1] = entry[1]
    places[#places + 1] = entry[2] .. ' ' .. c.now_text .. ' ' .. given .. mark
    entries[#entries + 1] = counts_at
    entries[#entries + 1] = entry[3]
    ids[#ids + 1] = entry[1]
    redis.call('SET', key.quota_admitted(c, q.id, entry[1]), '1', 'PX', math.max(l.window, KEPT_MS))
  end
  local added = redis.call('HSET', q.holders, unpack(places))
  if l.rate > 0 then
    q.in_window = quota_places.in_window(c, q, l) + count_places(q, list, entries, given, renewed)
    if l.longest > l.window then q.in_window = nil end
  end
  redis.call('SADD', q.admitted_set, unpack(ids))
  quota_places.count(q, added)
end

function quota_places.hand_out(c, q, l, list, out, begins, renewed)
  if #list == 0 then return end
  begins = begins and q.within ~= nil and l.rate > 0
  write_places(c, q, l, list, begins, renewed)
  for _, entry in ipairs(list) do out[#out + 1] = { entry[1], entry[2], entry.grant, begins and '1' or '0' } end
end
