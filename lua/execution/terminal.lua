-- The ends of an execution: complete, cancel, expire. Every terminal transition uses terminal.finish, which updates indexes,
-- history, messages and the graph in one place.

-- Core fields to unset when a lease ends.
local LEASE_FIELDS = {
  'current_lease_id', 'current_worker_id', 'current_worker_instance_id', 'lease_expires_at',
  'lease_last_renewed_at', 'lease_renewal_deadline',
}
local LEASE_AND_LOSS_FIELDS = {
  'current_lease_id', 'current_worker_id', 'current_worker_instance_id', 'lease_expires_at',
  'lease_last_renewed_at', 'lease_renewal_deadline', 'lease_expired_at', 'lease_revoked_at',
  'lease_revoke_reason',
}
local CANCELLED_FIELDS = {
  'current_lease_id', 'current_worker_id', 'current_worker_instance_id', 'lease_expires_at',
  'lease_last_renewed_at', 'lease_renewal_deadline', 'current_suspension_id', 'current_waitpoint_id',
}
local EXPIRED_FIELDS = {
  'current_lease_id', 'current_worker_id', 'current_worker_instance_id', 'lease_expires_at',
  'current_suspension_id', 'current_waitpoint_id',
}
terminal.LEASE_FIELDS = LEASE_FIELDS
terminal.LEASE_AND_LOSS_FIELDS = LEASE_AND_LOSS_FIELDS

terminal.PUBLIC_STATE = {
  success = 'completed', failed = 'failed', cancelled = 'cancelled', expired = 'expired', skipped = 'skipped',
}

-- Core fields that a terminal transition reads beyond the fence.
terminal.END_FIELDS = {
  'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome', 'attempt_state',
  'current_lease_id', 'current_lease_epoch', 'current_attempt_id', 'current_attempt_index',
  'current_worker_id', 'current_worker_instance_id', 'lease_expires_at', 'lane_id', 'current_lane',
  'flow_id', 'managed', 'node', 'created_at', 'priority', 'retry_count', 'fair_key',
  'current_waitpoint_id', 'current_suspension_id',
}

function terminal.released(c, execution_id, core, f, reason)
  if core.managed then return end
  lease.history(c, execution_id, 'event', 'released',
    'lease_id', f.lease_id or '', 'lease_epoch', f.lease_epoch or '',
    'attempt_index', core.current_attempt_index or '', 'reason', reason, 'ts', c.now_text)
end

-- Notifies other FlowFabric tools that a member of a flow has ended.
function terminal.announce_end(c, flow_id, execution_id, outcome)
  wake.send(key.channel_completions(c), '{"flow_id":' .. cjson.encode(flow_id)
    .. ',"execution_id":' .. cjson.encode(execution_id) .. ',"outcome":"' .. outcome .. '"}')
end

-- Writes the success of a member of a managed flow, which its lease holder reports.
local function write_success(c, core_key, core)
  local s, at = store.of(core_key)
  s.succeed(at, c)
  if not lease.is_plain(core) then s.clear(at, 'lease_last_renewed_at', 'lease_renewal_deadline') end
end

-- Fields that rows have in addition and that have no meaning for an ended node. Hashes keep them, as the contract does.
local LEFT_BESIDE_ROWS = {
  'delay_until', 'pending_retry_reason', 'pending_previous_attempt_index', 'pending_replay_attempt', 'pending_replay_reason',
  'pending_replay_requested_by', 'remaining_attempt_timeout', 'lease_expired_at', 'lease_revoked_at', 'lease_revoke_reason',
  'prior_eligibility_state', 'prior_blocking_reason', 'prior_blocking_detail', 'lease_last_renewed_at', 'lease_renewal_deadline',
}

local function write_end(c, core_key, core, t)
  -- The claim removes the text of a waiting record; a skip or a cancel may come before a claim.
  local blank = { 'blocking_detail', unpack(t.blank) }
  if store.row(core_key) then
    for _, field in ipairs(LEFT_BESIDE_ROWS) do blank[#blank + 1] = field end
  end
  -- First, as most rows have no further fields before the next step.
  record.unset(core_key, core.managed, blank)
  record.set(core_key,
    'lifecycle_phase', 'terminal',
    'ownership_state', 'unowned',
    'eligibility_state', 'not_applicable',
    'blocking_reason', 'none',
    'terminal_outcome', t.outcome,
    'attempt_state', t.attempt_state,
    'public_state', terminal.PUBLIC_STATE[t.outcome],
    'completed_at', c.now_text,
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
    unpack(record.with_blanks(core.managed, t.values or {}, blank)))
end

-- @hook Runs when a member of a flow that is not managed has ended: its outgoing edges have to be resolved.
function terminal.on_member_end(c, execution_id, core) end

-- @hook Defers the end of a managed flow's member that did not succeed until its remaining work has ended. Reports whether it
-- does; terminal.finish is then called again, with `is_due`.
function terminal.defer(c, execution_id, core_key, core, t) return false end

-- Ends a record. `t`: outcome; attempt_state of the core; values (further fields, flat list) and blank (fields to unset); claimed
-- (a success that its lease holder reports); waited (the success of a waitpoint node); plain (see lease.is_plain); terminal_key; silent (no completion message); tolerated
-- (the end is not the flow's failure); interrupts (a worker may still run the function). The caller updates all indexes except
-- the terminal one, because they depend on the phase that the execution left.
function terminal.finish(c, execution_id, core_key, core, t)
  if t.outcome ~= 'success' and core.managed and terminal.defer(c, execution_id, core_key, core, t) then return end
  local s, at = store.of(core_key)
  if core.managed and t.claimed then
    write_success(c, core_key, core)
  elseif not (t.waited and s.end_wait(at, c)) then
    write_end(c, core_key, core, t)
  end
  if not t.plain then redis.call('ZREM', key.index_execution_deadline(c), execution_id) end
  local is_row = store.row(core_key) ~= nil
  if not is_row then call.enter(c, t.terminal_key or key.lane_terminal(c, record.lane(core)), execution_id, c.now_text) end
  -- The engine itself resolves the edges of an ended node: other tools receive a message when their own calls end one.
  if is_set(core.flow_id) and not t.silent and (t.terminal_key or not is_row) then
    terminal.announce_end(c, core.flow_id, execution_id, t.outcome)
  end
  core.lifecycle_phase = 'terminal'
  core.terminal_outcome = t.outcome
  if core.managed then
    graph.node_ended(c, execution_id, core, t)
  elseif is_set(core.flow_id) and not t.silent then
    terminal.on_member_end(c, execution_id, core)
  end
end

-- Reverts terminal.finish for an ended record that runs again. The caller then makes it ready with requeue.ready or blocks it
-- with dependency.hold.
function terminal.reopen(c, execution_id, core, terminal_key)
  attempt_record.write_first(c, execution_id, core)
  if core.journal and core.terminal_outcome == 'success' then journal.forget(c, execution_id) end
  redis.call('ZREM', terminal_key or key.lane_terminal(c, record.lane(core)), execution_id)
  if not core.managed then return end
  record.clear(key.exec_core(c, execution_id), 'unreleased', 'stopped_at', 'returned')
  graph.node_reopened(c, execution_id, core, core.terminal_outcome)
end

-- Removes an execution from every index that a state can have added it to.
function terminal.leave_indexes(c, execution_id, core)
  local lane = record.lane(core)
  order.leave(c, lane, execution_id, core)
  redis.call('ZREM', key.lane_delayed(c, lane), execution_id)
  redis.call('ZREM', key.lane_blocked_dependencies(c, lane), execution_id)
  redis.call('ZREM', key.lane_blocked_budget(c, lane), execution_id)
  redis.call('ZREM', key.lane_blocked_quota(c, lane), execution_id)
  redis.call('ZREM', key.lane_blocked_route(c, lane), execution_id)
  redis.call('ZREM', key.lane_blocked_operator(c, lane), execution_id)
  suspension_record.leave_indexes(c, execution_id, core)
  redis.call('ZREM', key.ffx_start_deadlines(c), execution_id)
end

-- Commits the result of the running attempt. Returns nil, or the error reply.
function terminal.complete(c, execution_id, core_key, core, f, result, k)
  local plain = lease.is_plain(core)
  if not core.in_row then attempt_record.finish(c, execution_id, core, 'ended_success') end
  if not plain then lease.close_stream(c, execution_id, core.current_attempt_index or '', 'attempt_success') end
  call.list_in(c, 'completed')[execution_id] = results.write(c, execution_id, result) or ''
  lease.drop(c, execution_id, core, k and k.worker_leases, plain)
  terminal.released(c, execution_id, core, f, 'completed')
  terminal.finish(c, execution_id, core_key, core, {
    outcome = 'success', attempt_state = 'attempt_terminal', claimed = true, plain = plain,
    blank = LEASE_AND_LOSS_FIELDS, terminal_key = k and k.terminal,
  })
end

-- @function ff_complete_execution
-- @summary  Commits the result of the running attempt and ends the execution.
-- @flags    derives fence
-- @key      core            exec.core
-- @key      attempt         attempt.record
-- @key      lease_expiry    index.lease_expiry
-- @key      worker_leases   index.worker_leases
-- @key      terminal        lane.terminal
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      active          lane.active
-- @key      stream_meta     stream.meta
-- @key      result          exec.result
-- @key      attempt_timeout index.attempt_timeout
-- @key      execution_deadline index.execution_deadline
-- @arg      execution_id    execution_id
-- @arg      lease_id        lease_id omittable
-- @arg      lease_epoch     lease_epoch omittable
-- @arg      attempt_id      attempt_id omittable
-- @arg      result_payload  bytes optional
-- @arg      source          text optional
-- @reply    OK outcome:text
-- @error    execution_not_found
-- @error    set:lease_fence
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ff_complete_execution(K, A)
  local c = call.open(K.core)
  local core = fence.read_completion(c, K.core, A)
  if not core then return reply.err('execution_not_found') end
  local f, err = lease.check_write(c, K.core, core, A)
  if err then return err end
  terminal.complete(c, A.execution_id, K.core, core, f, A.result_payload, K)
  settle.run(c)
  return reply.ok('completed')
end

-- Ends the parts of an attempt that are still open: its record, its stream, and the suspension that it waited in.
local function close_attempt(c, execution_id, core, state, reason, stream_reason)
  if not is_set(core.current_attempt_index) then return end
  attempt_record.finish(c, execution_id, core, state, 'failure_reason', reason)
  lease.close_stream(c, execution_id, core.current_attempt_index, stream_reason)
end

-- Leaves the current phase of a record, before an outside event ends it. `w`: attempt_state and failure_reason of the attempt
-- record, stream_reason, close_reason of a suspension, released (history).
function terminal.leave_phase(c, execution_id, core, w)
  local phase = core.lifecycle_phase
  if phase == 'active' then
    close_attempt(c, execution_id, core, w.attempt_state, w.failure_reason, w.stream_reason)
    terminal.released(c, execution_id, core,
      { lease_id = core.current_lease_id, lease_epoch = core.current_lease_epoch }, w.released)
    lease.drop(c, execution_id, core, w.worker_set)
    -- Calls with other keys than the record's own may have left entries.
    terminal.leave_indexes(c, execution_id, core)
    return
  end
  if phase == 'suspended' then
    close_attempt(c, execution_id, core, w.attempt_state, w.failure_reason, w.stream_reason)
    suspension_record.close(c, suspension_record.keys(c, execution_id, core), w.close_reason)
  elseif core.attempt_state == 'attempt_interrupted' then
    close_attempt(c, execution_id, core, w.attempt_state, w.failure_reason, w.stream_reason)
  end
  redis.call('ZREM', key.index_attempt_timeout(c), execution_id)
  terminal.leave_indexes(c, execution_id, core)
  if phase == 'runnable' then hidden.forget(key.exec_core(c, execution_id), core) end
end

-- Returns the state of the core's attempt after an end from outside: an execution that never ran keeps its state.
function terminal.ended_attempt_state(core)
  if is_set(core.current_attempt_index) then return 'attempt_terminal' end
  return core.attempt_state or 'none'
end

-- Cancels a record that is not terminal. `by` names the requester. With `reported`, its worker does so when the function has
-- returned.
function terminal.cancel(c, execution_id, core_key, core, reason, by, o)
  o = o or {}
  local running_on = core.lifecycle_phase == 'active' and core.current_worker_instance_id
  terminal.leave_phase(c, execution_id, core, {
    attempt_state = 'ended_cancelled', failure_reason = 'cancelled: ' .. reason,
    stream_reason = 'attempt_cancelled', close_reason = 'cancelled', released = 'cancelled',
    worker_set = o.worker_set,
  })
  terminal.finish(c, execution_id, core_key, core, {
    outcome = 'cancelled', attempt_state = terminal.ended_attempt_state(core), blank = CANCELLED_FIELDS,
    values = { 'cancellation_reason', reason, 'cancelled_by', by }, interrupts = not o.reported,
    terminal_key = o.terminal_key, silent = o.silent, tolerated = o.tolerated, reason = reason,
  })
  wake.stop(c, running_on, execution_id, core, 'cancelled', reason)
end

-- Ends a record that is not terminal because its time is up.
function terminal.expire(c, execution_id, core_key, core, reason, o)
  o = o or {}
  local running_on = core.lifecycle_phase == 'active' and core.current_worker_instance_id
  terminal.leave_phase(c, execution_id, core, {
    attempt_state = 'ended_failure', failure_reason = reason, stream_reason = 'expired',
    close_reason = 'expired:' .. reason, released = 'expired:' .. reason, worker_set = o.worker_set,
  })
  terminal.finish(c, execution_id, core_key, core, {
    outcome = 'expired', attempt_state = terminal.ended_attempt_state(core), blank = EXPIRED_FIELDS,
    values = { 'failure_reason', reason }, terminal_key = o.terminal_key, reason = reason, category = 'timeout', interrupts = true,
  })
  wake.stop(c, running_on, execution_id, core, 'expired', reason)
end

-- Reports whether a cancel results from the cancel of its flow.
local function is_cascade(c, core, A)
  return A.source == 'flow_cascade' and is_set(core.flow_id)
    and record.value(key.flow_core(c, core.flow_id), 'public_flow_state') == 'cancelled'
end

-- Checks the fence of a cancel while the execution is leased. Returns nil, or the error reply.
local function check_cancel(c, core, A)
  if core.lifecycle_phase ~= 'active' or A.source == 'operator_override' then return nil end
  if core.ownership_state == 'lease_revoked' then return reply.err('lease_revoked') end
  if not is_set(A.lease_id) then
    if fence.strict(c) and not is_cascade(c, core, A) then return reply.err('fence_required') end
    return nil
  end
  if A.lease_id ~= core.current_lease_id or A.lease_epoch ~= core.current_lease_epoch then
    return reply.err('stale_lease')
  end
  return nil
end

-- @function ff_cancel_execution
-- @summary  Ends an execution as cancelled, from any phase. With strict_authority, running work is cancelled only by its lease,
--           with its flow, or with the source operator_override.
-- @flags    derives
-- @key      core            exec.core
-- @key      attempt         attempt.record
-- @key      stream_meta     stream.meta
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      lease_expiry    index.lease_expiry
-- @key      worker_leases   index.worker_leases optional
-- @key      suspension      exec.suspension
-- @key      waitpoint       waitpoint.record optional
-- @key      condition       waitpoint.condition optional
-- @key      suspension_timeout index.suspension_timeout
-- @key      terminal        lane.terminal
-- @key      attempt_timeout index.attempt_timeout
-- @key      execution_deadline index.execution_deadline
-- @key      eligible        lane.eligible
-- @key      delayed         lane.delayed
-- @key      blocked_dependencies lane.blocked_dependencies
-- @key      blocked_budget  lane.blocked_budget
-- @key      blocked_quota   lane.blocked_quota
-- @key      blocked_route   lane.blocked_route
-- @key      blocked_operator lane.blocked_operator
-- @arg      execution_id    execution_id
-- @arg      reason          text
-- @arg      source          text optional
-- @arg      lease_id        lease_id optional
-- @arg      lease_epoch     lease_epoch optional
-- @reply    OK outcome:text previous_phase:text
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    execution_not_active terminal_outcome:text lease_epoch:text lifecycle_phase:text attempt_id:text
-- @error    lease_revoked
-- @error    fence_required
-- @error    stale_lease
function F.ff_cancel_execution(K, A)
  if not A.reason then return reply.err('invalid_input', 'reason must be given') end
  local c = call.open(K.core)
  local core = record.read(K.core, terminal.END_FIELDS)
  if not core then return reply.err('execution_not_found') end
  local phase = core.lifecycle_phase
  if phase == 'terminal' then return reply.not_active(core) end
  local err = check_cancel(c, core, A)
  if err then return err end
  terminal.cancel(c, A.execution_id, K.core, core, A.reason, is_set(A.source) and A.source or A.execution_id, {
    worker_set = K.worker_leases, terminal_key = K.terminal, silent = A.source == 'flow_cascade',
    reported = is_set(A.lease_id) and A.source == 'worker',
  })
  settle.run(c)
  return reply.ok('cancelled', phase)
end

-- Reports whether the time that a scanner acts on is really over. Other reasons are an operator's decision.
local function is_due(c, K, A, reason)
  local index
  if reason == 'attempt_timeout' then
    index = K.attempt_timeout
  elseif reason == 'execution_deadline' then
    index = K.execution_deadline
  else
    return true
  end
  local score = tonumber(redis.call('ZSCORE', index, A.execution_id) or nil)
  return score ~= nil and score <= c.now
end

-- @function ff_expire_execution
-- @summary  Ends an execution whose attempt timeout or deadline is over; the due time is checked again.
-- @flags    derives repeatable
-- @key      core            exec.core
-- @key      attempt         attempt.record
-- @key      stream_meta     stream.meta
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      lease_expiry    index.lease_expiry
-- @key      worker_leases   index.worker_leases optional
-- @key      active          lane.active
-- @key      terminal        lane.terminal
-- @key      attempt_timeout index.attempt_timeout
-- @key      execution_deadline index.execution_deadline
-- @key      suspended       lane.suspended
-- @key      suspension_timeout index.suspension_timeout
-- @key      suspension      exec.suspension
-- @arg      execution_id    execution_id
-- @arg      expire_reason   text optional=attempt_timeout
-- @reply    OK outcome:text
-- @reply    OK outcome:text previous_phase:text
function F.ff_expire_execution(K, A)
  local c = call.open(K.core)
  local reason = A.expire_reason or 'attempt_timeout'
  local core = record.read(K.core, terminal.END_FIELDS)
  if not core or core.lifecycle_phase == 'terminal' then
    redis.call('ZREM', K.attempt_timeout, A.execution_id)
    redis.call('ZREM', K.execution_deadline, A.execution_id)
    return reply.ok(core and 'already_terminal' or 'not_found_cleaned')
  end
  if not is_due(c, K, A, reason) then return reply.ok('not_due') end
  local phase = core.lifecycle_phase
  terminal.expire(c, A.execution_id, K.core, core, reason,
    { worker_set = K.worker_leases, terminal_key = K.terminal })
  settle.run(c)
  return reply.ok('expired', phase)
end
