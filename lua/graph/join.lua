-- Decides joins, and applies the decision to the execution that has the join.

local function needed_by(g)
  if g.policy_variant ~= 'quorum' then return 1 end
  return math.max(1, math.floor(tonumber(g.k) or 0))
end

-- Reports whether every upstream that a join misses was skipped for a condition; an impossible join then does not fail the flow.
local function is_by_condition(g)
  return g.failed == 0 and g.skipped > 0 and (tonumber(redis.call('HGET', g.key, 'by_condition') or nil) or 0) >= g.skipped
end

-- Reports whether an impossible join fails the flow: one that was to make up for failures, which now count for the flow.
local function has_failed(g) return edge_group.tolerates(g.policy_variant) and not is_by_condition(g) end

-- Joins that wait for all of their upstreams.
local WAITING_FOR_ALL = { any_failure = true, finally = true }

-- Returns the state of a join by its counts. `edges` is the number of edges that it has or will have. While the final number was
-- not announced and there are fewer edges than the join needs, more must be coming.
local function decide(g, edges, sealed)
  local needed = needed_by(g)
  if WAITING_FOR_ALL[g.policy_variant] and g.succeeded + g.failed + g.skipped < edges then return 'pending' end
  if g.succeeded >= needed then return 'satisfied' end
  if edges - g.failed - g.skipped >= needed then return 'pending' end
  if edges < needed and not sealed then return 'pending' end
  return 'impossible'
end

-- Returns the number of edges that a join has or will have: applied, staged, or announced with its policy.
local function edges_of(c, g, flow_id, child_id)
  return math.max(g.n, g.expected_edges, adjacency.count_upstream(c, flow_id, child_id))
end

local function bucket_of(outcome)
  if outcome == 'success' then return 'succeeded' end
  return outcome == 'skipped' and 'skipped' or 'failed'
end

local function count(g, bucket, by)
  g[bucket] = g[bucket] + by
  redis.call('HINCRBY', g.key, bucket, by)
end

-- Reports whether an outcome changes an edge. An edge that was counted as a failure changes again when its upstream was replayed
-- and succeeded before the join fired.
function join.is_update(g, dep, outcome)
  if dep.state == 'unsatisfied' then return true end
  return dep.state == 'impossible' and outcome == 'success' and g ~= nil and g.is_join and not edge_group.has_fired(g)
end

-- Records the outcome in the edge's own record and in the group's counts.
local function note_outcome(c, k, g, edge_id, dep, outcome)
  local succeeded = outcome == 'success'
  if dep.state == 'impossible' then count(g, bucket_of(dep.outcome), -1) end
  count(g, bucket_of(outcome), 1)
  edge_state.write(c, k, succeeded, outcome, dep)
  if dep.state == 'unsatisfied' then edge_state.close(c, k, edge_id) end
end

-- Counts the upstreams of a replayed join that ended earlier and were not replayed with it, each with the outcome that it had.
local function count_those_ended(c, k, g, child_id)
  if not g.reopened or redis.call('SCARD', k.unresolved) > call.WORK_BUDGET then return end
  local s, at = store.of(k.core)
  for _, ended in ipairs(s.ended_edges(at, k)) do
    note_outcome(c, ended.k, g, nil, ended.dep, ended.outcome)
  end
  for _, edge_id in ipairs(redis.call('SMEMBERS', k.unresolved)) do
    local dep_key = key.exec_dep(c, child_id, edge_id)
    local dep = record.read(dep_key, { 'state', 'outcome', 'upstream_execution_id', 'dependency_kind' }) or {}
    local upstream = dep.upstream_execution_id and record.read(key.exec_core(c, dep.upstream_execution_id),
      { 'lifecycle_phase', 'terminal_outcome' })
    if upstream and upstream.lifecycle_phase == 'terminal' and is_set(upstream.terminal_outcome) then
      note_outcome(c, { dep = dep_key, unresolved = k.unresolved, meta = k.meta, core = k.core }, g, edge_id, dep,
        decision.verdict(c, dep.dependency_kind, upstream.terminal_outcome, dep.upstream_execution_id))
    end
  end
end

-- Records the decision of a join, which is made once. The child then has no open edges.
local function fire(c, k, g, state)
  g.group_state = state
  redis.call('HSET', g.key, 'group_state', state)
  if state == 'satisfied' then redis.call('HSET', g.key, 'satisfied_at', c.now_text) end
  edge_state.close_all(c, k, state == 'impossible' and g.failed + g.skipped or 0)
end

-- Applies the decision of a join to the child. Returns the effect that the caller receives, or nil.
local function tell_child(c, k, g, e, child)
  if g.group_state == 'satisfied' then
    if g.policy_variant == 'finally' then finally.begin(c, e.flow_id, g) end
    if dependency.is_releasable(child) then dependency.release(c, e.child_id, k, child) end
    return nil
  end
  if child.terminal_outcome ~= 'none' then return nil end
  if child.managed and has_failed(g) then tolerated_failures.note_impossible(c, e) end
  k.reason = is_by_condition(g) and e.reason or nil
  if child.row then child = record.read(k.core, dependency.CHILD_FIELDS) end
  dependency.skip(c, e.child_id, k, child)
  return 'child_skipped'
end

-- Resolves one edge of a join. Returns the state of the join and the effect on the child.
local function resolve_join(c, k, g, e, dep, outcome)
  note_outcome(c, k, g, e.edge_id, dep, outcome)
  if e.reason then redis.call('HINCRBY', g.key, 'by_condition', 1) end
  if edge_group.has_fired(g) then
    if outcome == 'success' then edge_state.mark_late(c, k) end
    return 'already_fired', ''
  end
  if outcome ~= 'success' then count_those_ended(c, k, g, e.child_id) end
  local s, at = store.of(k.core)
  local child = s.fresh(at) or record.read(k.core, dependency.CHILD_FIELDS)
  local sealed = g.expected_edges > 0 or (child ~= nil and child.managed ~= nil)
  local state = decide(g, edges_of(c, g, e.flow_id, e.child_id), sealed)
  local effect = ''
  if child and outcome == 'success' and dependency.inject(k, child) then effect = 'data_injected' end
  if state == 'pending' then return state, effect end
  fire(c, k, g, state)
  if child then effect = tell_child(c, k, g, e, child) or effect end
  if g.on_satisfied == 'cancel_remaining' then
    sibling_cancel.begin(c, k, g, e.flow_id, e.child_id, child ~= nil and child.managed ~= nil)
  end
  return state, effect
end

-- Counts an outcome in an all_of group, whose state impossible is final.
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

-- Resolves one edge on the child's side, by the rule of the child's group; `g` is nil without a group. `e`: edge_id, flow_id,
-- child_id, upstream_id; `dep`: state and outcome of the edge so far. Returns the new state and its effect.
function join.resolve(c, k, g, e, dep, outcome)
  if g and g.is_join then return resolve_join(c, k, g, e, dep, outcome) end
  k.reason = e.reason
  local state, effect, remaining = dependency.resolve(c, k, e.edge_id, outcome)
  if g then count_all_of(g, outcome, remaining) end
  return state, effect
end

-- Reports whether an edge's upstream feeds its downstream. It always does without a join. A join uses the results that existed
-- when it was satisfied, so that every attempt gets the same ones.
function join.feeds(c, g, child_id, edge_id)
  if not g then return true end
  local dep = redis.call('HMGET', key.exec_dep(c, child_id, edge_id), 'state', 'late')
  return dep[1] == 'satisfied' and not dep[2]
end

-- Counts a group again by the current states of its edges, and rebuilds the set of open edges. Returns the number of open edges.
local function recount(c, g, flow_id, child_id)
  local of_records = 0
  g.succeeded, g.failed, g.skipped = 0, 0, 0
  for _, edge_id in ipairs(redis.call('SMEMBERS', key.exec_deps_all_edges(c, child_id))) do
    local dep_key = key.exec_dep(c, child_id, edge_id)
    if redis.call('HGET', dep_key, 'state') == 'satisfied' then
      g.succeeded = g.succeeded + 1
    else
      redis.call('SADD', key.exec_deps_unresolved(c, child_id), edge_id)
      of_records = of_records + 1
    end
    redis.call('HDEL', dep_key, 'outcome', 'late')
  end
  local s, at = store.of(key.exec_core(c, child_id))
  local satisfied, open = s.recount_edges(at, of_records)
  g.succeeded = g.succeeded + satisfied
  return open
end

-- Stops counting an impossible join as a failure of the flow, where it was counted as one: see has_failed.
local function forget_impossible(c, core, was_failure)
  if not core.managed or core.terminal_outcome ~= 'skipped' or not was_failure then return end
  local flow_key = key.flow_core(c, core.flow_id)
  if record.add(flow_key, 'joins_impossible', -1) <= 0 then
    record.clear(flow_key, 'joins_impossible')
  end
end

-- Resets the group of a skipped child that runs again: counts the edges by their current states and drops owed cancels. Reports
-- whether the group is already satisfied.
function join.reset(c, g, core, child_id)
  sibling_cancel.forget(c, g.key, key.index_pending_cancel_groups(c), core.flow_id, child_id)
  local was_failure = has_failed(g)
  local open = recount(c, g, core.flow_id, child_id)
  g.group_state = 'pending'
  redis.call('HDEL', g.key, 'satisfied_at', 'cancel_siblings_reason', 'by_condition')
  redis.call('HSET', g.key, 'succeeded', g.succeeded, 'failed', '0', 'skipped', '0', 'group_state', 'pending',
    'reopened', '1')
  if not g.is_join then
    if open == 0 then redis.call('HSET', g.key, 'group_state', 'satisfied') end
    return open == 0
  end
  forget_impossible(c, core, was_failure)
  if decide(g, g.succeeded + open, true) ~= 'satisfied' then return false end
  fire(c, dependency.child_keys(c, child_id, ''), g, 'satisfied')
  return true
end

-- Opens all edges of a child again, and its group.
function join.clear(c, core, child_id)
  local g = edge_group.read(key.flow_edgegroup(c, core.flow_id, child_id))
  if not g then return end
  sibling_cancel.forget(c, g.key, key.index_pending_cancel_groups(c), core.flow_id, child_id)
  local was_failure = has_failed(g)
  redis.call('HDEL', g.key, 'satisfied_at', 'cancel_siblings_reason', 'reopened', 'by_condition')
  redis.call('HSET', g.key, 'succeeded', '0', 'failed', '0', 'skipped', '0', 'group_state', 'pending')
  if g.is_join then forget_impossible(c, core, was_failure) end
end
