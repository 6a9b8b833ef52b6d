-- How the edges that lead to an execution stand. `k` names one edge on the child's side: dep, unresolved and meta are keys of the
-- records that the contract has; an edge of the graph of a run has `node_edge` instead, and its state is with the run.

-- How an edge stands; nil when there is none.
function edge_state.read(k)
  local s, at = store.of_edge(k)
  return s.read_edge(at, k)
end

-- An edge is satisfied, or impossible with an outcome of its upstream; `dep` is what it was.
function edge_state.write(c, k, satisfied, outcome, dep)
  local s, at = store.of_edge(k)
  s.write_edge(at, c, k, satisfied, outcome, dep)
end

-- An edge was satisfied when its join had come to its decision.
function edge_state.mark_late(c, k)
  local s, at = store.of_edge(k)
  s.mark_late(at, c, k)
end

-- An edge is not open any more.
function edge_state.close(c, k, edge_id)
  if k.node_edge or redis.call('SREM', k.unresolved, edge_id) == 1 then
    local s, at = store.of(k.core)
    s.close_edge(at, k.meta)
  end
  if not k.node_edge then redis.call('HSET', k.meta, 'last_dependency_update_at', c.now_text) end
end

-- No edge of a join is open any more; `impossible` of them have failed.
function edge_state.close_all(c, k, impossible)
  redis.call('DEL', k.unresolved)
  local s, at = store.of(k.core)
  s.close_edges(at, c, k.meta, impossible)
end
