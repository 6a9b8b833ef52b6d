-- The record of a submitted flow, with what belongs to the flow itself.

local append, gather = create.append, create.gather

-- The record of a flow; `n` holds its numbers, and `nodes` and `edges` are how many of each it has so far.
local function write_flow_core(c, flow_key, A, n, held, nodes, edges)
  local values = {
    'flow_id', A.flow_id,
    'flow_kind', A.flow_name,
    'namespace', A.namespace,
    'managed', '1',
    'run_id', A.run_id,
    'graph_hash', A.graph_hash,
    'input_hash', A.input_hash,
    'graph_revision', nodes + edges,
    'node_count', nodes,
    'edge_count', edges,
    'open_nodes', n.node_total,
    'public_flow_state', 'open',
    'created_at', c.now_text,
    'last_mutation_at', c.now_text,
  }
  append(values, 'held', held and '1' or '')
  append(values, 'node_total', held and n.node_total or 0)
  append(values, 'joins', next(n.joins) and '1' or '')
  append(values, 'result_execution_id', A.result_execution_id)
  if n.deadline then append(values, 'deadline_at', number.text(c.now + n.deadline)) end
  append(values, 'creator_identity', A.creator_identity)
  local parent = A.parent and A.parent[1]
  if parent then
    append(values, 'parent_execution_id', parent.execution_id)
    append(values, 'fail_fast', parent.fail_fast == '1' and '1' or '')
  end
  append(values, 'trace_context', A.trace_context)
  append(values, 'retention', A.retention)
  append(values, 'fair_key', A.fair_key)
  append(values, 'budgets', n.budgets.text)
  append(values, 'budget_ids', n.budgets.blocking)
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

-- Creates a flow with what is its own. The flows of one batch have everything in common but their nodes' ids, their input,
-- trace and fair key.
function create.flow(c, batch, flow_key, A, n, held, nodes, edges)
  local definition_key, events_key = key.flow_definition(c, A.flow_id), key.flow_events(c, A.flow_id)
  local first = batch.flow
  if first and first.fair_key == A.fair_key and is_set(first.trace_context) == is_set(A.trace_context) then
    redis.call('COPY', first.core, flow_key)
    local values = { 'flow_id', A.flow_id, 'run_id', A.run_id, 'input_hash', A.input_hash }
    append(values, 'result_execution_id', A.result_execution_id)
    append(values, 'trace_context', A.trace_context)
    redis.call('HSET', flow_key, unpack(values))
    redis.call('COPY', first.definition, definition_key, 'REPLACE')
    redis.call('COPY', first.events, events_key, 'REPLACE')
  else
    write_flow_core(c, flow_key, A, n, held, nodes, edges)
    redis.call('SET', definition_key, A.definition)
    graph.log(c, A.flow_id, 'flow_submitted')
    batch.flow = {
      core = flow_key, definition = definition_key, events = events_key, fair_key = A.fair_key, trace_context = A.trace_context,
    }
  end
  if is_set(A.input) then redis.call('SET', key.flow_input(c, A.flow_id), A.input) end
  if not batch.tags then
    batch.tags = flat_tags(A.tags)
    batch.lists = flows.lists_of(c, A.flow_name, batch.tags)
  end
  if #batch.tags > 0 then call.chunked('HSET', key.flow_tags(c, A.flow_id), batch.tags) end
  gather(batch, 'SADD', key.index_flow_index(c), A.flow_id)
  for _, list in ipairs(batch.lists) do gather(batch, 'ZADD', list, c.now, A.flow_id) end
  if n.deadline then
    gather(batch, 'ZADD', key.ffx_flow_deadlines(c), c.now + n.deadline, A.flow_id)
    wake.due(c, c.now + n.deadline)
  end
end
