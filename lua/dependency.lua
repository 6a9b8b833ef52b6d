-- Dependency edges: the flow's side (edge records) and the child's side (counters, eligibility).

-- Child fields that a resolution reads.
dependency.CHILD_FIELDS = {
  'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome', 'attempt_state',
  'flow_id', 'managed', 'node', 'lane_id', 'current_lane', 'created_at', 'priority', 'delay_until',
  'current_attempt_index', 'current_attempt_id', 'current_lease_id', 'current_lease_epoch',
  'current_worker_id', 'current_worker_instance_id', 'current_waitpoint_id', 'start_timeout', 'retry_count',
  'lease_expires_at', 'blocking_reason', 'blocking_detail', 'prior_eligibility_state', 'prior_blocking_reason',
  'prior_blocking_detail', 'wait', 'fair_key',
}

-- Those that a child needs which may run now; the full list when something else holds it back.
dependency.READY_FIELDS = {
  'lifecycle_phase', 'ownership_state', 'eligibility_state', 'attempt_state', 'terminal_outcome', 'lane_id',
  'execution_id', 'created_at', 'priority', 'flow_id', 'managed', 'delay_until', 'start_timeout', 'blocking_detail',
  'prior_eligibility_state', 'wait', 'fair_key',
}

-- Those of a child that the call which makes it ready may lease at once: what a first claim reads, too.
dependency.HEIR_FIELDS = {
  'lifecycle_phase', 'ownership_state', 'eligibility_state', 'attempt_state', 'terminal_outcome', 'lane_id',
  'flow_id', 'managed', 'node', 'current_lease_epoch', 'total_attempt_count', 'execution_kind', 'created_at',
  'priority', 'retry_count', 'input_count', 'uses_flow_input', 'delay_until', 'start_timeout', 'attempt_timeout',
  'required_capabilities', 'blocking_detail', 'prior_eligibility_state', 'attached', 'wait', 'limits', 'fair_key',
}

-- Keys of the child's side of one edge, and the child's id.
function dependency.child_keys(c, child_id, edge_id)
  return {
    child_id = child_id,
    core = key.exec_core(c, child_id),
    meta = key.exec_deps_meta(c, child_id),
    unresolved = key.exec_deps_unresolved(c, child_id),
    dep = key.exec_dep(c, child_id, edge_id),
  }
end

-- How many upstreams an execution still waits for. A join that has come to its decision waits for none.
function dependency.open_edges(c, child, child_id)
  local open = redis.call('HGET', key.exec_deps_meta(c, child_id), 'unsatisfied_required_count')
  open = math.max(0, tonumber(open or nil) or 0)
  if open > 0 and joins.has_fired(joins.of(c, child.flow_id, child_id)) then return 0 end
  return open
end

-- State of the attempt of a child that may run now.
local function startable(attempt_state)
  if not is_set(attempt_state) or attempt_state == 'none' then return 'pending_first_attempt' end
  return attempt_state
end

-- A blocked child whose last dependency is satisfied may run: at once, when its own delay is over, or when what
-- held it back before is lifted.
function dependency.release(c, child_id, k, child)
  call.leave(c, 'ZREM', k.blocked_dependencies or key.lane_blocked_dependencies(c, lifecycle.lane(child)), child_id)
  if is_set(child.prior_eligibility_state) then
    child = record.read(k.core, dependency.CHILD_FIELDS)
    admission.restore(c, child_id, k.core, child, startable(child.attempt_state))
    return
  end
  child.attempt_state = startable(child.attempt_state)
  if not (k.heirs and work.inherit(c, k.heirs, child_id, k.core, child)) then
    dependency.ready(c, child_id, k.core, child, k.eligible)
  end
end

-- What a child with all its dependencies satisfied becomes, when nothing else holds it back than its own delay.
function dependency.ready(c, child_id, core_key, child, eligible_key)
  if child.is_simple then
    park.ready_simple(c, child_id, core_key, child, eligible_key)
    return
  end
  park.ready(c, child_id, core_key, child, {
    own_delay = true, values = { 'attempt_state', child.attempt_state }, eligible = eligible_key,
  })
end

-- An upstream ended without success, so the child can never run.
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
  lifecycle.leave_phase(c, child_id, child, {
    attempt_state = 'ended_cancelled', failure_reason = 'dependency_impossible',
    stream_reason = 'dependency_impossible', close_reason = 'dependency_impossible',
    released = 'dependency_impossible',
  })
  lifecycle.finish(c, child_id, k.core, child, {
    outcome = 'skipped', attempt_state = ended_state,
    blank = interrupted and lifecycle.LEASE_FIELDS or {}, terminal_key = k.terminal,
    silent = not is_set(child.execution_id),
  })
  if child.managed and is_set(running_on) then wake.cancel(c, running_on, child_id, child.current_lease_id, 'skipped') end
end

local function is_blocked(child)
  return child.lifecycle_phase == 'runnable' and child.eligibility_state == 'blocked_by_dependencies'
end

-- Whether a child waits for its dependencies and for nothing else.
function dependency.is_releasable(child)
  return is_blocked(child) and child.ownership_state == 'unowned' and child.terminal_outcome == 'none'
end

-- Hands the upstream's result to a child that still waits, when the edge carries data and the call brings the keys.
function dependency.inject(k, child)
  return k.upstream_result and is_blocked(child) and child.terminal_outcome == 'none'
    and is_set(redis.call('HGET', k.dep, 'data_passing_ref'))
    and redis.call('COPY', k.upstream_result, k.payload, 'REPLACE') == 1
end

-- Outcomes of an upstream that satisfy an edge, by the edge's kind; any other kind is success_only. Only managed flows have
-- edges of other kinds.
local SATISFYING = {
  on_failure = { failed = true, expired = true, cancelled = true },
  always = { success = true, failed = true, expired = true, cancelled = true, skipped = true },
}

-- What an upstream's outcome amounts to for an edge of a managed flow: success when it satisfies the edge.
function dependency.verdict(kind, outcome)
  local satisfying = SATISFYING[kind]
  if not satisfying then return outcome end
  if satisfying[outcome] then return 'success' end
  return outcome == 'success' and 'skipped' or outcome
end

-- What it means for a child that edges of it were resolved, and all of them satisfied or not; `remaining` are open. Gives the
-- effect that a caller is told.
local function affect_child(c, k, satisfied, remaining)
  -- A child that waits for more and takes no result along is not even read.
  if satisfied and remaining > 0 and not k.upstream_result then return '' end
  local child
  if not satisfied then
    child = record.read(k.core, dependency.CHILD_FIELDS)
  else
    child = k.managed and claim.read_simple(k.core)
      or record.read(k.core, k.heirs and dependency.HEIR_FIELDS or dependency.READY_FIELDS)
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
    child.feeder = k.feeder
    dependency.release(c, child_id, k, child)
  end
  return effect
end

-- How many edges of a child are open, when the count says that none is: after a start of the server, they are counted.
local function still_open(c, meta_key, unresolved_key, remaining)
  if remaining > 0 or not call.in_doubt(c) then return remaining end
  local open = redis.call('SCARD', unresolved_key)
  if open ~= remaining then redis.call('HSET', meta_key, 'unsatisfied_required_count', number.text(open)) end
  return open
end

-- Resolves one edge on the child's side, all of whose edges must be satisfied. Gives the dependency's new state, what
-- it did to the child, and how many edges are open.
function dependency.resolve(c, k, edge_id, outcome)
  local satisfied = outcome == 'success'
  local state = satisfied and 'satisfied' or 'impossible'
  redis.call('HSET', k.dep, 'state', state, 'last_resolved_at', c.now_text)
  redis.call('SREM', k.unresolved, edge_id)
  local remaining = still_open(c, k.meta, k.unresolved, redis.call('HINCRBY', k.meta, 'unsatisfied_required_count', -1))
  if not satisfied then redis.call('HINCRBY', k.meta, 'impossible_required_count', 1) end
  -- In a managed flow, the edge's own record tells the time.
  if not k.managed then redis.call('HSET', k.meta, 'last_dependency_update_at', c.now_text) end
  return state, affect_child(c, k, satisfied, remaining), remaining
end

-- Resolves edges of one child of a managed flow that are not among its open ones any more. `edges`: a list of {edge_id,
-- outcome, upstream_id, is_named}, the outcome being that of dependency.verdict; `is_named`: the result goes along under the
-- name of the upstream.
function dependency.resolve_taken(c, child_id, edges, heirs)
  local impossible = 0
  for _, edge in ipairs(edges) do
    local satisfied = edge.outcome == 'success'
    if not satisfied then impossible = impossible + 1 end
    redis.call('HSET', key.exec_dep(c, child_id, edge.edge_id), 'state', satisfied and 'satisfied' or 'impossible',
      'last_resolved_at', c.now_text)
  end
  local meta_key = key.exec_deps_meta(c, child_id)
  local remaining = still_open(c, meta_key, key.exec_deps_unresolved(c, child_id),
    redis.call('HINCRBY', meta_key, 'unsatisfied_required_count', -#edges))
  if impossible > 0 then
    redis.call('HINCRBY', meta_key, 'impossible_required_count', impossible)
  elseif remaining > 0 then
    return
  end
  local k = { managed = true, child_id = child_id, core = key.exec_core(c, child_id), heirs = heirs }
  if #edges == 1 and edges[1].is_named then k.feeder = edges[1].upstream_id end
  affect_child(c, k, impossible == 0, remaining)
end

-- @function ff_stage_dependency_edge
-- @summary  Adds an edge to the flow's graph; the child's side is ff_apply_dependency_to_child.
-- @flags    derives intake
-- @key      flow            flow.core
-- @key      members         flow.members
-- @key      edge            flow.edge
-- @key      out             flow.out(execution_id=upstream_execution_id)
-- @key      in_             flow.in(execution_id=downstream_execution_id)
-- @key      grant           flow.grant
-- @arg      flow_id         flow_id
-- @arg      edge_id         edge_id
-- @arg      upstream_execution_id execution_id
-- @arg      downstream_execution_id execution_id
-- @arg      dependency_kind text optional
-- @arg      data_passing_ref text optional
-- @arg      expected_graph_revision int
-- @arg      now_ms          unix_ms optional
-- @reply    OK edge_id:edge_id graph_revision:int
-- @error    self_referencing_edge
-- @error    flow_not_found
-- @error    flow_already_terminal
-- @error    stale_graph_revision
-- @error    execution_not_in_flow
-- @error    cycle_detected
-- @error    dependency_already_exists
function F.ff_stage_dependency_edge(K, A)
  local upstream, downstream = A.upstream_execution_id, A.downstream_execution_id
  if upstream == downstream then return reply.err('self_referencing_edge') end
  local c = call.open(K.flow)
  local flow = record.read(K.flow, { 'public_flow_state', 'graph_revision', 'managed' })
  if not flow then return reply.err('flow_not_found') end
  if graph.is_over(flow) then return reply.err('flow_already_terminal') end
  if (flow.graph_revision or '0') ~= A.expected_graph_revision then return reply.err('stale_graph_revision') end
  if redis.call('SISMEMBER', K.members, upstream) == 0 or redis.call('SISMEMBER', K.members, downstream) == 0 then
    return reply.err('execution_not_in_flow')
  end
  if dependency.closes_cycle(c, A.flow_id, upstream, downstream) then return reply.err('cycle_detected') end
  if redis.call('EXISTS', K.edge) == 1 then return reply.err('dependency_already_exists') end
  graph.write_edge(c, K.edge, A.flow_id, {
    edge_id = A.edge_id, upstream_execution_id = upstream, downstream_execution_id = downstream,
    dependency_kind = A.dependency_kind or 'success_only', input_name = A.data_passing_ref or '',
  })
  redis.call('SADD', K.out, A.edge_id)
  if flow.managed then redis.call('HDEL', key.exec_core(c, upstream), 'onward', 'onward_edge') end
  redis.call('SADD', K.in_, A.edge_id)
  local revision = redis.call('HINCRBY', K.flow, 'graph_revision', 1)
  redis.call('HINCRBY', K.flow, 'edge_count', 1)
  redis.call('HSET', K.flow, 'last_mutation_at', c.now_text)
  return reply.ok(A.edge_id, number.text(revision))
end

-- The search gives up, and the edge is refused, when it would visit more nodes than this.
local MAX_CYCLE_NODES = 1000

-- Whether `upstream` can be reached from `downstream`. Nothing has to be searched when no path can exist.
function dependency.closes_cycle(c, flow_id, upstream, downstream)
  if redis.call('EXISTS', key.flow_out(c, flow_id, downstream)) == 0
    or redis.call('EXISTS', key.flow_in(c, flow_id, upstream)) == 0 then
    return false
  end
  local queue, seen, head = { downstream }, { [downstream] = true }, 1
  while queue[head] do
    for _, edge_id in ipairs(redis.call('SMEMBERS', key.flow_out(c, flow_id, queue[head]))) do
      local next_id = redis.call('HGET', key.flow_edge(c, flow_id, edge_id), 'downstream_execution_id')
      if next_id == upstream then return true end
      if next_id and not seen[next_id] then
        if #queue >= MAX_CYCLE_NODES then return true end
        seen[next_id] = true
        queue[#queue + 1] = next_id
      end
    end
    head = head + 1
  end
  return false
end

-- Puts a record behind its dependencies. `h`: detail, attempt_state, values and blank (further core fields),
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
  -- It has a text now, and perhaps a block that it was behind.
  if child.managed then values[#values + 1], values[#values + 2] = 'simple', '' end
  record.write(core_key, child.managed, values, h.blank or {})
  redis.call('ZADD', h.blocked_dependencies or key.lane_blocked_dependencies(c, lifecycle.lane(child)),
    tonumber(child.created_at) or 0, child_id)
end

-- Puts a runnable child behind its dependencies, whatever index it stood in. A block that it was behind is
-- remembered.
local function block(c, k, child, child_id, count, edge_id)
  local values, blank
  if admission.is_blocked(child) then
    values = admission.remember(child)
    admission.leave(c, child_id, child)
  elseif is_set(child.prior_eligibility_state) and child.eligibility_state ~= 'blocked_by_dependencies' then
    blank = admission.PRIOR_FIELDS
  end
  order.leave(c, lifecycle.lane(child), child_id, child, k.eligible)
  redis.call('ZREM', key.lane_delayed(c, lifecycle.lane(child)), child_id)
  dependency.hold(c, child_id, k.core, child, {
    detail = number.text(count) .. ' dep(s) unresolved incl ' .. edge_id,
    attempt_state = child.attempt_state or 'pending_first_attempt', values = values, blank = blank,
    blocked_dependencies = k.blocked_dependencies,
  })
end

-- Counts an edge in the child's group, which comes into being when the call brings its key. Gives the group, or nil.
local function count_edge(c, K, A, child, g)
  if not g and not is_set(K.group) then return nil end
  if not g and child.managed then graph.set(key.flow_core(c, A.flow_id), 'joins', '1') end
  return joins.add_edges(g and g.key or K.group, g, 1)
end

-- Resolves an edge whose upstream has ended before it was applied. Gives whether that was so.
local function resolve_ended(c, K, A, g, child, child_id)
  local upstream = record.read(key.exec_core(c, A.upstream_execution_id), { 'lifecycle_phase', 'terminal_outcome' })
  if not upstream or upstream.lifecycle_phase ~= 'terminal' or not is_set(upstream.terminal_outcome) then
    return false
  end
  local k = dependency.child_keys(c, child_id, A.edge_id)
  k.core, k.meta, k.unresolved, k.dep = K.core, K.meta, K.unresolved, K.dep
  k.payload = key.exec_payload(c, child_id)
  k.upstream_result = key.exec_result(c, A.upstream_execution_id)
  joins.resolve(c, k, g, {
    edge_id = A.edge_id, flow_id = A.flow_id, child_id = child_id, upstream_id = A.upstream_execution_id,
  }, { state = 'unsatisfied' },
    child.managed and dependency.verdict(A.dependency_kind, upstream.terminal_outcome) or upstream.terminal_outcome)
  graph.settle(c)
  return true
end

-- @function ff_apply_dependency_to_child
-- @summary  Adds an edge on the child's side and blocks the child. An upstream that has already ended resolves
--           the edge at once. With the key of the child's edge group, the group counts the edge; an edge that
--           comes after an any_of or quorum group has fired holds nothing back.
-- @flags    derives repeatable intake
-- @key      core            exec.core(execution_id=downstream_execution_id)
-- @key      meta            exec.deps_meta(execution_id=downstream_execution_id)
-- @key      unresolved      exec.deps_unresolved(execution_id=downstream_execution_id)
-- @key      dep             exec.dep(execution_id=downstream_execution_id)
-- @key      eligible        lane.eligible
-- @key      blocked_dependencies lane.blocked_dependencies
-- @key      all_edges       exec.deps_all_edges(execution_id=downstream_execution_id)
-- @key      group           flow.edgegroup(execution_id=group_execution_id) optional
-- @arg      flow_id         flow_id
-- @arg      edge_id         edge_id
-- @arg      upstream_execution_id execution_id
-- @arg      graph_revision  int
-- @arg      dependency_kind text optional
-- @arg      data_passing_ref text optional
-- @arg      now_ms          unix_ms optional
-- @reply    OK unresolved:text
-- @error    execution_not_found
-- @error    execution_already_in_flow
function F.ff_apply_dependency_to_child(K, A)
  local c = call.open(K.core)
  local child = record.read(K.core, dependency.CHILD_FIELDS)
  if not child then return reply.err('execution_not_found') end
  if is_set(child.flow_id) and child.flow_id ~= A.flow_id then return reply.err('execution_already_in_flow') end
  if redis.call('EXISTS', K.dep) == 1 then return reply.ok('already_applied') end
  local child_id = child.execution_id or ''
  local g = joins.find(c, K.group, child, A.flow_id, child_id)
  local late = joins.has_fired(g)
  dependency.write_child_edge(c, K.dep, A.flow_id, child_id, {
    edge_id = A.edge_id, upstream_execution_id = A.upstream_execution_id,
    dependency_kind = A.dependency_kind or 'success_only', input_name = A.data_passing_ref or '',
  })
  redis.call('SADD', K.all_edges, A.edge_id)
  if not late then redis.call('SADD', K.unresolved, A.edge_id) end
  local count = redis.call('HINCRBY', K.meta, 'unsatisfied_required_count', late and 0 or 1)
  redis.call('HSET', K.meta, 'flow_id', A.flow_id, 'last_flow_graph_revision', A.graph_revision,
    'last_dependency_update_at', c.now_text)
  g = count_edge(c, K, A, child, g)
  if not late and child.lifecycle_phase == 'runnable' and child.terminal_outcome == 'none' then
    block(c, K, child, child_id, count, A.edge_id)
  end
  if resolve_ended(c, K, A, g, child, child_id) and not late then count = count - 1 end
  return reply.ok(number.text(count))
end

-- The child's record of an edge.
function dependency.write_child_edge(c, dep_key, flow_id, child_id, edge)
  redis.call('HSET', dep_key,
    'edge_id', edge.edge_id, 'flow_id', flow_id,
    'upstream_execution_id', edge.upstream_execution_id, 'downstream_execution_id', child_id,
    'dependency_kind', edge.dependency_kind, 'state', 'unsatisfied',
    'data_passing_ref', edge.input_name, 'last_resolved_at', '')
end

local TERMINAL_OUTCOMES = { success = true, failed = true, cancelled = true, expired = true, skipped = true }

-- Fields of the child's record of an edge that a resolution reads.
dependency.EDGE_FIELDS = { 'state', 'outcome', 'flow_id', 'downstream_execution_id', 'upstream_execution_id',
  'dependency_kind' }

-- The edge that a resolution is about: what the call says, else what the edge's own record says.
local function edge_of(A, dep)
  return {
    edge_id = A.edge_id,
    flow_id = is_set(A.flow_id) and A.flow_id or dep.flow_id or '',
    child_id = is_set(A.group_execution_id) and A.group_execution_id or dep.downstream_execution_id or '',
    upstream_id = dep.upstream_execution_id,
  }
end

-- @function ff_resolve_dependency
-- @summary  Tells a child how one of its upstreams ended: the last success makes it eligible, anything else
--           skips it. With the keys of its edge group, that group's policy decides instead.
-- @flags    derives repeatable
-- @key      core            exec.core(execution_id=downstream_execution_id)
-- @key      meta            exec.deps_meta(execution_id=downstream_execution_id)
-- @key      unresolved      exec.deps_unresolved(execution_id=downstream_execution_id)
-- @key      dep             exec.dep(execution_id=downstream_execution_id)
-- @key      eligible        lane.eligible
-- @key      terminal        lane.terminal
-- @key      blocked_dependencies lane.blocked_dependencies
-- @key      attempt         attempt.record(execution_id=downstream_execution_id)
-- @key      stream_meta     stream.meta(execution_id=downstream_execution_id)
-- @key      payload         exec.payload(execution_id=downstream_execution_id)
-- @key      upstream_result exec.result(execution_id=upstream_execution_id)
-- @key      group           flow.edgegroup(execution_id=group_execution_id) optional
-- @key      in_             flow.in(execution_id=group_execution_id) optional
-- @key      pending_cancel_groups index.pending_cancel_groups optional
-- @arg      edge_id         edge_id
-- @arg      upstream_outcome text
-- @arg      now_ms          unix_ms optional
-- @arg      flow_id         flow_id optional
-- @arg      group_execution_id execution_id optional
-- @reply    OK state:text effect:text?
-- @error    invalid_input message:text
-- @error    invalid_dependency
-- @error    invariant_violation message:text
function F.ff_resolve_dependency(K, A)
  local c = call.open(K.core)
  local dep = record.read(K.dep, dependency.EDGE_FIELDS)
  if not dep then return reply.err('invalid_dependency') end
  local outcome = A.upstream_outcome
  if SATISFYING[dep.dependency_kind] and TERMINAL_OUTCOMES[outcome] and redis.call('HGET', K.core, 'managed') then
    outcome = dependency.verdict(dep.dependency_kind, outcome)
  end
  local e = edge_of(A, dep)
  local child = not is_set(K.group) and record.read(K.core, { 'managed' }) or nil
  local g = joins.find(c, K.group, child, e.flow_id, e.child_id)
  local news = joins.is_news(g, dep, outcome)
  if not news and (dep.state == 'satisfied' or dep.state == 'impossible') then return reply.ok('already_resolved') end
  if not TERMINAL_OUTCOMES[A.upstream_outcome] then
    return reply.err('invalid_input', 'upstream_outcome must be terminal, got: ' .. tostring(A.upstream_outcome))
  end
  local err = g and dep.state ~= 'impossible' and joins.check_count(g)
  if err then return err end
  local state, effect = joins.resolve(c, K, g, e, dep, outcome)
  graph.settle(c)
  return reply.ok(state, effect)
end

-- @function ff_evaluate_flow_eligibility
-- @summary  Tells whether an execution's dependencies let it run.
-- @flags    derives readonly
-- @key      core            exec.core
-- @key      meta            exec.deps_meta
-- @reply    OK eligibility:text
function F.ff_evaluate_flow_eligibility(K)
  local core = record.read(K.core,
    { 'lifecycle_phase', 'ownership_state', 'terminal_outcome', 'flow_id', 'execution_id' })
  if not core then return reply.ok('not_found') end
  if core.lifecycle_phase ~= 'runnable' then return reply.ok('not_runnable') end
  if core.ownership_state ~= 'unowned' then return reply.ok('owned') end
  if core.terminal_outcome ~= 'none' then return reply.ok('terminal') end
  local meta = redis.call('HMGET', K.meta, 'impossible_required_count', 'unsatisfied_required_count')
  if (tonumber(meta[1] or nil) or 0) > 0 then return reply.ok('impossible') end
  if (tonumber(meta[2] or nil) or 0) > 0 or joins.is_open(call.open(K.core), core.flow_id, core.execution_id or '') then
    return reply.ok('blocked_by_dependencies')
  end
  return reply.ok('eligible')
end

-- @function ff_promote_blocked_to_eligible
-- @summary  Lets a child go whose dependencies are all satisfied.
-- @flags    derives
-- @key      core            exec.core
-- @key      blocked_dependencies lane.blocked_dependencies
-- @key      eligible        lane.eligible
-- @key      meta            exec.deps_meta
-- @key      unresolved      exec.deps_unresolved
-- @arg      execution_id    execution_id
-- @arg      now_ms          unix_ms optional
-- @reply    OK
-- @error    execution_not_found
-- @error    not_runnable
-- @error    not_blocked_by_deps
-- @error    terminal
-- @error    deps_not_satisfied unsatisfied:int unresolved:int
function F.ff_promote_blocked_to_eligible(K, A)
  local c = call.open(K.core)
  local child = record.read(K.core, dependency.CHILD_FIELDS)
  if not child then return reply.err('execution_not_found') end
  if child.lifecycle_phase ~= 'runnable' then return reply.err('not_runnable') end
  if child.eligibility_state ~= 'blocked_by_dependencies' then return reply.err('not_blocked_by_deps') end
  if child.terminal_outcome ~= 'none' then return reply.err('terminal') end
  local unsatisfied = tonumber(redis.call('HGET', K.meta, 'unsatisfied_required_count') or nil) or 0
  local unresolved = redis.call('SCARD', K.unresolved)
  if unsatisfied > 0 or unresolved > 0 or joins.is_open(c, child.flow_id, A.execution_id) then
    return reply.err('deps_not_satisfied', number.text(unsatisfied), number.text(unresolved))
  end
  dependency.release(c, A.execution_id, K, child)
  graph.settle(c)
  return reply.ok()
end
