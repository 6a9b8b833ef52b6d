-- The record of a flow, as the calls that work on its members read and change it.

local FLOW_OVER = { cancelled = true, completed = true, failed = true }

-- The fields of a flow that a call needs in addition to its end.
local FLOW_FIELDS = { 'flow_kind', 'run_id', 'public_flow_state', 'deadline_at', 'trace_context', 'joins', 'paused',
  'budgets', 'budget_ids', 'children', 'fail_fast' }

-- Notes that the record of a flow contains a field that a plain run does not have.
function flow_record.note_unusual(flow_key)
  local s, at = flow_store.of_key(flow_key)
  s.note_unusual(at)
end

-- Notes that a node of the flow has ended without success, on which the outcome of the flow may depend.
function flow_record.note_judged(flow_key)
  local s, at = flow_store.of_key(flow_key)
  s.note_judged(at)
end

-- Returns the same table as flow_record.read for a run whose rows mark it as plain; nil for others.
function flow_record.of_plain(c, flow_id)
  local s, at = flow_store.of(c, flow_id)
  return s.plain_flow(at, c, flow_id)
end

-- Returns the flow of an execution as it was when the call began, read once; an empty table without a flow.
function flow_record.read(c, flow_id)
  local flows = c.flows
  local flow = flows and flows[flow_id]
  if flow then return flow end
  if not is_set(flow_id) then return {} end
  local s, at = flow_store.of(c, flow_id)
  flow = s.flow(at, c, flow_id, FLOW_FIELDS) or {}
  if not flows then
    flows = {}
    c.flows = flows
  end
  flows[flow_id] = flow
  return flow
end

-- Sets a field that few flows have, and that the calls on nodes of the flow read.
function flow_record.set(flow_key, field, value)
  record.set(flow_key, field, value)
  flow_record.note_unusual(flow_key)
end

-- Discards the cached flows of the call, because the call has changed one.
function flow_record.forget(c)
  c.flows = nil
end

function flow_record.is_over(flow)
  return FLOW_OVER[flow.public_flow_state] == true
end

-- Marks a flow as over. Its open members are ended afterwards.
function flow_record.mark_over(c, flow_key, state, ...)
  record.set(flow_key, 'public_flow_state', state, 'last_mutation_at', c.now_text, ...)
  flow_record.note_unusual(flow_key)
  flow_record.forget(c)
end

-- Owes every member of a flow its end, to be worked off from `at` (ms) on.
function flow_record.owe_members(c, flow_id, members, at)
  if #members == 0 then return end
  call.chunked('SADD', key.flow_pending_cancels(c, flow_id), members)
  redis.call('ZADD', key.index_cancel_backlog(c), at, flow_id)
end

-- Owes a managed member its end when its flow is over. Another tool has put the member aside, and no other code would end it.
function flow_record.owe_if_over(c, execution_id, core)
  if core.managed and flow_record.is_over(flow_record.read(c, core.flow_id)) then
    flow_record.owe_members(c, core.flow_id, { execution_id }, c.now)
    wake.due(c, c.now)
  end
end
