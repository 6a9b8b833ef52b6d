-- Stops runs and nodes: a flow that is over owes its members their end, and ends a bounded number of them per call.

-- Maximum number of members that are ended per call; the rest remains owed.
local ENDED_PER_CALL = 64

-- Reports whether a worker has a lease of an execution.
local function is_worked_on(core)
  return core.lifecycle_phase == 'active' and core.ownership_state == 'leased'
end

-- Maximum number of rows that one call reads to find nodes that have not ended.
local LOOKED_AT = 512

-- Returns the next nodes with rows that a run owes their end, and whether there are more: `owed_from` of its record is the next
-- place.
local function owed_nodes(c, flow_id, flow_key, limit)
  local from = tonumber(record.value(flow_key, 'owed_from') or nil)
  local run = from and row.run(c, flow_id)
  if not run then return {}, false end
  local ids, rest = run_rows.next_open(c, run, from, limit, LOOKED_AT)
  if rest then
    record.set(flow_key, 'owed_from', number.text(rest))
  else
    record.clear(flow_key, 'owed_from')
  end
  return ids, rest ~= nil
end

-- Ends members that are owed their end, up to `limit`; under the policy cancel_pending, only those that no worker runs. Returns
-- how many were ended.
function run_stop.end_owed(c, flow_id, limit)
  local pending_key = key.flow_pending_cancels(c, flow_id)
  local flow_key = key.flow_core(c, flow_id)
  local flow = record.read(flow_key, { 'cancel_reason', 'cancelled_by', 'outcome', 'cancellation_policy', 'joins', 'finally_over' }) or {}
  local reason = flow.cancel_reason or ''
  local spares = flow.cancellation_policy == 'cancel_pending'
  local has_more = flow.joins == finally.JOINS and not flow.finally_over
  local ended = 0
  local ids, more = owed_nodes(c, flow_id, flow_key, limit)
  for _, execution_id in ipairs(#ids < limit and redis.call('SPOP', pending_key, limit - #ids) or {}) do ids[#ids + 1] = execution_id end
  local function end_one(execution_id)
    local core_key = key.exec_core(c, execution_id)
    local core = record.read(core_key, terminal.END_FIELDS)
    if core and core.lifecycle_phase ~= 'terminal' and not (spares and is_worked_on(core)) and not (has_more and finally.is_one(core_key)) then
      if flow.finally_over and finally.is_one(core_key) then
        terminal.expire(c, execution_id, core_key, core, 'finally_deadline')
      elseif flow.outcome == 'expired' or flow.finally_over then
        terminal.expire(c, execution_id, core_key, core, 'flow_deadline')
      else
        terminal.cancel(c, execution_id, core_key, core, reason, flow.cancelled_by or 'flow', { silent = true })
      end
      ended = ended + 1
    end
  end
  -- A member that raises an error is owed its end again when the indexes are reconciled.
  for _, execution_id in ipairs(ids) do call.guarded(c, 'cancel_backlog', execution_id, end_one) end
  if more or redis.call('EXISTS', pending_key) == 1 then
    c.more = true
  else
    redis.call('ZREM', key.index_cancel_backlog(c), flow_id)
  end
  return ended
end

-- Ends a member whose flow is over, which gets no further attempt. Returns whether that is so.
function run_stop.end_late(c, execution_id, core_key, core)
  if not core.managed or not finally.is_over(flow_record.read(c, core.flow_id), core_key) then return false end
  terminal.cancel(c, execution_id, core_key, record.read(core_key, terminal.END_FIELDS), 'flow is over', 'flow',
    { silent = true, reported = true })
  return true
end

-- Owes every member its end, at once.
function run_stop.owe_all(c, flow_id)
  if row.run(c, flow_id) then record.set(key.flow_core(c, flow_id), 'owed_from', '1') end
  redis.call('COPY', key.flow_members(c, flow_id), key.flow_pending_cancels(c, flow_id), 'REPLACE')
  redis.call('ZADD', key.index_cancel_backlog(c), c.now, flow_id)
end

-- Marks a managed flow as over and ends a first batch of its members.
function run_stop.stop(c, flow_id, flow_key, state, ...)
  flow_record.mark_over(c, flow_key, state, ...)
  run_list.judged(c, flow_id)
  run_stop.owe_all(c, flow_id)
  return run_stop.end_owed(c, flow_id, ENDED_PER_CALL)
end

-- Cancels an open flow with all of its members.
function run_stop.cancel(c, flow_id, reason, actor, policy)
  event_log.add(c, flow_id, 'flow_cancel_requested', '', '', reason)
  run_stop.stop(c, flow_id, key.flow_core(c, flow_id), 'cancelled', 'cancelled_at', c.now_text, 'cancel_reason', reason,
    'cancelled_by', actor, 'cancellation_policy', policy or 'cancel_all', 'outcome', 'cancelled')
end

-- Cancels the remaining nodes that no worker runs, after a node has failed in a flow that then needs no others.
function run_stop.stop_rest(c, flow_id, flow_key, core)
  run_stop.stop(c, flow_id, flow_key, 'failed', 'outcome', 'failed', 'cancellation_policy', 'cancel_pending',
    'cancel_reason', (core.node or core.execution_id) .. ' has failed', 'cancelled_by', 'flow')
end

-- @function ffx_cancel_flow
-- @summary  Cancels a flow with its members, a bounded number per call: none of its nodes starts after the first call, and the
--           workers of running members are notified at once. With the policy cancel_pending (the default is cancel_all), running
--           members are left to end by themselves, without another attempt. Call again while `more`, or leave the rest to the
--           keeper. A flow whose running members were spared is cancelled in full by a call with cancel_all.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      reason             text
-- @arg      actor              text
-- @arg      policy             text optional
-- @reply    OK state:text more:bool
-- @reply    ALREADY_SATISFIED state:text more:bool
-- @error    invalid_input message:text
-- @error    flow_not_found
-- @error    flow_already_terminal state:text
function F.ffx_cancel_flow(K, A)
  local policy = is_set(A.policy) and A.policy or 'cancel_all'
  if policy ~= 'cancel_all' and policy ~= 'cancel_pending' then
    return reply.err('invalid_input', 'policy must be cancel_all or cancel_pending, got: ' .. policy)
  end
  local c = call.open(K.partition)
  local flow_key = key.flow_core(c, A.flow_id)
  local flow = record.read(flow_key, { 'public_flow_state', 'closed_at', 'cancellation_policy' })
  if not flow then return reply.err('flow_not_found') end
  local cancelled = flow.public_flow_state == 'cancelled'
  if flow.closed_at and not cancelled then
    return reply.err('flow_already_terminal', flow.public_flow_state or '')
  end
  if flow_record.is_over(flow) then
    if cancelled and not flow.closed_at and policy == 'cancel_all' and flow.cancellation_policy == 'cancel_pending' then
      record.set(flow_key, 'cancellation_policy', policy, 'cancel_reason', A.reason, 'cancelled_by', A.actor)
      run_stop.owe_all(c, A.flow_id)
    end
    if not flow.closed_at then run_stop.end_owed(c, A.flow_id, ENDED_PER_CALL) end
  else
    run_stop.cancel(c, A.flow_id, A.reason, A.actor, policy)
  end
  settle.run(c)
  local answer = cancelled and reply.already or reply.ok
  return answer('cancelled', c.more and '1' or '0')
end

-- @function ffx_cancel_node
-- @summary  Cancels one execution in any state; a worker that runs it is notified at once. The nodes that depend on it are
--           skipped, or continue by their joins.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      reason             text
-- @arg      actor              text
-- @reply    OK previous_phase:text more:bool
-- @reply    ALREADY_SATISFIED previous_phase:text more:bool
-- @error    execution_not_found
-- @error    execution_not_active terminal_outcome:text lease_epoch:text lifecycle_phase:text attempt_id:text
function F.ffx_cancel_node(K, A)
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, terminal.END_FIELDS)
  if not core then return reply.err('execution_not_found') end
  local phase = core.lifecycle_phase
  if phase == 'terminal' and core.terminal_outcome == 'cancelled' then return reply.already(phase, '0') end
  if phase == 'terminal' then return reply.not_active(core) end
  if record.value(core_key, 'ending') == 'cancelled' then return reply.already(phase, '0') end
  terminal.cancel(c, A.execution_id, core_key, core, A.reason, A.actor)
  settle.run(c)
  return reply.ok(phase, c.more and '1' or '0')
end
