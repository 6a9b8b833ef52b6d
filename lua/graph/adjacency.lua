-- Lists the direct downstreams and upstreams of an execution, from its row and from the records of edges.

-- Returns the number of edges that lead from an execution.
function adjacency.count_downstream(c, flow_id, execution_id)
  local s, at = store.of(key.exec_core(c, execution_id))
  return (s.count_edges(at)) + redis.call('SCARD', key.flow_out(c, flow_id, execution_id))
end

function adjacency.count_upstream(c, flow_id, execution_id)
  local s, at = store.of(key.exec_core(c, execution_id))
  local _, ups = s.count_edges(at)
  return ups + redis.call('SCARD', key.flow_in(c, flow_id, execution_id))
end

local function of_edges(c, flow_id, ids, edge_ids, field)
  for _, edge_id in ipairs(edge_ids) do
    ids[#ids + 1] = redis.call('HGET', key.flow_edge(c, flow_id, edge_id), field) or nil
  end
  return ids
end

-- Returns the ids of the executions to which the edges of an execution lead.
function adjacency.downstream(c, flow_id, execution_id)
  local ids, s, at = {}, store.of(key.exec_core(c, execution_id))
  s.add_downstream(at, ids)
  return of_edges(c, flow_id, ids, redis.call('SMEMBERS', key.flow_out(c, flow_id, execution_id)), 'downstream_execution_id')
end

-- Returns the ids of the executions from which edges lead to an execution.
function adjacency.upstream(c, flow_id, execution_id)
  local ids, s, at = {}, store.of(key.exec_core(c, execution_id))
  s.add_upstream(at, ids)
  return of_edges(c, flow_id, ids, redis.call('SMEMBERS', key.flow_in(c, flow_id, execution_id)), 'upstream_execution_id')
end
