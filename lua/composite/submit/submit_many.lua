-- Submitting several runs of a flow at once.

local MAX_RUNS = 64
local MAX_NODES = 256
local MAX_EDGES = 512

-- What a run that exists is judged by.
local FLOW_FIELDS = { 'graph_hash', 'input_hash', 'public_flow_state', 'held', 'purging' }

local function check_sizes(A)
  if not (A.tags and A.nodes and A.edges and A.runs and A.executions and A.edge_ids and A.budgets and A.own_tags) then
    return reply.err('invalid_input', 'the counts do not fit the arguments')
  elseif #A.runs > MAX_RUNS or #A.executions > MAX_NODES or #A.edge_ids > MAX_EDGES then
    return reply.err('invalid_input', 'at most ' .. MAX_RUNS .. ' runs with ' .. MAX_NODES .. ' nodes and ' .. MAX_EDGES
      .. ' edges in one call')
  elseif #A.executions ~= #A.runs * #A.nodes or #A.edge_ids ~= #A.runs * #A.edges then
    return reply.err('invalid_input', 'each run must bring an id for each node and each edge')
  elseif not is_set(A.definition) then
    return reply.err('invalid_input', 'definition must be given')
  end
  return nil
end

-- The place of something in a list, or nil and the error reply.
local function place(list, what, name, raw)
  local at = number.finite(raw)
  if at and list[at] then return at end
  return nil, reply.err('invalid_input', name .. ' must be the place of a ' .. what .. ', got: ' .. tostring(raw))
end

local function parse_edges(A, n)
  for i, edge in ipairs(A.edges) do
    local up, down, err
    up, err = place(A.nodes, 'node', 'upstream', edge.upstream)
    if err then return err end
    down, err = place(A.nodes, 'node', 'downstream', edge.downstream)
    if err then return err end
    n.edges[i] = { up = up, down = down }
  end
  return nil
end

-- Budgets and tags that come with a run: written into its entry.
local function parse_own(A)
  for _, entry in ipairs(A.budgets) do
    local at, err = place(A.runs, 'run', 'run of budgets', entry.run)
    if err then return err end
    A.runs[at].budget = entry
  end
  for _, tag in ipairs(A.own_tags) do
    local at, err = place(A.runs, 'run', 'run of a tag', tag.run)
    if err then return err end
    local run = A.runs[at]
    run.tags = run.tags or {}
    run.tags[#run.tags + 1] = tag
  end
  return nil
end

-- Numbers of the call, converted before anything is written. Nil and the error reply when one is bad.
local function parse(A)
  local err = check_sizes(A)
  if err then return nil, err end
  local n = { nodes = {}, edges = {}, joins = {}, to_open = {}, node_total = #A.nodes, taken = {} }
  n.deadline, err = number.optional('deadline', A.deadline, nil)
  if err then return nil, err end
  err = purge.check_retention(A.retention)
  if err then return nil, err end
  if is_set(A.result_node) and A.result_node ~= '0' then
    n.result, err = place(A.nodes, 'node', 'result_node', A.result_node)
    if err then return nil, err end
  end
  for i, node in ipairs(A.nodes) do
    node.delay = '0'
    n.nodes[i], err = batch_writes.parse_node(node)
    if err then return nil, err end
  end
  err = parse_edges(A, n) or parse_own(A)
  if err then return nil, err end
  n.limits, err = limit_admission.parse(A)
  if err then return nil, err end
  return n
end

-- Keys of the records of all runs, after those of their nodes, and then of their members.
local function record_keys(c, A)
  local keys = {}
  for i, run in ipairs(A.runs) do keys[i] = key.flow_core(c, run.flow_id) end
  for i, execution in ipairs(A.executions) do keys[#A.runs + i] = key.exec_core(c, execution.execution_id) end
  for _, run in ipairs(A.runs) do keys[#keys + 1] = key.flow_members(c, run.flow_id) end
  return keys
end

-- Edges of one run in the form of ffx_submit_flow.
local function edges_of(A, n, i, ids)
  local edges, before = {}, (i - 1) * #A.edges
  for j, edge in ipairs(A.edges) do
    local at = n.edges[j]
    edges[j] = {
      edge_id = A.edge_ids[before + j].edge_id, upstream_execution_id = ids[at.up], downstream_execution_id = ids[at.down],
      dependency_kind = edge.dependency_kind, input_name = edge.input_name,
    }
  end
  return edges
end

local NO_BUDGET = {}

-- One run of the call, the i-th, in the form of ffx_submit_flow.
local function run_of(A, n, keys, i)
  local run, ids, cores, before = A.runs[i], {}, {}, (i - 1) * #A.nodes
  for j = 1, #A.nodes do
    ids[j], cores[j] = A.executions[before + j].execution_id, keys[#A.runs + before + j]
  end
  return {
    flow_id = run.flow_id, run_id = run.run_id, input_hash = run.input_hash, input = run.input,
    trace_context = run.trace_context, fair_key = run.fair_key, ids = ids, cores = cores,
    edges = edges_of(A, n, i, ids), nodes = A.nodes,
    result_execution_id = n.result and ids[n.result],
    flow_name = A.flow_name, namespace = A.namespace, graph_hash = A.graph_hash, definition = A.definition,
    creator_identity = A.creator_identity, retention = A.retention,
    tags = run.tags or A.tags, budget = run.budget or NO_BUDGET,
  }
end

-- How it stands with a run that there is: the code of its outcome.
local function outcome_of(flow, A, run)
  if flow.purging then return 'flow_purging' end
  local conflict = batch_writes.check_same(flow, { graph_hash = A.graph_hash, input_hash = run.input_hash })
  if conflict then return conflict[2] end
  return flow.held and 'flow_incomplete' or 'ALREADY_SATISFIED'
end

-- The executions of the i-th run.
local function ids_of(A, i)
  local ids = {}
  for j = 1, #A.nodes do ids[j] = A.executions[(i - 1) * #A.nodes + j].execution_id end
  return ids
end

-- Whether there is any node of the i-th run, or a list of its members.
local function exists(A, keys, i)
  local before = #A.runs + (i - 1) * #A.nodes
  return redis.call('EXISTS', keys[#A.runs + #A.executions + i], unpack(keys, before + 1, before + #A.nodes)) > 0
end

-- Creates one run. `look`: it or its nodes may exist. Gives the code of its outcome.
local function submit(c, batch, A, n, keys, i, look)
  local run, taken = A.runs[i], n.taken
  if look or taken[run.flow_id] then
    local flow = record.read(keys[i], FLOW_FIELDS, true)
    local partial = flow and not taken[run.flow_id] and not flow.purging and partial_submission.is_partial(c, run.flow_id, true)
    if flow and not partial then return outcome_of(flow, A, run) end
    if partial or exists(A, keys, i) then partial_submission.remove(c, run.flow_id, ids_of(A, i)) end
  end
  local last = i * #A.nodes
  local first = last - #A.nodes + 1
  for j = first, last do
    if taken[A.executions[j].execution_id] or look and redis.call('EXISTS', keys[#A.runs + j]) == 1 then
      return 'invalid_input'
    end
  end
  -- First of all: see partial_submission.is_partial.
  if look then redis.call('SADD', key.index_flow_index(c), run.flow_id) end
  taken[run.flow_id] = true
  for j = first, last do taken[A.executions[j].execution_id] = true end
  if run_copy.is_like(n.form, batch, run) then
    run_copy.write(c, batch, n.form, A, keys, i)
    return 'OK'
  end
  local R = run_of(A, n, keys, i)
  local nodes, edges = graph_record.write(c, batch, R, n, false, {}, false)
  run_record.write(c, batch, keys[i], R, n, false, nodes, edges)
  if i < #A.runs then n.form = run_copy.form(c, batch, A, n, R, keys, i, edges) end
  return 'OK'
end

-- Enters all runs of the call into the index of flows, when there is nothing of any of them.
local function enter_all(c, A)
  local ids = {}
  for i, run in ipairs(A.runs) do ids[i] = run.flow_id end
  call.chunked('SADD', key.index_flow_index(c), ids)
end

-- @record    submission_outcome code:text

-- @function ffx_submit_many
-- @summary  Creates several runs of one flow, each with all its nodes and edges, as ffx_submit_flow does for each. What the
--           runs have in common comes once: an edge names its nodes by their place in the list, from 1. `executions` and
--           `edge_ids` are those of the first run in the order of nodes and edges, then those of the second, and so on. The
--           outcomes stand in the order of the runs: OK, ALREADY_SATISFIED, or the code with which ffx_submit_flow refuses
--           the run; `flow_incomplete` is a run that has begun to come in chunks. A run that is not created changes nothing
--           of the others. `budgets` and `own_tags` name their run by its place, from 1: a run with tags of its own brings
--           all that it has. Waitpoints, joins, schedules and parents are for ffx_submit_flow.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      flow_name          text
-- @arg      namespace          text
-- @arg      graph_hash         text
-- @arg      definition         bytes
-- @arg      result_node        int optional
-- @arg      deadline           ms optional
-- @arg      creator_identity   text optional
-- @arg      retention          csv optional
-- @group    tags               name:text value:text
-- @group    nodes              name:text kind:text lane_id:lane_id priority:int uses_flow_input:bool input_count:int upstream_count:int capabilities:csv policy:json tags:json start_timeout:ms attempt_timeout:ms
-- @group    edges              upstream:int downstream:int dependency_kind:text input_name:text
-- @group    runs               flow_id:flow_id run_id:text input_hash:text input:bytes trace_context:text fair_key:text
-- @group    executions         execution_id:execution_id
-- @group    edge_ids           edge_id:edge_id
-- @group    limits             execution_id:execution_id text:text quota_policy_id:text
-- @group    budgets            run:int text:json blocking:csv
-- @group    own_tags           run:int name:text value:text
-- @reply    OK outcomes:list(submission_outcome)
-- @error    invalid_input message:text
function F.ffx_submit_many(K, A)
  local n, err = parse(A)
  if err then return err end
  local c = call.open(K.partition)
  local batch = batch_writes.new()
  local keys = record_keys(c, A)
  -- One command tells whether there is a record of any of them.
  local look = #keys > 0 and redis.call('EXISTS', unpack(keys)) > 0
  recovery.state(c) -- as long as there is nothing that would have to be gone through
  if not look then enter_all(c, A) end
  local outcomes, told = {}, {}
  for i = 1, #A.runs do
    local code = submit(c, batch, A, n, keys, i, look)
    told[code] = told[code] or { code }
    outcomes[i] = told[code]
  end
  batch_writes.finish(c, batch)
  settle.run(c)
  return reply.ok(outcomes)
end
