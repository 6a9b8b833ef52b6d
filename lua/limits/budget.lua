-- Budgets: limits on the usage of the executions in a scope.

-- Time (ms) for which a repeated usage report is recognised.
local REPORT_MEMORY_MS = 86400000
local MAX_DIMENSIONS = 1000

-- Checks the list of dimensions that the caller sent. Returns nil, or the error reply.
local function check_count(dims, raw)
  if dims and #dims <= MAX_DIMENSIONS then return nil end
  if not number.finite(raw) then return number.refuse('dim_count', raw) end
  return reply.err('invalid_input', 'dim_count does not fit the arguments, got: ' .. raw)
end

-- Returns the limit of a dimension; 0 for none. Returns nil and the error reply when it is not a number.
local function parse_limit(name, raw)
  if not is_set(raw) then return 0 end
  local limit = number.finite(raw)
  if not limit then return nil, number.refuse('limit of ' .. name, raw) end
  return math.max(0, limit)
end

-- Returns the dimensions with their limits as a flat list, or nil and the error reply.
local function parse_limits(dims)
  local limits = {}
  for _, dim in ipairs(dims) do
    for _, kind in ipairs({ 'hard', 'soft' }) do
      local raw = dim[kind]
      if not raw then return nil, reply.err('invalid_input', 'limits of ' .. (dim.name or '') .. ' are missing') end
      local _, err = parse_limit(dim.name, raw)
      if err then return nil, err end
      limits[#limits + 1] = kind .. ':' .. dim.name
      limits[#limits + 1] = raw
    end
  end
  return limits
end

-- @function ff_create_budget
-- @summary  Creates a budget. A budget that exists is left as it is.
-- @flags    repeatable intake
-- @key      definition      budget.record
-- @key      limits          budget.limits
-- @key      usage           budget.usage
-- @key      resets          index.budget_resets
-- @key      policies        index.budget_policies
-- @arg      budget_id       budget_id
-- @arg      scope_type      text
-- @arg      scope_id        text
-- @arg      enforcement_mode text
-- @arg      on_hard_limit   text
-- @arg      on_soft_limit   text
-- @arg      reset_interval_ms ms
-- @arg      now_ms          unix_ms
-- @columns  dims            name:text hard:text soft:text
-- @reply    OK budget_id:budget_id
-- @reply    ALREADY_SATISFIED budget_id:budget_id
-- @error    invalid_input message:text
function F.ff_create_budget(K, A)
  if redis.call('HEXISTS', K.definition, 'budget_id') == 1 then
    redis.call('SADD', K.policies, A.budget_id)
    return reply.already(A.budget_id)
  end
  local dims = A.dims
  if not dims and (number.finite(A.dims_count) or 0) < 0 then dims = {} end
  local err = check_count(dims, A.dims_count)
  if err then return err end
  local limits
  limits, err = parse_limits(dims)
  if err then return err end
  local interval, now
  interval, err = number.whole('reset_interval_ms', A.reset_interval_ms)
  if err then return err end
  if interval > 0 then now, err = number.whole('now_ms', A.now_ms) end
  if err then return err end

  redis.call('SADD', K.policies, A.budget_id)
  redis.call('HSET', K.definition, 'budget_id', A.budget_id, 'scope_type', A.scope_type, 'scope_id', A.scope_id,
    'enforcement_mode', A.enforcement_mode, 'on_hard_limit', A.on_hard_limit, 'on_soft_limit', A.on_soft_limit,
    'reset_interval_ms', A.reset_interval_ms, 'breach_count', '0', 'soft_breach_count', '0',
    'created_at', A.now_ms, 'last_updated_at', A.now_ms)
  call.chunked('HSET', K.limits, limits)
  if interval > 0 then
    budget.schedule_reset(K, A.budget_id, now + interval)
    if wake.tells_of_others() then wake.tell_keepers(call.open(K.definition), 'b', now + interval) end
  end
  return reply.ok(A.budget_id)
end

-- Budgets that flows use have the field `gate`. When a budget whose effect is to block is used up, its gate is closed: the field
-- `closed` contains the reason, and the executions that use the budget, which are in other slots, do not start. `gate` grows with
-- every change, so that messages about changes leave the latest value in any order. It follows the clock, so that it also grows
-- when the budget was removed in between.

-- @text gate_task gate {budget_id}

local function change_gate(c, k, budget_id, gate)
  local version = number.digits(math.max((tonumber(gate) or 0) + 1, c.now))
  redis.call('HSET', k.definition, 'gate', version)
  budget.owe(c, encode.gate_task(budget_id))
  return version
end

-- Time (ms) in which the client that caused a task for another partition performs it, before keepers do.
local GRACE_MS = 1000

-- Records a task for another partition.
function budget.owe(c, text)
  local at = c.now + GRACE_MS
  redis.call('ZADD', key.budget_due(c), at, text)
  wake.tell_keepers(c, 'b', at)
end

-- Closes the gate, unless it is closed. `stored` has the fields gate and closed, and receives their new values.
function budget.close(c, k, budget_id, stored, detail)
  if is_set(stored.closed) then return end
  redis.call('HSET', k.definition, 'closed', detail)
  stored.gate, stored.closed = change_gate(c, k, budget_id, stored.gate), detail
end

function budget.reopen(c, k, budget_id, stored)
  if not is_set(stored.closed) then return end
  redis.call('HDEL', k.definition, 'closed')
  stored.gate, stored.closed = change_gate(c, k, budget_id, stored.gate), nil
end

-- Registers an execution that is blocked because of a budget: it continues when one of its flow's budgets is opened.
function budget.await(c, execution_id, core)
  for id in string.gmatch(flow_record.read(c, core.flow_id).budget_ids or '', '[^,]+') do
    redis.call('ZADD', key.ffx_budget_waiting(c, id), record.eligible_score(core), execution_id)
  end
end

-- Describes in words how much of a dimension is used.
function budget.describe(stored, d)
  local of = is_set(stored.key) and ' of "' .. stored.key .. '"' or ''
  local held = (d.reserved or 0) > 0 and ' and ' .. number.digits(d.reserved) .. ' reserved' or ''
  return 'budget "' .. (stored.name or '') .. '"' .. of .. ': ' .. number.digits(d.used) .. ' of '
    .. number.digits(d.hard)
    .. ' ' .. d.name .. ' used' .. held
end

-- Closes the gate of a budget whose effect is to block, when nothing is left of one of the dimensions.
function budget.close_when_used_up(c, k, stored, list)
  if stored.on_hard_limit ~= 'block' then return end
  for _, d in ipairs(list) do
    if d.hard > 0 and d.used >= d.hard then budget.close(c, k, stored.budget_id, stored, budget.describe(stored, d)) end
  end
end

function budget.schedule_reset(k, budget_id, at)
  redis.call('HSET', k.definition, 'next_reset_at', number.text(at))
  redis.call('ZADD', k.resets, at, budget_id)
end

-- Returns the dimensions of a report with their usage, reservations and limits, each once with its deltas added up. Returns nil
-- and the error reply when a number is invalid. Only a budget that flows use can have reservations: `reserved` is their key then.
local function read_dimensions(K, dims, reserved)
  local list, by_name = {}, {}
  for _, dim in ipairs(dims) do
    local name, delta = dim.name, number.finite(dim.delta)
    if not delta or delta ~= math.floor(delta) or math.abs(delta) > number.MAX_EXACT then
      return nil, reply.err('invalid_input', 'delta of ' .. (name or '') .. ' must be a whole number, got: '
        .. tostring(dim.delta))
    end
    local d = by_name[name]
    if not d then
      local limits = redis.call('HMGET', K.limits, 'hard:' .. name, 'soft:' .. name)
      d = { name = name, delta = 0, hard_text = limits[1] or '',
        used = tonumber(redis.call('HGET', K.usage, name) or nil) or 0,
        reserved = reserved and tonumber(redis.call('HGET', reserved, name) or nil) or 0 }
      local err
      d.hard, err = parse_limit(name, limits[1])
      if err then return nil, err end
      d.soft, err = parse_limit(name, limits[2])
      if err then return nil, err end
      by_name[name] = d
      list[#list + 1] = d
    end
    d.delta = d.delta + delta
  end
  for _, d in ipairs(list) do
    if math.abs(d.used + d.delta) > number.MAX_EXACT then
      return nil, reply.err('invalid_input', 'usage of ' .. d.name .. ' would be out of range')
    end
  end
  return list
end

local function find_hard_breach(list)
  for _, d in ipairs(list) do
    if d.hard > 0 and d.used + d.reserved + d.delta > d.hard then return d end
  end
  return nil
end

-- Prefix of the definition's fields that mark a hard limit as breached. The mark stays until a report of the
-- dimension is accepted or the budget is reset, so retries of a refused report do not count as further breaches.
budget.BREACHED = 'breached:'

local STATE_FIELDS = { 'budget_id', 'gate', 'closed', 'on_hard_limit', 'name', 'key' }

-- Returns these fields of a budget, none when it does not exist, and which of the dimensions are marked as breached.
local function read_marks(K, dims)
  local fields = { unpack(STATE_FIELDS) }
  for _, dim in ipairs(dims) do fields[#fields + 1] = budget.BREACHED .. (dim.name or '') end
  local stored = record.read(K.definition, fields) or {}
  local marked = {}
  for _, dim in ipairs(dims) do
    if stored[budget.BREACHED .. (dim.name or '')] then marked[dim.name or ''] = true end
  end
  return stored, marked
end

-- @hook Runs when a part of the usage of a budget with a gate was given back, without new usage.
function budget.on_given_back(c, budget_id) end

-- Reports whether a report reduces the usage.
local function releases(list)
  for _, d in ipairs(list) do
    if d.delta < 0 then return true end
  end
  return false
end

-- Removes the marks of dimensions whose report was accepted.
local function unmark(K, list, marked)
  for _, d in ipairs(list) do
    if marked[d.name] then redis.call('HDEL', K.definition, budget.BREACHED .. d.name) end
  end
end

-- Records that a report of a dimension was refused. `marked`: that has happened before.
function budget.note_breach(definition, dimension, marked, now_text)
  if not marked then
    redis.call('HINCRBY', definition, 'breach_count', 1)
    redis.call('HSET', definition, budget.BREACHED .. dimension, '1')
  end
  redis.call('HSET', definition, 'last_breach_at', now_text, 'last_breach_dim', dimension, 'last_updated_at', now_text)
end

-- @function ff_report_usage_and_check
-- @summary  Adds to the usage of a budget, unless that would exceed a hard limit. The dedup key makes a report count once.
--           Breaches are counted when they begin, not again with every report while they last. The usage of a budget that does
--           not exist is counted too; its limits apply from its creation on.
-- @key      usage           budget.usage
-- @key      limits          budget.limits
-- @key      definition      budget.record
-- @columns  dims            name:text delta:int
-- @arg      now_ms          unix_ms
-- @arg      dedup_key       text optional
-- @reply    OK
-- @reply    ALREADY_APPLIED
-- @reply    SOFT_BREACH dimension:text current:int limit:text
-- @reply    HARD_BREACH dimension:text current:int limit:text
-- @error    invalid_input message:text
function F.ff_report_usage_and_check(K, A)
  local err = check_count(A.dims, A.dims_count)
  if err then return err end
  local c = call.open(K.usage)
  local remembered = is_set(A.dedup_key)
  if remembered and not string.find(A.dedup_key, c.tag, 1, true) then
    return reply.err('invalid_input', 'the dedup key must carry the tag ' .. c.tag)
  end
  if remembered and redis.call('EXISTS', A.dedup_key) == 1 then return { 1, 'ALREADY_APPLIED' } end
  if not A.now_ms then return number.refuse('now_ms', A.now_ms) end
  local stored, marked = read_marks(K, A.dims)
  local list
  list, err = read_dimensions(K, A.dims, stored.gate and key.budget_reserved(c, stored.budget_id))
  if err then return err end

  local breach = find_hard_breach(list)
  if breach then
    budget.note_breach(K.definition, breach.name, marked[breach.name], A.now_ms)
    if stored.gate and stored.on_hard_limit == 'block' and breach.delta <= breach.hard then
      budget.close(c, K, stored.budget_id, stored, budget.describe(stored, breach))
    end
    return { 1, 'HARD_BREACH', breach.name, number.digits(breach.used), breach.hard_text }
  end
  unmark(K, list, marked)
  local soft, begins
  for _, d in ipairs(list) do
    redis.call('HINCRBY', K.usage, d.name, number.digits(d.delta))
    local before = d.used
    d.used = before + d.delta
    if d.soft > 0 and d.used > d.soft then
      soft = soft or d
      begins = begins or before <= d.soft
    end
  end
  if stored.gate then
    budget.close_when_used_up(c, K, stored, list)
    if is_set(stored.closed) and releases(list) then budget.on_given_back(c, stored.budget_id) end
  end
  redis.call('HSET', K.definition, 'last_updated_at', A.now_ms)
  if remembered then redis.call('SET', A.dedup_key, '1', 'PX', REPORT_MEMORY_MS) end
  if not soft then return reply.ok() end
  if begins then redis.call('HINCRBY', K.definition, 'soft_breach_count', 1) end
  return { 1, 'SOFT_BREACH', soft.name, number.digits(soft.used), number.text(soft.soft) }
end

-- Returns the next reset of a budget whose reset was due at `next_at`, on the schedule that began with the budget.
function budget.next_reset(next_at, interval, now)
  if next_at > now then return next_at end
  return next_at + (math.floor((now - next_at) / interval) + 1) * interval
end

-- Reports whether a budget is reset from time to time.
function budget.is_reset_again(definition)
  return (number.finite(definition.reset_interval_ms) or 0) > 0
end

budget.RESET_FIELDS = { 'budget_id', 'reset_interval_ms', 'next_reset_at', 'gate', 'closed' }

-- Sets the usage of a budget to zero. `definition` has the fields above. Returns the time of the next reset, or nil.
function budget.reset(c, k, budget_id, definition, now, now_text)
  local zeros = {}
  for _, name in ipairs(redis.call('HKEYS', k.usage)) do
    zeros[#zeros + 1] = name
    zeros[#zeros + 1] = '0'
  end
  call.chunked('HSET', k.usage, zeros)
  local marks = {}
  for _, name in ipairs(redis.call('HKEYS', k.definition)) do
    if string.sub(name, 1, #budget.BREACHED) == budget.BREACHED then marks[#marks + 1] = name end
  end
  call.chunked('HDEL', k.definition, marks)
  redis.call('HINCRBY', k.definition, 'reset_count', 1)
  redis.call('HSET', k.definition, 'last_reset_at', now_text, 'last_updated_at', now_text, 'last_breach_at', '',
    'last_breach_dim', '')
  budget.reopen(c, k, budget_id, definition)
  if not budget.is_reset_again(definition) then
    redis.call('ZREM', k.resets, budget_id)
    return nil
  end
  local interval = tonumber(definition.reset_interval_ms)
  local next_at = budget.next_reset(number.finite(definition.next_reset_at) or now, interval, now)
  budget.schedule_reset(k, budget_id, next_at)
  return next_at
end

-- @function ff_reset_budget
-- @summary  Sets the usage of a budget to zero. The next reset keeps to the schedule that began with the budget. A budget that
--           does not exist is removed from the schedule.
-- @key      definition      budget.record
-- @key      usage           budget.usage
-- @key      resets          index.budget_resets
-- @arg      budget_id       budget_id
-- @arg      now_ms          unix_ms
-- @reply    OK next_reset_at:unix_ms
-- @error    invalid_input message:text
-- @error    budget_not_found
-- @writes_on budget_not_found resets
function F.ff_reset_budget(K, A)
  local definition = record.read(K.definition, budget.RESET_FIELDS)
  if not definition then
    redis.call('ZREM', K.resets, A.budget_id)
    return reply.err('budget_not_found')
  end
  local now, err = number.whole('now_ms', A.now_ms)
  if err and budget.is_reset_again(definition) then return err end
  local next_at = budget.reset(call.open(K.definition), K, A.budget_id, definition, now, A.now_ms)
  return reply.ok(next_at and number.text(next_at) or '0')
end
