-- The record of a submitted flow, with what belongs to the flow itself.

local append, gather = create.append, create.gather

-- The record of a flow; `n` holds its numbers, and `nodes` and `edges` are how many of each it has so far. What is read with
-- every node comes first. `bare`: see graph.flow.
local function write_flow_core(c, flow_key, A, n, held, nodes, edges)
  local parent = A.parent and A.parent[1]
  local bare = not held and not next(n.joins) and not is_set(A.budget.text) and not (parent and parent.fail_fast == '1')
  local values = {
    'open_nodes', n.node_total,
    'bare', bare and '1' or '',
    'public_flow_state', 'open',
    'flow_kind', A.flow_name,
    'run_id', A.run_id,
    'flow_id', A.flow_id,
    'namespace', A.namespace,
    'managed', '1',
    'graph_hash', A.graph_hash,
    'input_hash', A.input_hash,
    'graph_revision', nodes + edges,
    'node_count', nodes,
    'edge_count', edges,
    'created_at', c.now_text,
    'last_mutation_at', c.now_text,
  }
  append(values, 'held', held and '1' or '')
  append(values, 'node_total', held and n.node_total or 0)
  append(values, 'joins', next(n.joins) and '1' or '')
  append(values, 'result_execution_id', A.result_execution_id)
  if n.deadline then append(values, 'deadline_at', number.text(c.now + n.deadline)) end
  append(values, 'creator_identity', A.creator_identity)
  if parent then
    append(values, 'parent_execution_id', parent.execution_id)
    append(values, 'fail_fast', parent.fail_fast == '1' and '1' or '')
  end
  append(values, 'trace_context', A.trace_context)
  append(values, 'retention', A.retention)
  append(values, 'fair_key', A.fair_key)
  append(values, 'budgets', is_set(A.budget.text) and '1' or '')
  append(values, 'budget_ids', A.budget.blocking)
  redis.call('HSET', flow_key, unpack(values))
end

local function flat_tags(tags)
  local flat = {}
  for _, tag in ipairs(tags) do
    flat[#flat + 1] = tag.name
    flat[#flat + 1] = tag.value
  end
  return flat
end

-- A new stream keeps room for more entries than most logs get; a copy does not, nor what is appended to it.
function create.finish_events(c, batch)
  local first = batch.flow
  if not first then return end
  if first.copied_events then
    redis.call('COPY', first.copied_events, first.events, 'REPLACE')
  else
    flows.shrink_stream(c, first.events)
  end
end

-- What a copy of a flow's record sets anew, if it has it, and only a flow that has the same can be copied.
local function shape_of(A)
  local parent = A.parent and A.parent[1]
  return table.concat({ A.fair_key or '', is_set(A.trace_context) and 'trace' or '', is_set(A.budget.text) and 'budgets' or '',
    is_set(A.budget.blocking) and 'blocking' or '', parent and 'parent' .. parent.fail_fast or '' }, ' ')
end

-- The tags of a flow, and the lists of runs that it enters: most flows of a batch have those of the one before.
local function gather_tags(c, batch, A)
  if batch.tags_of == A.tags then return end
  batch.tags_of, batch.tags = A.tags, flat_tags(A.tags)
  batch.lists = flows.lists_of(c, A.flow_name, batch.tags)
end

-- Writes the record of a flow as a copy of the first of its batch.
local function copy_flow(first, flow_key, events_key, A)
  redis.call('COPY', first.core, flow_key)
  local values = { 'flow_id', A.flow_id, 'run_id', A.run_id, 'input_hash', A.input_hash }
  append(values, 'result_execution_id', A.result_execution_id)
  append(values, 'trace_context', A.trace_context)
  append(values, 'parent_execution_id', A.parent and A.parent[1] and A.parent[1].execution_id)
  if A.budget.blocking ~= first.blocking then append(values, 'budget_ids', A.budget.blocking) end
  redis.call('HSET', flow_key, unpack(values))
  redis.call('COPY', first.events, events_key, 'REPLACE')
  first.copied_events = events_key
end

-- Writes what there is of a flow beside its record, and enters it into the lists.
local function enter_flow(c, batch, A, deadline)
  local flow_id = A.flow_id
  create.text(batch, key.flow_definition(c, flow_id), A.definition)
  if is_set(A.input) then create.text(batch, key.flow_input(c, flow_id), A.input) end
  gather_tags(c, batch, A)
  if #batch.tags > 0 then call.chunked('HSET', key.flow_tags(c, flow_id), batch.tags) end
  gather(batch, 'SADD', key.index_flow_index(c), flow_id)
  for i = 1, #batch.lists do gather(batch, 'ZADD', batch.lists[i], c.now_text, flow_id) end
  if deadline then
    gather(batch, 'ZADD', key.ffx_flow_deadlines(c), c.now + deadline, flow_id)
    wake.due(c, c.now + deadline)
  end
end

-- Creates a flow with what is its own. The flows of one batch have everything in common but their nodes' ids, input, trace,
-- fair key, tags, budgets and parents.
function create.flow(c, batch, flow_key, A, n, held, nodes, edges)
  local events_key = key.flow_events(c, A.flow_id)
  local first = batch.flow
  local shape = shape_of(A)
  if first and first.shape == shape then
    copy_flow(first, flow_key, events_key, A)
  else
    write_flow_core(c, flow_key, A, n, held, nodes, edges)
    graph.log(c, A.flow_id, 'flow_submitted')
    create.finish_events(c, batch)
    batch.flow = { core = flow_key, events = events_key, shape = shape, blocking = A.budget.blocking }
  end
  if is_set(A.budget.text) then create.text(batch, key.flow_budgets(c, A.flow_id), A.budget.text) end
  if A.parent and A.parent[1] then children.born(c, A.flow_id) end
  enter_flow(c, batch, A, n.deadline)
end

-- Creates a run like the first of the batch, from which it has another id, input, trace and tags: one without edges, limits
-- or budgets, and with its fair key. `form`: the first one, with the number of the node of the `result` and its `nodes`, each
-- with its numbers and the key of its `core`. `R`: the run, whose nodes stand in `executions` behind the place `before`, and
-- the keys of their records in `keys` behind `keys_before`.
function create.copy_run(c, batch, form, R)
  local flow_id, executions, before, keys_before = R.flow_id, R.executions, R.before, R.keys_before
  local members_key, all_key = key.flow_members(c, flow_id), key.index_all_executions(c)
  for j, like in ipairs(form.nodes) do
    local execution_id, core_key, node = executions[before + j].execution_id, R.keys[keys_before + j], like.node
    redis.call('COPY', like.core, core_key)
    redis.call('HSET', core_key, 'flow_id', flow_id, 'execution_id', execution_id)
    create.text(batch, key.exec_policy(c, execution_id), node.policy)
    if like.tags then redis.call('COPY', like.tags, key.exec_tags(c, execution_id)) end
    create.index_node(c, batch, R, node, execution_id, like.numbers, like.why)
    gather(batch, 'SADD', members_key, execution_id)
    gather(batch, 'SADD', all_key, execution_id)
  end
  if form.result then R.result_execution_id = executions[before + form.result].execution_id end
  copy_flow(batch.flow, R.key, key.flow_events(c, flow_id), R)
  enter_flow(c, batch, R, form.deadline)
end
