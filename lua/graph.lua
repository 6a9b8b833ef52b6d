-- Managed flows: flows that were submitted whole. Their executions carry the field `managed`, and every
-- terminal transition of one, by whichever function, resolves its outgoing edges, counts the flow's open
-- nodes and closes the flow, here and nowhere else.

-- Edges (or members) worked per call; the rest waits in the partition's backlog.
graph.BUDGET = 256

local FLOW_OVER = { cancelled = true, completed = true, failed = true }

-- What a call needs to know of a flow beyond its end.
local FLOW_FIELDS = { 'flow_kind', 'run_id', 'public_flow_state', 'deadline_at', 'trace_context', 'joins', 'paused',
  'budgets', 'budget_ids', 'children', 'fail_fast', 'held' }

-- The same of a flow that has none of the last seven: its record says so with the field `bare`, which graph.set takes away.
local function read_flow(flow_key)
  local v = redis.call('HMGET', flow_key, 'bare', 'flow_kind', 'run_id', 'public_flow_state', 'deadline_at', 'trace_context')
  if not is_set(v[1]) then return record.read(flow_key, FLOW_FIELDS) or {} end
  return {
    flow_kind = v[2] or nil, run_id = v[3] or nil, public_flow_state = v[4] or nil, deadline_at = v[5] or nil,
    trace_context = v[6] or nil,
  }
end

-- The flow of an execution as the call finds it, read once; an empty table without one.
function graph.flow(c, flow_id)
  local flows = c.flows
  local flow = flows and flows[flow_id]
  if flow then return flow end
  if not is_set(flow_id) then return {} end
  flow = read_flow(key.flow_core(c, flow_id))
  if not flows then
    flows = {}
    c.flows = flows
  end
  flows[flow_id] = flow
  return flow
end

-- Gives a flow a field that few flows have, and that calls which work on its nodes look at.
function graph.set(flow_key, field, value)
  redis.call('HSET', flow_key, field, value, 'bare', '')
end

-- The call has changed a flow, or its like.
function graph.forget_flows(c)
  c.flows = nil
end

function graph.is_over(flow)
  return FLOW_OVER[flow.public_flow_state] == true
end

-- The flow's record of an edge.
function graph.write_edge(c, edge_key, flow_id, edge)
  redis.call('HSET', edge_key,
    'edge_id', edge.edge_id, 'flow_id', flow_id,
    'upstream_execution_id', edge.upstream_execution_id,
    'downstream_execution_id', edge.downstream_execution_id,
    'dependency_kind', edge.dependency_kind, 'satisfaction_condition', 'all_required',
    'data_passing_ref', edge.input_name, 'edge_state', 'pending',
    'created_at', c.now_text, 'created_by', 'engine')
end

-- An execution has so long (ms) to start.
function graph.limit_start(c, execution_id, start_timeout)
  redis.call('ZADD', key.ffx_start_deadlines(c), c.now + start_timeout, execution_id)
  wake.due(c, c.now + start_timeout)
end

-- A managed execution entered the eligible set of its lane.
function graph.became_eligible(c, execution_id, core, lane)
  wake.eligible(c, lane, execution_id, core.priority)
  local start_timeout = not is_set(core.current_attempt_index) and tonumber(core.start_timeout)
  if start_timeout then graph.limit_start(c, execution_id, start_timeout) end
end

-- The first failure is kept on the flow.
function graph.note_failure(flow_key, core, t)
  if redis.call('HSETNX', flow_key, 'failed_node', core.node or core.execution_id) == 1 then
    redis.call('HSET', flow_key, 'failure_reason', t.reason or '', 'failure_category', t.category or t.outcome)
  end
end

-- From here on, nodes that succeed are counted by graph.count_ends, those of a flow together.
function graph.gather_ends(c)
  c.ends = {}
end

-- Whether a flow of which no node is counted as open may close: after a start of the server, its nodes are counted.
local function may_close(c, flow_id, flow_key)
  if not call.in_doubt(c) then return true end
  local open = mend.count_open(c, flow_id)
  if open == 0 then return true end
  redis.call('HSET', flow_key, 'open_nodes', number.text(open + (c.ends and c.ends[flow_id] or 0)))
  return false
end

function graph.count_ends(c)
  local ends = c.ends
  if not ends then return end
  c.ends = nil
  for _, flow_id in ipairs(ends) do
    local flow_key = key.flow_core(c, flow_id)
    if redis.call('HINCRBY', flow_key, 'open_nodes', -ends[flow_id]) == 0 and may_close(c, flow_id, flow_key) then
      graph.close(c, flow_id, flow_key)
    end
  end
end

-- One node less of a flow is open. True when that was the last one, and the flow is closed.
local function count_end(c, flow_id, flow_key, outcome)
  local ends = c.ends
  if ends and outcome == 'success' then
    if not ends[flow_id] then ends[#ends + 1] = flow_id end
    ends[flow_id] = (ends[flow_id] or 0) + 1
    return false
  end
  if redis.call('HINCRBY', flow_key, 'open_nodes', -1) ~= 0 or not may_close(c, flow_id, flow_key) then return false end
  graph.close(c, flow_id, flow_key)
  return true
end

-- A managed execution has ended.
function graph.finished(c, execution_id, core, t)
  local flow_id = core.flow_id
  local flow_key = key.flow_core(c, flow_id)
  local fatal, held = false, false
  graph.event(c, core, t.outcome, core.current_attempt_index, t.reason)
  if t.outcome ~= 'success' then
    redis.call('HINCRBY', flow_key, 'nodes_' .. t.outcome, 1)
    local flow = graph.flow(c, flow_id)
    held = is_set(flow.held)
    if flow.children then children.abandon(c, execution_id, t.outcome, t.reason) end
    local absorbed = joins.absorb(c, flow_key, execution_id, core, t)
    -- What the deadline of the flow ends has not failed of itself.
    if not absorbed and (t.outcome == 'failed' or t.outcome == 'expired' and t.reason ~= 'flow_deadline') then
      graph.note_failure(flow_key, core, t)
      fatal = flow.fail_fast and not graph.is_over(flow)
    end
  end
  if count_end(c, flow_id, flow_key, t.outcome) then return end
  if fatal then flows.stop_rest(c, flow_id, flow_key, core) end
  -- Not all of its edges may be in: the call that lets the held roots go resolves them.
  if held and not fatal then
    redis.call('SADD', key.flow_held(c, flow_id), execution_id)
    return
  end
  c.queue = c.queue or {}
  c.queue[#c.queue + 1] = {
    execution_id = execution_id, flow_id = flow_id, outcome = t.outcome, node = core.node, onward = core.onward,
    onward_edge = core.onward_edge,
  }
end

-- A managed execution that had ended runs again: the counterpart of graph.finished. A flow that had closed is open
-- again; one that is being stopped stays so, and owes the execution its end.
function graph.reopened(c, execution_id, core, outcome)
  local flow_id = core.flow_id
  local flow_key = key.flow_core(c, flow_id)
  graph.event(c, core, 'replayed', core.current_attempt_index)
  local flow = record.read(flow_key, { 'public_flow_state', 'closed_at', 'outcome', 'failed_node', 'deadline_at', 'joins' })
  if not flow then return end
  redis.call('HINCRBY', flow_key, 'open_nodes', 1)
  if is_set(outcome) and outcome ~= 'success'
    and redis.call('HINCRBY', flow_key, 'nodes_' .. outcome, -1) <= 0 then
    redis.call('HDEL', flow_key, 'nodes_' .. outcome)
  end
  if flow.joins then joins.unabsorb(c, flow_key, execution_id) end
  if flow.failed_node == (core.node or execution_id) then
    redis.call('HDEL', flow_key, 'failed_node', 'failure_reason', 'failure_category')
  end
  if not flow.closed_at then
    if graph.is_over(flow) then flows.owe_members(c, flow_id, { execution_id }, c.now) end
    return
  end
  graph.reopen_flow(c, flow_id, flow_key, flow)
end

-- What told how a flow ended, and is no longer true when it is open again.
local ENDING = { 'closed_at', 'outcome', 'cancelled_at', 'cancel_reason', 'cancelled_by', 'cancellation_policy' }
local EXPIRY = { 'failure_reason', 'failure_category' }

-- A flow that had closed is open again. `flow` holds its deadline_at and outcome.
function graph.reopen_flow(c, flow_id, flow_key, flow)
  redis.call('HSET', flow_key, 'public_flow_state', 'open', 'last_mutation_at', c.now_text)
  graph.forget_flows(c)
  redis.call('HDEL', flow_key, unpack(ENDING))
  if flow.outcome == 'expired' then redis.call('HDEL', flow_key, unpack(EXPIRY)) end
  call.leave(c, 'ZREM', key.ffx_closed_flows(c), flow_id)
  call.leave(c, 'ZREM', key.ffx_purge_due(c), flow_id)
  -- A flow closes with the last of its members, while others that have long ended may still be listed to be ended.
  redis.call('UNLINK', key.flow_pending_cancels(c, flow_id))
  redis.call('ZREM', key.index_cancel_backlog(c), flow_id)
  children.reopened(c, flow_id, flow_key)
  local deadline = number.finite(flow.deadline_at)
  if deadline and deadline > c.now then
    redis.call('ZADD', key.ffx_flow_deadlines(c), deadline, flow_id)
  elseif deadline then
    redis.call('HDEL', flow_key, 'deadline_at')
  end
  graph.log(c, flow_id, 'flow_reopened')
end

-- How a flow whose nodes have all ended did, by their counts: state and outcome.
local function judge(flow)
  local failures, cancels = joins.absorbed(flow)
  if (tonumber(flow.nodes_failed) or 0) + (tonumber(flow.nodes_expired) or 0) > failures then
    return 'failed', 'failed'
  elseif (tonumber(flow.nodes_cancelled) or 0) > cancels then
    return 'cancelled', 'cancelled'
  end
  return 'completed', 'success'
end

-- Up to so many nodes (with the usual two events each, some 120 bytes together), the events of a flow's log fit into the
-- first node of its stream, which has 4 KB and of which the submission has made a copy that takes no more room than it needs.
local MAX_SMALL_LOG = 30

local CLOSE_FIELDS = { 'public_flow_state', 'outcome', 'nodes_failed', 'nodes_expired', 'nodes_cancelled', 'deadline_at',
  'failed_node', 'retention', 'result_execution_id', 'parent_execution_id', 'node_count', 'absorbed_failures',
  'absorbed_cancels', 'cancelled_siblings', 'joins_impossible' }

-- All nodes have ended, so the flow has.
function graph.close(c, flow_id, flow_key)
  local flow = record.read(flow_key, CLOSE_FIELDS)
  local state, outcome = flow.public_flow_state, flow.outcome
  if not graph.is_over(flow) then
    state, outcome = judge(flow)
    if outcome == 'success' and flow.failed_node then
      redis.call('HDEL', flow_key, 'failed_node', 'failure_reason', 'failure_category')
    end
  end
  outcome = outcome or 'cancelled'
  redis.call('HSET', flow_key, 'public_flow_state', state, 'outcome', outcome, 'closed_at', c.now_text,
    'last_mutation_at', c.now_text)
  graph.forget_flows(c)
  call.enter(c, key.ffx_closed_flows(c), flow_id, c.now_text)
  if flow.retention then flows.retain(c, flow_id, flow.retention, outcome) end
  if flow.parent_execution_id then children.ended(c, flow_id, flow_key) end
  if flow.deadline_at then redis.call('ZREM', key.ffx_flow_deadlines(c), flow_id) end
  graph.log(c, flow_id, 'flow_' .. outcome)
  if (tonumber(flow.node_count) or 0) > MAX_SMALL_LOG then
    graph.write_events(c, flow_id)
    flows.shrink_stream(c, key.flow_events(c, flow_id))
  end
  local result = outcome == 'success' and c.completed and c.completed[flow.result_execution_id or ''] or nil
  wake.done(c, flow_id, outcome, result)
end

-- A flow that is stopped while it is being submitted has the members that it has by now. Some of them may have ended. It
-- stays `incomplete`: none of it can be run again.
function graph.end_submission(c, flow_id, flow_key, members)
  local flow = record.read(flow_key, { 'open_nodes', 'node_total' })
  local total = tonumber(flow.node_total)
  local open = total and tonumber(flow.open_nodes) - (total - members) or members
  redis.call('HSET', flow_key, 'open_nodes', number.text(open), 'incomplete', '1')
  redis.call('HDEL', flow_key, 'held', 'node_total')
  redis.call('DEL', key.flow_held(c, flow_id))
  if open == 0 then graph.close(c, flow_id, flow_key) end
end

-- A managed flow was cancelled with the contract's own call, which leaves its members to the keeper.
function graph.stopped_by_others(c, flow_id, flow_key, flow, members, grace, reason)
  graph.log(c, flow_id, 'flow_cancel_requested', '', '', reason)
  if flow.held then graph.end_submission(c, flow_id, flow_key, members) end
  wake.due(c, c.now + grace)
  wake.flush(c)
end
