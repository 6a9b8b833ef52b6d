-- Fails an attempt: schedules another one, or ends the execution.

local DEFAULT_BACKOFF_MS = 1000
local DEFAULT_MAX_BACKOFF_MS = 60000
local DEFAULT_MULTIPLIER = 2

-- Returns the delay before the next attempt in whole ms, or nil when no attempt is left. `policy` is the decoded retry policy; a
-- value other than an object allows no retry. A field that is not a number counts as its default.
function retry.delay(policy, retry_count)
  if type(policy) ~= 'table' then return nil end
  if retry_count >= (number.finite(policy.max_retries) or 0) then return nil end
  local backoff = policy.backoff
  if type(backoff) ~= 'table' then return DEFAULT_BACKOFF_MS end
  if backoff.type == 'fixed' then
    return math.floor(number.finite(backoff.delay_ms) or DEFAULT_BACKOFF_MS)
  elseif backoff.type == 'exponential' then
    local initial = number.finite(backoff.initial_delay_ms) or DEFAULT_BACKOFF_MS
    local multiplier = number.finite(backoff.multiplier) or DEFAULT_MULTIPLIER
    local cap = number.finite(backoff.max_delay_ms) or DEFAULT_MAX_BACKOFF_MS
    local delay = number.finite(initial * multiplier ^ retry_count) or cap
    return math.floor(math.min(delay, cap))
  end
  return DEFAULT_BACKOFF_MS
end

-- Lengthens a delay by up to the policy's jitter share; `permille` is the caller's random number, 0 to 1000.
function retry.jittered(policy, delay, permille)
  local backoff = type(policy) == 'table' and policy.backoff
  local share = type(backoff) == 'table' and number.finite(backoff.jitter_permille) or 0
  share = math.max(0, math.min(1000, share))
  return delay + math.floor(delay * share * permille / 1e6)
end

local function has(list, category)
  for _, name in ipairs(list) do
    if name == category then return true end
  end
  return false
end

-- Returns when the first failed attempt began (Unix ms), since the execution was created or replayed.
local function first_failed(c, execution_id, core_key)
  local core = record.read(core_key, { 'retry_count', 'retrying_since', 'current_attempt_index', 'started_at', 'managed' }) or {}
  if (tonumber(core.retry_count) or 0) > 0 then return number.finite(core.retrying_since) end
  local attempt = record.read(key.attempt_record(c, execution_id, core.current_attempt_index or '0'), { 'started_at' })
  local since = attempt and is_set(attempt.started_at) and attempt.started_at or core.started_at
  record.write(core_key, core.managed, { 'retrying_since', since or '' }, {})
  return number.finite(since)
end

-- Reports whether the rules of a policy, if it has any, allow another attempt after a failure of a category. `only` and `except`
-- list categories. No attempt begins more than `within_ms` after the first failed one began, a time that the record keeps.
function retry.is_allowed(c, execution_id, policy, category, delay)
  if type(policy.only) == 'table' and not has(policy.only, category) then return false end
  if type(policy.except) == 'table' and has(policy.except, category) then return false end
  local within = number.finite(policy.within_ms)
  if not within then return true end
  local since = first_failed(c, execution_id, key.exec_core(c, execution_id))
  return not since or c.now + delay <= since + within
end

-- Returns decoded JSON, or nil.
function retry.parse(json)
  if not is_set(json) then return nil end
  local ok, policy = pcall(cjson.decode, json)
  return ok and policy or nil
end

local function end_failed_attempt(c, execution_id, core, reason, category)
  attempt_record.finish(c, execution_id, core, 'ended_failure',
    'failure_reason', reason, 'failure_category', category)
  if not (core.is_held and lease.is_plain(core)) then lease.close_stream(c, execution_id, core.current_attempt_index or '', 'attempt_failure') end
end

-- Returns the text about the wait for another attempt.
function retry.detail(at_text, index, reason)
  return 'retry backoff until ' .. at_text .. ' (attempt ' .. index .. ' failed: ' .. reason .. ')'
end

-- Writes that an execution waits for its next attempt.
local function write_wait(c, core_key, core, reason, category, at_text)
  local index = core.current_attempt_index or ''
  local blank = { 'current_attempt_id', unpack(terminal.LEASE_FIELDS) }
  local values = {
    'lifecycle_phase', 'runnable',
    'ownership_state', 'unowned',
    'eligibility_state', 'not_eligible_until_time',
    'blocking_reason', 'waiting_for_retry_backoff',
    'blocking_detail', retry.detail(at_text, index, reason),
    'terminal_outcome', 'none',
    'attempt_state', 'pending_retry_attempt',
    'public_state', 'delayed',
    'pending_retry_reason', reason,
    'pending_previous_attempt_index', index,
    'retry_count', number.text((tonumber(core.retry_count) or 0) + 1),
    'delay_until', at_text,
    'failure_reason', reason,
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }
  if core.managed and is_set(category) then
    values[#values + 1] = 'failure_category'
    values[#values + 1] = category
  elseif core.managed then
    blank[#blank + 1] = 'failure_category'
  end
  record.write(core_key, core.managed, values, blank)
end

-- Ends the attempt and schedules the next one at `at` (ms).
function retry.schedule(c, execution_id, core_key, core, f, reason, category, at, k)
  local index = core.current_attempt_index or ''
  end_failed_attempt(c, execution_id, core, reason, category)
  lease.drop(c, execution_id, core, k and k.worker_leases, core.is_held and lease.is_plain(core))
  local s, place = store.of(core_key)
  if not s.await_retry(place, c, category, reason, at) then write_wait(c, core_key, core, reason, category, number.text(at)) end
  redis.call('ZADD', k and k.delayed or key.lane_delayed(c, record.lane(core)), at, execution_id)
  terminal.released(c, execution_id, core, f, 'failed_retry_scheduled')
  if core.managed then
    event_log.add_for(c, core, 'retry', event_log.failed_attempt(index, category), reason)
  end
  wake.delayed(c, record.lane(core), core, at)
end

-- Ends the attempt and, with it, the execution. `details`: of the failure; `words`: of its text, see tolerated_failures.on_first.
function retry.give_up(c, execution_id, core_key, core, f, reason, category, k, details, interrupts, words)
  end_failed_attempt(c, execution_id, core, reason, category)
  lease.drop(c, execution_id, core, k and k.worker_leases)
  terminal.released(c, execution_id, core, f, 'failed_terminal')
  local values = { 'failure_reason', reason }
  if core.managed and is_set(category) then
    values[3] = 'failure_category'
    values[4] = category
  end
  if core.managed and is_set(details) then record.append(values, 'failure_details', details) end
  terminal.finish(c, execution_id, core_key, core, {
    outcome = 'failed', attempt_state = 'attempt_terminal', blank = terminal.LEASE_FIELDS, values = values,
    terminal_key = k and k.terminal, reason = reason, category = category, interrupts = interrupts, words = words,
  })
end

-- Returns the retry policy that counts for a failure which the contract's function reports.
local function policy_for(c, A)
  local stored = fence.strict(c) and policies.of(c, A.execution_id).retry_policy
  if type(stored) == 'table' then return stored end
  return retry.parse(A.retry_policy_json)
end

-- @function ff_fail_execution
-- @summary  Ends the attempt with a failure: a retry by the given policy, or the end of the execution. With
--           strict_authority, the stored retry_policy counts, the given one only where there is none.
-- @flags    derives fence
-- @key      core            exec.core
-- @key      attempt         attempt.record
-- @key      lease_expiry    index.lease_expiry
-- @key      worker_leases   index.worker_leases
-- @key      terminal        lane.terminal
-- @key      delayed         lane.delayed
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      active          lane.active
-- @key      stream_meta     stream.meta
-- @key      attempt_timeout index.attempt_timeout
-- @key      execution_deadline index.execution_deadline
-- @arg      execution_id    execution_id
-- @arg      lease_id        lease_id omittable
-- @arg      lease_epoch     lease_epoch omittable
-- @arg      attempt_id      attempt_id omittable
-- @arg      failure_reason  text optional
-- @arg      failure_category text optional
-- @arg      retry_policy_json json optional
-- @arg      source          text optional
-- @reply    OK outcome:text delay_until:unix_ms?
-- @error    execution_not_found
-- @error    set:lease_fence
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ff_fail_execution(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  local f, err = lease.check_write(c, K.core, core, A)
  if err then return err end
  local reason, category = A.failure_reason or '', A.failure_category or ''
  local policy = policy_for(c, A)
  local delay = retry.delay(policy, tonumber(core.retry_count) or 0)
  if delay and retry.is_allowed(c, A.execution_id, policy, category, delay) then
    retry.schedule(c, A.execution_id, K.core, core, f, reason, category, c.now + delay, K)
    flow_record.owe_if_over(c, A.execution_id, core)
    wake.flush(c)
    return reply.ok('retry_scheduled', number.text(c.now + delay))
  end
  retry.give_up(c, A.execution_id, K.core, core, f, reason, category, K)
  settle.run(c)
  return reply.ok('terminal_failed')
end
