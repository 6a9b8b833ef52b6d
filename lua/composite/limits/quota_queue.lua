-- The queue of a quota: the executions that wait for a place, their order, and which of them are passed over.

-- For this time (ms) after another limit refused an execution, the queue skips executions that need that limit too.
quota_queue.SKIP_MS = 200

-- Maximum number of executions at the head of a queue that one call reads while it has to skip some.
local MAX_LOOKED_AT = 1000

-- Executions with several limits wait at the one that refused them, and return the permits of the others. If such a
-- returned permit went to the next execution that needs the refusing limit as well, that limit would refuse it too, and
-- so on down the queue. The field `skipped` holds the limits that refused executions of this quota lately, as
-- "<quota> <until>\n" each: until then (ms), the queue skips executions that need them. An execution that holds the
-- permit of such a limit ends the skipping, since the limit has room again.
function quota_queue.read_skipped(c, q, text)
  q.skipped, q.skipped_text = {}, text or ''
  for id, till in string.gmatch(q.skipped_text, '(%S+) (%d+)\n') do
    if tonumber(till) > c.now then q.skipped[id] = tonumber(till) end
  end
end

-- Begins to skip the limits in `full`, separated by commas, which have refused executions of this call.
function quota_queue.skip_full(c, q, full)
  for id in string.gmatch(full or '', '[^,]+') do q.skipped[id] = c.now + quota_queue.SKIP_MS end
end

-- Ends the skipping of the limits whose permits executions of this call hold, except of those in `full`.
function quota_queue.end_skipping(q, full)
  local refusing = ',' .. (full or '') .. ','
  for id in pairs(q.ready_needs) do
    if not string.find(refusing, ',' .. id .. ',', 1, true) then
      q.skipped[id] = nil
      q.all_skipped = false
    end
  end
end

function quota_queue.write_skipped(q)
  local list = {}
  for id, till in pairs(q.skipped) do list[#list + 1] = id .. ' ' .. number.text(till) .. '\n' end
  table.sort(list)
  local text = table.concat(list)
  if text == q.skipped_text then return end
  if text == '' then redis.call('HDEL', q.record, 'skipped') else redis.call('HSET', q.record, 'skipped', text) end
end

-- Splits the text of a queue's member or of a place. A member is `execution token needs`, where `needs` are the other limits of
-- the execution, separated by commas, and is left out when there are none. A place is `token since grant`, and ` r` when it is
-- reserved. The grant numbers the replies in which a place was given: a caller that gives an unneeded place back names its
-- number, so it cannot take the place from an execution that got the same one later.
function quota_queue.split(text) return string.match(text, '^(%S+) (%S+) ?(%S*) ?(%S*)$') end

function quota_queue.member_of(execution_id, token, needs)
  return execution_id .. ' ' .. token .. (is_set(needs) and ' ' .. needs or '')
end

-- Writes which executions wait for a place.
function quota_queue.write_joining(q) call.chunked('ZADD', q.waiting, q.joining) end

-- Reports whether the queue skips an execution that needs these limits too: one of them has refused, or executions of this call
-- have its permits.
local function is_skipped(q, needs)
  for id in string.gmatch(needs, '[^,]+') do
    if q.skipped[id] or q.ready_needs[id] then return true end
  end
  return false
end

-- Removes the first `n` members that are not to be skipped from the queue. Returns them, and whether the queue has no others.
local function pop_unskipped(q, n)
  local taken, skipped = {}, 0
  local first = redis.call('ZRANGE', q.waiting, 0, MAX_LOOKED_AT - 1)
  for _, member in ipairs(first) do
    if #taken == n then break end
    local _, _, needs = quota_queue.split(member)
    if q.ready[member] or not is_skipped(q, needs or '') then
      taken[#taken + 1] = member
    else
      skipped = skipped + 1
    end
  end
  if #taken > 0 then call.chunked('ZREM', q.waiting, taken) end
  q.all_skipped = #taken < n and skipped > 0
  return taken, #taken < n
end

-- Removes the first `n` members from the queue.
local function pop_first(q, n)
  local first = redis.call('ZPOPMIN', q.waiting, n)
  local taken = {}
  for i = 1, #first, 2 do taken[#taken + 1] = first[i] end
  return taken, #taken < n
end

-- Takes the first `n` from the queue. Those whose execution holds a place under the same or a later token are dropped: they are
-- from before that lease.
function quota_queue.take(q, n)
  local first, last
  if next(q.skipped) or q.ready_count > 0 then
    first, last = pop_unskipped(q, n)
  else
    first, last = pop_first(q, n)
  end
  local list, ids = {}, {}
  for _, member in ipairs(first) do
    local execution_id, token = quota_queue.split(member)
    ids[#ids + 1] = execution_id
    list[#list + 1] = { execution_id, token, execution_id .. ' ' .. token }
  end
  if #ids == 0 then return list, true end
  local latest = {}
  for i, place in ipairs(redis.call('HMGET', q.holders, unpack(ids))) do
    if place then latest[ids[i]] = tonumber((quota_queue.split(place))) end
  end
  local kept = {}
  for _, entry in ipairs(list) do
    local token = tonumber(entry[2]) or 0
    if not latest[entry[1]] or latest[entry[1]] < token then
      latest[entry[1]] = token
      kept[#kept + 1] = entry
    end
  end
  return kept, last
end

-- Reports whether any execution waits, after the last change of the queue in a call.
function quota_queue.waits(q)
  if q.waits == nil then q.waits = redis.call('ZCARD', q.waiting) > 0 end
  return q.waits
end

-- Adds a request to the queue under execution and token. One without a score does not wait.
function quota_queue.join(q, entry)
  if entry.score == '' then
    q.at_once[#q.at_once + 1] = { entry.execution, entry.token, entry.execution .. ' ' .. entry.token }
    return
  end
  local member = quota_queue.member_of(entry.execution, entry.token, entry.needs)
  if entry.ready == '1' then
    q.ready[member] = true
    q.ready_count = q.ready_count + 1
    for id in string.gmatch(entry.needs, '[^,]+') do q.ready_needs[id] = true end
  end
  q.joining[#q.joining + 1] = entry.score
  q.joining[#q.joining + 1] = member
end
