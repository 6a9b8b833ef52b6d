-- The record of a submitted run, and the other data of the run itself.

local append, gather = record.append, batch_writes.gather

-- Number of digits of a graph's hash, and of an input's, that the record of a run keeps.
run_record.HASH_DIGITS = 32

-- Returns the fields that the records of a call's runs have in common, with their values, and the length of the list. Fields that
-- are read with every node come first.
local function common_values(c, A, g, n)
  local values = {
    'public_flow_state', 'open',
    'flow_kind', A.flow_name,
    'run_id', '',
    'input_hash', '',
    'namespace', A.namespace,
    'managed', '1',
    'graph_hash', string.sub(A.graph_hash, 1, run_record.HASH_DIGITS),
    'graph_revision', g.head.nodes + g.head.edges,
    'node_count', g.head.nodes,
    'created_at', c.now_text,
    'last_mutation_at', c.now_text,
    nil, nil, nil, nil, -- room for the further fields of most runs
  }
  append(values, 'edge_count', g.head.edges)
  append(values, 'joins', g.has_joins and graph_store.joins_text(g) or '')
  if n.deadline_at then append(values, 'deadline_at', number.text(n.deadline_at)) end
  if n.start_at then append(values, 'start_at', number.text(n.start_at)) end
  append(values, 'creator_identity', A.creator_identity)
  append(values, 'retention', A.retention)
  append(values, 'priority', n.priority)
  return values
end

-- Places of the values that differ from run to run.
local RUN_ID, INPUT_HASH = 6, 8

-- Appends a field of a run to a list of `count` elements, unless it has no value. Returns the new number.
local function add(values, count, field, value)
  if not value or value == '' then return count end
  values[count + 1], values[count + 2] = field, value
  return count + 2
end

-- Returns the fields `budgets` and `budget_ids` of a run; nil without budgets.
function run_record.budgets(run, g)
  if run.budgets then return '1', run.budgets.blocking end
  if g.head.budgets then return budget_gate.OF_GRAPH, g.head.blocking end
end

-- Writes the record of a run. `batch` keeps the list of values from one run to the next.
local function write_core(c, batch, flow_key, A, run, g, n)
  local values, count, parent = batch.values, batch.value_count, run.parent
  if not values then
    values = common_values(c, A, g, n)
    count = #values
    batch.values, batch.value_count = values, count
  end
  values[RUN_ID], values[INPUT_HASH] = run.run_id, run.input_hash
  if parent then
    count = add(values, count, 'parent_execution_id', parent.execution_id)
    count = add(values, count, 'fail_fast', parent.fail_fast == '1' and '1')
  end
  count = add(values, count, 'trace_context', run.trace_context)
  count = add(values, count, 'fair_key', run.fair_key)
  count = add(values, count, 'memo', run.memo)
  local fields = run.fields -- fields that few runs have
  for i = 1, fields and #fields or 0, 2 do count = add(values, count, fields[i], fields[i + 1]) end
  local budgets, budget_ids = run_record.budgets(run, g)
  if budgets then
    count = add(values, count, 'budgets', budgets)
    count = add(values, count, 'budget_ids', budget_ids)
  end
  redis.call('HSET', flow_key, unpack(values, 1, count))
end

local function flat_tags(tags)
  local flat = {}
  for _, tag in ipairs(tags) do
    flat[#flat + 1] = tag.name
    flat[#flat + 1] = tag.value
  end
  return flat
end

-- Gathers the tags of a run, and the sets of runs that it enters: most runs of a batch have the same tags as the previous one.
local function gather_tags(c, batch, tags)
  if batch.tags_of == tags then return end
  batch.tags_of, batch.tags = tags, flat_tags(tags)
  batch.sets = run_list.of_tags(c, batch.tags)
end

-- Enters a run that is to be created into the lists, and stores its data in addition to its record.
function run_record.enter(c, batch, A, run, n)
  local flow_id = run.flow_id
  if run.budgets then batch_writes.text(batch, key.flow_budgets(c, flow_id), run.budgets.text) end
  if is_set(run.input) and not run.behind then batch_writes.text(batch, key.flow_input(c, flow_id), run.input) end
  gather_tags(c, batch, run.tags or A.tags)
  if #batch.tags > 0 then call.chunked('HSET', key.flow_tags(c, flow_id), batch.tags) end
  for i = 1, #batch.sets do gather(batch, 'ZADD', batch.sets[i], c.now_text, flow_id) end
  if n.deadline_at then
    gather(batch, 'ZADD', key.ffx_flow_deadlines(c), n.deadline_at, flow_id)
    wake.due(c, n.deadline_at)
  end
end

-- Creates the record of a run.
function run_record.write(c, batch, flow_key, A, run, g, n)
  write_core(c, batch, flow_key, A, run, g, n)
  run_counts.started(c, A.flow_name, A.namespace, run.parent)
  run_feed.started(c, run.flow_id, A.flow_name, A.namespace, run.run_id, run.parent)
  if run.parent then child_run.submitted(c, run.flow_id) end
end
