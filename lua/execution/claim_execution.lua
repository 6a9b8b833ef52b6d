-- The contract's calls by which a worker leases an execution that it has a grant for: fresh, resumed or abandoned executions.

-- Returns the length of the lease that a claim requests, and the time of its renewal.
local function parse_lease(A)
  local n, err = {}, nil
  n.ttl, err = number.lease_ttl(A.lease_ttl_ms)
  if err then return nil, err end
  n.renewal, err = number.whole('renew_before_ms', A.renew_before_ms)
  if err then return nil, err end
  return n
end

-- Converts the limits and the policy of the attempt that a claim requests, before anything is written. Returns nil, or the error
-- reply.
local function parse_attempt(A, n)
  local err
  n.timeout, err = number.optional('attempt_timeout_ms', A.attempt_timeout_ms, 0)
  if err then return err end
  n.deadline, err = number.optional('execution_deadline_at', A.execution_deadline_at, 0)
  if err then return err end
  n.policy = {}
  if is_set(A.attempt_policy_json) then
    local ok, policy = pcall(cjson.decode, A.attempt_policy_json)
    if not ok or type(policy) ~= 'table' then
      return reply.err('invalid_policy_json', 'malformed')
    end
    for name, value in pairs(policy) do
      n.policy[#n.policy + 1] = tostring(name)
      n.policy[#n.policy + 1] = type(value) == 'table' and cjson.encode(value) or tostring(value)
    end
  end
  return nil
end

-- The fields that suffice to start a record which was never claimed.
local STARTABLE_FIELDS = {
  'lifecycle_phase', 'ownership_state', 'eligibility_state', 'attempt_state', 'terminal_outcome',
  'current_lease_epoch', 'total_attempt_count', 'lane_id', 'started_at', 'managed', 'current_attempt_index', 'fair_key',
}

-- Checks whether a runnable record may start a new attempt. Returns nil, or the error reply.
local function check_startable(core)
  if core.lifecycle_phase ~= 'runnable' then return reply.err('execution_not_leaseable') end
  if core.ownership_state ~= 'unowned' then return reply.err('lease_conflict') end
  if core.eligibility_state ~= 'eligible_now' then return reply.err('execution_not_leaseable') end
  if core.terminal_outcome ~= 'none' then return reply.err('execution_not_leaseable') end
  if core.attempt_state == 'running_attempt' then return reply.err('active_attempt_exists') end
  if core.attempt_state == 'attempt_interrupted' then return reply.err('use_claim_resumed_execution') end
  return nil
end

-- Notifies keepers of the end of a new lease of `ttl` (ms), and of other times that the call made due.
local function announce_lease(c, core, ttl)
  wake.due_for(c, core, c.now + ttl)
  wake.flush(c)
end

-- @function ff_claim_execution
-- @summary  Consumes a grant: new attempt and lease, runnable becomes active.
-- @flags    derives
-- @key      core            exec.core
-- @key      claim_grant     exec.claim_grant
-- @key      eligible        lane.eligible
-- @key      lease_expiry    index.lease_expiry
-- @key      worker_leases   index.worker_leases
-- @key      attempt         attempt.record
-- @key      attempt_usage   attempt.usage
-- @key      attempt_policy  attempt.policy
-- @key      attempts        exec.attempts
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      active          lane.active
-- @key      attempt_timeout index.attempt_timeout
-- @key      execution_deadline index.execution_deadline
-- @arg      execution_id    execution_id
-- @arg      worker_id       worker_id
-- @arg      worker_instance_id worker_instance_id
-- @arg      lane_id         lane_id
-- @arg      capability_hash text optional
-- @arg      lease_id        lease_id
-- @arg      lease_ttl_ms    ms
-- @arg      renew_before_ms ms
-- @arg      attempt_id      attempt_id
-- @arg      attempt_policy_json json optional
-- @arg      attempt_timeout_ms ms optional
-- @arg      execution_deadline_at unix_ms optional
-- @reply    OK lease_id:lease_id lease_epoch:lease_epoch lease_expires_at:unix_ms attempt_id:attempt_id
--           attempt_index:attempt_index attempt_type:text
-- @error    invalid_input message:text
-- @error    invalid_policy_json reason:text
-- @error    execution_not_found
-- @error    execution_not_leaseable
-- @error    lease_conflict
-- @error    active_attempt_exists
-- @error    use_claim_resumed_execution
-- @error    invalid_claim_grant
-- @error    claim_grant_expired
function F.ff_claim_execution(K, A)
  local n, err = parse_lease(A)
  if err then return err end
  local c = call.open(K.core)
  local core = record.read(K.core, STARTABLE_FIELDS)
  if core and (core.managed or core.attempt_state ~= 'pending_first_attempt') then
    core = record.read(K.core, claim.FIELDS)
  end
  if not core then return reply.err('execution_not_found') end
  err = check_startable(core) or grant.check(c, K.claim_grant, A) or parse_attempt(A, n)
  if err then return err end

  redis.call('DEL', K.claim_grant)
  order.leave(c, record.lane(core), A.execution_id, core, K.eligible)
  local timed = n.timeout ~= 0 or n.deadline ~= 0
  local attempt = claim.start(c, A.execution_id, K.core, core, {
    worker_id = A.worker_id, worker_instance_id = A.worker_instance_id, lane = A.lane_id,
    lease_id = A.lease_id, attempt_id = A.attempt_id, ttl = n.ttl, renewal = n.renewal,
    attached = timed and lease.attach(core) or nil,
  }, order.index(c, record.lane(core), core, K.eligible) == order.index(c, record.lane(core), core))
  if #n.policy > 0 then
    call.chunked('HSET', key.attempt_policy(c, A.execution_id, attempt.index), n.policy)
  end
  if n.timeout ~= 0 then
    redis.call('ZADD', K.attempt_timeout, c.now + n.timeout, A.execution_id)
    wake.due_for(c, core, c.now + n.timeout)
  end
  if n.deadline ~= 0 then
    redis.call('ZADD', K.execution_deadline, n.deadline, A.execution_id)
    wake.due_for(c, core, n.deadline)
  end
  if core.managed then event_log.note(c, A.execution_id, core, 'started', attempt.index, A.worker_instance_id) end
  announce_lease(c, core, n.ttl)
  return reply.ok(A.lease_id, attempt.epoch, attempt.expires, attempt.attempt_id, attempt.index, attempt.type)
end

-- @function ff_claim_resumed_execution
-- @summary  Consumes a grant and continues the attempt that was put aside, under a new lease. Without a remaining timeout from
--           the caller, the rest of the attempt's timeout counts.
-- @flags    derives
-- @key      core            exec.core
-- @key      claim_grant     exec.claim_grant
-- @key      eligible        lane.eligible
-- @key      lease_expiry    index.lease_expiry
-- @key      worker_leases   index.worker_leases
-- @key      attempt         attempt.record
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      active          lane.active
-- @key      attempt_timeout index.attempt_timeout
-- @key      execution_deadline index.execution_deadline
-- @arg      execution_id    execution_id
-- @arg      worker_id       worker_id
-- @arg      worker_instance_id worker_instance_id
-- @arg      lane_id         lane_id
-- @arg      capability_hash text optional
-- @arg      lease_id        lease_id
-- @arg      lease_ttl_ms    ms
-- @arg      remaining_attempt_timeout_ms ms optional
-- @reply    OK lease_id:lease_id lease_epoch:lease_epoch lease_expires_at:unix_ms attempt_id:attempt_id
--           attempt_index:attempt_index attempt_type:text
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    execution_not_leaseable
-- @error    not_a_resumed_execution
-- @error    invalid_claim_grant
-- @error    claim_grant_expired
-- @writes_on claim_grant_expired claim_grant
function F.ff_claim_resumed_execution(K, A)
  local ttl, err = number.lease_ttl(A.lease_ttl_ms)
  if err then return err end
  local c = call.open(K.core)
  local core = record.read(K.core, claim.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'runnable' then return reply.err('execution_not_leaseable') end
  if core.attempt_state ~= 'attempt_interrupted' then return reply.err('not_a_resumed_execution') end
  if core.eligibility_state ~= 'eligible_now' then return reply.err('execution_not_leaseable') end
  err = grant.check(c, K.claim_grant, A)
  if err then
    if err[2] == 'claim_grant_expired' then redis.call('DEL', K.claim_grant) end
    return err
  end
  local remaining
  remaining, err = number.optional('remaining_attempt_timeout_ms', A.remaining_attempt_timeout_ms, 0)
  if err then return err end

  redis.call('DEL', K.claim_grant)
  order.leave(c, record.lane(core), A.execution_id, core, K.eligible)
  local attempt = claim.resume(c, A.execution_id, K.core, core, {
    worker_id = A.worker_id, worker_instance_id = A.worker_instance_id, lane = A.lane_id,
    lease_id = A.lease_id, ttl = ttl, renewal = math.floor(ttl * 2 / 3),
  }, remaining > 0 and remaining or nil)
  if core.managed then
    event_log.add_for(c, core, 'resumed', attempt.index, A.worker_instance_id)
  end
  announce_lease(c, core, ttl)
  return reply.ok(A.lease_id, attempt.epoch, attempt.expires, attempt.attempt_id, attempt.index, attempt.type)
end

-- @function ff_reclaim_execution
-- @summary  Takes over an execution whose lease was lost, with a new attempt. At the limit of take-overs the execution fails for
--           good, and the call returns an error.
-- @flags    derives
-- @key      core            exec.core
-- @key      claim_grant     exec.claim_grant
-- @key      old_attempt     attempt.record(attempt_index=old_attempt_index)
-- @key      old_stream_meta stream.meta(attempt_index=old_attempt_index)
-- @key      attempt         attempt.record
-- @key      attempt_usage   attempt.usage
-- @key      attempts        exec.attempts
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      lease_expiry    index.lease_expiry
-- @key      worker_leases   index.worker_leases
-- @key      active          lane.active
-- @key      attempt_timeout index.attempt_timeout
-- @key      execution_deadline index.execution_deadline
-- @arg      execution_id    execution_id
-- @arg      worker_id       worker_id
-- @arg      worker_instance_id worker_instance_id
-- @arg      lane_id         lane_id
-- @arg      lease_id        lease_id
-- @arg      lease_ttl_ms    ms
-- @arg      attempt_id      attempt_id
-- @arg      attempt_policy_json json optional
-- @reply    OK lease_id:lease_id lease_epoch:lease_epoch lease_expires_at:unix_ms attempt_id:attempt_id
--           attempt_index:attempt_index attempt_type:text
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    execution_not_reclaimable
-- @error    invalid_claim_grant
-- @error    claim_grant_expired
-- @error    max_retries_exhausted
-- @writes_on max_retries_exhausted exec.core lease_history claim_grant attempt.record stream.meta lease_current ffx.feed
--           lease_expiry worker_leases active lane.terminal attempt_timeout execution_deadline flow.core flow.events
--           ffx.reclaimable ffx.tagged_runs
function F.ff_reclaim_execution(K, A)
  local ttl, err = number.lease_ttl(A.lease_ttl_ms)
  if err then return err end
  local c = call.open(K.core)
  local core = record.read(K.core, claim.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if not claim.is_abandoned(core) then return reply.err('execution_not_reclaimable') end
  err = grant.check(c, K.claim_grant, A)
  if err then return err end

  redis.call('DEL', K.claim_grant)
  local attempt = claim.take_over(c, A.execution_id, K.core, core, {
    worker_id = A.worker_id, worker_instance_id = A.worker_instance_id, lane = A.lane_id,
    lease_id = A.lease_id, attempt_id = A.attempt_id, ttl = ttl, renewal = math.floor(ttl * 2 / 3),
  }, K.worker_leases)
  if not attempt then
    settle.run(c)
    return reply.err('max_retries_exhausted')
  end
  if core.managed then event_log.add_for(c, core, 'reclaimed', attempt.index, A.worker_instance_id) end
  announce_lease(c, core, ttl)
  return reply.ok(A.lease_id, attempt.epoch, attempt.expires, attempt.attempt_id, attempt.index, attempt.type)
end
