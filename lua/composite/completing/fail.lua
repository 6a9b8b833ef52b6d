-- Ends an attempt without a result: it failed, or the worker releases the execution.

-- Maximum sizes of the details of a failure, and of the words of its text (bytes).
local MAX_DETAILS, MAX_WORDS = 65536, 512

-- Returns the effect of an earlier try of the same failure report, or nil when there was none.
local function earlier_failure(c, A, core)
  local attempt = record.read(key.attempt_record(c, A.execution_id, A.attempt_index),
    { 'attempt_id', 'attempt_state' })
  if not attempt or attempt.attempt_id ~= A.attempt_id or attempt.attempt_state ~= 'ended_failure' then
    return nil
  end
  if core.lifecycle_phase == 'terminal' and core.current_attempt_id == A.attempt_id then
    return 'terminal_failed', ''
  end
  -- The next attempt is no longer due when it has begun, or when the execution has ended since, also if it is replayed.
  local now = record.read(key.exec_core(c, A.execution_id), { 'eligibility_state', 'delay_until' }) or {}
  local waits = now.eligibility_state == 'not_eligible_until_time'
  return 'retry_scheduled', waits and now.delay_until or ''
end

-- Returns the delay before the next attempt (ms), or nil when the execution fails for good.
local function retry_delay(c, A, core, retry_after, jitter)
  if A.retryable ~= '1' then return nil end
  local retry_policy = policies.of(c, A.execution_id).retry_policy
  local delay = retry.delay(retry_policy, tonumber(core.retry_count) or 0)
  if not delay then return nil end
  delay = retry_after or retry.jittered(retry_policy, delay, jitter)
  return retry.is_allowed(c, A.execution_id, retry_policy, A.category, delay) and delay or nil
end

-- Approximate maximum size (bytes) of the stacks in the event log of a flow. A stack has 8 KiB, and thousands of nodes may panic
-- for one reason.
local MAX_STACKS = 1024 * 1024

-- Logs where the function of an attempt panicked, before its end is logged.
local function log_panic(c, core, stack)
  local flow_key = key.flow_core(c, core.flow_id)
  if record.add(flow_key, 'stack_bytes', #stack) > MAX_STACKS then
    record.add(flow_key, 'stack_bytes', -#stack)
    stack = 'the stack is left out: those of this run have ' .. MAX_STACKS .. ' bytes'
  end
  event_log.add_for(c, core, 'panicked', core.current_attempt_index, stack)
end

-- @function ffx_fail
-- @summary  Ends the attempt with a failure: schedules the next attempt by the stored policy, or fails the execution and skips
--           the nodes that depend on it. In a flow that is over, the execution is cancelled instead. The stack of a function that
--           panicked is logged before its failure. `details` are the errors with names of a failure that is final,
--           `words` the keyed hashes of the words of its text, by which searches find the run.
-- @flags    derives repeatable fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      attempt_index      attempt_index
-- @arg      reason             text
-- @arg      category           text
-- @arg      retryable          bool
-- @arg      retry_after        ms optional
-- @arg      jitter_permille    int
-- @arg      stack              text optional
-- @arg      details            bytes<details> optional
-- @arg      words              csv optional
-- @reply    OK outcome:text due_at:unix_ms more:bool
-- @reply    ALREADY_SATISFIED outcome:text due_at:unix_ms more:bool
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    invalid_input message:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ffx_fail(K, A)
  local retry_after, err = number.optional('retry_after', A.retry_after, nil)
  if err then return err end
  local jitter
  jitter, err = number.whole('jitter_permille', A.jitter_permille)
  if err then return err end
  if #(A.details or '') > MAX_DETAILS then
    return reply.err('invalid_input', 'details must have at most ' .. MAX_DETAILS .. ' bytes, got: ' .. #A.details)
  end
  if #(A.words or '') > MAX_WORDS or string.find(A.words or '', '[^%w_,-]') then
    return reply.err('invalid_input', 'words must have at most ' .. MAX_WORDS .. ' bytes of letters, digits, _ and -')
  end
  local c = call.open(K.partition)
  local due = usual_retry.fail(c, A, retry_after, jitter)
  if due then
    wake.flush(c)
    return reply.ok('retry_scheduled', number.text(due), '0')
  end
  local core_key = key.exec_core(c, A.execution_id)
  local r = row.of(c, A.execution_id)
  local core = r and row_steps.held(r, c, A) or record.read(core_key, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'active' then
    local outcome, due_at = earlier_failure(c, A, core)
    if outcome then return reply.already(outcome, due_at, '0') end
  end
  local f
  f, err = lease.check_write(c, core_key, core, A)
  if err then return err end
  if core.managed and is_set(A.stack) then log_panic(c, core, A.stack) end
  local delay = retry_delay(c, A, core, retry_after, jitter)
  if delay and run_stop.end_late(c, A.execution_id, core_key, core) then
    settle.run(c)
    return reply.ok('cancelled', '', c.more and '1' or '0')
  end
  if delay then
    retry.schedule(c, A.execution_id, core_key, core, f, A.reason, A.category, c.now + delay)
    wake.flush(c)
    return reply.ok('retry_scheduled', number.text(c.now + delay), '0')
  end
  retry.give_up(c, A.execution_id, core_key, core, f, A.reason, A.category, nil, A.details, nil, A.words)
  settle.run(c)
  return reply.ok('terminal_failed', '', c.more and '1' or '0')
end

-- Returns an execution that is eligible again at a time, perhaps for another worker that can decode its input.
local function release_later(c, A, core_key, core, f, at)
  suspend_lease.interrupt(c, A.execution_id, core_key, core, f, {
    eligibility = 'not_eligible_until_time', reason = 'waiting_for_decoder', detail = A.reason or '', public = 'delayed',
    suspension = 'released', released = 'by_worker', from_start = true, values = { 'delay_until', number.text(at) },
  })
  redis.call('ZADD', key.lane_delayed(c, record.lane(core)), at, A.execution_id)
  if core.managed then event_log.add_for(c, core, 'released', core.current_attempt_index, A.reason) end
  wake.delayed(c, record.lane(core), core, at)
  wake.flush(c)
end

-- @function ffx_release
-- @summary  Returns an execution unfinished. It is eligible again at once, or, if the worker could not decode its input, after
--           `delay`: its blocking reason is `waiting_for_decoder` until then. The attempt does not count, and the execution keeps
--           the rest of its timeout. In a flow that is over, it is cancelled.
-- @flags    derives repeatable fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      reason             text
-- @arg      delay              ms optional
-- @reply    OK
-- @reply    ALREADY_SATISFIED
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    invalid_input message:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ffx_release(K, A)
  local delay, err = number.optional('delay', A.delay, nil)
  if err then return err end
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase == 'runnable' and core.attempt_state == 'attempt_interrupted'
    and core.current_lease_epoch == A.lease_epoch and core.current_attempt_id == A.attempt_id then
    return reply.already()
  end
  local f
  f, err = lease.check_write(c, core_key, core, A)
  if err then return err end
  if run_stop.end_late(c, A.execution_id, core_key, core) then
    settle.run(c)
    return reply.ok()
  end
  if delay then
    release_later(c, A, core_key, core, f, c.now + delay)
    return reply.ok()
  end
  suspend_lease.interrupt(c, A.execution_id, core_key, core, f, {
    eligibility = 'eligible_now', reason = 'waiting_for_worker', detail = A.reason or '', public = 'waiting',
    suspension = 'released', released = 'by_worker', from_start = true,
  })
  requeue.make_eligible(c, A.execution_id, core)
  if core.managed then event_log.add_for(c, core, 'released', core.current_attempt_index, A.reason) end
  wake.flush(c)
  return reply.ok()
end
