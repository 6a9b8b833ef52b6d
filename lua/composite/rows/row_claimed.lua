-- The description of a node of a plain run that a worker has leased for its first attempt, in one text where that is possible.

-- Returns the common part of the descriptions of a run's nodes: the time of its creation, its deadline or `-`, its graph, the
-- lengths of two texts (bytes), and these: the name of the flow, the record of the run as it is stored.
local function about_run(flow)
  local record_text = run_data.record(flow)
  local text = flow.created_text .. ' ' .. (flow.deadline_at or '-') .. ' ' .. flow.class.graph .. ' ' .. number.text(#flow.flow_kind)
    .. ' ' .. number.text(#record_text) .. ' ' .. flow.flow_kind .. record_text
  flow.about = text
  return text
end

-- Returns the additions to the description of a node: `a` when it is leased ahead of its places under the limits that its graph
-- has, `g` when its run has the budgets of the graph, and other budgets of its run after `b`, their length (bytes) and a blank.
local function additions(c, flow, ahead)
  local text = ahead and 'a' or ''
  if not flow.budgets then return text end
  if flow.budgets == budget_gate.OF_GRAPH then return text .. 'g' end
  local budgets = budget_gate.of(c, flow.id, flow.budgets)
  return text .. 'b' .. number.text(#budgets) .. ' ' .. budgets
end

-- Returns the first part of the text that describes an execution (see row_claimed.describe).
local function text_of(c, flow, execution_id, lease_id, expires, ahead)
  local text = execution_id .. ' ' .. lease_id .. ' ' .. expires .. ' ' .. (flow.about or about_run(flow))
  return (ahead or flow.budgets) and text .. additions(c, flow, ahead) or text
end

-- Returns the description of a node whose only input is one result, under the name of its upstream, whose ordinal is a text. It is
-- joined at once, because the server's interpreter processes all bytes of each text that it makes.
function row_claimed.describe_fed(c, flow, execution_id, lease_id, expires, ahead, name, result, upstream)
  return execution_id .. ' ' .. lease_id .. ' ' .. expires .. ' ' .. (flow.about or about_run(flow))
    .. ((ahead or flow.budgets) and additions(c, flow, ahead) or '') .. 'i' .. number.text(#name) .. ' ' .. upstream .. ' ' .. name .. result
end

-- Does the same for a node whose only input is the input of its run.
local function describe_input(c, flow, execution_id, lease_id, expires, ahead, flow_input)
  return execution_id .. ' ' .. lease_id .. ' ' .. expires .. ' ' .. (flow.about or about_run(flow))
    .. ((ahead or flow.budgets) and additions(c, flow, ahead) or '') .. 'f' .. flow_input
end

-- Returns the description of a node that is leased for a retry and has only the least fields besides: the text of a first attempt, with
-- `r` before its input and the index of the attempt, the lease epoch and the number of retries; or all fields. `flow_input`: the input
-- of the run, when the node uses it.
function row_claimed.describe_again(c, flow, execution_id, lease_id, expires, flow_input, inputs, complete, index, epoch, retries)
  local input = inputs[1]
  if complete and not inputs[2] and not (input and flow_input) then
    local text = execution_id .. ' ' .. lease_id .. ' ' .. expires .. ' ' .. (flow.about or about_run(flow))
      .. (flow.budgets and additions(c, flow) or '') .. 'r' .. index .. ' ' .. epoch .. ' ' .. retries .. ' '
    if input then return text .. 'i' .. number.text(#input[1]) .. ' ' .. input[3] .. ' ' .. input[1] .. input[2] end
    return is_set(flow_input) and text .. 'f' .. flow_input or text
  end
  run_rows.describe(flow)
  return {
    execution_id, lease_id, expires, flow.flow_kind, flow.run_id, flow.created_text, flow.deadline_at or '', flow.trace_context or '',
    flow.class.graph, flow_input or '', complete and '1' or '0', inputs, '',
    flow.budgets and budget_gate.of(c, flow.id, flow.budgets) or '', '', '', '', index, row_record.attempt_of(lease_id), 'retry', epoch, retries,
    '', '', '1', {},
  }
end

-- Returns the description of a node that is leased for its first attempt and has only the least fields, for claimed_execution.
-- When its input is one result, or the input of the run alone, it is one text, since each element of a reply costs more than its
-- bytes: the execution, the lease, its end, the results of about_run and of additions, and, unless it has no input, `i`, the
-- length of the upstream's name, its ordinal, and that name with the result; or `f` and the input of the run. The Go side reads it
-- in internal/enginerpc/claimed_text.go. `flow_input`: the input of the run, when the node uses it.
function row_claimed.describe(c, flow, execution_id, lease_id, expires, flow_input, inputs, complete, ahead)
  flow_input = flow_input or ''
  local input = inputs[1]
  if complete and not inputs[2] and not (input and flow_input ~= '') then
    if input then return row_claimed.describe_fed(c, flow, execution_id, lease_id, expires, ahead, input[1], input[2], input[3]) end
    if flow_input == '' then return text_of(c, flow, execution_id, lease_id, expires, ahead) end
    return describe_input(c, flow, execution_id, lease_id, expires, ahead, flow_input)
  end
  run_rows.describe(flow)
  local list = {
    execution_id, lease_id, expires, flow.flow_kind, flow.run_id, flow.created_text, flow.deadline_at or '', flow.trace_context or '',
    flow.class.graph, flow_input, complete and '1' or '0', inputs,
  }
  if ahead or flow.budgets then
    list[#list + 1] = ahead and limit_admission.OF_GRAPH or ''
    list[#list + 1] = flow.budgets == budget_gate.OF_GRAPH and graph_store.budgets(flow.graph) or budget_gate.of(c, flow.id, flow.budgets)
  end
  return list
end
