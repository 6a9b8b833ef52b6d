-- Quotas, in their own partition: which executions hold a permit, which wait for one, and in which order. The keys of
-- the contract (window, counter, guards, admitted set) are kept up to date, so its functions see the same quota.

-- So many values go with one command: pairs are not torn.
local MAX_AT_A_TIME = 1000

-- One call grants at most so many places.
quota_permits.MAX_GRANTS = 256

-- For this time (ms) the guard of the contract says that an execution has been admitted, without a window; and for no
-- longer does a place count for the rate that nobody begins with or gives back.
local KEPT_MS = 86400000

-- Holders are verified this often (ms): while others wait, and else.
quota_permits.VERIFY_SOON_MS, quota_permits.VERIFY_LATER_MS = 1000, 15000

-- What a caller had no use for is granted by the keeper after this time (ms).
local LEFT_OVER_MS = 20

-- For this time (ms) after another limit refused an execution, the queue skips executions that need that limit too.
local SKIP_MS = 200

-- Executions at the head of a queue that one call looks at while it has to skip some.
local MAX_LOOKED_AT = 1000

local DEFINITION_FIELDS = {
  'quota_policy_id', 'requests_per_window_seconds', 'max_requests_per_window', 'active_concurrency_cap', 'pinned',
  'skipped', 'other_windows', 'was_pinned',
}

function quota_permits.keys_of(c, id)
  return {
    id = id, record = key.quota_record(c, id), window = key.quota_window(c, id), holders = key.quota_holders(c, id),
    concurrency = key.quota_concurrency(c, id), admitted_set = key.quota_admitted_set(c, id),
    waiting = key.quota_waiting(c, id), blocks = key.quota_blocks(c, id), due = key.quota_due(c),
    skipped = {}, skipped_text = '', ready = {}, ready_count = 0, ready_needs = {},
  }
end

function quota_permits.limits_from(stored)
  return {
    window = math.floor((number.finite(stored.requests_per_window_seconds) or 0) * 1000),
    rate = number.finite(stored.max_requests_per_window) or 0,
    cap = number.finite(stored.active_concurrency_cap) or 0,
  }
end

-- Programs may declare windows of different lengths for a quota. All of them hold, each with the number of the latest
-- request with that length. `other_windows` has those that the latest request of all did not have, as
-- "<rate> <window> <until>\n" each: until (ms) a time of its length has passed without a request. Adds them to limits.
function quota_permits.with_others(c, l, text)
  l.others, l.longest = {}, l.window
  for rate, window, till in string.gmatch(text or '', '(%d+) (%d+) (%d+)\n') do
    local other = { rate = tonumber(rate), window = tonumber(window), till = till }
    if tonumber(till) > c.now and other.window ~= l.window then
      if l.rate == 0 then l.rate, l.window = other.rate, other.window else l.others[#l.others + 1] = other end
      l.longest = math.max(l.longest, other.window)
    end
  end
  return l
end

-- The field for a request that brings other limits than those that are stored.
function quota_permits.other_windows(c, stored, n)
  if not (stored and stored.quota_policy_id) or stored.was_pinned or n.pin then return '' end
  local before = quota_permits.limits_from(stored)
  local list = {}
  if before.rate > 0 and before.window ~= n.window_ms then
    list[1] = number.text(before.rate) .. ' ' .. number.text(before.window) .. ' ' .. number.text(c.now + before.window)
      .. '\n'
  end
  for rate, window, till in string.gmatch(stored.other_windows or '', '(%d+) (%d+) (%d+)\n') do
    window = tonumber(window)
    if tonumber(till) > c.now and window ~= n.window_ms and window ~= before.window then
      list[#list + 1] = rate .. ' ' .. number.text(window) .. ' ' .. till .. '\n'
    end
  end
  return table.concat(list)
end

-- Executions with several limits wait at the one that refused them, and return the permits of the others. If such a
-- returned permit went to the next execution that needs the refusing limit as well, that limit would refuse it too, and
-- so on down the queue. The field `skipped` holds the limits that refused executions of this quota lately, as
-- "<quota> <until>\n" each: until then (ms), the queue skips executions that need them. An execution that holds the
-- permit of such a limit ends the skipping, since the limit has room again.
function quota_permits.read_skipped(c, q, text)
  q.skipped, q.skipped_text = {}, text or ''
  for id, till in string.gmatch(q.skipped_text, '(%S+) (%d+)\n') do
    if tonumber(till) > c.now then q.skipped[id] = tonumber(till) end
  end
end

-- Begins to skip the limits in `full`, separated by commas, which have refused executions of this call.
local function skip_full(c, q, full)
  for id in string.gmatch(full or '', '[^,]+') do q.skipped[id] = c.now + SKIP_MS end
end

-- Ends the skipping of the limits whose permits executions of this call hold, except of those in `full`.
local function end_skipping(q, full)
  local refusing = ',' .. (full or '') .. ','
  for id in pairs(q.ready_needs) do
    if not string.find(refusing, ',' .. id .. ',', 1, true) then
      q.skipped[id] = nil
      q.all_skipped = false
    end
  end
end

local function write_skipped(q)
  local list = {}
  for id, till in pairs(q.skipped) do list[#list + 1] = id .. ' ' .. number.text(till) .. '\n' end
  table.sort(list)
  local text = table.concat(list)
  if text == q.skipped_text then return end
  if text == '' then redis.call('HDEL', q.record, 'skipped') else redis.call('HSET', q.record, 'skipped', text) end
end

-- Writes the limits that a caller brings, unless an operator has set others. Gives those that count.
function quota_permits.define(c, q, A, n)
  local stored = record.read(q.record, DEFINITION_FIELDS)
  quota_permits.read_skipped(c, q, stored and stored.skipped)
  local seconds = string.format('%.3f', n.window_ms / 1000)
  if stored and stored.quota_policy_id and (stored.pinned and not n.pin
    or stored.requests_per_window_seconds == seconds and stored.max_requests_per_window == A.rate
    and stored.active_concurrency_cap == A.cap) then
    if stored.was_pinned and not stored.pinned then redis.call('HDEL', q.record, 'was_pinned') end
    return quota_permits.with_others(c, quota_permits.limits_from(stored), stored.other_windows)
  end
  local others = quota_permits.other_windows(c, stored, n)
  if not (stored and stored.quota_policy_id) then
    redis.call('HSET', q.record, 'quota_policy_id', q.id, 'created_at', c.now_text)
    redis.call('SET', q.concurrency, '0')
    redis.call('SADD', key.index_quota_policies(c), q.id)
  end
  redis.call('HSET', q.record, 'requests_per_window_seconds', seconds, 'max_requests_per_window', A.rate,
    'active_concurrency_cap', A.cap, 'name', A.name or '', 'key', A.key or '', 'other_windows', others)
  if stored and stored.was_pinned then redis.call('HDEL', q.record, 'was_pinned') end
  return quota_permits.with_others(c, { window = n.window_ms, rate = n.rate, cap = n.cap }, others)
end

-- A member of the queue is `execution token needs`, where `needs` are the other limits of the execution, separated by
-- commas, and is left out when there are none. A place is `token since grant`, and ` r` when it is reserved. The grant
-- numbers the answers by which a place was given: who gives one back that it does not need names its own, so it cannot take
-- the place from somebody who was given the same one later.
--
-- A rate counts functions that begin. The window has the latest time at which each may have begun: a caller that asks for
-- places to begin with them says within which time it will, and asks again for those with which it is late. Other places are
-- reserved: nobody begins with them before asking again. They count as well, and do not leave the window, so that one
-- who asks again for a reserved place gets it.
function quota_permits.split(text) return string.match(text, '^(%S+) (%S+) ?(%S*) ?(%S*)$') end

local function member_of(execution_id, token, needs)
  return execution_id .. ' ' .. token .. (is_set(needs) and ' ' .. needs or '')
end

local function next_grant(q) return number.text(redis.call('HINCRBY', q.record, 'grants', 1)) end

-- How many places are taken, read once in a call.
function quota_permits.running(q)
  q.running = q.running or tonumber(redis.call('GET', q.concurrency) or nil) or 0
  return q.running
end

-- What a call gives back and hands out is counted together, by write_count.
function quota_permits.count(q, change)
  q.stored_running = q.stored_running or quota_permits.running(q)
  q.running = math.max(0, quota_permits.running(q) + change)
end

function quota_permits.write_count(q)
  if q.stored_running and q.stored_running ~= q.running then
    redis.call('SET', q.concurrency, number.text(q.running))
    q.stored_running = q.running
  end
end

-- Reads the places that a call is about, as far as there are such, before it changes any.
local function read_places(q, ...)
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

-- Gives the place of an execution back, when it is held under this very token. `refund`: it was not used, so it does
-- not count for the rate; nor does one that is still reserved. `answer` is the number of the one by which it was given, or 0. It is written down by write_requests.
local function release(q, execution_id, token, refund, answer, needs)
  local held, _, given, reserved = quota_permits.split(q.places[execution_id] or '')
  if held ~= token then
    redis.call('ZREM', q.waiting, member_of(execution_id, token, needs))
    return
  end
  if answer ~= '0' and answer ~= given then return end
  q.places[execution_id] = false
  q.released[#q.released + 1] = execution_id
  if refund or is_set(reserved) then q.refunded[#q.refunded + 1] = execution_id .. ' ' .. token end
end

-- Writes down who gave a place back.
function quota_permits.write_released(c, q)
  if #q.released > 0 then
    local guards = {}
    for i, execution_id in ipairs(q.released) do guards[i] = key.quota_admitted(c, q.id, execution_id) end
    call.chunked('HDEL', q.holders, q.released)
    call.chunked('DEL', guards[1], guards)
    call.chunked('SREM', q.admitted_set, q.released)
    call.chunked('ZREM', q.window, q.refunded)
    quota_permits.count(q, -#q.released)
    q.released, q.refunded, q.in_window, q.given_back = {}, {}, nil, (q.given_back or 0) + #q.released
  end
end

-- Writes down who waits for a place.
local function write_joining(q)
  for from = 1, #q.joining, MAX_AT_A_TIME do
    redis.call('ZADD', q.waiting, unpack(q.joining, from, math.min(from + MAX_AT_A_TIME - 1, #q.joining)))
  end
end

-- How many starts count in a window of another length.
function quota_permits.counted(c, q, other)
  return redis.call('ZCOUNT', q.window, '(' .. number.text(c.now - other.window), '+inf')
end

-- How many starts count in the window, read once in a call.
local function in_window(c, q, l)
  if not q.in_window then
    redis.call('ZREMRANGEBYSCORE', q.window, '-inf', c.now - l.longest)
    q.in_window = l.longest > l.window and quota_permits.counted(c, q, l) or redis.call('ZCARD', q.window)
  end
  return q.in_window
end

-- How many more may be admitted now, and when the next place of a full window is free (ms).
function quota_permits.room(c, q, l)
  local free, at = quota_permits.MAX_GRANTS, nil
  if l.cap > 0 then free = math.min(free, l.cap - quota_permits.running(q)) end
  if l.rate > 0 then
    local left = l.rate - in_window(c, q, l)
    if left <= 0 then
      -- When the limit was lowered, more than one entry has to leave the window.
      local oldest = redis.call('ZRANGE', q.window, 0 - left, 0 - left, 'WITHSCORES')
      at = (tonumber(oldest[2] or nil) or c.now) + l.window
      if l.longest > l.window then at = nil end -- it is looked at again soon
    end
    free = math.min(free, left)
    for _, other in ipairs(l.others) do free = math.min(free, other.rate - quota_permits.counted(c, q, other)) end
  end
  return math.max(0, free), at
end

-- How many places there are before the limit comes near, which is when half of it is used.
function quota_permits.spare(c, q, l)
  local places = quota_permits.MAX_GRANTS
  if l.cap > 0 then places = math.min(places, math.floor(l.cap / 2) - quota_permits.running(q)) end
  if l.rate > 0 then
    places = math.min(places, math.floor(l.rate / 2) - in_window(c, q, l))
    for _, other in ipairs(l.others) do
      places = math.min(places, math.floor(other.rate / 2) - quota_permits.counted(c, q, other))
    end
  end
  return math.max(0, places)
end

-- What a caller may get for others than itself: a place for each that it gives back, so that none waits for a keeper, and
-- more only while the limit is far away, since those others have to be told first.
local function beyond(c, q, l, want) return math.max(want, quota_permits.spare(c, q, l)) end

-- Whether the queue skips an execution that needs these limits too: one of them has refused, or its permits are with
-- executions of this call.
local function is_skipped(q, needs)
  for id in string.gmatch(needs, '[^,]+') do
    if q.skipped[id] or q.ready_needs[id] then return true end
  end
  return false
end

-- Removes the first `n` members that are not to be skipped from the queue. Gives them, and whether there are no more.
local function pop_unskipped(q, n)
  local taken, skipped = {}, 0
  local first = redis.call('ZRANGE', q.waiting, 0, MAX_LOOKED_AT - 1)
  for _, member in ipairs(first) do
    if #taken == n then break end
    local _, _, needs = quota_permits.split(member)
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

-- Takes the first `n` from the queue. Those whose execution holds a place under the same or a later token are dropped:
-- they are from before that lease.
local function next_in_queue(q, n)
  local first, last
  if next(q.skipped) or q.ready_count > 0 then
    first, last = pop_unskipped(q, n)
  else
    first, last = pop_first(q, n)
  end
  local list, ids = {}, {}
  for _, member in ipairs(first) do
    local execution_id, token = quota_permits.split(member)
    ids[#ids + 1] = execution_id
    list[#list + 1] = { execution_id, token, execution_id .. ' ' .. token }
  end
  if #ids == 0 then return list, true end
  local latest = {}
  for i, place in ipairs(redis.call('HMGET', q.holders, unpack(ids))) do
    if place then latest[ids[i]] = tonumber((quota_permits.split(place))) end
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

-- Counts those that got a place from a time on (`entries` are for ZADD), unless they keep it (`renewed`). Gives how many count more.
-- A start under the same token whose place was given back counts on, under a name of its own: this place may be given back unused.
function quota_permits.count_places(q, list, entries, given, renewed)
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
  -- Those whose earlier start counts from the same millisecond cannot be told from the others, but how many they are is known.
  for i = 1, earlier do redis.call('ZADD', q.window, counts_at, same[i] .. ' ' .. given) end
  return #list
end

-- Writes down who got a place. `begins`: they begin with it in time; else it is reserved.
local function write_places(c, q, l, list, begins, renewed)
  local places, entries, ids = {}, {}, {}
  local given = next_grant(q)
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
    q.in_window = in_window(c, q, l) + quota_permits.count_places(q, list, entries, given, renewed)
    if l.longest > l.window then q.in_window = nil end
  end
  redis.call('SADD', q.admitted_set, unpack(ids))
  quota_permits.count(q, added)
end

local function hand_out(c, q, l, list, out, begins, renewed)
  if #list == 0 then return end
  begins = begins and q.within ~= nil and l.rate > 0
  write_places(c, q, l, list, begins, renewed)
  for _, entry in ipairs(list) do out[#out + 1] = { entry[1], entry[2], entry.grant, begins and '1' or '0' } end
end

-- Gives the places that are free to the first who wait, at most `most`. Adds them to `out`. The caller begins with the
-- first `begin` of them.
function quota_permits.grant(c, q, l, most, out, begin)
  local free, at = quota_permits.room(c, q, l)
  begin = begin or 0
  while free > 0 and most > 0 do
    local list, last = next_in_queue(q, math.min(free, most, begin > 0 and begin or most))
    hand_out(c, q, l, list, out, begin > 0)
    most, begin = most - #list, begin - #list
    free, at = quota_permits.room(c, q, l)
    if last then
      q.waits = q.all_skipped or false
      break
    end
  end
  return free, at
end

-- Whether somebody waits, after the last change of the queue in a call.
function quota_permits.waits(q)
  if q.waits == nil then q.waits = redis.call('ZCARD', q.waiting) > 0 end
  return q.waits
end

-- Gives what is left over to those who do not wait, once nobody waits. The others of them go away empty-handed.
local function grant_at_once(c, q, l, free, at, out)
  if #q.at_once == 0 or free <= 0 or quota_permits.waits(q) then return free, at end
  local list = {}
  for i = 1, math.min(free, #q.at_once) do list[i] = q.at_once[i] end
  hand_out(c, q, l, list, out, true)
  return quota_permits.room(c, q, l)
end

-- Notes when the quota has to be looked at next. `at`: when the window has room; `free`: places that are left over.
function quota_permits.schedule(c, q, l, free, at, now_due)
  local waiting = quota_permits.waits(q)
  local next_at
  if waiting and free > 0 and q.all_skipped then
    next_at = c.now + SKIP_MS
  elseif waiting and free > 0 then
    next_at = c.now + LEFT_OVER_MS
  elseif waiting then
    next_at = math.min(at or c.now + quota_permits.VERIFY_SOON_MS, c.now + quota_permits.VERIFY_SOON_MS)
  elseif quota_permits.running(q) > 0 or redis.call('EXISTS', q.holders, q.window, q.blocks) > 0 then
    next_at = c.now + quota_permits.VERIFY_LATER_MS
  end
  local before = not now_due and tonumber(redis.call('ZSCORE', q.due, q.id) or nil)
  if not next_at then
    if now_due then redis.call('ZREM', q.due, q.id) end
  elseif not before or next_at < before then
    redis.call('ZADD', q.due, next_at, q.id)
    if not now_due then wake.tell_keepers(c, 'q', next_at) end
  end
  return next_at ~= nil, waiting
end

-- The numbers of a call that brings limits, converted. `further` are other counts of the call.
function quota_permits.check_limits(A, further)
  local counts = { { 'rate', 0 }, { 'window_ms', 0 }, { 'cap', 0 } }
  for _, count in ipairs(further) do counts[#counts + 1] = count end
  local n, err = number.counts(A, counts)
  if err then return nil, err end
  if n.rate == 0 and n.cap == 0 then return nil, reply.err('invalid_input', 'a quota needs a rate or a cap') end
  if n.rate > 0 and n.window_ms <= 0 then return nil, reply.err('invalid_input', 'a rate needs a window') end
  return n
end

-- A request stands in the queue under execution and token. One without a score does not wait.
function quota_permits.join_queue(q, entry)
  if entry.score == '' then
    q.at_once[#q.at_once + 1] = { entry.execution, entry.token, entry.execution .. ' ' .. entry.token }
    return
  end
  local member = member_of(entry.execution, entry.token, entry.needs)
  if entry.ready == '1' then
    q.ready[member] = true
    q.ready_count = q.ready_count + 1
    for id in string.gmatch(entry.needs, '[^,]+') do q.ready_needs[id] = true end
  end
  q.joining[#q.joining + 1] = entry.score
  q.joining[#q.joining + 1] = member
end

-- A request of one that holds a place already keeps it, or is renewed when its function begins now. Under another token
-- it is a new lease of the same execution, whose earlier one is over.
local function request_place(q, l, entry, out)
  local place = q.places[entry.execution]
  if place then
    local token, since, _, reserved = quota_permits.split(place)
    if token == entry.token and q.within and l.rate > 0 then
      q.renewing[#q.renewing + 1] = entry
      return
    end
    if token == entry.token then
      local given = next_grant(q)
      redis.call('HSET', q.holders, entry.execution,
        token .. ' ' .. since .. ' ' .. given .. (is_set(reserved) and ' ' .. reserved or ''))
      out[#out + 1] = { entry.execution, token, given, '0' }
      return
    end
    if (tonumber(token) or 0) > (tonumber(entry.token) or 0) then return end
    release(q, entry.execution, token, false, '0', entry.needs)
  end
  quota_permits.join_queue(q, entry)
end

-- Whether the start of one that holds a place may count from now on: in each window its place still counts, or there is
-- room. What has begun with this place before counts on, under a name of its own.
function quota_permits.may_renew(c, q, l, entry, added)
  local member = entry.execution .. ' ' .. entry.token
  local in_use = in_window(c, q, l) -- first, since it drops what has left the window
  local score = tonumber(redis.call('ZSCORE', q.window, member) or nil)
  if score and entry.again == '1' then
    local _, _, given, reserved = quota_permits.split(q.places[entry.execution])
    if not is_set(reserved) then
      redis.call('ZREM', q.window, member)
      redis.call('ZADD', q.window, score, member .. ' ' .. given)
      score = nil
    end
  end
  local fits = score and score > c.now - l.window or in_use + added < l.rate
  for _, other in ipairs(l.others) do
    fits = fits and (score and score > c.now - other.window or quota_permits.counted(c, q, other) + added < other.rate)
  end
  return fits, score and score > c.now - l.window and added or added + 1
end

-- Renews the places of those that begin now. One that cannot be renewed has lost its place, and asks like any other.
function quota_permits.renew(c, q, l, out)
  local kept, added = {}, 0
  for _, entry in ipairs(q.renewing) do
    local held = quota_permits.split(q.places[entry.execution] or '')
    local may, all = held == entry.token, added
    if may then may, all = quota_permits.may_renew(c, q, l, entry, added) end
    if may then
      kept[#kept + 1] = { entry.execution, entry.token, entry.execution .. ' ' .. entry.token }
      added = all
    else
      release(q, entry.execution, entry.token, false, '0', entry.needs)
      quota_permits.join_queue(q, entry)
    end
  end
  hand_out(c, q, l, kept, out, true, true)
  quota_permits.write_released(c, q)
end

-- @record place execution:text token:int grant:int begins:bool

-- @function ffx_exchange
-- @summary  Gives places of a quota back and asks for others. Places go to those who wait, in the order of their scores:
--           `granted` tells who got one, which may be others than those of the call. Who got none waits in the queue of
--           the quota; `contended` tells that somebody does. A request without a score does not wait: it gets a place that
--           nobody waits for, or none. `want` is how many the caller can use at once. `room` is how many more places there
--           are before the limit comes near; 0 while somebody waits. `needs` are the other quotas of an execution, and
--           `ready` tells that it holds a place of them. `full` are quotas that have refused executions which give places
--           back: for a while, these go to nobody who needs one of those too, until somebody asks who is `ready`.
--           With `begins`, the caller begins within `within_ms` of sending the call with the places that it asks for
--           without a score or again, and with `want` others: those that say `begins` in the reply. All other places of a
--           rate are asked for again before anything begins with them. `again`: something has begun with this place
--           before. `rated` tells that the quota has a rate.
-- @flags    derives repeatable
-- @key      definition         quota.record
-- @arg      quota_policy_id    quota_policy_id
-- @arg      name               text optional
-- @arg      key                text optional
-- @arg      rate               int
-- @arg      window_ms          int
-- @arg      cap                int
-- @arg      want               int
-- @arg      full               csv optional
-- @arg      begins             bool
-- @arg      within_ms          int
-- @group    releases           execution:text token:int refund:bool grant:int needs:csv
-- @group    requests           execution:text token:int score:text needs:csv ready:bool again:bool
-- @reply    OK granted:list(place) contended:bool room:int rated:bool
-- @error    invalid_input message:text
function F.ffx_exchange(K, A)
  local n, err = quota_permits.check_limits(A, { { 'want', 0 }, { 'within_ms', 0 } })
  if err then return err end
  if not A.releases or not A.requests then
    return reply.err('invalid_input', 'the counts of releases and requests do not fit the arguments')
  end
  for _, entry in ipairs(A.requests) do
    if entry.score ~= '' and not number.finite(entry.score) then return number.refuse('score', entry.score) end
  end
  local c = call.open(K.definition)
  local q = quota_permits.keys_of(c, A.quota_policy_id)
  local l = quota_permits.define(c, q, A, n)
  if A.begins == '1' then q.within = n.within_ms end
  read_places(q, A.releases, A.requests)
  skip_full(c, q, A.full)
  for _, entry in ipairs(A.releases) do
    release(q, entry.execution, entry.token, entry.refund == '1', entry.grant, entry.needs)
  end
  local out = {}
  for _, entry in ipairs(A.requests) do request_place(q, l, entry, out) end
  quota_permits.write_released(c, q)
  if #q.renewing > 0 then quota_permits.renew(c, q, l, out) end
  write_joining(q)
  local most = math.max(n.want, q.given_back or 0, q.ready_count)
  local free, at = quota_permits.grant(c, q, l, beyond(c, q, l, most), out, n.want)
  free, at = grant_at_once(c, q, l, free, at, out)
  end_skipping(q, A.full)
  write_skipped(q)
  quota_permits.write_count(q)
  local _, waiting = quota_permits.schedule(c, q, l, free, at)
  return reply.ok(out, waiting and '1' or '0', waiting and '0' or number.text(quota_permits.spare(c, q, l)),
    l.rate > 0 and '1' or '0')
end

-- @record quota_state quota_policy_id:quota_policy_id name:text key:text rate:int window_ms:int cap:int pinned:bool running:int in_window:int waiting:int next_at:unix_ms?

-- How a quota stands. `next_at` is when the window has room again, at the earliest where its places are reserved; 0 when it
-- has, or when there is none.
local function state_of(c, id)
  local q = quota_permits.keys_of(c, id)
  local stored = record.read(q.record, { 'quota_policy_id', 'requests_per_window_seconds', 'max_requests_per_window',
    'active_concurrency_cap', 'pinned', 'name', 'key' }) or {}
  local l = quota_permits.limits_from(stored)
  local begin = '(' .. number.text(c.now - l.window)
  local in_window, next_at = redis.call('ZCOUNT', q.window, begin, '+inf'), nil
  if l.rate > 0 and in_window >= l.rate then
    local oldest = redis.call('ZRANGE', q.window, begin, '+inf', 'BYSCORE', 'LIMIT', in_window - l.rate, 1, 'WITHSCORES')
    next_at = oldest[2] and math.min(tonumber(oldest[2]), c.now) + l.window
  end
  return {
    id, stored.name or '', stored.key or '', number.text(l.rate), number.text(l.window), number.text(l.cap),
    stored.pinned and '1' or '0', number.text(quota_permits.running(q)), number.text(in_window),
    number.text(redis.call('ZCARD', q.waiting)), next_at and number.text(math.floor(next_at)) or '',
  }
end

-- @function ffx_quotas
-- @summary  The quotas of a partition, in pages, with how many hold a place, were admitted in the window, and wait.
-- @flags    derives
-- @key      policies           index.quota_policies
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text quotas:list(quota_state)
function F.ffx_quotas(K, A)
  local c = call.open(K.policies)
  local page = redis.call('SSCAN', K.policies, is_set(A.cursor) and A.cursor or '0', 'COUNT', 100)
  local list = {}
  for i, id in ipairs(page[2]) do list[i] = state_of(c, id) end
  return reply.ok(page[1] == '0' and '' or page[1], list)
end

-- @function ffx_quota_state
-- @summary  One quota as ffx_quotas lists it; none when it is not there.
-- @flags    derives readonly
-- @key      definition         quota.record
-- @arg      quota_policy_id    quota_policy_id
-- @reply    OK quotas:list(quota_state)
function F.ffx_quota_state(K, A)
  local c = call.open(K.definition)
  if redis.call('EXISTS', K.definition) == 0 then return reply.ok({}) end
  return reply.ok({ state_of(c, A.quota_policy_id) })
end

-- Whether a quota has the limits that the caller of ffx_set_quota has seen.
local function has_old_limits(q, A)
  local stored = record.read(q.record, { 'quota_policy_id', 'requests_per_window_seconds', 'max_requests_per_window',
    'active_concurrency_cap', 'pinned' })
  if not stored or not stored.quota_policy_id then return false end
  local l = quota_permits.limits_from(stored)
  return l.rate == (number.finite(A.old_rate) or 0) and l.window == (number.finite(A.old_window_ms) or 0)
    and l.cap == (number.finite(A.old_cap) or 0) and (stored.pinned and '1' or '0') == (A.old_pinned or '0')
end

-- @function ffx_set_quota
-- @summary  Sets the limits of a quota, whatever flows declare, until `pin` is false again. With `compare`, a quota that is not there, or
--           whose limits are not those that begin with `old`, is left as it is.
-- @flags    derives repeatable intake
-- @key      definition         quota.record
-- @arg      quota_policy_id    quota_policy_id
-- @arg      name               text optional
-- @arg      key                text optional
-- @arg      rate               int
-- @arg      window_ms          int
-- @arg      cap                int
-- @arg      pin                bool
-- @arg      compare            bool optional
-- @arg      old_rate           int optional
-- @arg      old_window_ms      int optional
-- @arg      old_cap            int optional
-- @arg      old_pinned         bool optional
-- @reply    OK
-- @error    invalid_input message:text
-- @error    changed_meanwhile
function F.ffx_set_quota(K, A)
  local c = call.open(K.definition)
  local q = quota_permits.keys_of(c, A.quota_policy_id)
  if A.compare == '1' and not has_old_limits(q, A) then
    return reply.err('changed_meanwhile')
  end
  if A.pin ~= '1' then
    if redis.call('HDEL', q.record, 'pinned') > 0 then redis.call('HSET', q.record, 'was_pinned', '1') end
  else
    local n, err = quota_permits.check_limits(A, {})
    if err then return err end
    n.pin = true
    quota_permits.define(c, q, A, n)
    redis.call('HSET', q.record, 'pinned', '1', 'other_windows', '')
  end
  redis.call('ZADD', q.due, c.now, q.id)
  wake.tell_keepers(c, 'q', c.now)
  return reply.ok()
end
