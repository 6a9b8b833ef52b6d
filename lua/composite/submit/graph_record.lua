-- The edges of a submitted flow, and the writes of its whole graph.

local gather = batch_writes.gather

-- The one edge that leaves an execution, for those that exactly one leaves and whose flow comes whole; false where more do.
local function single_edges(A)
  local single = {}
  for _, edge in ipairs(A.edges) do
    local upstream = edge.upstream_execution_id
    local other = single[upstream]
    if other == nil then
      single[upstream] = edge
    elseif other and other.edge_id ~= edge.edge_id then
      single[upstream] = false
    end
  end
  return single
end

-- Creates the nodes that are not `known`; `ids` are those of their executions, `cores` the keys of their records, and `single`
-- is what single_edges gives. Gives those that it created, as a set, and how many they are.
local function write_nodes(c, batch, A, n, held, known, single)
  local created, ids = {}, {}
  local all_executions = batch_writes.list(batch, 'SADD', key.index_all_executions(c))
  for i, node in ipairs(A.nodes) do
    local execution_id = A.ids[i]
    if not known[execution_id] and not created[execution_id] then
      created[execution_id] = true
      ids[#ids + 1], all_executions[#all_executions + 1] = execution_id, execution_id
      local why = node_record.write(c, batch, A, node, execution_id, A.cores[i], n.nodes[i], single[execution_id], held, n.limits)
      if n.nodes[i].wait and not why then n.to_open[#n.to_open + 1] = node end
      if n.limits then limit_admission.attach(c, execution_id, n.limits) end
      local policy = n.joins[execution_id]
      if policy then edge_group.write(c, key.flow_edgegroup(c, A.flow_id, execution_id), policy) end
    end
  end
  call.chunked('SADD', key.flow_members(c, A.flow_id), ids)
  return created, #ids
end

-- Writes the flow's and the child's record of an edge as copies of those of another one, from which fields with their values
-- are different.
function graph_record.copy_edge(first, edge_key, dep_key, ...)
  redis.call('COPY', first.edge, edge_key, 'REPLACE')
  redis.call('HSET', edge_key, ...)
  redis.call('COPY', first.dep, dep_key, 'REPLACE')
  redis.call('HSET', dep_key, ...)
end

-- The records that a flow and a child have of a new edge.
local function write_edge(c, batch, A, edge)
  local flow_id, upstream_id, child_id = A.flow_id, edge.upstream_execution_id, edge.downstream_execution_id
  local edge_key, dep_key = key.flow_edge(c, flow_id, edge.edge_id), key.exec_dep(c, child_id, edge.edge_id)
  local first = batch.edges[edge.dependency_kind]
  if not first then
    dependency.write_edge(c, edge_key, flow_id, edge)
    dependency.write_child_edge(c, dep_key, flow_id, child_id, edge)
    batch.edges[edge.dependency_kind] = {
      edge = edge_key, dep = dep_key, flow_id = flow_id, upstream_id = upstream_id, child_id = child_id,
      input_name = edge.input_name,
    }
    return
  end
  if first.flow_id ~= flow_id then
    graph_record.copy_edge(first, edge_key, dep_key, 'edge_id', edge.edge_id, 'flow_id', flow_id, 'upstream_execution_id', upstream_id,
      'downstream_execution_id', child_id, 'data_passing_ref', edge.input_name)
    return
  end
  local changes, count = { 'edge_id', edge.edge_id }, 2
  if first.upstream_id ~= upstream_id then
    changes[3], changes[4], count = 'upstream_execution_id', upstream_id, 4
  end
  if first.child_id ~= child_id then
    changes[count + 1], changes[count + 2], count = 'downstream_execution_id', child_id, count + 2
  end
  if first.input_name ~= edge.input_name then
    changes[count + 1], changes[count + 2] = 'data_passing_ref', edge.input_name
  end
  graph_record.copy_edge(first, edge_key, dep_key, unpack(changes))
end

-- Edges that a new child has, entered into its lists.
function graph_record.enter_child_edges(c, flow_id, child_id, edge_ids)
  call.chunked('SADD', key.flow_in(c, flow_id, child_id), edge_ids)
  call.chunked('SADD', key.exec_deps_unresolved(c, child_id), edge_ids)
  call.chunked('SADD', key.exec_deps_all_edges(c, child_id), edge_ids)
  redis.call('HSET', key.exec_deps_meta(c, child_id), 'unsatisfied_required_count', #edge_ids)
end

-- Edges of one child, told to the child and its join in one step. `is_new`: this call created the child.
local function write_child_counts(c, A, child_id, edge_ids, is_new, has_joins)
  if is_new then
    graph_record.enter_child_edges(c, A.flow_id, child_id, edge_ids)
  else
    call.chunked('SADD', key.exec_deps_unresolved(c, child_id), edge_ids)
    call.chunked('SADD', key.exec_deps_all_edges(c, child_id), edge_ids)
    redis.call('HINCRBY', key.exec_deps_meta(c, child_id), 'unsatisfied_required_count', #edge_ids)
  end
  local g = has_joins and edge_group.of(c, A.flow_id, child_id)
  if g then edge_group.add_edges(g.key, g, #edge_ids) end
end

-- Members of one command.
local IDS_AT_A_TIME = 1000

-- Edges of a call by the child that they lead to, each once: a list of {child_id, edges, ids}.
local function edges_by_child(edges)
  local children, by_id, seen = {}, {}, {}
  for _, edge in ipairs(edges) do
    local edge_id = edge.edge_id
    if not seen[edge_id] then
      seen[edge_id] = true
      local child_id = edge.downstream_execution_id
      local child = by_id[child_id]
      if child then
        local count = #child.ids + 1
        child.edges[count], child.ids[count] = edge, edge_id
      else
        child = { child_id = child_id, edges = { edge }, ids = { edge_id } }
        by_id[child_id] = child
        children[#children + 1] = child
      end
    end
  end
  return children
end

-- Enters the edges of a child that an earlier call has created, and leaves those in its lists that are new: all or none of
-- them, but for calls that were cut in another way before. An edge is known when it has a record.
local function enter_edges(c, A, child)
  local added, in_key = 0, key.flow_in(c, A.flow_id, child.child_id)
  for from = 1, #child.ids, IDS_AT_A_TIME do
    added = added + redis.call('SADD', in_key, unpack(child.ids, from, math.min(from + IDS_AT_A_TIME - 1, #child.ids)))
  end
  if added == #child.ids then return end
  local edges, ids = {}, {}
  for i = 1, added > 0 and #child.ids or 0 do
    if redis.call('EXISTS', key.flow_edge(c, A.flow_id, child.ids[i])) == 0 then
      edges[#edges + 1], ids[#ids + 1] = child.edges[i], child.ids[i]
    end
  end
  child.edges, child.ids = edges, ids
end

-- Writes the edges that are not known, and gives how many they are. Those that lead to a node that this call created
-- are new. `single`: see single_edges.
local function write_edges(c, batch, A, created, single, has_joins)
  local count = 0
  for _, child in ipairs(edges_by_child(A.edges)) do
    local child_id, is_new = child.child_id, created[child.child_id]
    if not is_new then enter_edges(c, A, child) end
    for _, edge in ipairs(child.edges) do
      local upstream_id = edge.upstream_execution_id
      local out_key = key.flow_out(c, A.flow_id, upstream_id)
      if single[upstream_id] then redis.call('SADD', out_key, edge.edge_id) else gather(batch, 'SADD', out_key, edge.edge_id) end
      write_edge(c, batch, A, edge)
    end
    if #child.ids > 0 then write_child_counts(c, A, child_id, child.ids, is_new, has_joins) end
    count = count + #child.ids
  end
  return count
end

-- An execution that is not a member of the flow is never written over: the ids of those that are, as a set, or nil and
-- the error reply. One command tells that all ids are new; only a call with known ones looks at each. The keys of their
-- records stay in `cores`. Where the flow `is_new`, what is left of an earlier submission is removed.
function graph_record.known_nodes(c, A, is_new)
  local known, cores = {}, {}
  A.cores = cores
  for i, execution_id in ipairs(A.ids) do cores[i] = key.exec_core(c, execution_id) end
  local members_key = key.flow_members(c, A.flow_id)
  if #cores == 0 or redis.call('EXISTS', members_key, unpack(cores)) == 0 then return known end
  if is_new then
    partial_submission.remove(c, A.flow_id, A.ids)
    if redis.call('EXISTS', unpack(cores)) == 0 then return known end
  end
  for i, execution_id in ipairs(A.ids) do
    if redis.call('EXISTS', cores[i]) == 1 then
      if redis.call('SISMEMBER', members_key, execution_id) == 0 then
        return nil, reply.err('invalid_input', 'node ' .. A.nodes[i].name .. ': execution ' .. execution_id
          .. ' exists already and is not a member of the flow')
      end
      known[execution_id] = true
    end
  end
  return known
end

-- Writes the nodes and edges that a call brings for a flow and that are not known. Gives how many of each are new.
function graph_record.write(c, batch, A, n, held, known, has_joins)
  local single = held and {} or single_edges(A)
  local created, nodes = write_nodes(c, batch, A, n, held, known, single)
  return nodes, write_edges(c, batch, A, created, single, has_joins)
end
