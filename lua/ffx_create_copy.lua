-- Runs of one call that are like the one before: their records are copies of its records.

-- Places of the edges by the places of the nodes that they lead to, or from.
local function places_by(edges, which)
  local places = {}
  for j, at in ipairs(edges) do
    local list = call.list_in(places, at[which])
    list[#list + 1] = j
  end
  return places
end

-- What the core of a node says of the one ordinary edge that leaves it, in the form of graph.onward, with places for ids.
local function onward_of(n, R, node, out)
  if not out or #out > 1 then return nil end
  local sign = string.sub(graph.onward(R.edges[out[1]], node.name), 1, 1)
  if sign == '' then return nil end
  return { sign = sign, down = n.edges[out[1]].down, edge = out[1] }
end

-- What further runs of the call are copied from when they are like the i-th, which it has just created as R with so many
-- edges: nil when they cannot be. Keys of the records of all runs stand in `keys` before those of all nodes.
function create.form(c, batch, A, n, R, keys, i, edge_count)
  local run, keys_before = A.runs[i], #A.runs + (i - 1) * #A.nodes
  if edge_count ~= #A.edges or n.limits or run.budget then return nil end
  local form = {
    flow = batch.flow, nodes = {}, edges = {}, deadline = n.deadline, result = n.result,
    fair_key = run.fair_key, is_traced = is_set(run.trace_context),
  }
  local edges_in, edges_out = places_by(n.edges, 'down'), places_by(n.edges, 'up')
  for j, node in ipairs(A.nodes) do
    form.nodes[j] = {
      node = node, numbers = n.nodes[j], core = keys[keys_before + j],
      tags = is_set(node.tags) and key.exec_tags(c, R.ids[j]) or nil,
      why = n.nodes[j].upstream_count > 0 and 'dependencies' or nil,
      edges_in = edges_in[j], edges_out = edges_out[j], onward = onward_of(n, R, node, edges_out[j]),
    }
  end
  for j, edge in ipairs(R.edges) do
    local at = n.edges[j]
    form.edges[j] = {
      up = at.up, down = at.down, edge = key.flow_edge(c, R.flow_id, edge.edge_id),
      dep = key.exec_dep(c, edge.downstream_execution_id, edge.edge_id),
    }
  end
  return form
end

-- Whether a run can be copied from a form.
function create.is_like(form, batch, run)
  return form and form.flow == batch.flow and not run.budget and run.fair_key == form.fair_key
    and is_set(run.trace_context) == form.is_traced
end

local function pick(ids, places)
  local picked = {}
  for i = 1, #places do picked[i] = ids[places[i]] end
  return picked
end

-- Creates the node of a run that is like one of the form, with the edges' entries in its lists.
local function copy_node(c, batch, run, like, execution_id, core_key, ids, edge_ids)
  local flow_id, onward = run.flow_id, like.onward
  redis.call('COPY', like.core, core_key)
  if onward then
    redis.call('HSET', core_key, 'flow_id', flow_id, 'execution_id', execution_id,
      'onward', onward.sign .. ids[onward.down], 'onward_edge', edge_ids[onward.edge])
  else
    redis.call('HSET', core_key, 'flow_id', flow_id, 'execution_id', execution_id)
  end
  create.text(batch, key.exec_policy(c, execution_id), like.node.policy)
  if like.tags then redis.call('COPY', like.tags, key.exec_tags(c, execution_id)) end
  create.index_node(c, batch, run, like.node, execution_id, like.numbers, like.why)
  if like.edges_in then create.enter_child_edges(c, flow_id, execution_id, pick(edge_ids, like.edges_in)) end
  if like.edges_out then call.chunked('SADD', key.flow_out(c, flow_id, execution_id), pick(edge_ids, like.edges_out)) end
end

-- Creates the i-th run of the call as a copy.
function create.copy_run(c, batch, form, A, keys, i)
  local run, flow_id = A.runs[i], A.runs[i].flow_id
  local nodes_before, edges_before = (i - 1) * #A.nodes, (i - 1) * #A.edges
  local ids, edge_ids = {}, {}
  for j = 1, #A.nodes do ids[j] = A.executions[nodes_before + j].execution_id end
  for j = 1, #A.edges do edge_ids[j] = A.edge_ids[edges_before + j].edge_id end
  for j, like in ipairs(form.nodes) do
    copy_node(c, batch, run, like, ids[j], keys[#A.runs + nodes_before + j], ids, edge_ids)
  end
  for j, like in ipairs(form.edges) do
    local edge_id, child_id = edge_ids[j], ids[like.down]
    create.copy_edge(like, key.flow_edge(c, flow_id, edge_id), key.exec_dep(c, child_id, edge_id), 'edge_id', edge_id,
      'flow_id', flow_id, 'upstream_execution_id', ids[like.up], 'downstream_execution_id', child_id)
  end
  create.enter_members(c, batch, flow_id, ids)
  if form.result then run.result_execution_id = ids[form.result] end
  create.copy_flow(batch.flow, keys[i], key.flow_events(c, flow_id), run)
  create.enter_flow(c, batch, A, flow_id, run.input, run.tags or A.tags, form.deadline)
end
