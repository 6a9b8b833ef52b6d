-- The contract's calls for dependency edges: ff_stage_dependency_edge adds an edge to the graph of a flow,
-- ff_apply_dependency_to_child adds it to the child, and ff_resolve_dependency resolves it.

-- Limit of the search for a cycle. An edge is refused when the search would visit more nodes.
local MAX_CYCLE_NODES = 1000

-- Reports whether `upstream` can be reached from `downstream`. It does not search when no path can exist.
local function closes_cycle(c, flow_id, upstream, downstream)
  if adjacency.count_downstream(c, flow_id, downstream) == 0 or adjacency.count_upstream(c, flow_id, upstream) == 0 then
    return false
  end
  local queue, seen, head = { downstream }, { [downstream] = true }, 1
  while queue[head] do
    for _, next_id in ipairs(adjacency.downstream(c, flow_id, queue[head])) do
      if next_id == upstream then return true end
      if not seen[next_id] then
        if #queue >= MAX_CYCLE_NODES then return true end
        seen[next_id] = true
        queue[#queue + 1] = next_id
      end
    end
    head = head + 1
  end
  return false
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
-- @arg      dependency_kind text optional=success_only
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
  if flow_record.is_over(flow) then return reply.err('flow_already_terminal') end
  if (flow.graph_revision or '0') ~= A.expected_graph_revision then return reply.err('stale_graph_revision') end
  if not member_list.has(c, A.flow_id, upstream) or not member_list.has(c, A.flow_id, downstream) then
    return reply.err('execution_not_in_flow')
  end
  if closes_cycle(c, A.flow_id, upstream, downstream) then return reply.err('cycle_detected') end
  if redis.call('EXISTS', K.edge) == 1 then return reply.err('dependency_already_exists') end
  dependency.write_edge(c, K.edge, A.flow_id, {
    edge_id = A.edge_id, upstream_execution_id = upstream, downstream_execution_id = downstream,
    dependency_kind = A.dependency_kind or 'success_only', input_name = A.data_passing_ref or '',
  })
  redis.call('SADD', K.out, A.edge_id)
  if flow.managed then graph.note_extended(c, A.flow_id) end
  redis.call('SADD', K.in_, A.edge_id)
  local revision = record.add(K.flow, 'graph_revision', 1)
  record.add(K.flow, 'edge_count', 1)
  record.set(K.flow, 'last_mutation_at', c.now_text)
  return reply.ok(A.edge_id, number.text(revision))
end

-- Blocks a runnable child by its dependencies and takes it out of the index that listed it. A block that the child already had is
-- kept in its record.
local function block(c, k, child, child_id, count, edge_id)
  local values, blank
  if admission.is_blocked(child) then
    values = admission.remember(child)
    admission.leave(c, child_id, child)
  elseif is_set(child.prior_eligibility_state) and child.eligibility_state ~= 'blocked_by_dependencies' then
    blank = admission.PRIOR_FIELDS
  end
  order.leave(c, record.lane(child), child_id, child, k.eligible)
  redis.call('ZREM', key.lane_delayed(c, record.lane(child)), child_id)
  dependency.hold(c, child_id, k.core, child, {
    detail = number.text(count) .. ' dep(s) unresolved incl ' .. edge_id,
    attempt_state = child.attempt_state or 'pending_first_attempt', values = values, blank = blank,
    blocked_dependencies = k.blocked_dependencies,
  })
end

-- Counts an edge in the child's group, and creates the group when the call has its key. Returns the group, or nil.
local function count_edge(c, K, A, child, g)
  if not g and not is_set(K.group) then return nil end
  if not g and child.managed then flow_record.set(key.flow_core(c, A.flow_id), 'joins', '1') end
  return edge_group.add_edges(g and g.key or K.group, g, 1)
end

-- Reports whether the kinds of the edges to an execution count; the contract ignores them. They count in a managed flow, and for
-- a group with an announced number of edges, because only programs of this project announce one.
local function has_kinds(g, managed) return g ~= nil and g.expected_edges > 0 or managed ~= nil end

-- Resolves an edge whose upstream ended before the edge was applied, unless that would end a child that already runs. Reports
-- whether it resolved the edge.
local function resolve_ended(c, K, A, g, child, child_id)
  local upstream = record.read(key.exec_core(c, A.upstream_execution_id), { 'lifecycle_phase', 'terminal_outcome' })
  if not upstream or upstream.lifecycle_phase ~= 'terminal' or not is_set(upstream.terminal_outcome) then
    return false
  end
  local outcome = has_kinds(g, child.managed)
    and decision.verdict(c, A.dependency_kind, upstream.terminal_outcome, A.upstream_execution_id)
    or upstream.terminal_outcome
  if outcome ~= 'success' and (child.lifecycle_phase == 'active' or child.lifecycle_phase == 'suspended') then return false end
  local k = dependency.child_keys(c, child_id, A.edge_id)
  k.core, k.meta, k.unresolved, k.dep = K.core, K.meta, K.unresolved, K.dep
  k.payload = key.exec_payload(c, child_id)
  k.upstream_result = key.exec_result(c, A.upstream_execution_id)
  join.resolve(c, k, g, {
    edge_id = A.edge_id, flow_id = A.flow_id, child_id = child_id, upstream_id = A.upstream_execution_id,
  }, { state = 'unsatisfied' }, outcome)
  settle.run(c)
  return true
end

-- @function ff_apply_dependency_to_child
-- @summary  Adds an edge on the child's side and blocks the child. When the upstream has already ended, the edge is resolved at
--           once, except when the upstream has failed and the child runs. With the key of the child's edge group, the group
--           counts the edge; an edge that is added after an any_of or quorum group has fired blocks nothing.
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
-- @arg      dependency_kind text optional=success_only
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
  local g = edge_group.find(c, K.group, child, A.flow_id, child_id)
  local late = edge_group.has_fired(g)
  dependency.write_child_edge(c, K.dep, A.flow_id, child_id, {
    edge_id = A.edge_id, upstream_execution_id = A.upstream_execution_id,
    dependency_kind = A.dependency_kind or 'success_only', input_name = A.data_passing_ref or '',
  })
  redis.call('SADD', K.all_edges, A.edge_id)
  if child.managed then graph.note_extended(c, A.flow_id) end
  if not late then redis.call('SADD', K.unresolved, A.edge_id) end
  local s, at = store.of(K.core)
  local count = s.add_edges(at, c, child_id, K.meta, late and 0 or 1)
  redis.call('HSET', K.meta, 'flow_id', A.flow_id, 'last_flow_graph_revision', A.graph_revision,
    'last_dependency_update_at', c.now_text)
  g = count_edge(c, K, A, child, g)
  if not late and child.lifecycle_phase == 'runnable' and child.terminal_outcome == 'none' then
    block(c, K, child, child_id, count, A.edge_id)
  end
  if resolve_ended(c, K, A, g, child, child_id) and not late then count = count - 1 end
  return reply.ok(number.text(count))
end

local TERMINAL_OUTCOMES = { success = true, failed = true, cancelled = true, expired = true, skipped = true }

-- Returns the edge that a resolution concerns, from the arguments of the call, or else from the edge's own record.
local function edge_of(A, dep)
  return {
    edge_id = A.edge_id,
    flow_id = is_set(A.flow_id) and A.flow_id or dep.flow_id or '',
    child_id = is_set(A.group_execution_id) and A.group_execution_id or dep.downstream_execution_id or '',
    upstream_id = dep.upstream_execution_id,
  }
end

-- @function ff_resolve_dependency
-- @summary  Reports to a child how one of its upstreams ended: the last success makes the child eligible, any other outcome skips
--           it. With the keys of the child's edge group, that group's policy decides instead.
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
  local e = edge_of(A, dep)
  local child = not is_set(K.group) and record.read(K.core, { 'managed' }) or nil
  local g = edge_group.find(c, K.group, child, e.flow_id, e.child_id)
  if decision.has_verdict(dep.dependency_kind) and TERMINAL_OUTCOMES[outcome] and has_kinds(g, record.value(K.core, 'managed')) then
    outcome = decision.verdict(c, dep.dependency_kind, outcome, dep.upstream_execution_id)
  end
  local is_update = join.is_update(g, dep, outcome)
  if not is_update and (dep.state == 'satisfied' or dep.state == 'impossible') then return reply.ok('already_resolved') end
  if not TERMINAL_OUTCOMES[A.upstream_outcome] then
    return reply.err('invalid_input', 'upstream_outcome must be terminal, got: ' .. tostring(A.upstream_outcome))
  end
  local err = g and dep.state ~= 'impossible' and edge_group.check_count(g)
  if err then return err end
  local state, effect = join.resolve(c, K, g, e, dep, outcome)
  settle.run(c)
  return reply.ok(state, effect)
end

-- @function ff_evaluate_flow_eligibility
-- @summary  Returns whether an execution's dependencies let it run.
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
  local s, at = store.of(K.core)
  local open, impossible = s.open_edges(at, K.meta)
  if impossible > 0 then return reply.ok('impossible') end
  if open > 0 or edge_group.is_open(call.open(K.core), core.flow_id, core.execution_id or '') then
    return reply.ok('blocked_by_dependencies')
  end
  return reply.ok('eligible')
end

-- @function ff_promote_blocked_to_eligible
-- @summary  Makes a child eligible whose dependencies are all satisfied.
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
  local s, at = store.of(K.core)
  local unsatisfied = s.open_edges(at, K.meta)
  local unresolved = store.row(K.core) and unsatisfied or redis.call('SCARD', K.unresolved)
  if unsatisfied > 0 or unresolved > 0 or edge_group.is_open(c, child.flow_id, A.execution_id) then
    return reply.err('deps_not_satisfied', number.text(unsatisfied), number.text(unresolved))
  end
  dependency.release(c, A.execution_id, K, child)
  settle.run(c)
  return reply.ok()
end
