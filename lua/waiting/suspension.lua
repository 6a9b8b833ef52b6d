-- Suspensions: a lease holder waits until its signals arrive, its time is up, or it is resumed.

local REASON_OF_CODE = {
  waiting_for_signal = 'waiting_for_signal',
  waiting_for_approval = 'waiting_for_approval',
  waiting_for_callback = 'waiting_for_callback',
  waiting_for_tool_result = 'waiting_for_tool_result',
  waiting_for_operator_review = 'paused_by_operator',
  paused_by_policy = 'paused_by_policy',
  paused_by_budget = 'waiting_for_budget',
  step_boundary = 'waiting_for_signal',
  manual_pause = 'paused_by_operator',
  sleeping = 'waiting_for_delay',
}

-- Resumes a suspended execution. `r`: delay (ms), detail (for a delay), eligible, delayed and suspended (indexes of its lane).
-- Returns the public state.
function suspension.resume(c, execution_id, core_key, core, r)
  suspension_record.leave_indexes(c, execution_id, core, r.suspended)
  local delayed = r.delay and r.delay > 0
  return requeue.ready(c, execution_id, core_key, core, {
    values = { 'attempt_state', 'attempt_interrupted' }, blank = { 'current_suspension_id', 'current_waitpoint_id' },
    due = delayed and c.now + r.delay or nil, reason = 'waiting_for_resume_delay', detail = r.detail,
    eligible = r.eligible, delayed = r.delayed,
  })
end

-- Continues an execution after its wait has ended and its records are closed. A waitpoint node, and a function that waits at a
-- step, get the result of the wait: see wait.answer. `r` is the argument of suspension.resume, `k` are the records, `o` is the
-- argument of wait.answer. Returns the public state.
function suspension.finish_wait(c, execution_id, core_key, core, r, k, o)
  if wait.answer(c, execution_id, core_key, core, k, o) then
    return terminal.PUBLIC_STATE[core.terminal_outcome]
  end
  return suspension.resume(c, execution_id, core_key, core, r)
end

-- Converts the numbers and the condition of a suspend call, before anything is written. Returns the converted values and, after
-- an error, also the error reply.
local function parse_suspend(A)
  local n, err = {}, nil
  n.history_length, err = number.count('lease_history_maxlen', A.lease_history_maxlen, 1000)
  if err then return n, err end
  n.timeout, err = number.optional('timeout_at', A.timeout_at, nil)
  if err then return n, err end
  n.condition, err = condition.parse(A.resume_condition_json)
  return n, err
end

-- Returns the pending waitpoint that a suspension is to use, or nil and the error reply.
local function take_pending(c, K, A)
  local w = record.read(K.waitpoint, { 'waitpoint_id', 'waitpoint_key', 'waitpoint_token', 'state', 'execution_id',
    'attempt_index', 'expires_at' })
  if not w then return nil, reply.err('waitpoint_not_found') end
  if w.state ~= 'pending' then return nil, reply.err('waitpoint_not_pending') end
  if w.execution_id ~= A.execution_id or w.attempt_index ~= A.attempt_index then
    return nil, reply.err('invalid_waitpoint_for_execution')
  end
  local expires = number.finite(w.expires_at)
  if expires and expires <= c.now then return nil, reply.err('pending_waitpoint_expired') end
  if not is_set(w.waitpoint_token) then return nil, reply.err('waitpoint_not_token_bound') end
  return { id = w.waitpoint_id or '', key = w.waitpoint_key or '', token = w.waitpoint_token, pending = true }
end

-- Returns the waitpoint of a suspension: the pending one, or a new one that is not written yet. Returns nil and the error reply
-- when there is none.
local function find_waitpoint(c, K, A)
  if A.use_pending_waitpoint == '1' then return take_pending(c, K, A) end
  local minted, code = waitpoint_token.mint(K.secrets, A.waitpoint_id, A.waitpoint_key, c.now_text)
  if not minted then return nil, reply.err(code) end
  return { id = A.waitpoint_id, key = A.waitpoint_key, token = minted }
end

-- Suspends the lease holder.
function suspension.enter(c, K, A, core, f, w, timeout_at)
  local sleeps = timeout_at and A.reason_code == timer.REASON
  suspend_lease.interrupt(c, A.execution_id, K.core, core, f, {
    phase = 'suspended', eligibility = 'not_applicable',
    reason = REASON_OF_CODE[A.reason_code] or 'waiting_for_signal',
    detail = sleeps and timer.detail(timeout_at) or 'suspended: waitpoint ' .. w.id .. ' awaiting ' .. A.reason_code,
    public = 'suspended',
    suspension = A.suspension_id, released = 'suspend',
    values = { 'current_suspension_id', A.suspension_id, 'current_waitpoint_id', w.id },
  }, K)
  suspension_record.index(c, K, A.execution_id, core, timeout_at)
  if not core.managed then return end
  if sleeps then
    event_log.add_for(c, core, 'sleeping', core.current_attempt_index, number.text(timeout_at))
  else
    event_log.add_for(c, core, 'suspended', core.current_attempt_index, w.key)
  end
end

-- @function ff_suspend_execution
-- @summary  Ends the lease of its holder, which then waits for signals to a waitpoint. When earlier signals already meet the
--           condition, the holder keeps the lease and continues. The record of an earlier suspension is removed even when the new
--           one finds no waitpoint.
-- @flags    derives fence
-- @key      core            exec.core
-- @key      attempt         attempt.record
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      lease_expiry    index.lease_expiry
-- @key      worker_leases   index.worker_leases
-- @key      suspension      exec.suspension
-- @key      waitpoint       waitpoint.record
-- @key      signals         waitpoint.signals
-- @key      suspension_timeout index.suspension_timeout
-- @key      pending_waitpoint_expiry index.pending_waitpoint_expiry
-- @key      active          lane.active
-- @key      suspended       lane.suspended
-- @key      waitpoints      exec.waitpoints
-- @key      condition       waitpoint.condition
-- @key      attempt_timeout index.attempt_timeout
-- @key      secrets         waitpoint.secrets optional
-- @arg      execution_id    execution_id
-- @arg      attempt_index   attempt_index
-- @arg      attempt_id      attempt_id
-- @arg      lease_id        lease_id
-- @arg      lease_epoch     lease_epoch
-- @arg      suspension_id   suspension_id
-- @arg      waitpoint_id    waitpoint_id
-- @arg      waitpoint_key   text
-- @arg      reason_code     text
-- @arg      requested_by    text
-- @arg      timeout_at      unix_ms optional
-- @arg      resume_condition_json json
-- @arg      resume_policy_json json
-- @arg      continuation_metadata_pointer text optional
-- @arg      use_pending_waitpoint bool optional
-- @arg      timeout_behavior text optional=fail
-- @arg      lease_history_maxlen int optional=1000
-- @reply    OK suspension_id:suspension_id waitpoint_id:waitpoint_id waitpoint_key:text waitpoint_token:text
-- @reply    ALREADY_SATISFIED suspension_id:suspension_id waitpoint_id:waitpoint_id waitpoint_key:text
--           waitpoint_token:text
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    invalid_lease_for_suspend
-- @error    already_suspended
-- @error    waitpoint_not_found
-- @error    waitpoint_not_pending
-- @error    invalid_waitpoint_for_execution
-- @error    pending_waitpoint_expired
-- @error    waitpoint_not_token_bound
-- @error    set:signing
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
-- @writes_on waitpoint_not_found suspension waitpoints
-- @writes_on waitpoint_not_pending suspension waitpoints
-- @writes_on invalid_waitpoint_for_execution suspension waitpoints
-- @writes_on pending_waitpoint_expired suspension waitpoints
-- @writes_on waitpoint_not_token_bound suspension waitpoints
-- @writes_on invalid_keys_missing_hmac suspension waitpoints
-- @writes_on hmac_secret_not_initialized suspension waitpoints
-- @writes_on invalid_secret suspension waitpoints
function F.ff_suspend_execution(K, A)
  local n, bad = parse_suspend(A)
  local c = call.open(K.core)
  c.history_length = n.history_length
  local core = record.read(K.core, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  local f, err = lease.check_write(c, K.core, core, { lease_id = A.lease_id, lease_epoch = A.lease_epoch,
    attempt_id = A.attempt_id })
  if err then return err end
  if core.current_attempt_index ~= A.attempt_index then return reply.err('invalid_lease_for_suspend') end
  local earlier = record.read(K.suspension, { 'closed_at', 'waitpoint_id' })
  if earlier and not is_set(earlier.closed_at) then return reply.err('already_suspended') end
  local w
  w, err = find_waitpoint(c, K, A)
  if not err and bad then return bad end

  if earlier then
    if is_set(earlier.waitpoint_id) then redis.call('SADD', K.waitpoints, earlier.waitpoint_id) end
    redis.call('DEL', K.suspension)
  end
  if err then return err end
  if suspension_record.begin(c, K, A, w, n.condition) then
    return reply.already(A.suspension_id, w.id, w.key, w.token)
  end
  suspension.enter(c, K, A, core, f, w, n.timeout)
  flow_record.owe_if_over(c, A.execution_id, core)
  wake.flush(c)
  return reply.ok(A.suspension_id, w.id, w.key, w.token)
end

-- @errors signing invalid_keys_missing_hmac hmac_secret_not_initialized invalid_secret

-- @function ff_resume_execution
-- @summary  Ends a suspension without a signal, at once or after a delay.
-- @flags    derives operator
-- @key      core            exec.core
-- @key      suspension      exec.suspension
-- @key      waitpoint       waitpoint.record
-- @key      signals         waitpoint.signals
-- @key      suspension_timeout index.suspension_timeout
-- @key      eligible        lane.eligible
-- @key      delayed         lane.delayed
-- @key      suspended       lane.suspended
-- @arg      execution_id    execution_id
-- @arg      trigger_type    text optional=signal
-- @arg      resume_delay_ms ms optional=0
-- @reply    OK public_state:public_state
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    execution_not_suspended
function F.ff_resume_execution(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, suspension.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'suspended' or not suspension_record.read_open(K.suspension) then
    return reply.err('execution_not_suspended')
  end
  local delay, err = number.optional('resume_delay_ms', A.resume_delay_ms, 0)
  if err then return err end
  local k = suspension_record.keys(c, A.execution_id, core)
  k.suspension, k.waitpoint = K.suspension, K.waitpoint
  suspension_record.close(c, k, 'resumed', { satisfied = true, known = { suspension = true, waitpoint = true } })
  if core.managed then event_log.add_for(c, core, 'resumed_by_operator', core.current_attempt_index) end
  local state = suspension.finish_wait(c, A.execution_id, K.core, core, {
    delay = delay, detail = 'resume delay ' .. number.text(delay) .. 'ms',
    eligible = K.eligible, delayed = K.delayed, suspended = K.suspended,
  }, k, {})
  settle.run(c)
  return reply.ok(state)
end

-- Core fields that the ends of a suspension read.
suspension.FIELDS = {
  'execution_id', 'lifecycle_phase', 'attempt_state', 'terminal_outcome', 'current_lease_epoch',
  'current_attempt_index', 'current_attempt_id', 'current_suspension_id', 'current_waitpoint_id', 'created_at',
  'priority', 'lane_id', 'current_lane', 'flow_id', 'managed', 'node', 'start_timeout', 'delay_until', 'wait',
  'fair_key',
}

-- Returns these fields of an execution; nil when it does not exist.
function suspension.core(core_key)
  local s, at = store.of(core_key)
  return s.waiting(at) or s.read(at, suspension.FIELDS)
end

local AUTO_RESUME = { auto_resume = true, auto_resume_with_timeout_signal = true }

-- Timeout behaviour → outcome of the execution, end state of its attempt, and the close reason of its suspension. Any other
-- behaviour fails it.
local ENDING = {
  cancel = { outcome = 'cancelled', attempt = 'ended_cancelled', reason = 'timed_out_cancel' },
  expire = { outcome = 'expired', attempt = 'ended_failure', reason = 'timed_out_expire' },
  fail = { outcome = 'failed', attempt = 'ended_failure', reason = 'timed_out_fail' },
}

-- Keeps a suspension open after its timeout, so that an operator can decide.
local function escalate(c, k, core, timeout_at)
  record.set(k.core,
    'lifecycle_phase', 'suspended',
    'ownership_state', 'unowned',
    'eligibility_state', 'not_applicable',
    'blocking_reason', 'paused_by_operator',
    'blocking_detail', 'suspension escalated: timeout at ' .. timeout_at,
    'terminal_outcome', 'none',
    'attempt_state', core.attempt_state or 'attempt_interrupted',
    'public_state', 'suspended',
    'last_mutation_at', c.now_text)
  redis.call('HSET', k.suspension, 'reason_code', 'waiting_for_operator_review', 'timeout_at', '',
    'timeout_behavior', '')
end

-- Ends the execution with its suspension.
local function end_suspended(c, k, execution_id, core, behaviour, known)
  local by = ENDING[behaviour] or ENDING.fail
  local reason = 'suspension_timeout:' .. behaviour
  local values = { 'failure_reason', reason }
  if core.managed then values[3], values[4] = 'failure_category', 'timeout' end
  attempt_record.finish(c, execution_id, core, by.attempt, 'failure_reason', reason, 'suspended_at', '',
    'suspension_id', '')
  if is_set(core.current_attempt_index) then
    lease.close_stream(c, execution_id, core.current_attempt_index, 'suspension_timeout')
  end
  suspension_record.close(c, k, by.reason, { known = known })
  suspension_record.leave_indexes(c, execution_id, core, k.suspended)
  terminal.finish(c, execution_id, k.core, core, {
    outcome = by.outcome, attempt_state = core.wait and 'none' or 'attempt_terminal',
    blank = { 'current_suspension_id', 'current_waitpoint_id' }, values = values,
    terminal_key = k.terminal, reason = reason, category = 'timeout',
  })
end

-- Ends a timer: the node has succeeded, or the function continues. `event` names the cause of the end.
function suspension.end_sleep(c, execution_id, core_key, core, k, event, detail)
  event_log.add_for(c, core, event, core.current_attempt_index, detail)
  suspension_record.close(c, k, 'timed_out_auto_resume', { known = suspension_record.ALL })
  suspension.finish_wait(c, execution_id, core_key, core, {}, k, { timed_out = true })
end

-- Applies the timeout behaviour of a suspension that is due; the due time is checked again. `k` holds core, suspension,
-- waitpoint, condition and suspension_timeout, and may hold suspended, terminal and eligible, the indexes of the lane; `known` is
-- the option of suspension_record.close. Returns the outcome and the public state.
function suspension.expire_if_due(c, k, execution_id, known)
  local core = suspension.core(k.core)
  local open = core and core.lifecycle_phase == 'suspended' and suspension_record.read_open(k.suspension)
  if not open then
    redis.call('ZREM', k.suspension_timeout, execution_id)
    if not core then return 'not_found_cleaned' end
    return core.lifecycle_phase == 'suspended' and 'no_active_suspension_cleaned' or 'not_suspended_cleaned'
  end
  local timeout_at = number.finite(open.timeout_at) or 0
  if timeout_at == 0 or timeout_at > c.now then return 'not_yet_due' end
  redis.call('ZREM', k.suspension_timeout, execution_id)
  local behaviour = open.timeout_behavior or 'fail'
  if core.managed and open.reason_code == timer.REASON then
    event_log.add_for(c, core, 'timer_ended', core.current_attempt_index)
  elseif core.managed then
    event_log.add_for(c, core, behaviour == 'escalate' and 'escalated' or 'wait_timed_out', core.current_attempt_index, behaviour)
  end
  if AUTO_RESUME[behaviour] then
    suspension_record.close(c, k, 'timed_out_auto_resume', { known = known })
    return 'auto_resume', suspension.finish_wait(c, execution_id, k.core, core,
      { eligible = k.eligible, suspended = k.suspended }, k, { timed_out = true })
  elseif behaviour == 'escalate' then
    escalate(c, k, core, open.timeout_at)
    return 'escalate', 'suspended'
  end
  end_suspended(c, k, execution_id, core, behaviour, known)
  return behaviour, terminal.PUBLIC_STATE[core.terminal_outcome]
end

-- @function ff_expire_suspension
-- @summary  Applies the timeout behaviour of a suspension whose time is up; the due time is checked again.
-- @flags    derives repeatable
-- @key      core            exec.core
-- @key      suspension      exec.suspension
-- @key      waitpoint       waitpoint.record
-- @key      condition       waitpoint.condition
-- @key      attempt         attempt.record
-- @key      stream_meta     stream.meta
-- @key      suspension_timeout index.suspension_timeout
-- @key      suspended       lane.suspended
-- @key      terminal        lane.terminal
-- @key      eligible        lane.eligible
-- @key      delayed         lane.delayed
-- @key      lease_history   exec.lease_history
-- @arg      execution_id    execution_id
-- @reply    OK outcome:text public_state:public_state?
function F.ff_expire_suspension(K, A)
  local c = call.open(K.core)
  local outcome, state = suspension.expire_if_due(c, K, A.execution_id, suspension_record.ALL)
  settle.run(c)
  return reply.ok(outcome, state)
end
