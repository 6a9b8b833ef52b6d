-- Runs that are like the run before them in the same call: their records are copies of its records, and they enter the
-- same lists. What is common to them is determined once, as the form of the call.

-- Places of the edges by the places of the nodes that they lead to, or from.
local function places_by(edges, which)
  local places = {}
  for j, at in ipairs(edges) do
    local list = call.list_in(places, at[which])
    list[#list + 1] = j
  end
  return places
end

-- What the core of a node says of the one ordinary edge that leaves it, in the form of propagate.onward, with places for ids.
local function onward_of(n, R, node, out)
  if not out or #out > 1 then return nil end
  local sign = string.sub(propagate.onward(R.edges[out[1]], node.name), 1, 1)
  if sign == '' then return nil end
  return { sign = sign, down = n.edges[out[1]].down, edge = out[1] }
end

-- The list that a node without a key enters, with the score and what wakers count there: nil where keys take turns. A
-- node that may start late only goes through node_record.index, too.
local function entry_of(c, batch, run, node, numbers)
  if is_set(run.fair_key) or numbers.start_timeout > 0 then return nil end
  if numbers.upstream_count > 0 then
    return { list = batch_writes.list(batch, 'ZADD', key.lane_blocked_dependencies(c, node.lane_id)), score = c.now_text }
  elseif order.is_fair(c, node.lane_id) then
    return nil
  end
  return {
    list = batch_writes.list(batch, 'ZADD', key.lane_eligible(c, node.lane_id)), score = node_record.score(c, numbers),
    added = wake.added(c, node.lane_id),
  }
end

-- What further runs of the call are copied from when they are like the i-th, which it has just created as R with so many
-- edges: nil when they cannot be. Keys of the records of all runs stand in `keys` before those of all nodes.
function run_copy.form(c, batch, A, n, R, keys, i, edge_count)
  local run = A.runs[i]
  if edge_count ~= #A.edges or n.limits or run.budget then return nil end
  local form = {
    flow = batch.flow, nodes = {}, edges = {}, deadline = n.deadline, result = n.result,
    fair_key = run.fair_key, is_traced = is_set(run.trace_context),
    all_executions = batch_writes.list(batch, 'SADD', key.index_all_executions(c)),
  }
  local edges_in, edges_out = places_by(n.edges, 'down'), places_by(n.edges, 'up')
  for j, node in ipairs(A.nodes) do
    form.nodes[j] = {
      node = node, numbers = n.nodes[j], core = R.cores[j], policy = node.policy,
      tags = is_set(node.tags) and key.exec_tags(c, R.ids[j]) or nil,
      why = n.nodes[j].upstream_count > 0 and 'dependencies' or nil, entry = entry_of(c, batch, run, node, n.nodes[j]),
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
function run_copy.is_like(form, batch, run)
  return form and form.flow == batch.flow and not run.budget and run.fair_key == form.fair_key
    and is_set(run.trace_context) == form.is_traced
end

local function pick(ids, places)
  local picked = {}
  for i = 1, #places do picked[i] = ids[places[i]] end
  return picked
end

-- Enters a node that is like one of the form into the index of its state.
local function enter_like(c, batch, run, like, execution_id)
  local entry = like.entry
  if not entry then
    node_record.index(c, batch, run, like.node, execution_id, like.numbers, like.why)
    return
  end
  local list, added = entry.list, entry.added
  local count = #list
  list[count + 1], list[count + 2] = entry.score, execution_id
  if added then added.count = added.count + 1 end
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
  batch_writes.text(batch, key.exec_policy(c, execution_id), like.policy)
  if like.tags then redis.call('COPY', like.tags, key.exec_tags(c, execution_id)) end
  enter_like(c, batch, run, like, execution_id)
  if like.edges_in then graph_record.enter_child_edges(c, flow_id, execution_id, pick(edge_ids, like.edges_in)) end
  if like.edges_out then call.chunked('SADD', key.flow_out(c, flow_id, execution_id), pick(edge_ids, like.edges_out)) end
end

local function copy_edges(c, form, flow_id, ids, edge_ids)
  for j, like in ipairs(form.edges) do
    local edge_id, child_id = edge_ids[j], ids[like.down]
    graph_record.copy_edge(like, key.flow_edge(c, flow_id, edge_id), key.exec_dep(c, child_id, edge_id), 'edge_id', edge_id,
      'flow_id', flow_id, 'upstream_execution_id', ids[like.up], 'downstream_execution_id', child_id)
  end
end

local NO_EDGES = {}

-- Creates the i-th run of the call as a copy.
function run_copy.write(c, batch, form, A, keys, i)
  local run = A.runs[i]
  local flow_id, nodes_before, edges_before = run.flow_id, (i - 1) * #A.nodes, (i - 1) * #A.edges
  local keys_before, all_executions = #A.runs + nodes_before, form.all_executions
  local ids, edge_ids = {}, NO_EDGES
  for j = 1, #A.nodes do
    local execution_id = A.executions[nodes_before + j].execution_id
    ids[j], all_executions[#all_executions + 1] = execution_id, execution_id
  end
  if #A.edges > 0 then
    edge_ids = {}
    for j = 1, #A.edges do edge_ids[j] = A.edge_ids[edges_before + j].edge_id end
  end
  for j, like in ipairs(form.nodes) do copy_node(c, batch, run, like, ids[j], keys[keys_before + j], ids, edge_ids) end
  copy_edges(c, form, flow_id, ids, edge_ids)
  call.chunked('SADD', key.flow_members(c, flow_id), ids)
  local events_key, result_id = key.flow_events(c, flow_id), form.result and ids[form.result]
  if form.is_traced then
    run_record.copy(batch.flow, keys[i], events_key, run, result_id, 'trace_context', run.trace_context)
  else
    run_record.copy(batch.flow, keys[i], events_key, run, result_id)
  end
  run_record.enter(c, batch, A, flow_id, run.input, run.tags or A.tags, form.deadline)
end
