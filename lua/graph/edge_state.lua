-- Reads and writes the states of the edges that lead to an execution. `k` names one edge on the child's side: dep, unresolved and
-- meta are the keys of the contract's records. An edge of a run's graph has `node_edge` instead, and its state is stored with the
-- run.

-- Returns the state of an edge; nil when there is none.
function edge_state.read(k)
  local s, at = store.of_edge(k)
  return s.read_edge(at, k)
end

-- Marks an edge as satisfied, or as impossible with an outcome of its upstream. `dep` is its state before.
function edge_state.write(c, k, satisfied, outcome, dep)
  local s, at = store.of_edge(k)
  s.write_edge(at, c, k, satisfied, outcome, dep)
end

-- Records that an edge was satisfied only after the decision of its join.
function edge_state.mark_late(c, k)
  local s, at = store.of_edge(k)
  s.mark_late(at, c, k)
end

-- Records that an edge is no longer open.
function edge_state.close(c, k, edge_id)
  if k.node_edge or redis.call('SREM', k.unresolved, edge_id) == 1 then
    local s, at = store.of(k.core)
    s.close_edge(at, k.meta)
  end
  if not k.node_edge then redis.call('HSET', k.meta, 'last_dependency_update_at', c.now_text) end
end

-- Closes all edges of a join; `impossible` of them have failed.
function edge_state.close_all(c, k, impossible)
  redis.call('DEL', k.unresolved)
  local s, at = store.of(k.core)
  s.close_edges(at, c, k.meta, impossible)
end
