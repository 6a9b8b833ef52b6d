-- Cancels the remaining upstreams of a join that has fired: at once in managed flows, otherwise it lists them for the caller that
-- dispatches cancels.

-- Maximum number of upstreams that a group's record names at a time.
local MAX_LISTED = 256

-- An upstream with more consumers than this counts as needed without a search.
local MAX_CONSUMERS = 256

-- Whether an execution still needs the results of its upstreams.
local function still_waits(c, flow_id, execution_id)
  local phase = record.value(key.exec_core(c, execution_id), 'lifecycle_phase')
  if not phase or phase == 'terminal' then return false end
  local g = edge_group.of(c, flow_id, execution_id)
  return not edge_group.has_fired(g) and not (g and g.policy_variant == 'finally')
end

-- Reports whether anything but the join needs an upstream: another consumer that still waits, or the flow, for its result. The
-- search takes from the call's budget.
local function is_needed_elsewhere(c, flow_id, upstream_id, child_id)
  if graph.result_execution(c, flow_id) == upstream_id then return true end
  if adjacency.count_downstream(c, flow_id, upstream_id) > MAX_CONSUMERS then return true end
  for _, consumer in ipairs(adjacency.downstream(c, flow_id, upstream_id)) do
    if consumer ~= child_id then
      c.budget = c.budget - 1
      if still_waits(c, flow_id, consumer) then return true end
    end
  end
  return false
end

-- Returns the record of a sibling that is to be cancelled, or nil and the reason why it is not: not_found, already_terminal, or
-- needed elsewhere.
local function stoppable(c, flow_id, child_id, sibling_id)
  c.budget = c.budget - 1
  local core = record.read(key.exec_core(c, sibling_id), terminal.END_FIELDS)
  if not core or not core.lifecycle_phase then return nil, 'not_found' end
  if core.lifecycle_phase == 'terminal' then return nil, 'already_terminal' end
  if is_needed_elsewhere(c, flow_id, sibling_id, child_id) then return nil, 'needed' end
  return core
end

-- Counts the disposition of a sibling, when the call reports these counts.
local function count(c, disposition)
  if c.siblings then c.siblings[disposition] = (c.siblings[disposition] or 0) + 1 end
end

-- Upstreams taken at a time from those kept for later, to cancel their upstreams.
local CANCELLED_AT_A_TIME = 32

-- The part of a call's budget that a cancel takes, in addition to the read of the sibling. One more is kept for the next edge.
local CANCEL_COST = 3

local function has_budget(c) return c.budget > (c.reserved or 0) end

-- Cancels one sibling at once. A call that counts cancels by their reason counts it first, as other dispatchers do.
local function stop(c, sibling_id, core, reason)
  if c.dispatched then c.dispatched[reason] = (c.dispatched[reason] or 0) + 1 end
  c.budget = c.budget - CANCEL_COST
  c.reserved = (c.reserved or 0) + 1
  terminal.cancel(c, sibling_id, key.exec_core(c, sibling_id), core, reason, 'edge_group', { tolerated = true })
  count(c, 'cancelled')
end

-- Visits upstreams of a join, within the call's budget, and keeps the rest for later. It calls `take` with each sibling to be
-- cancelled and its record. Siblings that have ended, the winner among them, are not cancelled and do not count.
local function each_sibling(c, flow_id, child_id, sibling_ids, take)
  local seen = {}
  local function look_at(sibling_id)
    local core, why = stoppable(c, flow_id, child_id, sibling_id)
    if core then take(sibling_id, core) elseif why ~= 'already_terminal' then count(c, why) end
  end
  for i, sibling_id in ipairs(sibling_ids) do
    if not has_budget(c) then
      call.chunked('SADD', key.flow_siblings(c, flow_id, child_id), { unpack(sibling_ids, i) })
      return
    end
    if not seen[sibling_id] then
      seen[sibling_id] = true
      local ok = call.guarded(c, 'sibling_cancel_dispatch', sibling_id, look_at)
      if not ok then redis.call('SADD', key.flow_siblings(c, flow_id, child_id), sibling_id) end -- it stays owed
    end
  end
end

-- Returns the siblings that are owed a cancel and are listed by name.
local function listed(text)
  local out = {}
  for sibling_id in string.gmatch(text or '', '[^|]+') do out[#out + 1] = sibling_id end
  return out
end

-- Takes upstreams from the set of those that were kept for later.
local function pop_later(c, flow_id, child_id, limit)
  if limit <= 0 then return {} end
  return redis.call('SPOP', key.flow_siblings(c, flow_id, child_id), limit)
end

-- Drops all cancels that the siblings of a join were owed.
function sibling_cancel.forget(c, group_key, pending_key, flow_id, child_id)
  redis.call('HDEL', group_key, 'cancel_siblings_pending_flag', 'cancel_siblings_pending_members')
  redis.call('DEL', key.flow_siblings(c, flow_id, child_id))
  redis.call('SREM', pending_key, flow_id .. '|' .. child_id)
end

-- Records the cancels that are still owed. `sibling_ids` are the siblings listed by name.
local function owe(c, group_key, pending_key, flow_id, child_id, sibling_ids)
  redis.call('HSET', group_key, 'cancel_siblings_pending_flag', 'true',
    'cancel_siblings_pending_members', table.concat(sibling_ids, '|'))
  redis.call('SADD', pending_key, flow_id .. '|' .. child_id)
end

-- Starts the cancel of the upstreams that a fired join no longer needs. Upstreams of a managed flow are cancelled at once, within
-- the call's budget. For other flows they are listed for the dispatcher of cancels.
function sibling_cancel.begin(c, k, g, flow_id, child_id, managed)
  local reason = 'sibling_quorum_' .. g.group_state
  local pending_key = is_set(k.pending_cancel_groups) and k.pending_cancel_groups or key.index_pending_cancel_groups(c)
  redis.call('HSET', g.key, 'cancel_siblings_reason', reason)
  local sibling_ids = adjacency.upstream(c, flow_id, child_id)
  if #sibling_ids > c.budget then
    call.chunked('SADD', key.flow_siblings(c, flow_id, child_id), sibling_ids)
    sibling_ids = pop_later(c, flow_id, child_id, managed and math.min(c.budget, CANCELLED_AT_A_TIME) or c.budget)
  end
  local listed_members = {}
  each_sibling(c, flow_id, child_id, sibling_ids, function(sibling_id, core)
    if managed then
      stop(c, sibling_id, core, reason)
    else
      listed_members[#listed_members + 1] = sibling_id
    end
  end)
  if not managed then
    owe(c, g.key, pending_key, flow_id, child_id, listed_members)
    if wake.tells_of_others() then wake.due(c, c.now) end
  elseif redis.call('EXISTS', key.flow_siblings(c, flow_id, child_id)) == 1 then
    owe(c, g.key, pending_key, flow_id, child_id, {})
    c.more = true
    wake.due(c, c.now)
  end
end

-- Keeps the siblings of a list that still have to be cancelled, and fills the list up from those not checked yet.
local function refresh(c, flow_id, child_id, sibling_ids)
  local rest = {}
  for _, sibling_id in ipairs(sibling_ids) do
    if c.budget <= 0 or stoppable(c, flow_id, child_id, sibling_id) then rest[#rest + 1] = sibling_id end
  end
  local later = pop_later(c, flow_id, child_id, math.min(c.budget, MAX_LISTED - #rest))
  each_sibling(c, flow_id, child_id, later, function(sibling_id) rest[#rest + 1] = sibling_id end)
  return rest
end

-- Reports whether cancels are owed beyond a list of siblings.
local function owes_more(c, flow_id, child_id, rest)
  return #rest > 0 or redis.call('EXISTS', key.flow_siblings(c, flow_id, child_id)) == 1
end

local OWED_FIELDS = { 'cancel_siblings_pending_flag', 'cancel_siblings_reason', 'cancel_siblings_pending_members' }

-- Cancels the siblings that one join's group still owes their end, within the call's budget.
local function cancel_owed(c, flow_id, child_id)
  local group_key, pending_key = key.flow_edgegroup(c, flow_id, child_id), key.index_pending_cancel_groups(c)
  local owed = record.read(group_key, OWED_FIELDS)
  if not owed or owed.cancel_siblings_pending_flag ~= 'true' then
    sibling_cancel.forget(c, group_key, pending_key, flow_id, child_id)
    return
  end
  local reason = is_set(owed.cancel_siblings_reason) and owed.cancel_siblings_reason or 'sibling_quorum_satisfied'
  local rest = {}
  local function cancel_listed(sibling_id)
    local core, why = stoppable(c, flow_id, child_id, sibling_id)
    if core then stop(c, sibling_id, core, reason) else count(c, why) end
  end
  for _, sibling_id in ipairs(listed(owed.cancel_siblings_pending_members)) do
    if not has_budget(c) or not call.guarded(c, 'sibling_cancel_dispatch', sibling_id, cancel_listed) then
      rest[#rest + 1] = sibling_id -- one that raises an error stays owed
    end
  end
  local later = pop_later(c, flow_id, child_id, math.min(c.budget, CANCELLED_AT_A_TIME))
  each_sibling(c, flow_id, child_id, later, function(sibling_id, core)
    stop(c, sibling_id, core, reason)
  end)
  if owes_more(c, flow_id, child_id, rest) then
    owe(c, group_key, pending_key, flow_id, child_id, rest)
  else
    sibling_cancel.forget(c, group_key, pending_key, flow_id, child_id)
  end
end

-- Number of groups that a call with a filter reads together.
local FILTERED_AT_A_TIME = 64

-- Reports whether a join passes the call's filter. It concerns flows of other programs only: only this project cancels for runs.
local function passes(c, child_id)
  local f = c.sibling_filter
  if not f then return true end
  local core = record.read(key.exec_core(c, child_id), { 'managed', 'namespace' })
  if not core or core.managed then return true end
  return (not is_set(f.namespace) or core.namespace == f.namespace)
    and (not is_set(f.tag) or redis.call('HGET', key.exec_tags(c, child_id), f.tag) == f.value)
end

-- Cancels the siblings of one group. Reports whether the group passes the call's filter.
local function work_off(c, pending_key, tuple)
  local flow_id, child_id = string.match(tuple, '^([^|]+)|(.+)$')
  c.budget = c.budget - 1
  if not flow_id then
    redis.call('SREM', pending_key, tuple)
    return true
  end
  if not passes(c, child_id) then return false end
  cancel_owed(c, flow_id, child_id)
  return true
end

-- Works off the owed cancels of the partition, and reads about `limit` executions at most. Returns the number read.
-- `c.sibling_filter`, when given, names the namespace and the tag of the joins to work off. `c.siblings` receives the counts of
-- siblings by disposition.
function sibling_cancel.drain(c, limit)
  local pending_key = key.index_pending_cancel_groups(c)
  local kept = c.budget
  c.budget, c.reserved = limit, nil
  -- Groups with a fault are worked off once in a call.
  local failed, failures = {}, 0
  local goes_on = true
  while goes_on and has_budget(c) do
    goes_on = false
    for _, tuple in ipairs(redis.call('SRANDMEMBER', pending_key, c.sibling_filter and FILTERED_AT_A_TIME or 1)) do
      if not has_budget(c) then break end
      if failed[tuple] then
        c.budget = c.budget - 1
        goes_on = goes_on or not c.sibling_filter
      else
        local before = c.fault_count
        local _, worked = call.guarded(c, 'sibling_cancel_dispatch', tuple, function() return work_off(c, pending_key, tuple) end)
        if c.fault_count ~= before then
          failed[tuple], failures = true, failures + 1
          c.budget = c.budget - 1
          worked = not c.sibling_filter
        end
        goes_on = worked or goes_on
      end
    end
    if failures > 0 then goes_on = goes_on and redis.call('SCARD', pending_key) > failures end
  end
  local used = limit - math.max(c.budget, 0)
  c.budget, c.reserved = kept, nil
  if goes_on and redis.call('EXISTS', pending_key) == 1 then c.more = true end
  return used
end

local function check_tuple(A)
  if is_set(A.flow_id) and is_set(A.downstream_execution_id) then return nil end
  return reply.err('invalid_args', 'flow_id and downstream_eid required')
end

-- @function ff_drain_sibling_cancel_group
-- @summary  Reports that the siblings which a group listed have been cancelled. Listed siblings that still run are kept, and up
--           to 256 siblings that were not listed yet take the place of the others; the reply then ends in `more`, and the group
--           stays owed.
-- @flags    derives repeatable
-- @key      pending         index.pending_cancel_groups
-- @key      group           flow.edgegroup(execution_id=downstream_execution_id)
-- @arg      flow_id         flow_id omittable
-- @arg      downstream_execution_id execution_id omittable
-- @reply    OK outcome:text left:text
-- @error    invalid_args message:text
function F.ff_drain_sibling_cancel_group(K, A)
  local err = check_tuple(A)
  if err then return err end
  local c = call.open(K.pending)
  local flow_id, child_id = A.flow_id, A.downstream_execution_id
  local was_owed = redis.call('SISMEMBER', K.pending, flow_id .. '|' .. child_id) == 1
  local owed = record.read(K.group, OWED_FIELDS)
  local rest = {}
  if was_owed and owed then rest = refresh(c, flow_id, child_id, listed(owed.cancel_siblings_pending_members)) end
  if was_owed and owed and owes_more(c, flow_id, child_id, rest) then
    owe(c, K.group, K.pending, flow_id, child_id, rest)
    return reply.ok('drained', 'more')
  end
  sibling_cancel.forget(c, K.group, K.pending, flow_id, child_id)
  if not was_owed then return reply.ok('already_drained', '') end
  return reply.ok(owed and 'drained' or 'drained_sans_group', '')
end

-- Updates the record of the siblings that a group owes their end. Returns the action and its reason.
function sibling_cancel.reconcile(c, group_key, pending_key, flow_id, child_id)
  if redis.call('SISMEMBER', pending_key, flow_id .. '|' .. child_id) == 0 then return 'no_op', 'not_in_set' end
  local owed = record.read(group_key, OWED_FIELDS)
  if not owed or owed.cancel_siblings_pending_flag ~= 'true' then
    sibling_cancel.forget(c, group_key, pending_key, flow_id, child_id)
    return 'sremmed_stale', owed and 'flag_cleared' or 'missing_edgegroup'
  end
  local rest = refresh(c, flow_id, child_id, listed(owed.cancel_siblings_pending_members))
  if owes_more(c, flow_id, child_id, rest) then
    owe(c, group_key, pending_key, flow_id, child_id, rest)
    return 'no_op', 'siblings_running'
  end
  sibling_cancel.forget(c, group_key, pending_key, flow_id, child_id)
  return 'completed_drain', ''
end

-- @function ff_reconcile_sibling_cancel_group
-- @summary  Closes a group whose siblings have all ended, and removes entries without a meaning from the set of groups that owe
--           cancels. Listed siblings that have ended are removed from the list.
-- @flags    derives repeatable
-- @key      pending         index.pending_cancel_groups
-- @key      group           flow.edgegroup(execution_id=downstream_execution_id)
-- @arg      flow_id         flow_id omittable
-- @arg      downstream_execution_id execution_id omittable
-- @reply    OK action:text reason:text
-- @error    invalid_args message:text
function F.ff_reconcile_sibling_cancel_group(K, A)
  local err = check_tuple(A)
  if err then return err end
  local c = call.open(K.pending)
  local flow_id, child_id = A.flow_id, A.downstream_execution_id
  return reply.ok(sibling_cancel.reconcile(c, K.group, K.pending, flow_id, child_id))
end
