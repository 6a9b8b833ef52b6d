-- The executions that the edges of one lead to, and those that lead to it.

-- @hook How many edges of the graph of a run lead on from an execution, and to it.
function adjacency.node_counts(c, execution_id) return 0, 0 end

-- @hook Where the n-th of those that lead on leads to.
function adjacency.node_downstream(c, execution_id, n) return nil end

-- @hook Where the n-th of those that lead to it comes from.
function adjacency.node_upstream(c, execution_id, n) return nil end

-- How many edges lead on from an execution.
function adjacency.count_downstream(c, flow_id, execution_id)
  return (adjacency.node_counts(c, execution_id)) + redis.call('SCARD', key.flow_out(c, flow_id, execution_id))
end

function adjacency.count_upstream(c, flow_id, execution_id)
  return select(2, adjacency.node_counts(c, execution_id)) + redis.call('SCARD', key.flow_in(c, flow_id, execution_id))
end

local function of_edges(c, flow_id, ids, edge_ids, field)
  for _, edge_id in ipairs(edge_ids) do
    ids[#ids + 1] = redis.call('HGET', key.flow_edge(c, flow_id, edge_id), field) or nil
  end
  return ids
end

-- The executions behind the edges that lead on from one.
function adjacency.downstream(c, flow_id, execution_id)
  local ids = {}
  for n = 1, (adjacency.node_counts(c, execution_id)) do ids[n] = adjacency.node_downstream(c, execution_id, n) end
  return of_edges(c, flow_id, ids, redis.call('SMEMBERS', key.flow_out(c, flow_id, execution_id)), 'downstream_execution_id')
end

-- The executions from which edges lead to one.
function adjacency.upstream(c, flow_id, execution_id)
  local ids = {}
  for n = 1, select(2, adjacency.node_counts(c, execution_id)) do ids[n] = adjacency.node_upstream(c, execution_id, n) end
  return of_edges(c, flow_id, ids, redis.call('SMEMBERS', key.flow_in(c, flow_id, execution_id)), 'upstream_execution_id')
end
