-- The record of a flow, as calls that work on its members read and change it.

local FLOW_OVER = { cancelled = true, completed = true, failed = true }

-- What a call needs to know of a flow beyond its end.
local FLOW_FIELDS = { 'flow_kind', 'run_id', 'public_flow_state', 'deadline_at', 'trace_context', 'joins', 'paused',
  'budgets', 'budget_ids', 'children', 'fail_fast' }

-- The record of a flow says something by which its run is no longer plain.
function flow_record.note_unusual(flow_key)
  local s, at = store.of_flow_key(flow_key)
  s.note_unusual(at)
end

-- The same as flow_record.read gives of a run that its rows call plain; nil for others.
function flow_record.of_plain(c, flow_id)
  local s, at = store.of_flow(c, flow_id)
  return s.plain_flow(at, c, flow_id)
end

-- The flow of an execution as the call finds it, read once; an empty table without one.
function flow_record.read(c, flow_id)
  local flows = c.flows
  local flow = flows and flows[flow_id]
  if flow then return flow end
  if not is_set(flow_id) then return {} end
  flow = flow_record.of_plain(c, flow_id) or record.read(key.flow_core(c, flow_id), FLOW_FIELDS) or {}
  if not flows then
    flows = {}
    c.flows = flows
  end
  flows[flow_id] = flow
  return flow
end

-- Gives a flow a field that few flows have, and that calls which work on its nodes look at.
function flow_record.set(flow_key, field, value)
  redis.call('HSET', flow_key, field, value)
  flow_record.note_unusual(flow_key)
end

-- The call has changed a flow, or its like.
function flow_record.forget(c)
  c.flows = nil
end

function flow_record.is_over(flow)
  return FLOW_OVER[flow.public_flow_state] == true
end

-- Marks a flow as over; what is still open follows.
function flow_record.mark_over(c, flow_key, state, ...)
  redis.call('HSET', flow_key, 'public_flow_state', state, 'last_mutation_at', c.now_text, ...)
  flow_record.note_unusual(flow_key)
  flow_record.forget(c)
end

-- Owes every member of a flow its end, to be worked off from `at` (ms) on.
function flow_record.owe_members(c, flow_id, members, at)
  if #members == 0 then return end
  call.chunked('SADD', key.flow_pending_cancels(c, flow_id), members)
  redis.call('ZADD', key.index_cancel_backlog(c), at, flow_id)
end

-- A managed member was put aside by another tool. Where its flow is over, nobody else would end it.
function flow_record.owe_if_over(c, execution_id, core)
  if core.managed and flow_record.is_over(flow_record.read(c, core.flow_id)) then
    flow_record.owe_members(c, core.flow_id, { execution_id }, c.now)
    wake.due(c, c.now)
  end
end
