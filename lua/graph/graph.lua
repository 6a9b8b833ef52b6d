-- Managed flows, which were submitted as a whole. Their executions have the field `managed`. Every terminal transition of such an
-- execution resolves its outgoing edges, counts the flow's open nodes and closes the flow after the last one. Only this module
-- does that.

-- @hook Runs when a node ended without success in a flow whose nodes have child runs.
function graph.on_parent_failed(c, execution_id, outcome, reason) end

-- @hook Runs when a node failed in a flow that stops with its first failure.
function graph.on_fatal_failure(c, flow_id, flow_key, core) end

-- @hook Runs when a flow closes, before its end is recorded; not for one whose rows have recorded it already.
function graph.on_closing(c, flow_id) end

-- @hook Runs when a closed flow is open again. `flow` holds the outcome and closed_at that it had.
function graph.on_reopened(c, flow_id, flow_key, flow) end

-- @hook Runs when a flow has closed. `flow` holds its fields retention, parent_execution_id, flow_kind, run_id, namespace and
-- failed_node; `result` is its result if the call contains it, and `waiters` the processes that wait for it, if the caller has
-- read them.
function graph.on_closed(c, flow_id, flow, outcome, result, waiters) end

-- Records that a run has members or edges in addition to its graph.
function graph.note_extended(c, flow_id)
  local s, at = flow_store.of(c, flow_id)
  s.note_extended(at)
end

-- Returns the id of the execution whose result becomes the flow's result; nil when there is none.
function graph.result_execution(c, flow_id)
  local s, at = flow_store.of(c, flow_id)
  return s.result_execution(at)
end

-- Adds to the number of open members of a managed flow. Returns the new number.
function graph.add_open(c, flow_id, by)
  local s, at = flow_store.of(c, flow_id)
  return s.add_open(at, by)
end

-- Returns the number of members of a flow that have not ended, counted one by one.
function graph.count_open(c, flow_id)
  local open = 0
  for _, execution_id in ipairs(member_list.all(c, flow_id)) do
    local phase = record.value(key.exec_core(c, execution_id), 'lifecycle_phase')
    if phase and phase ~= 'terminal' then open = open + 1 end
  end
  return open
end

-- From now on, graph.count_ends counts the nodes that succeed, all nodes of a flow together.
function graph.gather_ends(c)
  c.ends = {}
end

-- Reports whether a flow may close whose counter of open nodes is 0: after a start of the server, its nodes are counted again.
local function may_close(c, flow_id)
  if not call.in_doubt(c) then return true end
  local open = graph.count_open(c, flow_id)
  if open == 0 then return true end
  local counted = graph.add_open(c, flow_id, 0)
  graph.add_open(c, flow_id, open + (c.ends and c.ends[flow_id] or 0) - counted)
  return false
end

function graph.count_ends(c)
  local ends = c.ends
  if not ends then return end
  c.ends = nil
  for _, flow_id in ipairs(ends) do
    local flow_key = key.flow_core(c, flow_id)
    if graph.add_open(c, flow_id, -ends[flow_id]) == 0 and may_close(c, flow_id) then
      graph.close(c, flow_id, flow_key)
    end
  end
end

-- Counts one open node of a flow less. Returns true when it was the last one and the flow is closed.
local function count_end(c, flow_id, flow_key, outcome)
  local ends = c.ends
  if ends and outcome == 'success' then
    if not ends[flow_id] then ends[#ends + 1] = flow_id end
    ends[flow_id] = (ends[flow_id] or 0) + 1
    return false
  end
  if graph.add_open(c, flow_id, -1) ~= 0 or not may_close(c, flow_id) then return false end
  graph.close(c, flow_id, flow_key)
  return true
end

-- Handles the end of a managed execution.
function graph.node_ended(c, execution_id, core, t)
  local flow_id = core.flow_id
  local flow_key = key.flow_core(c, flow_id)
  local fatal = false
  if t.outcome == 'success' then
    event_log.note(c, execution_id, core, 'success', core.current_attempt_index, t.reason)
  else
    event_log.add_for(c, core, t.outcome, event_log.failed_attempt(core.current_attempt_index, t.category), t.reason)
    record.add(flow_key, 'nodes_' .. t.outcome, 1)
    local flow = flow_record.read(c, flow_id)
    if flow.children then graph.on_parent_failed(c, execution_id, t.outcome, t.reason) end
    local tolerated = tolerated_failures.tolerate(c, flow_key, execution_id, core, t)
    -- The outcome of the flow never depends on an upstream that its join no longer needed.
    if not (t.tolerated and tolerated) then flow_record.note_judged(flow_key) end
    -- A node that the deadline of the flow ended did not fail by itself.
    if not tolerated and (t.outcome == 'failed' or t.outcome == 'expired' and t.reason ~= 'flow_deadline') then
      tolerated_failures.note_first(c, flow_id, flow_key, core, t)
      fatal = flow.fail_fast and not flow_record.is_over(flow)
    end
  end
  if count_end(c, flow_id, flow_key, t.outcome) then
    local s, at = store.of(key.exec_core(c, execution_id))
    s.end_last(at)
    return
  end
  if fatal then graph.on_fatal_failure(c, flow_id, flow_key, core) end
  c.queue = c.queue or {}
  c.queue[#c.queue + 1] = {
    execution_id = execution_id, flow_id = flow_id, outcome = t.outcome, node = core.node, reason = t.reason,
  }
end

-- Handles a managed execution that had ended and runs again: the counterpart of graph.node_ended. A flow that had closed is open
-- again. A flow that is being stopped remains so, and owes the execution its end.
function graph.node_reopened(c, execution_id, core, outcome)
  local flow_id = core.flow_id
  local flow_key = key.flow_core(c, flow_id)
  event_log.add_for(c, core, 'replayed', core.current_attempt_index)
  local s, at = store.of(key.exec_core(c, execution_id))
  s.reopen_downstream(at)
  local flow = record.read(flow_key, { 'public_flow_state', 'closed_at', 'outcome', 'failed_node', 'deadline_at', 'joins' })
  if not flow then return end
  graph.add_open(c, flow_id, 1)
  if is_set(outcome) and outcome ~= 'success'
    and record.add(flow_key, 'nodes_' .. outcome, -1) <= 0 then
    record.clear(flow_key, 'nodes_' .. outcome)
  end
  if flow.joins then tolerated_failures.untolerate(c, flow_key, execution_id) end
  if flow.failed_node == (core.node or execution_id) then
    tolerated_failures.forget_first(c, flow_id, flow_key)
  end
  if not flow.closed_at then
    if finally.is_over(flow, key.exec_core(c, execution_id)) then
      flow_record.owe_members(c, flow_id, { execution_id }, c.now)
      wake.due(c, c.now)
    end
    return
  end
  if flow.joins == finally.JOINS then finally.forget(flow_key, flow) end
  graph.reopen_flow(c, flow_id, flow_key, flow)
end

-- Fields that describe how a flow ended; they are removed when it is open again.
local ENDING = {
  'closed_at', 'outcome', 'cancelled_at', 'cancel_reason', 'cancelled_by', 'cancellation_policy', 'owed_from',
}
local EXPIRY = { 'failure_reason', 'failure_category' }

-- Opens a flow again that had closed. `flow` contains its deadline_at and outcome.
function graph.reopen_flow(c, flow_id, flow_key, flow)
  record.set(flow_key, 'public_flow_state', 'open', 'last_mutation_at', c.now_text)
  flow_record.forget(c)
  record.clear(flow_key, unpack(ENDING))
  if flow.outcome == 'expired' then tolerated_failures.forget_first(c, flow_id, flow_key, EXPIRY) end
  call.leave(c, 'ZREM', key.ffx_purge_due(c), flow_id)
  -- A flow closes with the last of its members, while other members that have long ended may still be listed to be ended.
  redis.call('UNLINK', key.flow_pending_cancels(c, flow_id))
  redis.call('ZREM', key.index_cancel_backlog(c), flow_id)
  graph.on_reopened(c, flow_id, flow_key, flow)
  local deadline = number.finite(flow.deadline_at)
  if deadline and deadline > c.now then
    redis.call('ZADD', key.ffx_flow_deadlines(c), deadline, flow_id)
    wake.due(c, deadline)
  elseif deadline then
    record.clear(flow_key, 'deadline_at')
  end
  event_log.add(c, flow_id, 'flow_reopened')
end

-- Returns the state and the outcome of a flow whose nodes have all ended, by their counts.
local function judge(flow)
  local failures, cancels = tolerated_failures.counts(flow)
  if (tonumber(flow.nodes_failed) or 0) + (tonumber(flow.nodes_expired) or 0) > failures then
    return 'failed', 'failed'
  elseif (tonumber(flow.nodes_cancelled) or 0) > cancels then
    return 'cancelled', 'cancelled'
  end
  return 'completed', 'success'
end

local CLOSE_FIELDS = { 'public_flow_state', 'outcome', 'nodes_failed', 'nodes_expired', 'nodes_cancelled', 'deadline_at',
  'failed_node', 'retention', 'parent_execution_id', 'node_count', 'absorbed_failures',
  'absorbed_cancels', 'cancelled_siblings', 'joins_impossible', 'flow_kind',
  'namespace', 'run_id', 'run_key_id' }

-- Returns the result of a run that has succeeded, if the call contains it.
local function result_of(c, flow_id)
  local result_id = c.completed and graph.result_execution(c, flow_id)
  return result_id and c.completed[result_id] or nil
end

-- Adapts the indexes to the end of a flow, which its record contains, and announces it. `result` is its result if the call contains it.
local function finish(c, flow_id, flow, outcome, result, waiters)
  if flow.deadline_at then redis.call('ZREM', key.ffx_flow_deadlines(c), flow_id) end
  graph.on_closed(c, flow_id, flow, outcome, result, waiters)
end

-- Closes a run whose rows already record its end, and that all nodes ended with success. `flow` is the value of
-- flow_record.of_plain; `result` and `waiters` are as for graph.on_closed. The caller logs the event.
function graph.close_plain(c, flow_id, flow, result, waiters)
  finish(c, flow_id, flow, 'success', result, waiters)
end

-- Closes a flow whose nodes have all ended.
function graph.close(c, flow_id, flow_key)
  local flow = flow_record.of_plain(c, flow_id)
  local state, outcome = 'completed', 'success'
  if not flow then
    flow = record.read(flow_key, CLOSE_FIELDS)
    state, outcome = flow.public_flow_state, flow.outcome
  end
  if state ~= 'completed' and not flow_record.is_over(flow) then
    state, outcome = judge(flow)
    if outcome == 'success' and flow.failed_node then
      tolerated_failures.forget_first(c, flow_id, flow_key)
    end
  end
  outcome = outcome or 'cancelled'
  record.set(flow_key, 'public_flow_state', state, 'outcome', outcome, 'closed_at', c.now_text, 'last_mutation_at', c.now_text)
  graph.on_closing(c, flow_id)
  flow_record.note_unusual(flow_key)
  finish(c, flow_id, flow, outcome, outcome == 'success' and result_of(c, flow_id) or nil)
  flow_record.forget(c)
  if outcome == 'success' then event_log.note_success(c, flow_id) else event_log.add(c, flow_id, 'flow_' .. outcome) end
end

-- Handles the contract's cancel of a managed flow, which leaves the members to the keeper.
function graph.cancelled_by_contract(c, flow_id, grace, reason)
  event_log.add(c, flow_id, 'flow_cancel_requested', '', '', reason)
  wake.due(c, c.now + grace)
  wake.flush(c)
end
