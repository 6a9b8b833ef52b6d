-- The limits of quotas, which callers declare and operators set, and the states of quotas.

local DEFINITION_FIELDS = {
  'quota_policy_id', 'requests_per_window_seconds', 'max_requests_per_window', 'active_concurrency_cap', 'pinned',
  'skipped', 'other_windows', 'was_pinned',
}

function quota_limits.keys_of(c, id)
  return {
    id = id, record = key.quota_record(c, id), window = key.quota_window(c, id), holders = key.quota_holders(c, id),
    concurrency = key.quota_concurrency(c, id), admitted_set = key.quota_admitted_set(c, id),
    waiting = key.quota_waiting(c, id), blocks = key.quota_blocks(c, id), due = key.quota_due(c),
    skipped = {}, skipped_text = '', ready = {}, ready_count = 0, ready_needs = {},
  }
end

function quota_limits.limits_from(stored)
  return {
    window = math.floor((number.finite(stored.requests_per_window_seconds) or 0) * 1000),
    rate = number.finite(stored.max_requests_per_window) or 0,
    cap = number.finite(stored.active_concurrency_cap) or 0,
  }
end

-- Adds other windows to limits. Programs may declare windows of different lengths for a quota. All of them hold, each with the
-- number of the latest request with that length. `other_windows` has those that the very latest request did not have, as "<rate>
-- <window> <until>\n" each: until (ms) a time of its length has passed without a request.
function quota_limits.with_others(c, l, text)
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

-- Returns the field for a request with other limits than the stored ones.
local function other_windows(c, stored, n)
  if not (stored and stored.quota_policy_id) or stored.was_pinned or n.pin then return '' end
  local before = quota_limits.limits_from(stored)
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

-- Writes the limits in a call, unless an operator has set others. Returns those that count.
function quota_limits.define(c, q, A, n)
  local stored = record.read(q.record, DEFINITION_FIELDS)
  quota_queue.read_skipped(c, q, stored and stored.skipped)
  local seconds = string.format('%.3f', n.window_ms / 1000)
  if stored and stored.quota_policy_id and (stored.pinned and not n.pin
    or stored.requests_per_window_seconds == seconds and stored.max_requests_per_window == A.rate
    and stored.active_concurrency_cap == A.cap) then
    if stored.was_pinned and not stored.pinned then redis.call('HDEL', q.record, 'was_pinned') end
    return quota_limits.with_others(c, quota_limits.limits_from(stored), stored.other_windows)
  end
  local others = other_windows(c, stored, n)
  if not (stored and stored.quota_policy_id) then
    redis.call('HSET', q.record, 'quota_policy_id', q.id, 'created_at', c.now_text)
    redis.call('SET', q.concurrency, '0')
    redis.call('SADD', key.index_quota_policies(c), q.id)
  end
  redis.call('HSET', q.record, 'requests_per_window_seconds', seconds, 'max_requests_per_window', A.rate,
    'active_concurrency_cap', A.cap, 'name', A.name or '', 'key', A.key or '', 'other_windows', others)
  if stored and stored.was_pinned then redis.call('HDEL', q.record, 'was_pinned') end
  return quota_limits.with_others(c, { window = n.window_ms, rate = n.rate, cap = n.cap }, others)
end

-- Converts the numbers of a call with limits. `further` are other counts of the call.
function quota_limits.check(A, further)
  local counts = { { 'rate', 0 }, { 'window_ms', 0 }, { 'cap', 0 } }
  for _, count in ipairs(further) do counts[#counts + 1] = count end
  local n, err = number.counts(A, counts)
  if err then return nil, err end
  if n.rate == 0 and n.cap == 0 then return nil, reply.err('invalid_input', 'a quota needs a rate or a cap') end
  if n.rate > 0 and n.window_ms <= 0 then return nil, reply.err('invalid_input', 'a rate needs a window') end
  return n
end

-- @record quota_state quota_policy_id:quota_policy_id name:text key:text rate:int window_ms:int cap:int pinned:bool running:int in_window:int waiting:int next_at:unix_ms?

-- Returns the state of a quota. `next_at` is when the window has room again, at the earliest where its places are reserved; 0
-- when it has, or when there is none.
local function state_of(c, id)
  local q = quota_limits.keys_of(c, id)
  local stored = record.read(q.record, { 'quota_policy_id', 'requests_per_window_seconds', 'max_requests_per_window',
    'active_concurrency_cap', 'pinned', 'name', 'key' }) or {}
  local l = quota_limits.limits_from(stored)
  local begin = '(' .. number.text(c.now - l.window)
  local in_window, next_at = redis.call('ZCOUNT', q.window, begin, '+inf'), nil
  if l.rate > 0 and in_window >= l.rate then
    local oldest = redis.call('ZRANGE', q.window, begin, '+inf', 'BYSCORE', 'LIMIT', in_window - l.rate, 1, 'WITHSCORES')
    next_at = oldest[2] and math.min(tonumber(oldest[2]), c.now) + l.window
  end
  return {
    id, stored.name or '', stored.key or '', number.text(l.rate), number.text(l.window), number.text(l.cap),
    stored.pinned and '1' or '0', number.text(quota_places.running(q)), number.text(in_window),
    number.text(redis.call('ZCARD', q.waiting)), next_at and number.text(math.floor(next_at)) or '',
  }
end

-- @function ffx_quotas
-- @summary  Returns the quotas of a partition, in pages, with how many executions hold a place, were admitted in the window, and
--           wait.
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
-- @summary  Returns one quota as ffx_quotas lists it; none when it does not exist.
-- @flags    derives readonly
-- @key      definition         quota.record
-- @arg      quota_policy_id    quota_policy_id
-- @reply    OK quotas:list(quota_state)
function F.ffx_quota_state(K, A)
  local c = call.open(K.definition)
  if redis.call('EXISTS', K.definition) == 0 then return reply.ok({}) end
  return reply.ok({ state_of(c, A.quota_policy_id) })
end

-- Reports whether a quota has the limits that the caller of ffx_set_quota has read. One that no execution has used has those
-- that flows declare, which the caller has read in the catalogue; no operator has changed it.
local function has_old_limits(q, A)
  local stored = record.read(q.record, { 'quota_policy_id', 'requests_per_window_seconds', 'max_requests_per_window',
    'active_concurrency_cap', 'pinned' })
  if not stored or not stored.quota_policy_id then
    return A.old_pinned ~= '1' and ((number.finite(A.old_rate) or 0) > 0 or (number.finite(A.old_cap) or 0) > 0)
  end
  local l = quota_limits.limits_from(stored)
  return l.rate == (number.finite(A.old_rate) or 0) and l.window == (number.finite(A.old_window_ms) or 0)
    and l.cap == (number.finite(A.old_cap) or 0) and (stored.pinned and '1' or '0') == (A.old_pinned or '0')
end

-- @function ffx_set_quota
-- @summary  Sets the limits of a quota, whatever flows declare, until `pin` is false again. With `compare`, nothing is changed
--           when its limits differ from the arguments that begin with `old`. For a quota that does not exist, these are the
--           limits that flows declare: without any, nothing is changed.
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
  local q = quota_limits.keys_of(c, A.quota_policy_id)
  if A.compare == '1' and not has_old_limits(q, A) then
    return reply.err('changed_meanwhile')
  end
  if A.pin ~= '1' then
    if redis.call('HDEL', q.record, 'pinned') > 0 then redis.call('HSET', q.record, 'was_pinned', '1') end
  else
    local n, err = quota_limits.check(A, {})
    if err then return err end
    n.pin = true
    quota_limits.define(c, q, A, n)
    redis.call('HSET', q.record, 'pinned', '1', 'other_windows', '')
  end
  redis.call('ZADD', q.due, c.now, q.id)
  wake.tell_keepers(c, 'q', c.now)
  return reply.ok()
end
