-- The description of a leased execution that a worker receives.

-- Maximum number of upstream results that one call returns, with all that it leases: the results for an execution are returned
-- together or not at all. Beyond these, and beyond MAX_INLINE_BYTES for one execution, they are read with ffx_read_inputs.
local MAX_INLINE_INPUTS = 256
local MAX_INLINE_BYTES = 1048576
claim_reply.MAX_INLINE_BYTES = MAX_INLINE_BYTES

-- Node, activity, flow and policy of a node with a row are empty, because its graph and its execution id contain them: see
-- ffx_read_graph. The description ends with the inputs, or with the budgets, for a node that is leased for its first attempt and
-- has only the least fields: the id of its attempt follows from the lease. In most cases that is one text in place of the list:
-- see row_claimed.describe.
-- @record    claimed_execution execution_id:execution_id lease_id:lease_id lease_expires_at:unix_ms flow_name:text run_id:text created_at:unix_ms deadline_at:unix_ms trace_context:text graph:text flow_input:value<input> inputs_complete:bool inputs:list(node_input) admission:text? budgets:text? node:text? kind:text? flow_id:flow_id? attempt_index:attempt_index? attempt_id:attempt_id? attempt_type:text? lease_epoch:lease_epoch? retry_count:int? policy:json? payload:bytes<plain>? journal_complete:bool? journal:list(journal_entry)? tags:json? after:int?
-- An input names the number of its node, or the whole id of an execution outside of a graph.
-- @record    journal_entry name:text value:bytes<step>
-- @record    node_input name:text result:value<result> upstream:text

-- Returns the names under which the edges to an execution provide results, the keys of these, and the executions. `g`: its join,
-- if it is one.
function claim_reply.feeders(c, execution_id, flow_id, g, edge_ids)
  local names, result_keys, upstreams = {}, {}, {}
  for _, edge_id in ipairs(edge_ids) do
    local edge = redis.call('HMGET', key.flow_edge(c, flow_id, edge_id), 'data_passing_ref', 'upstream_execution_id')
    if is_set(edge[1]) and join.feeds(c, g, execution_id, edge_id) then
      names[#names + 1], result_keys[#names + 1], upstreams[#names + 1] = edge[1], key.exec_result(c, edge[2]), edge[2]
    end
  end
  return names, result_keys, upstreams
end

-- Number of results that are read together: few, because large ones may be read in vain.
local RESULTS_AT_A_TIME = 16

-- Appends results to inputs under their names, as many as may be returned. Returns the inputs, and whether that is all of them.
local function results_of(inputs, names, result_keys, upstreams)
  local bytes = 0
  for from = 1, #names, RESULTS_AT_A_TIME do
    local to = math.min(from + RESULTS_AT_A_TIME - 1, #names)
    for i, result in ipairs(redis.call('MGET', unpack(result_keys, from, to))) do
      result = result or ''
      bytes = bytes + #result
      if bytes > MAX_INLINE_BYTES then return inputs, false end
      inputs[#inputs + 1] = { names[from + i - 1], result, upstreams[from + i - 1] }
    end
  end
  return inputs, true
end

local NONE = {}

-- Counts results that are to be returned. Reports whether they may be.
function claim_reply.may_hand_out(c, count)
  c = c.root or c
  local handed_out = (c.inputs_handed_out or 0) + count
  if handed_out > MAX_INLINE_INPUTS then return false end
  c.inputs_handed_out = handed_out
  return true
end

-- Returns the results of the upstreams that feed an execution, as {name, result, node} lists, and whether that is all of them.
function claim_reply.inputs(c, execution_id, core)
  local count = tonumber(core.input_count) or 0
  if count == 0 then return NONE, true end
  local all_fed = c.next_up and c.next_up.fed
  local fed = all_fed and all_fed[execution_id]
  if fed and #fed == count then
    local bytes = 0
    for i = 1, count do bytes = bytes + #fed[i][2] end
    if bytes > MAX_INLINE_BYTES then return {}, false end
    return fed, true
  end
  if not claim_reply.may_hand_out(c, count) then return {}, false end
  local g = flow_record.read(c, core.flow_id).joins and edge_group.of(c, core.flow_id, execution_id) or nil
  local inputs, complete = row_inputs.read(c, execution_id, g, MAX_INLINE_BYTES)
  if not inputs then inputs, complete = {}, true end
  if not complete or #inputs == count then return inputs, complete end
  local names, result_keys, upstreams = claim_reply.feeders(c, execution_id, core.flow_id, g,
    redis.call('SMEMBERS', key.flow_in(c, core.flow_id, execution_id)))
  return results_of(inputs, names, result_keys, upstreams)
end

-- Reports whether a node was leased for its first attempt and has only the least fields, except limits of its graph.
local function is_first(r, flow, attempt)
  return flow.is_plain and r.epoch == 1 and attempt.type == 'initial' and r.flags % node_row.AHEAD == node_row.LEASED
end

-- Returns the description of a node with a row, for claim_reply.describe.
local function describe_node(c, r, execution_id, core, flow, attempt, lease_id)
  local run = r.run
  local inputs, complete = claim_reply.inputs(c, execution_id, core)
  local flow_input = core.uses_flow_input and row_inputs.of_flow(c, run.id) or ''
  if is_first(r, flow, attempt) then
    return row_claimed.describe(c, flow, execution_id, lease_id, attempt.expires, flow_input, inputs, complete, r.flags >= node_row.AHEAD)
  end
  local steps, all_steps = NONE, true
  if core.journal then steps, all_steps = journal.inline(c, execution_id, core) end
  run_rows.describe(flow)
  return {
    execution_id, lease_id, attempt.expires, flow.flow_kind or '', flow.run_id or '', run.created_text or row.created_text(run),
    flow.deadline_at or '', flow.trace_context or '', run_class.of_run(run).graph, flow_input, complete and '1' or '0', inputs,
    core.limits and limit_admission.permits_due(core) or '', flow.budgets and budget_gate.of(c, run.id, flow.budgets) or '',
    '', '', '', attempt.index, attempt.attempt_id, attempt.type, attempt.epoch, core.retry_count or '0', '', '',
    all_steps and '1' or '0', steps,
  }
end

-- Returns the tags of an execution as a JSON object; empty where it has none.
local function tags_of(c, execution_id)
  local list = redis.call('HGETALL', key.exec_tags(c, execution_id))
  if #list == 0 then return '' end
  local tags = {}
  for i = 1, #list, 2 do tags[list[i]] = list[i + 1] end
  return cjson.encode(tags)
end

-- Returns the data that a worker needs to run an execution that it leased, in the order of the record claimed_execution.
function claim_reply.describe(c, execution_id, core, attempt, lease_id)
  local flow = flow_record.read(c, core.flow_id)
  local r = core.row or row.of(c, execution_id)
  if r then return describe_node(c, r, execution_id, core, flow, attempt, lease_id) end
  local inputs, complete = claim_reply.inputs(c, execution_id, core)
  local payload = ''
  if not core.managed then payload = redis.call('GET', key.exec_payload(c, execution_id)) or '' end
  local flow_input = ''
  if core.uses_flow_input then flow_input = row_inputs.of_flow(c, core.flow_id) end
  local steps, all_steps = journal.inline(c, execution_id, core)
  local deadline = flow.deadline_at
  if not core.managed then deadline = redis.call('ZSCORE', key.index_execution_deadline(c), execution_id) end
  return {
    execution_id, lease_id, attempt.expires, flow.flow_kind or '', flow.run_id or '', core.created_at or '', deadline or '',
    flow.trace_context or '', '', flow_input, complete and '1' or '0', inputs,
    limit_admission.permits_due(core), budget_gate.of(c, core.flow_id, flow.budgets),
    core.node or '', core.execution_kind or '', core.flow_id or '', attempt.index, attempt.attempt_id, attempt.type, attempt.epoch,
    core.retry_count or '0', policies.text(c, execution_id) or '', payload, all_steps and '1' or '0', steps,
    tags_of(c, execution_id),
  }
end
