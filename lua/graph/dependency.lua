-- Dependencies of an execution: its edges, the number of open edges, and the effect of a resolved edge on the execution.

-- Child fields that a resolution reads.
dependency.CHILD_FIELDS = {
  'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome', 'attempt_state',
  'flow_id', 'managed', 'node', 'lane_id', 'current_lane', 'created_at', 'priority', 'delay_until',
  'current_attempt_index', 'current_attempt_id', 'current_lease_id', 'current_lease_epoch',
  'current_worker_id', 'current_worker_instance_id', 'current_waitpoint_id', 'start_timeout', 'retry_count',
  'lease_expires_at', 'blocking_reason', 'blocking_detail', 'prior_eligibility_state', 'prior_blocking_reason',
  'prior_blocking_detail', 'wait', 'fair_key',
}

-- The fields that suffice for a child that may run now. A child that something else blocks needs the full list.
dependency.READY_FIELDS = {
  'lifecycle_phase', 'ownership_state', 'eligibility_state', 'attempt_state', 'terminal_outcome', 'lane_id',
  'execution_id', 'created_at', 'priority', 'flow_id', 'managed', 'delay_until', 'start_timeout', 'blocking_detail',
  'prior_eligibility_state', 'wait', 'fair_key',
}

-- The fields for a child that the call may lease at once when it makes the child ready. They include the fields that a first
-- claim reads.
dependency.HANDOFF_FIELDS = {
  'lifecycle_phase', 'ownership_state', 'eligibility_state', 'attempt_state', 'terminal_outcome', 'lane_id',
  'flow_id', 'managed', 'node', 'current_lease_epoch', 'total_attempt_count', 'execution_kind', 'created_at',
  'priority', 'retry_count', 'input_count', 'uses_flow_input', 'delay_until', 'start_timeout', 'attempt_timeout',
  'required_capabilities', 'blocking_detail', 'prior_eligibility_state', 'attached', 'wait', 'limits', 'fair_key',
}

-- Returns the keys of the child's side of one edge, and the child's id.
function dependency.child_keys(c, child_id, edge_id)
  return {
    child_id = child_id,
    core = key.exec_core(c, child_id),
    meta = key.exec_deps_meta(c, child_id),
    unresolved = key.exec_deps_unresolved(c, child_id),
    dep = key.exec_dep(c, child_id, edge_id),
  }
end

-- Returns the number of upstreams for which an execution still waits. It is 0 after the decision of its join.
function dependency.open_edges(c, child, child_id)
  local s, at = store.of(key.exec_core(c, child_id))
  local open = s.open_edges(at, key.exec_deps_meta(c, child_id))
  if open > 0 and edge_group.has_fired(edge_group.of(c, child.flow_id, child_id)) then return 0 end
  return open
end

-- Returns the state of the attempt of a child that may run now.
local function startable(attempt_state)
  if not is_set(attempt_state) or attempt_state == 'none' then return 'pending_first_attempt' end
  return attempt_state
end

-- @hook Reports whether the call itself leases an execution that may run now, so that it need not enter its lane.
function dependency.hand_off(c, next_up, execution_id, core_key, core) return false end

-- Releases a blocked child whose last dependency is satisfied: it may run at once, after its own delay, or after the earlier
-- block is lifted.
function dependency.release(c, child_id, k, child)
  if not store.row(k.core) then
    call.leave(c, 'ZREM', k.blocked_dependencies or key.lane_blocked_dependencies(c, record.lane(child)), child_id)
  end
  if is_set(child.prior_eligibility_state) then
    child = record.read(k.core, dependency.CHILD_FIELDS)
    admission.restore(c, child_id, k.core, child, startable(child.attempt_state))
    return
  end
  child.attempt_state = startable(child.attempt_state)
  if not (k.next_up and dependency.hand_off(c, k.next_up, child_id, k.core, child)) then
    dependency.ready(c, child_id, k.core, child, k.eligible)
  end
end

-- Makes a child ready whose dependencies are all satisfied, when nothing except its own delay holds it back.
function dependency.ready(c, child_id, core_key, child, eligible_key)
  if child.row and child.wait then
    wait.open(c, child_id, core_key, child)
    return
  elseif child.row then
    requeue.ready_fresh(c, child_id, core_key, child, eligible_key)
    return
  end
  requeue.ready(c, child_id, core_key, child, {
    own_delay = true, values = { 'attempt_state', child.attempt_state }, eligible = eligible_key,
  })
end

-- Skips a child that can never run, because an upstream ended with an outcome that does not satisfy the edge. `k.reason` is the
-- condition that caused this, or nil.
function dependency.skip(c, child_id, k, child)
  local attempt_state = child.attempt_state
  local interrupted = attempt_state == 'running_attempt' or attempt_state == 'attempt_interrupted'
  local ended_state = 'none'
  if interrupted then
    ended_state = 'attempt_terminal'
  elseif attempt_state == '' then
    ended_state = ''
  end
  local running_on = child.lifecycle_phase == 'active' and child.current_worker_instance_id
  terminal.leave_phase(c, child_id, child, {
    attempt_state = 'ended_cancelled', failure_reason = 'dependency_impossible',
    stream_reason = 'dependency_impossible', close_reason = 'dependency_impossible',
    released = 'dependency_impossible',
  })
  terminal.finish(c, child_id, k.core, child, {
    outcome = 'skipped', attempt_state = ended_state, reason = k.reason,
    values = k.reason and { 'failure_reason', k.reason },
    blank = interrupted and terminal.LEASE_FIELDS or {}, terminal_key = k.terminal,
    silent = not is_set(child.execution_id),
  })
  wake.stop(c, running_on, child_id, child, 'cancelled', 'skipped')
end

local function is_blocked(child)
  return child.lifecycle_phase == 'runnable' and child.eligibility_state == 'blocked_by_dependencies'
end

-- Whether a child waits for its dependencies and for nothing else.
function dependency.is_releasable(child)
  return is_blocked(child) and child.ownership_state == 'unowned' and child.terminal_outcome == 'none'
end

-- Copies the result at one key to another key. Reports whether there is a result. The result of a node is stored with its run.
function dependency.copy_result(result_key, target)
  local core_key = string.gsub(result_key, ':result$', ':core')
  local s, at = store.of(core_key)
  return s.copy_result(at, result_key, target)
end

-- Copies the upstream's result to a child that still waits, when the edge carries data and the call has the keys.
function dependency.inject(k, child)
  return k.upstream_result and (is_blocked(child) or hidden.has_dependencies(k.core, child)) and child.terminal_outcome == 'none'
    and is_set(redis.call('HGET', k.dep, 'data_passing_ref'))
    and dependency.copy_result(k.upstream_result, k.payload)
end

-- Outcomes of an upstream that satisfy an edge, by the edge's kind; any other kind is success_only. Only managed flows have edges
-- of other kinds. A skip for a condition also satisfies the kind unless_failed: see decision.verdict_by.
dependency.SATISFYING = {
  on_failure = { failed = true, expired = true, cancelled = true },
  always = { success = true, failed = true, expired = true, cancelled = true, skipped = true },
  unless_failed = { success = true },
}

-- Returns the outcome that an edge of a managed flow counts for an upstream's outcome: success when it satisfies the edge.
-- decision.verdict decides for the edges of a condition's cases, and for edges of the kind unless_failed.
function dependency.verdict(kind, outcome)
  local satisfying = dependency.SATISFYING[kind]
  if not satisfying then return outcome end
  if satisfying[outcome] then return 'success' end
  return outcome == 'success' and 'skipped' or outcome
end

-- Applies resolved edges to their child. The edges were all satisfied or all not; `remaining` edges are open. Returns the effect
-- that the caller receives.
local function affect_child(c, k, satisfied, remaining)
  -- A child that waits for more edges and receives no result is not even read.
  if satisfied and remaining > 0 and not k.upstream_result then return '' end
  local child
  if not satisfied then
    child = record.read(k.core, dependency.CHILD_FIELDS)
  else
    local s, at = store.of(k.core)
    child = k.managed and s.fresh(at) or s.read(at, k.next_up and dependency.HANDOFF_FIELDS or dependency.READY_FIELDS)
  end
  if not child then return '' end
  local child_id = k.child_id or child.execution_id or ''
  if not satisfied then
    if child.terminal_outcome ~= 'none' then return '' end
    dependency.skip(c, child_id, k, child)
    return 'child_skipped'
  end
  local effect = dependency.inject(k, child) and 'data_injected' or ''
  if remaining == 0 and dependency.is_releasable(child) then
    dependency.release(c, child_id, k, child)
  end
  return effect
end

-- Resolves one edge on the child's side, all of whose edges must be satisfied. Returns the dependency's new state, the effect on
-- the child, and the number of open edges.
function dependency.resolve(c, k, edge_id, outcome)
  local satisfied = outcome == 'success'
  local state = satisfied and 'satisfied' or 'impossible'
  redis.call('HSET', k.dep, 'state', state, 'last_resolved_at', c.now_text)
  redis.call('SREM', k.unresolved, edge_id)
  local s, at = store.of(k.core)
  local remaining = s.take_edges(at, c, k.child_id, k, 1, satisfied and 0 or 1)
  -- In a managed flow, the edge's own record contains the time.
  if not k.managed then redis.call('HSET', k.meta, 'last_dependency_update_at', c.now_text) end
  return state, affect_child(c, k, satisfied, remaining), remaining
end

-- Records in the child's record of an edge how the edge was resolved.
local function note_resolved(c, child_id, edge)
  redis.call('HSET', key.exec_dep(c, child_id, edge.edge_id), 'state', edge.outcome == 'success' and 'satisfied' or 'impossible',
    'last_resolved_at', c.now_text)
end

-- Resolves edges of one child of a managed flow that are no longer among its open edges. `edges` is a list of {edge_id or
-- upstream, outcome, upstream_id}, with the outcome that dependency.verdict returns.
function dependency.resolve_taken(c, child_id, edges, next_up)
  local impossible, reason = 0, nil
  for _, edge in ipairs(edges) do
    if edge.outcome ~= 'success' then impossible, reason = impossible + 1, reason or edge.reason end
    if edge.edge_id then note_resolved(c, child_id, edge) end
  end
  local core_key = key.exec_core(c, child_id)
  local s, at = store.of(core_key)
  local remaining = s.take_edges(at, c, child_id, nil, #edges, impossible)
  if impossible == 0 and remaining > 0 then return end
  local k = { managed = true, child_id = child_id, core = core_key, next_up = next_up, reason = reason }
  affect_child(c, k, impossible == 0, remaining)
end

-- Blocks an execution by its dependencies. `h`: detail, attempt_state, values and blank (further core fields),
-- blocked_dependencies (the index).
function dependency.hold(c, child_id, core_key, child, h)
  local values = {
    'lifecycle_phase', 'runnable',
    'ownership_state', child.ownership_state or 'unowned',
    'eligibility_state', 'blocked_by_dependencies',
    'blocking_reason', 'waiting_for_children',
    'blocking_detail', h.detail,
    'terminal_outcome', 'none',
    'attempt_state', h.attempt_state,
    'public_state', 'waiting_children',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }
  for _, value in ipairs(h.values or {}) do values[#values + 1] = value end
  record.write(core_key, child.managed, values, h.blank or {})
  if store.row(core_key) then return end
  redis.call('ZADD', h.blocked_dependencies or key.lane_blocked_dependencies(c, record.lane(child)),
    tonumber(child.created_at) or 0, child_id)
end

-- Writes the child's record of an edge.
function dependency.write_child_edge(c, dep_key, flow_id, child_id, edge)
  redis.call('HSET', dep_key,
    'edge_id', edge.edge_id, 'flow_id', flow_id,
    'upstream_execution_id', edge.upstream_execution_id, 'downstream_execution_id', child_id,
    'dependency_kind', edge.dependency_kind, 'state', 'unsatisfied',
    'data_passing_ref', edge.input_name, 'last_resolved_at', '')
end

-- Fields of the child's record of an edge that a resolution reads.
dependency.EDGE_FIELDS = { 'state', 'outcome', 'flow_id', 'downstream_execution_id', 'upstream_execution_id',
  'dependency_kind' }

-- Writes the flow's record of an edge.
function dependency.write_edge(c, edge_key, flow_id, edge)
  redis.call('HSET', edge_key,
    'edge_id', edge.edge_id, 'flow_id', flow_id,
    'upstream_execution_id', edge.upstream_execution_id,
    'downstream_execution_id', edge.downstream_execution_id,
    'dependency_kind', edge.dependency_kind, 'satisfaction_condition', 'all_required',
    'data_passing_ref', edge.input_name, 'edge_state', 'pending',
    'created_at', c.now_text, 'created_by', 'engine')
end
