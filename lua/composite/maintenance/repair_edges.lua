-- Repairs the edges of an execution: its set of open edges, and upstreams whose end it did not receive.

-- Maximum number of edges of one execution that are checked; one with more keeps its sets.
local MAX_EDGES = 512

local EDGE_FIELDS = { 'state', 'outcome', 'upstream_execution_id', 'dependency_kind' }

-- Returns the flow of an execution whose edges may be checked: they are complete, and no call is about to reset them.
function repair_edges.settled_flow(c, core)
  if not is_set(core.flow_id) then return nil end
  local flow = record.read(key.flow_core(c, core.flow_id), { 'rerun_state', 'public_flow_state', 'joins', 'purging' })
  if not flow or is_set(flow.rerun_state) or is_set(flow.purging) or flow_record.is_over(flow) then return nil end
  return flow
end

-- Returns the edges of an execution by id, or nil when there are too many. In a managed flow, the flow names them.
local function read_edges(c, execution_id, core)
  local all_key = key.exec_deps_all_edges(c, execution_id)
  local source = core.managed and key.flow_in(c, core.flow_id, execution_id) or all_key
  if redis.call('SCARD', source) > MAX_EDGES then return nil end
  local edges = {}
  for _, edge_id in ipairs(redis.call('SMEMBERS', source)) do
    local dep = record.read(key.exec_dep(c, execution_id, edge_id), EDGE_FIELDS)
    if dep then
      edges[edge_id] = dep
      repair_index.add(c, 'all_edges', all_key, edge_id)
    end
  end
  for _, edge_id in ipairs(redis.call('SMEMBERS', all_key)) do
    if not edges[edge_id] then repair_index.drop(c, 'all_edges', 'SREM', all_key, edge_id) end
  end
  return edges
end

-- Corrects a wrong count.
local function correct(c, index, hash, field, is, want)
  if (tonumber(is or nil) or 0) == want then return end
  redis.call('HSET', hash, field, number.text(want))
  repair_index.note(c, index)
end

-- Corrects the counts of a group, by its edges.
function repair_edges.group(c, g, edges)
  local counts = { n = 0, succeeded = 0, failed = 0, skipped = 0 }
  for _, dep in pairs(edges) do
    counts.n = counts.n + 1
    if dep.state == 'satisfied' then
      counts.succeeded = counts.succeeded + 1
    elseif dep.state == 'impossible' then
      local bucket = dep.outcome == 'skipped' and 'skipped' or 'failed'
      counts[bucket] = counts[bucket] + 1
    end
  end
  for field, want in pairs(counts) do correct(c, 'edge_groups', g.key, field, g[field], want) end
end

-- Corrects the set of open edges and their count, by the edges' own records. An execution that waits for none continues.
function repair_edges.execution(c, execution_id, core)
  if not repair_edges.settled_flow(c, core) then return end
  local edges = read_edges(c, execution_id, core)
  if not edges then return end
  local g = edge_group.read(key.flow_edgegroup(c, core.flow_id, execution_id))
  if g and g.is_join then repair_edges.group(c, g, edges) end
  local fired = edge_group.has_fired(g)
  local unresolved_key, meta_key = key.exec_deps_unresolved(c, execution_id), key.exec_deps_meta(c, execution_id)
  local open = 0
  for edge_id, dep in pairs(edges) do
    if dep.state == 'unsatisfied' and not fired then
      open = open + 1
      repair_index.add(c, 'unresolved', unresolved_key, edge_id)
    end
  end
  for _, edge_id in ipairs(redis.call('SMEMBERS', unresolved_key)) do
    local dep = edges[edge_id]
    if fired or not dep or dep.state ~= 'unsatisfied' then repair_index.drop(c, 'unresolved', 'SREM', unresolved_key, edge_id) end
  end
  correct(c, 'unresolved', meta_key, 'unsatisfied_required_count',
    redis.call('HGET', meta_key, 'unsatisfied_required_count'), open)
  if not core.managed or open > 0 or g and g.is_join and g.group_state ~= 'satisfied' then return end
  for _, dep in pairs(edges) do
    if dep.state == 'impossible' and not (g and g.is_join) then return end
  end
  if next(edges) and dependency.is_releasable(core) and not child_run.is_awaited(core) then
    repair_index.note(c, 'unresolved')
    dependency.release(c, execution_id, { core = key.exec_core(c, execution_id) },
      record.read(key.exec_core(c, execution_id), dependency.CHILD_FIELDS))
  end
end

-- Reports whether an execution waits for its edges, also when it is paused.
local function waits_for_edges(c, execution_id, core)
  return core.lifecycle_phase == 'runnable'
    and (core.eligibility_state == 'blocked_by_dependencies' or hidden.has_dependencies(key.exec_core(c, execution_id), core))
end

-- Resolves an edge for an execution outside managed flows whose upstream has ended, with the result if the edge carries it.
local function resolve_unmanaged(c, execution_id, core, edge_id, dep, outcome)
  local k = dependency.child_keys(c, execution_id, edge_id)
  k.payload, k.upstream_result = key.exec_payload(c, execution_id), key.exec_result(c, dep.upstream_execution_id)
  join.resolve(c, k, edge_group.read(key.flow_edgegroup(c, core.flow_id, execution_id)), {
    edge_id = edge_id, flow_id = core.flow_id, child_id = execution_id, upstream_id = dep.upstream_execution_id,
  }, dep, outcome)
end

-- Resolves an edge from an ended member of a flow that is not managed, if it is still open.
local function resolve_one(c, item, edge_id)
  local child_id = redis.call('HGET', key.flow_edge(c, item.flow_id, edge_id), 'downstream_execution_id')
  local dep = child_id and record.read(key.exec_dep(c, child_id, edge_id), EDGE_FIELDS)
  local core = dep and dep.state == 'unsatisfied' and repair_index.read(c, child_id)
  if not core or core.managed or not waits_for_edges(c, child_id, core) or not repair_edges.settled_flow(c, core) then return end
  resolve_unmanaged(c, child_id, core, edge_id, dep, item.outcome)
end

-- Resolves the open edges from an ended member of a flow that is not managed.
function repair_edges.resolve_unmanaged(c, item, edge_ids)
  for _, edge_id in ipairs(edge_ids) do resolve_one(c, item, edge_id) end
end

-- Resolves those open edges of a blocked execution whose upstream has ended, at most `limit`. Edges that a call has left for
-- later are left to that call's backlog. A replayed execution waits until the upstreams are replayed that it needs. Returns how
-- many it resolved.
function repair_edges.resolve(c, execution_id, limit)
  local core = repair_index.read(c, execution_id)
  if not core or core.lifecycle_phase ~= 'runnable' or core.eligibility_state ~= 'blocked_by_dependencies' then return 0 end
  local flow = repair_edges.settled_flow(c, core)
  if not flow then return 0 end
  local resolved = 0
  for _, edge_id in ipairs(redis.call('SRANDMEMBER', key.exec_deps_unresolved(c, execution_id), limit)) do
    local dep = record.read(key.exec_dep(c, execution_id, edge_id), EDGE_FIELDS)
    local upstream_id = dep and dep.state == 'unsatisfied' and dep.upstream_execution_id
    local upstream = is_set(upstream_id)
      and record.read(key.exec_core(c, upstream_id), { 'lifecycle_phase', 'terminal_outcome' })
    local outcome = upstream and upstream.lifecycle_phase == 'terminal' and upstream.terminal_outcome
    if is_set(outcome) and outcome ~= 'none' then
      local succeeds = decision.verdict(c, dep.dependency_kind, outcome, upstream_id) == 'success'
      if not core.managed then
        resolve_unmanaged(c, execution_id, core, edge_id, dep, outcome)
        resolved = resolved + 1
      elseif (succeeds or (tonumber(core.replay_count) or 0) == 0)
        and redis.call('SISMEMBER', key.ffx_unresolved_edges(c, upstream_id), edge_id) == 0 then
        propagate.resolve_edge(c, { execution_id = upstream_id, flow_id = core.flow_id, outcome = outcome }, edge_id, flow.joins)
        resolved = resolved + 1
      end
    end
  end
  return resolved
end
