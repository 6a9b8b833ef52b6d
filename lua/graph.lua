-- Managed flows: flows that were submitted whole. Their executions carry the field `managed`, and every
-- terminal transition of one, by whichever function, resolves its outgoing edges, counts the flow's open
-- nodes and closes the flow, here and nowhere else.

-- Edges (or members) worked per call; the rest waits in the partition's backlog.
graph.BUDGET = 256

-- Entries kept of a flow's event log, roughly.
local EVENTS_LENGTH = 20000

local FLOW_OVER = { cancelled = true, completed = true, failed = true }

function graph.is_over(flow)
  return FLOW_OVER[flow.public_flow_state] == true
end

-- One entry in the flow's event log; its time is that of the entry's id.
function graph.log(c, flow_id, event, node, attempt, detail)
  redis.call('XADD', key.flow_events(c, flow_id), 'MAXLEN', '~', EVENTS_LENGTH, '*',
    'event', event, 'node', node or '', 'attempt', attempt or '', 'detail', detail or '')
end

function graph.event(c, core, event, attempt, detail)
  graph.log(c, core.flow_id, event, core.node or core.execution_id, attempt, detail)
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

-- A managed execution entered the eligible set of its lane.
function graph.became_eligible(c, execution_id, core, lane)
  wake.eligible(c, lane, execution_id, core.priority)
  local start_timeout = tonumber(core.start_timeout)
  if start_timeout then
    redis.call('ZADD', key.ffx_start_deadlines(c), c.now + start_timeout, execution_id)
    wake.due(c, c.now + start_timeout)
  end
end

-- The first failure is kept on the flow.
local function note_failure(c, flow_key, core, t)
  if redis.call('HSETNX', flow_key, 'failed_node', core.node or core.execution_id) == 1 then
    redis.call('HSET', flow_key, 'failure_reason', t.reason or '', 'failure_category', t.category or t.outcome)
  end
end

-- A managed execution has ended.
function graph.finished(c, execution_id, core, t)
  local flow_id = core.flow_id
  local flow_key = key.flow_core(c, flow_id)
  graph.event(c, core, t.outcome, core.current_attempt_index, t.reason)
  if t.outcome == 'failed' or t.outcome == 'expired' then note_failure(c, flow_key, core, t) end
  if t.outcome ~= 'success' then redis.call('HINCRBY', flow_key, 'nodes_' .. t.outcome, 1) end
  if redis.call('HINCRBY', flow_key, 'open_nodes', -1) == 0 then
    graph.close(c, flow_id, flow_key)
    return
  end
  c.queue = c.queue or {}
  c.queue[#c.queue + 1] = { execution_id = execution_id, flow_id = flow_id, outcome = t.outcome }
end

-- A managed execution that had ended runs again: the counterpart of graph.finished. A flow that had closed is open
-- again; one that is being cancelled stays so.
function graph.reopened(c, execution_id, core, outcome)
  local flow_id = core.flow_id
  local flow_key = key.flow_core(c, flow_id)
  graph.event(c, core, 'replayed', core.current_attempt_index)
  local flow = record.read(flow_key, { 'closed_at', 'failed_node', 'deadline_at' })
  if not flow then return end
  redis.call('HINCRBY', flow_key, 'open_nodes', 1)
  if is_set(outcome) and outcome ~= 'success'
    and redis.call('HINCRBY', flow_key, 'nodes_' .. outcome, -1) <= 0 then
    redis.call('HDEL', flow_key, 'nodes_' .. outcome)
  end
  if flow.failed_node == (core.node or execution_id) then
    redis.call('HDEL', flow_key, 'failed_node', 'failure_reason', 'failure_category')
  end
  if not flow.closed_at then return end
  redis.call('HSET', flow_key, 'public_flow_state', 'open', 'last_mutation_at', c.now_text)
  redis.call('HDEL', flow_key, 'closed_at', 'outcome')
  local deadline = number.finite(flow.deadline_at)
  if deadline and deadline > c.now then
    redis.call('ZADD', key.ffx_flow_deadlines(c), deadline, flow_id)
  elseif deadline then
    redis.call('HDEL', flow_key, 'deadline_at')
  end
  graph.log(c, flow_id, 'flow_reopened')
end

-- All nodes have ended, so the flow has.
function graph.close(c, flow_id, flow_key)
  local flow = record.read(flow_key, { 'public_flow_state', 'outcome', 'nodes_failed', 'nodes_expired',
    'nodes_cancelled', 'deadline_at' })
  local state, outcome = flow.public_flow_state, flow.outcome
  if not graph.is_over(flow) then
    if flow.nodes_failed or flow.nodes_expired then
      state, outcome = 'failed', 'failed'
    elseif flow.nodes_cancelled then
      state, outcome = 'cancelled', 'cancelled'
    else
      state, outcome = 'completed', 'success'
    end
  end
  outcome = outcome or 'cancelled'
  redis.call('HSET', flow_key, 'public_flow_state', state, 'outcome', outcome, 'closed_at', c.now_text,
    'last_mutation_at', c.now_text)
  if flow.deadline_at then redis.call('ZREM', key.ffx_flow_deadlines(c), flow_id) end
  graph.log(c, flow_id, 'flow_' .. outcome)
  wake.done(c, flow_id, outcome)
end

-- Resolves one outgoing edge of an ended execution, unless that has been done.
local function resolve_edge(c, flow_id, edge_id, outcome)
  local child_id = redis.call('HGET', key.flow_edge(c, flow_id, edge_id), 'downstream_execution_id')
  if not child_id then return end
  local k = dependency.child_keys(c, child_id, edge_id)
  if redis.call('HGET', k.dep, 'state') ~= 'unsatisfied' then return end
  dependency.resolve(c, k, edge_id, outcome)
end

-- Puts the outgoing edges of an ended execution into the backlog.
local function postpone(c, item, out_key)
  redis.call('COPY', out_key, key.ffx_unresolved_edges(c, item.execution_id), 'REPLACE')
  redis.call('RPUSH', key.ffx_backlog(c), item.execution_id)
  c.more = true
end

-- Resolves what the call's terminal transitions touch, as far as the budget goes.
function graph.propagate(c)
  local queue = c.queue
  if not queue then return end
  local budget = c.budget or graph.BUDGET
  local head = 1
  while queue[head] do
    local item = queue[head]
    head = head + 1
    local out_key = key.flow_out(c, item.flow_id, item.execution_id)
    local edges = redis.call('SCARD', out_key)
    if edges > 0 and redis.call('HGET', key.flow_core(c, item.flow_id), 'public_flow_state') == 'open' then
      if edges > budget then
        postpone(c, item, out_key)
      else
        budget = budget - edges
        for _, edge_id in ipairs(redis.call('SMEMBERS', out_key)) do
          resolve_edge(c, item.flow_id, edge_id, item.outcome)
        end
      end
    end
  end
  c.queue = nil
  c.budget = budget
end

-- Everything that follows from the call's transitions: edges, then messages.
function graph.settle(c)
  graph.propagate(c)
  wake.flush(c)
end

-- Works off postponed edges. Gives how many were looked at.
function graph.work_backlog(c, limit)
  local backlog_key = key.ffx_backlog(c)
  local done = 0
  while done < limit do
    local execution_id = redis.call('LINDEX', backlog_key, 0)
    if not execution_id then break end
    local edges_key = key.ffx_unresolved_edges(c, execution_id)
    local core = record.read(key.exec_core(c, execution_id), { 'flow_id', 'terminal_outcome' })
    local edges = redis.call('SPOP', edges_key, limit - done)
    if core then
      for _, edge_id in ipairs(edges) do resolve_edge(c, core.flow_id, edge_id, core.terminal_outcome) end
    end
    done = done + math.max(#edges, 1)
    if redis.call('EXISTS', edges_key) == 0 then redis.call('LPOP', backlog_key) end
  end
  c.budget = math.max(0, limit - done)
  graph.propagate(c)
  if redis.call('EXISTS', backlog_key) == 1 then c.more = true end
  return done
end
