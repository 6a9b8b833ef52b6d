-- The contract's calls for flows: creating one, adding executions, cancelling.

-- @function ff_create_flow
-- @summary  Creates a flow record. A flow that exists is left as it is.
-- @flags    repeatable intake
-- @key      flow            flow.core
-- @key      members         flow.members
-- @key      flow_index      index.flow_index
-- @arg      flow_id         flow_id
-- @arg      flow_kind       text
-- @arg      namespace       text
-- @arg      now_ms          unix_ms optional
-- @reply    OK flow_id:flow_id
-- @reply    ALREADY_SATISFIED flow_id:flow_id
-- @error    invalid_input message:text
function F.ff_create_flow(K, A)
  if not A.flow_id or not A.flow_kind or not A.namespace then
    return reply.err('invalid_input', 'flow_id, flow_kind and namespace must be given')
  end
  local c = call.open(K.flow)
  local flow = record.read(K.flow, { 'managed' })
  if not flow or not flow.managed then redis.call('SADD', K.flow_index, A.flow_id) end
  if flow then return reply.already(A.flow_id) end
  record.set(K.flow, 'flow_id', A.flow_id, 'flow_kind', A.flow_kind, 'namespace', A.namespace,
    'graph_revision', '0', 'node_count', '0', 'edge_count', '0', 'public_flow_state', 'open',
    'created_at', c.now_text, 'last_mutation_at', c.now_text)
  return reply.ok(A.flow_id)
end

-- @function ff_add_execution_to_flow
-- @summary  Makes an execution a member of a flow.
-- @flags    repeatable intake
-- @key      flow            flow.core
-- @key      members         flow.members
-- @key      flow_index      index.flow_index
-- @key      core            exec.core
-- @arg      flow_id         flow_id
-- @arg      execution_id    execution_id
-- @arg      now_ms          unix_ms optional
-- @reply    OK execution_id:execution_id node_count:int
-- @reply    ALREADY_SATISFIED execution_id:execution_id node_count:int
-- @error    flow_not_found
-- @error    flow_already_terminal
-- @error    execution_not_found
-- @error    already_member_of_different_flow:* the code itself carries the other flow's id
-- @writes_on already_member_of_different_flow flow_index
function F.ff_add_execution_to_flow(K, A)
  local c = call.open(K.flow)
  local flow = record.read(K.flow, { 'public_flow_state', 'node_count', 'managed' })
  if not flow then return reply.err('flow_not_found') end
  if flow_record.is_over(flow) then return reply.err('flow_already_terminal') end
  local core = record.read(K.core, { 'flow_id', 'lifecycle_phase' })
  if not core then return reply.err('execution_not_found') end
  if not flow.managed then redis.call('SADD', K.flow_index, A.flow_id) end
  if is_set(core.flow_id) and core.flow_id ~= A.flow_id then
    return reply.err('already_member_of_different_flow:' .. core.flow_id)
  end
  if member_list.has(c, A.flow_id, A.execution_id) then
    record.set(K.core, 'flow_id', A.flow_id)
    return reply.already(A.execution_id, flow.node_count or '0')
  end
  redis.call('SADD', K.members, A.execution_id)
  record.set(K.core, 'flow_id', A.flow_id)
  local count = record.add(K.flow, 'node_count', 1)
  record.add(K.flow, 'graph_revision', 1)
  record.set(K.flow, 'last_mutation_at', c.now_text)
  if flow.managed and core.lifecycle_phase ~= 'terminal' then
    record.set(K.core, 'managed', '1', 'attached', 'lease')
    order.adopt(c, K.core, A.execution_id)
    if core.lifecycle_phase == 'suspended' then suspension_record.adopt(c, A.execution_id) end
    graph.add_open(c, A.flow_id, 1)
    graph.note_extended(c, A.flow_id)
    wake.flush(c)
  end
  return reply.ok(A.execution_id, number.text(count))
end

local DEFAULT_CANCEL_GRACE_MS = 30000

local function parse_grace(raw)
  if not is_set(raw) then return DEFAULT_CANCEL_GRACE_MS end
  local grace = number.finite(raw)
  if not grace or grace < 0 or grace > number.MAX_EXACT or grace ~= math.floor(grace) then return nil end
  return grace
end

-- @function ff_cancel_flow
-- @summary  Marks a flow as cancelled and, under the policy cancel_all, owes every member its cancel.
-- @key      flow            flow.core
-- @key      members         flow.members
-- @key      flow_index      index.flow_index
-- @key      pending_cancels flow.pending_cancels
-- @key      cancel_backlog  index.cancel_backlog
-- @arg      flow_id         flow_id
-- @arg      reason          text
-- @arg      cancellation_policy text
-- @arg      now_ms          unix_ms optional
-- @arg      grace_ms        ms optional=30000
-- @reply    OK policy:text members:rest(execution_id)
-- @error    invalid_input message:text
-- @error    invalid_grace_ms
-- @error    flow_not_found
-- @error    flow_already_terminal
function F.ff_cancel_flow(K, A)
  local grace = parse_grace(A.grace_ms)
  if not grace then return reply.err('invalid_grace_ms') end
  if not A.reason or not A.cancellation_policy then
    return reply.err('invalid_input', 'reason and cancellation_policy must be given')
  end
  local c = call.open(K.flow)
  local flow = record.read(K.flow, { 'public_flow_state', 'managed' })
  if not flow then return reply.err('flow_not_found') end
  if flow_record.is_over(flow) then return reply.err('flow_already_terminal') end
  flow_record.mark_over(c, K.flow, 'cancelled', 'cancelled_at', c.now_text, 'cancel_reason', A.reason,
    'cancellation_policy', A.cancellation_policy)
  local ids = member_list.all(c, A.flow_id)
  if A.cancellation_policy == 'cancel_all' or flow.managed then
    flow_record.owe_members(c, A.flow_id, ids, c.now + grace)
  end
  if not flow.managed and A.cancellation_policy == 'cancel_all' then
    wake.due_for(c, flow, c.now + grace)
    wake.flush(c)
  end
  if flow.managed then graph.cancelled_by_contract(c, A.flow_id, grace, A.reason) end
  local out = reply.ok(A.cancellation_policy)
  for i, member in ipairs(ids) do out[i + 3] = member end
  return out
end

-- @function ff_ack_cancel_member
-- @summary  Records that the owed cancel of a member was performed.
-- @flags    repeatable
-- @key      pending_cancels flow.pending_cancels
-- @key      cancel_backlog  index.cancel_backlog
-- @arg      execution_id    execution_id
-- @arg      flow_id         flow_id
-- @reply    OK
function F.ff_ack_cancel_member(K, A)
  redis.call('SREM', K.pending_cancels, A.execution_id)
  if redis.call('EXISTS', K.pending_cancels) == 0 then
    redis.call('ZREM', K.cancel_backlog, A.flow_id)
  end
  return reply.ok()
end
