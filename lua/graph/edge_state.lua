-- How the edges that lead to an execution stand. `k` names one edge on the child's side: dep, unresolved and meta are keys of the
-- records that the contract has; an edge of the graph of a run has `node_edge` instead, and its state is with the run.

-- @hook How an edge of a graph stands: state, outcome and late, as a record has them.
function edge_state.read_node(k) return nil end

-- @hook Writes that: satisfied, or else impossible with the outcome; late.
function edge_state.write_node(c, k, satisfied, outcome, late) end

-- @hook One open edge less, or none any more, of an execution with a row. False for others.
function edge_state.close_node(k, all) return false end

-- @hook More edges of an execution with a row are open.
function edge_state.open_node(c, child_id, count) end

-- @hook Opens the edges of a graph to a join anew that are not satisfied, and forgets what else was known of them. Gives how many
-- are satisfied and how many are open; nil for executions without a row.
function edge_state.recount_nodes(c, flow_id, child_id) return nil end

-- @hook Edges of a graph to a join whose upstream has ended and that are open: a list of {k, dep, upstream outcome}.
function edge_state.ended_nodes(c, k, flow_id, child_id) return nil end

local FIELDS = { 'state', 'outcome', 'late', 'flow_id', 'downstream_execution_id', 'upstream_execution_id', 'dependency_kind' }

-- How an edge stands; nil when there is none.
function edge_state.read(k)
  if k.node_edge then return edge_state.read_node(k) end
  return record.read(k.dep, FIELDS)
end

-- An edge is satisfied, or impossible with an outcome of its upstream; `dep` is what it was.
function edge_state.write(c, k, satisfied, outcome, dep)
  if k.node_edge then
    edge_state.write_node(c, k, satisfied, outcome)
    return
  end
  redis.call('HSET', k.dep, 'state', satisfied and 'satisfied' or 'impossible', 'last_resolved_at', c.now_text)
  if not satisfied then
    redis.call('HSET', k.dep, 'outcome', outcome)
  elseif dep.outcome then
    redis.call('HDEL', k.dep, 'outcome')
  end
end

-- An edge was satisfied when its join had come to its decision.
function edge_state.mark_late(c, k)
  if k.node_edge then
    edge_state.write_node(c, k, true, 'success', true)
  else
    redis.call('HSET', k.dep, 'late', '1')
  end
end

-- An edge is not open any more.
function edge_state.close(c, k, edge_id)
  if k.node_edge then
    edge_state.close_node(k, false)
  elseif redis.call('SREM', k.unresolved, edge_id) == 1 and not edge_state.close_node(k, false) then
    redis.call('HINCRBY', k.meta, 'unsatisfied_required_count', -1)
  end
  if not k.node_edge then redis.call('HSET', k.meta, 'last_dependency_update_at', c.now_text) end
end

-- No edge of a join is open any more; `impossible` of them have failed.
function edge_state.close_all(c, k, impossible)
  if edge_state.close_node(k, true) then
    redis.call('DEL', k.unresolved)
    return
  end
  redis.call('DEL', k.unresolved)
  redis.call('HSET', k.meta, 'unsatisfied_required_count', '0', 'impossible_required_count', number.text(impossible),
    'last_dependency_update_at', c.now_text)
end
