-- The record of a submitted flow, with what belongs to the flow itself.

local append, gather = record.append, batch_writes.gather

-- The record of a flow; `n` holds its numbers, and `nodes` and `edges` are how many of each it has so far. What is read with
-- every node comes first. `bare`: see flow_record.read.
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

-- What a copy of a flow's record sets anew, if it has it, and only a flow that has the same can be copied.
local function shape_of(A)
  local parent = A.parent and A.parent[1]
  return table.concat({ A.fair_key or '', is_set(A.trace_context) and 'trace' or '', is_set(A.budget.text) and 'budgets' or '',
    is_set(A.budget.blocking) and 'blocking' or '', parent and 'parent' .. parent.fail_fast or '' }, ' ')
end

-- The tags of a flow, and the lists of runs that it enters: most flows of a batch have those of the one before.
local function gather_tags(c, batch, flow_name, tags)
  if batch.tags_of == tags then return end
  batch.tags_of, batch.tags = tags, flat_tags(tags)
  batch.lists = run_list.of(c, flow_name, batch.tags)
end

-- Writes the record of a flow as a copy of the first of its batch; further fields with their values follow.
function run_record.copy(first, flow_key, events_key, A, result_execution_id, ...)
  redis.call('COPY', first.core, flow_key)
  if is_set(result_execution_id) then
    redis.call('HSET', flow_key, 'flow_id', A.flow_id, 'run_id', A.run_id, 'input_hash', A.input_hash,
      'result_execution_id', result_execution_id, ...)
  else
    redis.call('HSET', flow_key, 'flow_id', A.flow_id, 'run_id', A.run_id, 'input_hash', A.input_hash, ...)
  end
  redis.call('COPY', first.events, events_key, 'REPLACE')
  first.copied_events = events_key
end

-- Writes what there is of a flow beside its record, and enters it into the lists; in the index of flows it is already. `A`: what it has in common with others.
function run_record.enter(c, batch, A, flow_id, input, tags, deadline)
  if is_set(input) then batch_writes.text(batch, key.flow_input(c, flow_id), input) end
  -- The last of the texts: see partial_submission.is_partial.
  batch_writes.text(batch, key.flow_definition(c, flow_id), A.definition)
  gather_tags(c, batch, A.flow_name, tags)
  if #batch.tags > 0 then call.chunked('HSET', key.flow_tags(c, flow_id), batch.tags) end
  for i = 1, #batch.lists do gather(batch, 'ZADD', batch.lists[i], c.now_text, flow_id) end
  if deadline then
    gather(batch, 'ZADD', key.ffx_flow_deadlines(c), c.now + deadline, flow_id)
    wake.due(c, c.now + deadline)
  end
end

-- Creates a flow with what is its own. The flows of one batch have everything in common but their nodes' ids, input, trace,
-- fair key, tags, budgets and parents.
function run_record.write(c, batch, flow_key, A, n, held, nodes, edges)
  local events_key = key.flow_events(c, A.flow_id)
  local first = batch.flow
  local shape = shape_of(A)
  if first and first.shape == shape then
    local further = {}
    append(further, 'trace_context', A.trace_context)
    append(further, 'parent_execution_id', A.parent and A.parent[1] and A.parent[1].execution_id)
    if A.budget.blocking ~= first.blocking then append(further, 'budget_ids', A.budget.blocking) end
    run_record.copy(first, flow_key, events_key, A, A.result_execution_id, unpack(further))
  else
    write_flow_core(c, flow_key, A, n, held, nodes, edges)
    event_log.add_alone(c, A.flow_id, 'flow_submitted')
    batch_writes.finish_events(c, batch)
    batch.flow = { core = flow_key, events = events_key, shape = shape, blocking = A.budget.blocking }
  end
  if is_set(A.budget.text) then batch_writes.text(batch, key.flow_budgets(c, A.flow_id), A.budget.text) end
  if A.parent and A.parent[1] then child_run.submitted(c, A.flow_id) end
  run_record.enter(c, batch, A, A.flow_id, A.input, A.tags, n.deadline)
end
