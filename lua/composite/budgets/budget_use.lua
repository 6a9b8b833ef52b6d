-- Budgets as flows use them: the budgets of the contract, with reservations in addition to the usage, and with a gate that keeps
-- executions from starting (see budget.close). A call that has consequences in another partition, in the log of a run or for
-- waiting nodes, records them in the sorted set `due` of the budget's partition until a client or keeper acknowledges them. Each
-- is one text:
--
--   gate <budget>                      the gate has changed; partitions of flows must be notified
--   breach <budget> <id> <kind> <effect> <flow> <whose> <node> <attempt> <dimension> <words>   must be logged with the run;
--                                      the effect is on the run whose budget it is
--   held <budget> <reservation>        check that the lease of the reservation is live
--   run <budget>                       check that the run of the budget exists

-- Time (ms) for which a repeated entry is recognised: an entry that its lease identifies, and an entry that counts once for the
-- whole execution.
budget_use.MEMORY_MS = 3600000
local LASTING_MS = 30 * 86400000

-- Reservations are checked when the lease may be over, but at the latest this long (ms) after they were made.
local HELD_MS = 30000

-- Time (ms) after the creation of a budget when keepers check that its run exists.
budget_use.RUN_MS = 3600000

local MAX_ENTRIES = 64
local MAX_DIMENSIONS = 64

local RECORD_FIELDS = { 'budget_id', 'name', 'key', 'scope_type', 'scope_id', 'wide', 'on_hard_limit', 'declared', 'declared_at', 'pinned',
  'gate', 'closed', 'reset_interval_ms', 'next_reset_at' }

function budget_use.keys(c, id)
  return {
    id = id, definition = key.budget_record(c, id), limits = key.budget_limits(c, id), usage = key.budget_usage(c, id),
    reserved = key.budget_reserved(c, id), reservations = key.budget_reservations(c, id), due = key.budget_due(c),
    resets = key.index_budget_resets(c), policies = key.index_budget_policies(c), dims = {}, list = {},
  }
end

-- Checks a declaration. Returns its numbers, or nil and the error reply.
local function check_declaration(A)
  if not A.dims or #A.dims > MAX_DIMENSIONS then
    return nil, reply.err('invalid_input', 'a budget has at most ' .. MAX_DIMENSIONS .. ' dimensions')
  end
  for _, dim in ipairs(A.dims) do
    for _, kind in ipairs({ 'hard', 'soft' }) do
      local limit = number.finite(dim[kind])
      if not is_set(dim.name) or not limit or limit < 0 or limit ~= math.floor(limit) or limit > number.MAX_EXACT then
        return nil, reply.err('invalid_input', kind .. ' limit of ' .. (dim.name or '') .. ' must be a whole number, got: '
          .. tostring(dim[kind]))
      end
    end
  end
  if A.effect ~= 'fail' and A.effect ~= 'block' and A.effect ~= 'cancel' then
    return nil, reply.err('invalid_input', 'effect must be fail, block or cancel, got: ' .. tostring(A.effect))
  end
  return number.counts(A, { { 'interval', 0 }, { 'declared_at', 0 } })
end

local function create_record(c, b, A)
  redis.call('SADD', b.policies, b.id)
  redis.call('HSET', b.definition, 'budget_id', b.id, 'scope_type', A.scope_type, 'scope_id', A.scope_id,
    'enforcement_mode', 'strict', 'on_soft_limit', 'event', 'breach_count', '0', 'soft_breach_count', '0',
    'created_at', c.now_text, 'name', A.name, 'key', A.key or '', 'gate', '0')
  if A.scope_type == 'run' then
    redis.call('ZADD', b.due, c.now + budget_use.RUN_MS, encode.run_task(b.id))
    wake.tell_keepers(c, 'b', c.now + budget_use.RUN_MS)
  end
end

-- Writes limits, interval and effect. Usage and reservations do not change.
local function write_declaration(c, b, A, n, stored)
  redis.call('HSET', b.definition, 'on_hard_limit', A.effect, 'reset_interval_ms', number.digits(n.interval),
    'wide', A.wide == '1' and '1' or '0', 'declared', A.declared or '', 'declared_at', number.digits(n.declared_at), 'namespace', A.namespace,
    'last_updated_at', c.now_text)
  redis.call('DEL', b.limits)
  local limits = {}
  for _, dim in ipairs(A.dims) do
    for _, kind in ipairs({ 'hard', 'soft' }) do
      limits[#limits + 1] = kind .. ':' .. dim.name
      limits[#limits + 1] = dim[kind]
    end
  end
  call.chunked('HSET', b.limits, limits)
  if n.interval == 0 then
    redis.call('HDEL', b.definition, 'next_reset_at')
    redis.call('ZREM', b.resets, b.id)
  elseif number.finite(stored.reset_interval_ms) ~= n.interval then
    budget.schedule_reset(b, b.id, c.now + n.interval)
    wake.tell_keepers(c, 'b', c.now + n.interval)
  end
  stored.on_hard_limit, stored.name, stored.key = A.effect, stored.name or A.name, stored.key or A.key
end

-- Returns a dimension with its limits, its usage and its reservations, or nil when the budget does not have it. Read once.
function budget_use.dimension(b, name)
  local d = b.dims[name]
  if d then return d end
  local limits = redis.call('HMGET', b.limits, 'hard:' .. name, 'soft:' .. name)
  if not limits[1] and not limits[2] then return nil end
  d = {
    name = name, hard = math.max(0, number.finite(limits[1] or nil) or 0), soft = math.max(0, number.finite(limits[2] or nil) or 0),
    used = tonumber(redis.call('HGET', b.usage, name) or nil) or 0,
    reserved = tonumber(redis.call('HGET', b.reserved, name) or nil) or 0,
  }
  d.was_used, d.was_reserved = d.used, d.reserved
  b.dims[name] = d
  b.list[#b.list + 1] = d
  return d
end

-- Returns all dimensions, by name.
function budget_use.dimensions(b)
  local names = {}
  for _, field in ipairs(redis.call('HKEYS', b.limits)) do
    local name = string.match(field, '^hard:(.*)$')
    if name then names[#names + 1] = name end
  end
  table.sort(names)
  local list = {}
  for i, name in ipairs(names) do list[i] = budget_use.dimension(b, name) end
  return list
end

local function read(b, dimensions)
  local fields = { unpack(RECORD_FIELDS) }
  for _, name in ipairs(dimensions) do fields[#fields + 1] = budget.BREACHED .. name end
  local stored = record.read(b.definition, fields)
  return stored and stored.budget_id and stored or nil
end

-- Opens a closed gate when every dimension has something left.
local function reopen_if_left(c, b, stored)
  if not is_set(stored.closed) then return end
  for _, d in ipairs(budget_use.dimensions(b)) do
    if d.hard > 0 and d.used + d.reserved >= d.hard and stored.on_hard_limit == 'block' then return end
  end
  budget.reopen(c, b, b.id, stored)
end

-- Handles usage that was given back without a use of the budget.
function budget_use.given_back(c, b)
  local stored = read(b, {})
  if stored then reopen_if_left(c, b, stored) end
end

-- Performs a due reset, also when no tick has done so.
local function reset_if_due(c, b, stored)
  local at = number.finite(stored.next_reset_at)
  if at and at <= c.now and (number.finite(stored.reset_interval_ms) or 0) > 0 then
    budget.reset(c, b, b.id, stored, c.now, c.now_text)
    return true
  end
  return false
end

-- Returns the record of the budget that a call uses, declared by the call if necessary. Returns nil and the error reply when
-- there is none.
local function open(c, b, A)
  local names = {}
  for i, entry in ipairs(A.entries) do names[i] = entry.dimension end
  local stored = read(b, names)
  if A.declares ~= '1' then
    if not stored then return nil, reply.err('budget_not_found') end
  elseif not stored or not stored.pinned and stored.declared ~= A.declared
    and (tonumber(A.declared_at) or 0) >= (tonumber(stored.declared_at) or 0) then
    local n, err = check_declaration(A)
    if err then return nil, err end
    if not stored then create_record(c, b, A) end
    write_declaration(c, b, A, n, stored or {})
    stored = read(b, names)
    reopen_if_left(c, b, stored)
  end
  -- A budget that other tools have created has no gate yet.
  if not stored.gate then
    redis.call('HSET', b.definition, 'gate', '0')
    stored.gate = '0'
  end
  if reset_if_due(c, b, stored) then
    b.dims, b.list = {}, {}
    stored = read(b, names)
  end
  return stored
end

local function fits(d, amount) return d.hard == 0 or d.used + d.reserved + amount <= d.hard end

-- Usage and reservations change in the dimension first; budget_use.write writes them to the keys, once for a call.
local function add_used(d, amount, entry)
  local before = d.used
  d.used = before + amount
  if d.soft > 0 and before <= d.soft and d.used > d.soft then d.softly = entry end
end

-- Writes the changes of the dimensions.
function budget_use.write(b)
  for _, d in ipairs(b.list) do
    if d.used ~= d.was_used then redis.call('HINCRBY', b.usage, d.name, number.digits(d.used - d.was_used)) end
    if d.reserved == 0 and d.was_reserved ~= 0 then
      redis.call('HDEL', b.reserved, d.name)
    elseif d.reserved ~= d.was_reserved then
      redis.call('HINCRBY', b.reserved, d.name, number.digits(d.reserved - d.was_reserved))
    end
    d.was_used, d.was_reserved = d.used, d.reserved
  end
end

-- Remembers an entry by its id. Returns false when it was already remembered.
local function remember(c, b, entry)
  local memory = entry.lasting == '1' and LASTING_MS or budget_use.MEMORY_MS
  return redis.call('SET', key.budget_dedup(c, b.id .. '/' .. entry.id), '1', 'NX', 'PX', memory) and true or false
end

local function is_known(c, b, entry) return redis.call('EXISTS', key.budget_dedup(c, b.id .. '/' .. entry.id)) == 1 end

local function owed_for(b, reservation_id) return encode.held_task(b.id, reservation_id) end

-- Takes a reservation back. Returns the reserved amount, or nil when there is none with that id.
function budget_use.take_back(b, reservation_id)
  local held = redis.call('HGET', b.reservations, reservation_id)
  if not held then return nil end
  local text, name = string.match(held, '^(%d+) (.*)$')
  local amount, d = tonumber(text) or 0, budget_use.dimension(b, name or '')
  redis.call('HDEL', b.reservations, reservation_id)
  redis.call('ZREM', b.due, owed_for(b, reservation_id))
  if d then
    d.reserved = math.max(0, d.reserved - amount)
  elseif redis.call('HINCRBY', b.reserved, name, number.digits(-amount)) <= 0 then
    -- The budget no longer has the dimension.
    redis.call('HDEL', b.reserved, name)
  end
  return amount
end

-- The id of a reservation begins with the lease that it belongs to, so that a check can find out when the lease is over. The name
-- distinguishes reservations of one lease.
-- @text reservation_id {execution_id}/{lease_epoch}/{name}

local function is_reservation(id)
  local execution_id, _, name = decode.reservation_id(id)
  return is_set(execution_id) and is_set(name)
end

-- Applies an entry and returns its state: ok, applied (it was already known) or refused.
local USES = {}

function USES.report(c, b, entry, d)
  if not fits(d, entry.n) then return is_known(c, b, entry) and 'applied' or 'refused' end
  if not remember(c, b, entry) then return 'applied' end
  add_used(d, entry.n, entry)
  return 'ok'
end

function USES.reserve(c, b, entry, d)
  if redis.call('HEXISTS', b.reservations, entry.id) == 1 or is_known(c, b, entry) then return 'applied' end
  if not fits(d, entry.n) then return 'refused' end
  redis.call('HSET', b.reservations, entry.id, number.digits(entry.n) .. ' ' .. d.name)
  d.reserved = d.reserved + entry.n
  local at = c.now + math.max(1, math.min(number.finite(entry.lease) or HELD_MS, HELD_MS))
  redis.call('ZADD', b.due, at, owed_for(b, entry.id))
  wake.tell_keepers(c, 'b', at)
  return 'ok'
end

-- Counts the actual usage of a reservation, up to the limit. When it is refused, the reserved part counts.
function USES.settle(c, b, entry, d)
  if is_known(c, b, entry) then return 'applied' end
  local held = budget_use.take_back(b, entry.id)
  local fitting = fits(d, entry.n)
  if not fitting and not held then return 'refused' end
  add_used(d, fitting and entry.n or math.min(held, entry.n), entry)
  remember(c, b, entry)
  b.given_back = held and held > entry.n
  return fitting and 'ok' or 'refused'
end

-- A release is remembered even without a reservation, so that a reservation that arrives late has no effect.
function USES.release(c, b, entry)
  local held = budget_use.take_back(b, entry.id)
  remember(c, b, entry)
  if not held then return 'applied' end
  b.given_back = true
  return 'ok'
end

-- Checks the entries of a call, with their numbers and dimensions. Returns nil and the error reply when one is invalid.
local function check_entries(b, A)
  local sums = {}
  for _, entry in ipairs(A.entries) do
    entry.n = number.finite(entry.amount)
    if not USES[entry.kind] then return reply.err('invalid_input', 'unknown use of a budget: ' .. tostring(entry.kind)) end
    if not entry.n or entry.n < 0 or entry.n ~= math.floor(entry.n) or entry.n > number.MAX_EXACT then
      return reply.err('invalid_input', 'amount of ' .. (entry.dimension or '') .. ' must be a whole number, 0 or more, got: '
        .. tostring(entry.amount))
    end
    if not string.find(entry.id or '', '^%S+$') then
      return reply.err('invalid_input', 'id must be given, without blanks, got: ' .. tostring(entry.id))
    end
    if entry.kind == 'reserve' and not is_reservation(entry.id) then
      return reply.err('invalid_input', 'id of a reservation must begin with execution and epoch, got: ' .. entry.id)
    end
    local d = budget_use.dimension(b, entry.dimension or '')
    if not d then return reply.err('unknown_budget_dimension', entry.dimension or '') end
    local bad = encode.breach_task_fault(b.id, entry.id, nil, nil, entry.flow_id, nil, entry.node, entry.attempt, d.name)
    if bad then return reply.err('invalid_input', bad .. ' does not fit into the text of a breach') end
    sums[d] = (sums[d] or d.used + d.reserved) + entry.n
    if sums[d] > number.MAX_EXACT then
      return reply.err('invalid_input', 'usage of ' .. d.name .. ' would be out of range')
    end
  end
  return nil
end

-- A task for another partition is stored in `due` as text until it is done: to notify partitions of the state of a gate
-- (gate_task), to notify a run of a breach and to cancel `target` for it, to release a reservation when its lease is over, and to
-- remove the budget of a run when the run is gone. All texts begin like budget_task.
-- @text budget_task {task:word} {budget_id} {detail?}
-- @text breach_task breach {budget_id} {entry_id} {kind:word} {effect:word} {flow_id} {target:flow_id} {node} {attempt:int} {dimension} {words}
-- @text held_task   held {budget_id} {reservation_id}
-- @text run_task    run {budget_id}

local function owe_breach(c, b, out, stored, entry, effect, kind, d, words)
  local whose = stored.scope_type == 'run' and stored.scope_id or entry.flow_id
  local text = encode.breach_task(b.id, entry.id, kind, effect, entry.flow_id, whose, entry.node, entry.attempt, d.name, words)
  budget.owe(c, text)
  out[#out + 1] = text
end

local function refused(c, b, stored, entry, d, owed)
  budget.note_breach(b.definition, d.name, stored[budget.BREACHED .. d.name], c.now_text)
  stored[budget.BREACHED .. d.name] = '1'
  local words = budget.describe(stored, d)
  if stored.on_hard_limit == 'block' and entry.n <= d.hard then budget.close(c, b, b.id, stored, words) end
  if entry.quiet ~= '1' then
    owe_breach(c, b, owed, stored, entry, stored.on_hard_limit, 'hard', d, words .. ', ' .. number.digits(entry.n) .. ' refused')
  end
end

-- @record    budget_use state:text spent:int reserved:int hard:int soft:int waits:bool
-- @arguments budget_declaration name:text key:text? namespace:text scope_type:text scope_id:text effect:text wide:bool interval:ms declared:text declared_at:int

-- @function ffx_use_budget
-- @summary  Counts the usage of a budget by executions, and their reservations: entries of kind report, reserve, settle and
--           release, in order, each once for its id. An entry that does not fit under the hard limit is `refused`, and nothing is
--           counted for it; it `waits` when the budget may have room for it later, which closes the gate. A settled reservation
--           counts as far as it was reserved. The id of a reservation is "<execution>/<epoch>/<text>", and `lease` is the time
--           for which that lease is valid without a renewal. With `declares`, the call contains the budget's limits, which count
--           unless an operator or a later run has set others. A budget of one run is `wide` when nodes of its child runs use it
--           too. `owed` are texts to be processed and then removed with ffx_budget_done; otherwise keepers do so. The same
--           applies to the gate, when it is `told`.
-- @flags    derives repeatable
-- @key      definition      budget.record
-- @arg      budget_id       budget_id
-- @arg      declares        bool
-- @include  budget_declaration
-- @group    dims            name:text hard:int soft:int
-- @group    entries         kind:text dimension:text amount:int id:text lasting:bool quiet:bool lease:ms flow_id:flow_id node:text attempt:int
-- @reply    OK uses:list(budget_use) gate:int closed:text told:bool owed:list(text)
-- @error    invalid_input message:text
-- @error    budget_not_found
-- @error    unknown_budget_dimension dimension:text
function F.ffx_use_budget(K, A)
  if not A.dims or not A.entries or #A.entries > MAX_ENTRIES then
    return reply.err('invalid_input', 'the counts of dimensions and entries do not fit the arguments')
  end
  local c = call.open(K.definition)
  local b = budget_use.keys(c, A.budget_id)
  local stored, err = open(c, b, A)
  if err then return err end
  err = check_entries(b, A)
  if err then return err end
  local gate, uses, owed = stored.gate, {}, {}
  for i, entry in ipairs(A.entries) do
    local d = budget_use.dimension(b, entry.dimension)
    local state, waits = USES[entry.kind](c, b, entry, d), false
    if state == 'refused' then
      refused(c, b, stored, entry, d, owed)
      waits = is_set(stored.closed) and entry.n <= d.hard
    elseif state == 'ok' and entry.kind ~= 'release' and stored[budget.BREACHED .. d.name] then
      redis.call('HDEL', b.definition, budget.BREACHED .. d.name)
      stored[budget.BREACHED .. d.name] = nil
    end
    if state ~= 'applied' then budget.close_when_used_up(c, b, stored, { d }) end
    if b.given_back then reopen_if_left(c, b, stored) end
    b.given_back = false
    uses[i] = { state, number.digits(d.used), number.digits(d.reserved), number.digits(d.hard), number.digits(d.soft), waits and '1' or '0' }
  end
  budget_use.write(b)
  for _, d in ipairs(b.list) do
    if d.softly then
      redis.call('HINCRBY', b.definition, 'soft_breach_count', 1)
      owe_breach(c, b, owed, stored, d.softly, 'event', 'soft', d, budget.describe(stored, d) .. ', soft limit ' .. number.digits(d.soft))
    end
  end
  redis.call('HSET', b.definition, 'last_updated_at', c.now_text)
  return reply.ok(uses, stored.gate, stored.closed or '', stored.gate ~= gate and '1' or '0', owed)
end

-- Reports whether a budget has the limits, the interval and the effect that the caller of ffx_set_budget has read.
local function has_old_settings(b, stored, A)
  if not stored or stored.on_hard_limit ~= A.old_effect or (number.finite(stored.reset_interval_ms) or 0) ~= (number.finite(A.old_interval) or 0)
    or (stored.pinned and '1' or '0') ~= (A.old_pinned or '0') then
    return false
  end
  for _, old in ipairs(A.old_dims) do
    local d = budget_use.dimension(b, old.name or '')
    if not d or d.hard ~= number.finite(old.hard) or d.soft ~= number.finite(old.soft) then return false end
  end
  return #budget_use.dimensions(b) == #A.old_dims
end

-- @function ffx_set_budget
-- @summary  Creates a budget, or sets its limits, interval and effect, whatever flows declare. The usage does not change. With
--           `only_new`, an existing budget is left as it is. With `compare`, nothing is changed when the budget does not exist,
--           or when its settings differ from the arguments that begin with `old`.
-- @flags    derives repeatable intake
-- @key      definition      budget.record
-- @arg      budget_id       budget_id
-- @include  budget_declaration
-- @arg      only_new        bool
-- @arg      compare         bool optional
-- @arg      old_effect      text optional
-- @arg      old_interval    ms optional
-- @arg      old_pinned      bool optional
-- @group    dims            name:text hard:int soft:int
-- @group    old_dims        name:text hard:int soft:int
-- @reply    OK gate:int closed:text told:bool
-- @reply    ALREADY_SATISFIED gate:int closed:text told:bool
-- @error    invalid_input message:text
-- @error    changed_meanwhile
function F.ffx_set_budget(K, A)
  local n, err = check_declaration(A)
  if err then return err end
  local c = call.open(K.definition)
  local b = budget_use.keys(c, A.budget_id)
  local stored = read(b, {})
  if A.compare == '1' and not has_old_settings(b, stored, A) then return reply.err('changed_meanwhile') end
  b.dims, b.list = {}, {}
  if stored and A.only_new == '1' then return reply.already(stored.gate or '0', stored.closed or '', '0') end
  if not stored then create_record(c, b, A) end
  stored = read(b, {})
  local gate = stored.gate or '0'
  write_declaration(c, b, A, n, stored)
  redis.call('HSET', b.definition, 'pinned', '1', 'gate', gate)
  stored.gate = gate
  reopen_if_left(c, b, stored)
  budget.close_when_used_up(c, b, stored, budget_use.dimensions(b))
  return reply.ok(stored.gate, stored.closed or '', stored.gate ~= gate and '1' or '0')
end
