-- Edge groups: the rule by which the edges that lead to one execution, together, let it run. A group whose policy is
-- any_of or quorum is a join: 1 or k successes satisfy it, and it is impossible once so many can no longer come. An
-- all_of group only counts; its rule is that of dependency.resolve, as for an execution without a group.

-- Upstreams named in a group's record at a time.
local MAX_LISTED = 256

-- An upstream with more consumers than this is not looked through: it counts as needed.
local MAX_CONSUMERS = 256

local GROUP_FIELDS = {
  'policy_variant', 'on_satisfied', 'k', 'n', 'expected_edges', 'succeeded', 'failed', 'skipped', 'group_state',
  'reopened',
}
local GROUP_COUNTS = { 'n', 'expected_edges', 'succeeded', 'failed', 'skipped' }

local JOINS = { any_of = true, quorum = true }
local FIRED = { satisfied = true, impossible = true, cancelled = true }

-- The group behind a key, with its counts as numbers, or nil.
local function read_group(group_key)
  local g = record.read(group_key, GROUP_FIELDS)
  if not g or not g.policy_variant then return nil end
  for _, field in ipairs(GROUP_COUNTS) do g[field] = tonumber(g[field]) or 0 end
  g.key = group_key
  g.is_join = JOINS[g.policy_variant] == true
  return g
end

-- The group of an execution that a call is about. `given` is the key that the caller sent; without it, only an
-- execution of a managed flow is looked up, so that a call in the older form does what it always did.
function joins.find(c, given, child, flow_id, child_id)
  if is_set(given) then return read_group(given) end
  if child and child.managed and is_set(flow_id) then return read_group(key.flow_edgegroup(c, flow_id, child_id)) end
  return nil
end

-- The join of an execution, or nil.
function joins.of(c, flow_id, child_id)
  if not is_set(flow_id) then return nil end
  local g = read_group(key.flow_edgegroup(c, flow_id, child_id))
  if g and g.is_join then return g end
  return nil
end

-- Whether a join has not come to a decision, whatever the counts of its edges say.
function joins.is_open(c, flow_id, child_id)
  local g = joins.of(c, flow_id, child_id)
  return g ~= nil and not FIRED[g.group_state]
end

-- Whether a late edge has nothing to say any more, because the join has fired.
function joins.has_fired(g)
  return g ~= nil and g.is_join and FIRED[g.group_state] == true
end

-- Whether an execution may not run yet, or not at all, because of its join.
function joins.is_unsatisfied(g)
  return g ~= nil and g.is_join and g.group_state ~= 'satisfied'
end

-- Counts edges that were applied. A group that comes into being here is all_of. Gives the group.
function joins.add_edges(group_key, g, count)
  if not g then
    redis.call('HSET', group_key, 'policy_variant', 'all_of', 'n', count, 'succeeded', '0', 'group_state', 'pending')
    return read_group(group_key)
  end
  redis.call('HINCRBY', group_key, 'n', count)
  g.n = g.n + count
  if not g.is_join and g.group_state == 'satisfied' then
    g.group_state = 'pending'
    redis.call('HSET', group_key, 'group_state', 'pending')
  end
  return g
end

local function needed_by(g)
  if g.policy_variant == 'any_of' then return 1 end
  return math.max(1, math.floor(tonumber(g.k) or 0))
end

-- What a join's counts amount to. `edges` is how many edges it has or will have. As long as nobody has said how many
-- there will be and there are fewer than it needs, more must be coming.
local function decide(g, edges, sealed)
  local needed = needed_by(g)
  if g.succeeded >= needed then return 'satisfied' end
  if edges - g.failed - g.skipped >= needed then return 'pending' end
  if edges < needed and not sealed then return 'pending' end
  return 'impossible'
end

-- Edges that a join has or will have: applied, staged, or announced with its policy.
local function edges_of(c, g, flow_id, child_id)
  return math.max(g.n, g.expected_edges, redis.call('SCARD', key.flow_in(c, flow_id, child_id)))
end

local function bucket_of(outcome)
  if outcome == 'success' then return 'succeeded' end
  return outcome == 'skipped' and 'skipped' or 'failed'
end

local function count(g, bucket, by)
  g[bucket] = g[bucket] + by
  redis.call('HINCRBY', g.key, bucket, by)
end

-- Refusal of an outcome that a join has no edge for; nil when it has.
function joins.check_count(g)
  local sum = g.succeeded + g.failed + g.skipped + 1
  if not g.is_join or sum <= g.n then return nil end
  return reply.err('invariant_violation',
    'edgegroup counters exceed n: ' .. number.text(sum) .. '/' .. number.text(g.n))
end

-- Whether an outcome is news for an edge. One that was counted as a failure is news again when its upstream was
-- replayed and has succeeded before the join has fired.
function joins.is_news(g, dep, outcome)
  if dep.state == 'unsatisfied' then return true end
  return dep.state == 'impossible' and outcome == 'success' and g ~= nil and g.is_join and not FIRED[g.group_state]
end

-- The edge's own record, and its place in the group's counts.
local function note_outcome(c, k, g, edge_id, dep, outcome)
  local succeeded = outcome == 'success'
  if dep.state == 'impossible' then count(g, bucket_of(dep.outcome), -1) end
  count(g, bucket_of(outcome), 1)
  redis.call('HSET', k.dep, 'state', succeeded and 'satisfied' or 'impossible', 'last_resolved_at', c.now_text)
  if not succeeded then
    redis.call('HSET', k.dep, 'outcome', outcome)
  elseif dep.outcome then
    redis.call('HDEL', k.dep, 'outcome')
  end
  if redis.call('SREM', k.unresolved, edge_id) == 1 then
    redis.call('HINCRBY', k.meta, 'unsatisfied_required_count', -1)
  end
  redis.call('HSET', k.meta, 'last_dependency_update_at', c.now_text)
end

-- Upstreams of a replayed join that ended before and were not replayed with it: they count as what they were.
local function count_those_ended(c, k, g, child_id)
  if not g.reopened or redis.call('SCARD', k.unresolved) > graph.BUDGET then return end
  for _, edge_id in ipairs(redis.call('SMEMBERS', k.unresolved)) do
    local dep_key = key.exec_dep(c, child_id, edge_id)
    local dep = record.read(dep_key, { 'state', 'outcome', 'upstream_execution_id', 'dependency_kind' }) or {}
    local upstream = dep.upstream_execution_id and record.read(key.exec_core(c, dep.upstream_execution_id),
      { 'lifecycle_phase', 'terminal_outcome' })
    if upstream and upstream.lifecycle_phase == 'terminal' and is_set(upstream.terminal_outcome) then
      note_outcome(c, { dep = dep_key, unresolved = k.unresolved, meta = k.meta }, g, edge_id, dep,
        dependency.verdict(dep.dependency_kind, upstream.terminal_outcome))
    end
  end
end

-- A join comes to its decision, once. Nothing is open any more for the child.
local function fire(c, k, g, state)
  g.group_state = state
  redis.call('HSET', g.key, 'group_state', state)
  if state == 'satisfied' then redis.call('HSET', g.key, 'satisfied_at', c.now_text) end
  redis.call('DEL', k.unresolved)
  redis.call('HSET', k.meta, 'unsatisfied_required_count', '0', 'impossible_required_count',
    number.text(state == 'impossible' and g.failed + g.skipped or 0), 'last_dependency_update_at', c.now_text)
end

-- What the decision means for the child. Gives the effect that a caller is told, or nil.
local function tell_child(c, k, g, e, child)
  if g.group_state == 'satisfied' then
    if dependency.is_releasable(child) then dependency.release(c, e.child_id, k, child) end
    return nil
  end
  if child.terminal_outcome ~= 'none' then return nil end
  if child.managed then joins.note_impossible(c, e) end
  dependency.skip(c, e.child_id, k, child)
  return 'child_skipped'
end

-- Resolves one edge of a join. Gives the state of the join and what it did to the child.
local function resolve_join(c, k, g, e, dep, outcome)
  note_outcome(c, k, g, e.edge_id, dep, outcome)
  if FIRED[g.group_state] then
    if outcome == 'success' then redis.call('HSET', k.dep, 'late', '1') end
    return 'already_fired', ''
  end
  if outcome ~= 'success' then count_those_ended(c, k, g, e.child_id) end
  local child = record.read(k.core, dependency.CHILD_FIELDS)
  local sealed = g.expected_edges > 0 or (child ~= nil and child.managed ~= nil)
  local state = decide(g, edges_of(c, g, e.flow_id, e.child_id), sealed)
  local effect = ''
  if child and outcome == 'success' and dependency.inject(k, child) then effect = 'data_injected' end
  if state == 'pending' then return state, effect end
  fire(c, k, g, state)
  if child then effect = tell_child(c, k, g, e, child) or effect end
  if g.on_satisfied == 'cancel_remaining' then
    joins.stop_siblings(c, k, g, e.flow_id, e.child_id, child ~= nil and child.managed ~= nil)
  end
  return state, effect
end

-- The counts of an all_of group. Impossible is final.
local function count_all_of(g, outcome, remaining)
  if outcome ~= 'success' then
    count(g, 'failed', 1)
    redis.call('HSET', g.key, 'group_state', 'impossible')
    return
  end
  count(g, 'succeeded', 1)
  if remaining == 0 and g.group_state ~= 'impossible' then
    redis.call('HSET', g.key, 'group_state', 'satisfied')
  end
end

-- Resolves one edge on the child's side, by the rule of the child's group; `g` is nil without one. `e`: edge_id,
-- flow_id, child_id, upstream_id; `dep`: state and outcome of the edge so far. Gives the new state and its effect.
function joins.resolve(c, k, g, e, dep, outcome)
  if g and g.is_join then return resolve_join(c, k, g, e, dep, outcome) end
  local state, effect, remaining = dependency.resolve(c, k, e.edge_id, outcome)
  if g then count_all_of(g, outcome, remaining) end
  return state, effect
end

-- Whether an edge's upstream feeds its downstream: always without a join; a join takes the results that were there
-- when it was satisfied, so every attempt sees the same ones.
function joins.feeds(c, g, child_id, edge_id)
  if not g then return true end
  local dep = redis.call('HMGET', key.exec_dep(c, child_id, edge_id), 'state', 'late')
  return dep[1] == 'satisfied' and not dep[2]
end

-- Whether an execution still needs the results of its upstreams.
local function still_waits(c, flow_id, execution_id)
  local phase = redis.call('HGET', key.exec_core(c, execution_id), 'lifecycle_phase')
  if not phase or phase == 'terminal' then return false end
  local g = joins.of(c, flow_id, execution_id)
  return g == nil or not FIRED[g.group_state]
end

-- Whether anything but the join needs an upstream: another consumer that still waits, or the flow, for its result.
-- Looking takes from the call's budget.
local function is_needed_elsewhere(c, flow_id, upstream_id, child_id)
  if redis.call('HGET', key.flow_core(c, flow_id), 'result_execution_id') == upstream_id then return true end
  local out_key = key.flow_out(c, flow_id, upstream_id)
  if redis.call('SCARD', out_key) > MAX_CONSUMERS then return true end
  for _, edge_id in ipairs(redis.call('SMEMBERS', out_key)) do
    local consumer = redis.call('HGET', key.flow_edge(c, flow_id, edge_id), 'downstream_execution_id')
    if consumer and consumer ~= child_id then
      c.budget = c.budget - 1
      if still_waits(c, flow_id, consumer) then return true end
    end
  end
  return false
end

-- The record of a sibling that is to be cancelled, or nil: it has ended, or something else needs it.
local function stoppable(c, flow_id, child_id, sibling_id)
  c.budget = c.budget - 1
  local core = record.read(key.exec_core(c, sibling_id), lifecycle.END_FIELDS)
  if not core or not core.lifecycle_phase or core.lifecycle_phase == 'terminal' then return nil end
  if is_needed_elsewhere(c, flow_id, sibling_id, child_id) then return nil end
  return core
end

-- Edges taken at a time from those kept for later, to cancel their upstreams.
local CANCELLED_AT_A_TIME = 32

-- What a cancel takes from a call's budget, beside the look at the sibling. One more is kept for the edge that follows.
local CANCEL_COST = 3

local function has_budget(c) return c.budget > (c.reserved or 0) end

-- Cancels one sibling at once.
local function stop(c, sibling_id, core, reason)
  c.budget = c.budget - CANCEL_COST
  c.reserved = (c.reserved or 0) + 1
  lifecycle.cancel(c, sibling_id, key.exec_core(c, sibling_id), core, reason, 'edge_group', { absorbed = true })
end

-- Goes through the edges that lead to a join, as far as the call's budget goes; the rest is kept for later. `take` is
-- called with each sibling to be cancelled and its record.
local function each_sibling(c, flow_id, child_id, edge_ids, take)
  local seen = {}
  for i, edge_id in ipairs(edge_ids) do
    if not has_budget(c) then
      call.chunked('SADD', key.flow_siblings(c, flow_id, child_id), { unpack(edge_ids, i) })
      return
    end
    local sibling_id = redis.call('HGET', key.flow_edge(c, flow_id, edge_id), 'upstream_execution_id')
    if sibling_id and not seen[sibling_id] then
      seen[sibling_id] = true
      local core = stoppable(c, flow_id, child_id, sibling_id)
      if core then take(sibling_id, core) end
    end
  end
end

-- Siblings whose cancel is owed and that are listed by name.
local function listed(members)
  local out = {}
  for sibling_id in string.gmatch(members or '', '[^|]+') do out[#out + 1] = sibling_id end
  return out
end

-- Takes edges off those that were kept for later.
local function pop_later(c, flow_id, child_id, limit)
  if limit <= 0 then return {} end
  return redis.call('SPOP', key.flow_siblings(c, flow_id, child_id), limit)
end

-- Nothing is owed to the siblings of a join any more.
local function forget_siblings(c, group_key, pending_key, flow_id, child_id)
  redis.call('HDEL', group_key, 'cancel_siblings_pending_flag', 'cancel_siblings_pending_members')
  redis.call('DEL', key.flow_siblings(c, flow_id, child_id))
  redis.call('SREM', pending_key, flow_id .. '|' .. child_id)
end

-- Counts of a group by the edges as they stand, with the open ones in the set of those. Gives how many are open.
local function recount(c, g, child_id)
  local open = 0
  g.succeeded, g.failed, g.skipped = 0, 0, 0
  for _, edge_id in ipairs(redis.call('SMEMBERS', key.exec_deps_all_edges(c, child_id))) do
    local dep_key = key.exec_dep(c, child_id, edge_id)
    if redis.call('HGET', dep_key, 'state') == 'satisfied' then
      g.succeeded = g.succeeded + 1
    else
      redis.call('SADD', key.exec_deps_unresolved(c, child_id), edge_id)
      open = open + 1
    end
    redis.call('HDEL', dep_key, 'outcome', 'late')
  end
  return open
end

-- A join that cannot be satisfied is not the flow's any more.
local function forget_impossible(c, core)
  if not core.managed or core.terminal_outcome ~= 'skipped' then return end
  local flow_key = key.flow_core(c, core.flow_id)
  if redis.call('HINCRBY', flow_key, 'joins_impossible', -1) <= 0 then
    redis.call('HDEL', flow_key, 'joins_impossible')
  end
end

-- A skipped child runs again, so its group begins anew, with its edges as they stand; what was to be cancelled is not.
-- Gives whether the group is satisfied already.
function joins.reset(c, g, core, child_id)
  forget_siblings(c, g.key, key.index_pending_cancel_groups(c), core.flow_id, child_id)
  local open = recount(c, g, child_id)
  g.group_state = 'pending'
  redis.call('HDEL', g.key, 'satisfied_at', 'cancel_siblings_reason')
  redis.call('HSET', g.key, 'succeeded', g.succeeded, 'failed', '0', 'skipped', '0', 'group_state', 'pending',
    'reopened', '1')
  if not g.is_join then
    if open == 0 then redis.call('HSET', g.key, 'group_state', 'satisfied') end
    return open == 0
  end
  forget_impossible(c, core)
  if g.succeeded < needed_by(g) then return false end
  fire(c, { unresolved = key.exec_deps_unresolved(c, child_id), meta = key.exec_deps_meta(c, child_id) }, g,
    'satisfied')
  return true
end

-- All edges of a child are open again, and so is its group.
function joins.clear(c, core, child_id)
  local g = read_group(key.flow_edgegroup(c, core.flow_id, child_id))
  if not g then return end
  forget_siblings(c, g.key, key.index_pending_cancel_groups(c), core.flow_id, child_id)
  redis.call('HDEL', g.key, 'satisfied_at', 'cancel_siblings_reason', 'reopened')
  redis.call('HSET', g.key, 'succeeded', '0', 'failed', '0', 'skipped', '0', 'group_state', 'pending')
  if g.is_join then forget_impossible(c, core) end
end

-- Leaves on record what is still owed. `members` are the siblings listed by name.
local function owe(c, group_key, pending_key, flow_id, child_id, members)
  redis.call('HSET', group_key, 'cancel_siblings_pending_flag', 'true',
    'cancel_siblings_pending_members', table.concat(members, '|'))
  redis.call('SADD', pending_key, flow_id .. '|' .. child_id)
end

-- A join that fired has no use for the upstreams that still run. Those of a managed flow are cancelled at once, as far
-- as the call's budget goes; for other flows they are listed, and whoever dispatches cancels does it.
function joins.stop_siblings(c, k, g, flow_id, child_id, managed)
  local reason = 'sibling_quorum_' .. g.group_state
  local in_key = is_set(k.in_) and k.in_ or key.flow_in(c, flow_id, child_id)
  local pending_key = is_set(k.pending_cancel_groups) and k.pending_cancel_groups or key.index_pending_cancel_groups(c)
  redis.call('HSET', g.key, 'cancel_siblings_reason', reason)
  c.budget = c.budget or graph.BUDGET
  local edge_ids
  if redis.call('SCARD', in_key) > c.budget then
    redis.call('COPY', in_key, key.flow_siblings(c, flow_id, child_id), 'REPLACE')
    edge_ids = pop_later(c, flow_id, child_id, managed and math.min(c.budget, CANCELLED_AT_A_TIME) or c.budget)
  else
    edge_ids = redis.call('SMEMBERS', in_key)
  end
  local members = {}
  each_sibling(c, flow_id, child_id, edge_ids, function(sibling_id, core)
    if managed then
      stop(c, sibling_id, core, reason)
    else
      members[#members + 1] = sibling_id
    end
  end)
  if not managed then
    owe(c, g.key, pending_key, flow_id, child_id, members)
  elseif redis.call('EXISTS', key.flow_siblings(c, flow_id, child_id)) == 1 then
    owe(c, g.key, pending_key, flow_id, child_id, {})
    c.more = true
    wake.due(c, c.now)
  end
end

-- Keeps of a list of siblings those that still have to be cancelled, and fills it up from those not looked at yet.
local function refresh(c, flow_id, child_id, members)
  c.budget = c.budget or graph.BUDGET
  local rest = {}
  for _, sibling_id in ipairs(members) do
    if c.budget <= 0 or stoppable(c, flow_id, child_id, sibling_id) then rest[#rest + 1] = sibling_id end
  end
  local later = pop_later(c, flow_id, child_id, math.min(c.budget, MAX_LISTED - #rest))
  each_sibling(c, flow_id, child_id, later, function(sibling_id) rest[#rest + 1] = sibling_id end)
  return rest
end

-- Whether cancels are owed beyond a list of siblings.
local function owes_more(c, flow_id, child_id, rest)
  return #rest > 0 or redis.call('EXISTS', key.flow_siblings(c, flow_id, child_id)) == 1
end

local OWED_FIELDS = { 'cancel_siblings_pending_flag', 'cancel_siblings_reason', 'cancel_siblings_pending_members' }

-- Cancels siblings that one join's group owes their end, as far as the call's budget goes.
local function cancel_owed(c, flow_id, child_id)
  local group_key, pending_key = key.flow_edgegroup(c, flow_id, child_id), key.index_pending_cancel_groups(c)
  local owed = record.read(group_key, OWED_FIELDS)
  if not owed or owed.cancel_siblings_pending_flag ~= 'true' then
    forget_siblings(c, group_key, pending_key, flow_id, child_id)
    return
  end
  local reason = is_set(owed.cancel_siblings_reason) and owed.cancel_siblings_reason or 'sibling_quorum_satisfied'
  local rest = {}
  for _, sibling_id in ipairs(listed(owed.cancel_siblings_pending_members)) do
    if not has_budget(c) then
      rest[#rest + 1] = sibling_id
    else
      local core = stoppable(c, flow_id, child_id, sibling_id)
      if core then stop(c, sibling_id, core, reason) end
    end
  end
  local later = pop_later(c, flow_id, child_id, math.min(c.budget, CANCELLED_AT_A_TIME))
  each_sibling(c, flow_id, child_id, later, function(sibling_id, core)
    stop(c, sibling_id, core, reason)
  end)
  if owes_more(c, flow_id, child_id, rest) then
    owe(c, group_key, pending_key, flow_id, child_id, rest)
  else
    forget_siblings(c, group_key, pending_key, flow_id, child_id)
  end
end

-- Works off what is owed in the partition, at most about `limit` executions looked at. Gives how many were.
function joins.cancel_owed_siblings(c, limit)
  local pending_key = key.index_pending_cancel_groups(c)
  local kept = c.budget
  c.budget, c.reserved = limit, nil
  while has_budget(c) do
    local tuple = redis.call('SRANDMEMBER', pending_key)
    if not tuple then break end
    local flow_id, child_id = string.match(tuple, '^([^|]+)|(.+)$')
    c.budget = c.budget - 1
    if flow_id then
      cancel_owed(c, flow_id, child_id)
    else
      redis.call('SREM', pending_key, tuple)
    end
  end
  local used = limit - math.max(c.budget, 0)
  c.budget, c.reserved = kept, nil
  if redis.call('EXISTS', pending_key) == 1 then c.more = true end
  return used
end

local function is_join(c, flow_id, execution_id)
  return JOINS[redis.call('HGET', key.flow_edgegroup(c, flow_id, execution_id), 'policy_variant') or ''] == true
end

-- Whether every way on from an execution comes to a join, so that its failure need not be the flow's. Nothing is said
-- for an execution from which more than MAX_CONSUMERS edges are on the way.
local function leads_to_joins(c, flow_id, execution_id)
  local queue, seen, head, looked = { execution_id }, { [execution_id] = true }, 1, 0
  while queue[head] do
    local out_key = key.flow_out(c, flow_id, queue[head])
    local edges = redis.call('SCARD', out_key)
    looked = looked + edges
    if edges == 0 or looked > MAX_CONSUMERS then return false end
    for _, edge_id in ipairs(redis.call('SMEMBERS', out_key)) do
      local consumer = redis.call('HGET', key.flow_edge(c, flow_id, edge_id), 'downstream_execution_id')
      if not consumer then return false end
      if not seen[consumer] and not is_join(c, flow_id, consumer) then queue[#queue + 1] = consumer end
      seen[consumer] = true
    end
    head = head + 1
  end
  return true
end

-- A member of a managed flow ended without success. When all that depends on it are joins in the end, or a join had no
-- use for it any more, that counts apart from the flow's own failures. Gives whether it is none of the flow's as things
-- are: with a join that cannot be satisfied, it is.
function joins.absorb(c, flow_key, execution_id, core, t)
  local flow = redis.call('HMGET', flow_key, 'joins', 'joins_impossible', 'public_flow_state')
  if t.outcome == 'skipped' or not flow[1] or flow[3] ~= 'open' then return false end
  local counter
  if t.absorbed then
    counter = 'cancelled_siblings'
  elseif leads_to_joins(c, core.flow_id, execution_id) then
    counter = t.outcome == 'cancelled' and 'absorbed_cancels' or 'absorbed_failures'
  else
    return false
  end
  redis.call('HINCRBY', flow_key, counter, 1)
  redis.call('HSET', key.exec_core(c, execution_id), 'absorbed', counter)
  return not flow[2]
end

-- The counterpart of joins.absorb, when a member runs again.
function joins.unabsorb(c, flow_key, execution_id)
  local core_key = key.exec_core(c, execution_id)
  local counter = redis.call('HGET', core_key, 'absorbed')
  if not counter then return end
  redis.call('HDEL', core_key, 'absorbed')
  if redis.call('HINCRBY', flow_key, counter, -1) <= 0 then redis.call('HDEL', flow_key, counter) end
end

local FAILURE_FIELDS = { 'execution_id', 'node', 'terminal_outcome', 'failure_reason', 'failure_category' }

-- Notes on the flow what an upstream failed of. Gives whether it had failed.
local function note_failure_of(c, flow_key, upstream_id)
  local upstream = record.read(key.exec_core(c, upstream_id), FAILURE_FIELDS)
  if not upstream or (upstream.terminal_outcome ~= 'failed' and upstream.terminal_outcome ~= 'expired') then
    return false
  end
  graph.note_failure(flow_key, upstream, {
    outcome = upstream.terminal_outcome, reason = upstream.failure_reason, category = upstream.failure_category,
  })
  return true
end

-- A join of a managed flow cannot be satisfied any more, so what its upstreams failed of is the flow's failure: the
-- last one's, or that of any.
function joins.note_impossible(c, e)
  local flow_key = key.flow_core(c, e.flow_id)
  redis.call('HINCRBY', flow_key, 'joins_impossible', 1)
  if e.upstream_id and note_failure_of(c, flow_key, e.upstream_id) then return end
  local in_key = key.flow_in(c, e.flow_id, e.child_id)
  if redis.call('SCARD', in_key) > graph.BUDGET then return end
  for _, edge_id in ipairs(redis.call('SMEMBERS', in_key)) do
    local upstream_id = redis.call('HGET', key.flow_edge(c, e.flow_id, edge_id), 'upstream_execution_id')
    if upstream_id and note_failure_of(c, flow_key, upstream_id) then return end
  end
end

joins.FLOW_FIELDS = { 'absorbed_failures', 'absorbed_cancels', 'cancelled_siblings', 'joins_impossible' }

-- How many of the failures and cancels of a managed flow's members are not the flow's own.
function joins.absorbed(flow)
  local siblings = tonumber(flow.cancelled_siblings) or 0
  if flow.joins_impossible then return 0, siblings end
  return tonumber(flow.absorbed_failures) or 0, siblings + (tonumber(flow.absorbed_cancels) or 0)
end

local VARIANTS = { all_of = true, any_of = true, quorum = true }
local ON_SATISFIED = { cancel_remaining = true, let_run = true }

-- The policy that a call asks for, or nil and the error reply.
local function parse_policy(A)
  local p = { variant = A.policy_variant, on_satisfied = A.on_satisfied or '', k = 0 }
  if not VARIANTS[p.variant] then
    return nil, reply.err('invalid_input', 'unsupported_policy_variant: ' .. tostring(p.variant))
  end
  if p.variant == 'quorum' then
    p.k = math.min(math.floor(number.finite(A.k) or 0), number.MAX_EXACT)
    if p.k < 1 then return nil, reply.err('invalid_input', 'quorum k must be >= 1') end
  end
  if JOINS[p.variant] and not ON_SATISFIED[p.on_satisfied] then
    return nil, reply.err('invalid_input',
      'on_satisfied required for any_of/quorum: cancel_remaining | let_run')
  end
  local err
  p.expected, err = number.count('expected_edges', A.expected_edges, 0)
  if err then return nil, err end
  p.expected = math.floor(p.expected)
  if p.expected > 0 and p.k > p.expected then
    return nil, reply.err('invalid_input', 'quorum k is ' .. number.digits(p.k) .. ', but only '
      .. number.digits(p.expected) .. ' edges are expected')
  end
  return p
end

local function same_policy(g, p)
  return g.policy_variant == p.variant and (g.on_satisfied or '') == p.on_satisfied
    and (tonumber(g.k) or 0) == p.k and g.expected_edges == p.expected
end

-- Writes the record of a group that has no edges yet. `p`: variant, on_satisfied, k, and expected, 0 when nobody knows.
function joins.write(c, group_key, p)
  redis.call('HSET', group_key, 'policy_variant', p.variant, 'on_satisfied', p.on_satisfied,
    'k', number.digits(p.k), 'n', '0', 'succeeded', '0', 'failed', '0', 'skipped', '0', 'group_state', 'pending',
    'created_at', c.now_text)
  if p.expected > 0 then redis.call('HSET', group_key, 'expected_edges', number.digits(p.expected)) end
end

-- @function ff_set_edge_group_policy
-- @summary  Says how the edges that lead to an execution let it run together: all of them, any one, or k. To be
--           called before the first of them is applied. With expected_edges, the group knows how many there will be,
--           and does not give up before.
-- @flags    derives repeatable
-- @key      flow            flow.core
-- @key      group           flow.edgegroup(execution_id=downstream_execution_id)
-- @arg      policy_variant  text
-- @arg      on_satisfied    text optional
-- @arg      k               int optional
-- @arg      now_ms          unix_ms optional
-- @arg      expected_edges  int optional
-- @reply    OK outcome:text
-- @error    flow_not_found
-- @error    invalid_input message:text
function F.ff_set_edge_group_policy(K, A)
  local c = call.open(K.flow)
  local flow = record.read(K.flow, { 'managed' })
  if not flow then return reply.err('flow_not_found') end
  local p, err = parse_policy(A)
  if err then return err end
  local g = read_group(K.group)
  if g and same_policy(g, p) then return reply.ok('already_set') end
  local child_id = string.match(K.group, ':edgegroup:(.+)$') or ''
  if (g and g.n > 0) or redis.call('EXISTS', key.exec_deps_all_edges(c, child_id)) == 1 then
    return reply.err('invalid_input', 'edge_group_policy_already_fixed: dependencies already staged')
  end
  joins.write(c, K.group, p)
  if p.expected == 0 then redis.call('HDEL', K.group, 'expected_edges') end
  if flow.managed then redis.call('HSET', K.flow, 'joins', '1') end
  return reply.ok('set')
end

local function check_tuple(A)
  if is_set(A.flow_id) and is_set(A.downstream_execution_id) then return nil end
  return reply.err('invalid_args', 'flow_id and downstream_eid required')
end

-- @function ff_drain_sibling_cancel_group
-- @summary  The siblings that a group listed have been cancelled. Those of the list that still run are kept, and up to
--           256 that were not listed yet take the place of the others; the reply then ends in `more`, and the group
--           stays owed.
-- @flags    derives repeatable
-- @key      pending         index.pending_cancel_groups
-- @key      group           flow.edgegroup(execution_id=downstream_execution_id)
-- @arg      flow_id         flow_id
-- @arg      downstream_execution_id execution_id
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
  forget_siblings(c, K.group, K.pending, flow_id, child_id)
  if not was_owed then return reply.ok('already_drained', '') end
  return reply.ok(owed and 'drained' or 'drained_sans_group', '')
end

-- @function ff_reconcile_sibling_cancel_group
-- @summary  Closes a group whose siblings have all ended, and takes entries without a meaning out of the set of groups
--           that owe cancels. Siblings of the list that have ended are taken off it.
-- @flags    derives repeatable
-- @key      pending         index.pending_cancel_groups
-- @key      group           flow.edgegroup(execution_id=downstream_execution_id)
-- @arg      flow_id         flow_id
-- @arg      downstream_execution_id execution_id
-- @reply    OK action:text reason:text
-- @error    invalid_args message:text
function F.ff_reconcile_sibling_cancel_group(K, A)
  local err = check_tuple(A)
  if err then return err end
  local c = call.open(K.pending)
  local flow_id, child_id = A.flow_id, A.downstream_execution_id
  if redis.call('SISMEMBER', K.pending, flow_id .. '|' .. child_id) == 0 then
    return reply.ok('no_op', 'not_in_set')
  end
  local owed = record.read(K.group, OWED_FIELDS)
  if not owed or owed.cancel_siblings_pending_flag ~= 'true' then
    forget_siblings(c, K.group, K.pending, flow_id, child_id)
    return reply.ok('sremmed_stale', owed and 'flag_cleared' or 'missing_edgegroup')
  end
  local rest = refresh(c, flow_id, child_id, listed(owed.cancel_siblings_pending_members))
  if owes_more(c, flow_id, child_id, rest) then
    owe(c, K.group, K.pending, flow_id, child_id, rest)
    return reply.ok('no_op', 'siblings_running')
  end
  forget_siblings(c, K.group, K.pending, flow_id, child_id)
  return reply.ok('completed_drain', '')
end
