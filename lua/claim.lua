-- Taking work: grants, fresh attempts, resumed attempts, take-over of abandoned ones.

-- Core fields that the claim of a managed record reads that was never claimed before; the full list for others.
claim.FIRST_FIELDS = {
  'lifecycle_phase', 'eligibility_state', 'attempt_state', 'current_lease_epoch', 'total_attempt_count', 'lane_id',
  'execution_kind', 'created_at', 'retry_count', 'flow_id', 'managed', 'node', 'required_capabilities',
  'input_count', 'uses_flow_input', 'attempt_timeout', 'start_timeout', 'blocking_detail', 'limits', 'admission', 'attached', 'fair_key',
}

-- Marks of simple members, in the core field `simple`, by what they have beyond the least: the input of their run, and a key by
-- which they share their lane.
local SIMPLE = {
  bare = {}, ['bare input'] = { input = '1' }, keyed = { keyed = true }, ['keyed input'] = { input = '1', keyed = true },
}

-- The mark of a member that is submitted without anything out of the ordinary: no timeouts, capabilities, limits, delay or
-- wait. Its first lease takes it away, and so does whatever gives it one of the fields that claim.read_simple does not read.
function claim.simple_mark(uses_input, keyed)
  if keyed then return uses_input and 'keyed input' or 'keyed' end
  return uses_input and 'bare input' or 'bare'
end

-- The core of a simple member that was never claimed; nil for any other, or when it is neither eligible nor blocked by its
-- dependencies. Nobody has to look for what it does not have: a hash is searched to its end for that.
function claim.read_simple(core_key)
  local v = redis.call('HMGET', core_key, 'simple', 'attempt_state', 'eligibility_state', 'lane_id', 'flow_id', 'node',
    'total_attempt_count', 'execution_kind', 'input_count', 'created_at', 'priority')
  local mark, eligibility = SIMPLE[v[1]], v[3]
  if not mark or v[2] ~= 'pending_first_attempt' or v[7] ~= '0'
    or eligibility ~= 'blocked_by_dependencies' and eligibility ~= 'eligible_now' then
    return nil
  end
  return {
    is_simple = true, lifecycle_phase = 'runnable', ownership_state = 'unowned', terminal_outcome = 'none', managed = '1', retry_count = '0',
    current_lease_epoch = '0', total_attempt_count = '0', attempt_state = 'pending_first_attempt',
    uses_flow_input = mark.input, eligibility_state = eligibility, lane_id = v[4] or nil,
    flow_id = v[5] or nil, node = v[6] or nil, execution_kind = v[8] or nil, input_count = v[9] or nil,
    created_at = v[10] or nil, priority = v[11] or nil,
    fair_key = mark.keyed and redis.call('HGET', core_key, 'fair_key') or nil,
  }
end

-- Core fields that a claim reads.
claim.FIELDS = {
  'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome',
  'attempt_state', 'current_lease_epoch', 'total_attempt_count', 'current_attempt_index', 'current_attempt_id',
  'started_at', 'pending_retry_reason', 'pending_previous_attempt_index', 'pending_replay_reason',
  'pending_replay_requested_by', 'pending_replay_attempt', 'required_capabilities', 'lane_id', 'current_lane',
  'flow_id', 'managed', 'node', 'execution_kind', 'created_at', 'priority', 'retry_count', 'input_count',
  'uses_flow_input', 'attempt_timeout', 'start_timeout', 'lease_reclaim_count', 'current_worker_instance_id',
  'current_worker_id', 'current_lease_id', 'lease_expires_at', 'remaining_attempt_timeout', 'attached',
  'journal', 'limits', 'admission', 'fair_key', 'blocking_detail',
}

local ATTEMPT_TYPE = { pending_retry_attempt = 'retry', pending_replay_attempt = 'replay' }

local MAX_RECLAIMS = 100

-- Puts a new lease into the indexes of leases.
local function enter_indexes(c, execution_id, w, expires)
  call.enter(c, key.index_lease_expiry(c), execution_id, expires)
  call.enter(c, key.index_worker_leases(c, w.worker_instance_id), execution_id)
  call.enter(c, key.lane_active(c, w.lane), execution_id, expires)
end

-- Writes a new lease into the core, with further fields, and into the indexes of leases.
local function write_lease(c, execution_id, core_key, w, epoch, expires, ...)
  redis.call('HSET', core_key,
    'lifecycle_phase', 'active',
    'ownership_state', 'leased',
    'eligibility_state', 'not_applicable',
    'blocking_reason', 'none',
    'attempt_state', 'running_attempt',
    'public_state', 'active',
    'current_lease_id', w.lease_id,
    'current_lease_epoch', epoch,
    'current_worker_id', w.worker_id,
    'current_worker_instance_id', w.worker_instance_id,
    'lease_acquired_at', c.now_text,
    'lease_expires_at', expires,
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
    ...)
  enter_indexes(c, execution_id, w, expires)
end

-- Writes lease, core and indexes of a new lease. `w`: worker_id, worker_instance_id, lane, lease_id, ttl,
-- renewal (ms until the renewal deadline). `values`: further core fields, `blank`: core fields to unset. Gives
-- epoch and expiry as text.
local function take_lease(c, execution_id, core_key, core, w, attempt_id, values, blank)
  local epoch = number.text((tonumber(core.current_lease_epoch) or 0) + 1)
  local expires = number.time(c.now + w.ttl)
  if core.leased_ahead then
    values[#values + 1] = 'admission'
    values[#values + 1] = core.leased_ahead
  end
  if not lease.is_plain(core) then
    values[#values + 1] = 'lease_last_renewed_at'
    values[#values + 1] = c.now_text
    values[#values + 1] = 'lease_renewal_deadline'
    values[#values + 1] = number.time(c.now + w.renewal)
  end
  if lease.has_record(core) then
    local lease_key = key.exec_lease_current(c, execution_id)
    redis.call('DEL', lease_key)
    redis.call('HSET', lease_key,
      'lease_id', w.lease_id, 'lease_epoch', epoch, 'execution_id', execution_id, 'attempt_id', attempt_id,
      'worker_id', w.worker_id, 'worker_instance_id', w.worker_instance_id,
      'acquired_at', c.now_text, 'expires_at', expires, 'last_renewed_at', c.now_text,
      'renewal_deadline', number.time(c.now + w.renewal))
  end
  write_lease(c, execution_id, core_key, w, epoch, expires, 'current_lane', w.lane,
    unpack(record.with_blanks(core.managed, values, blank)))
  record.unset(core_key, core.managed, blank)
  return epoch, expires
end

-- Marks of a lost lease, and what the text of a waiting record said.
local LOSS_FIELDS = { 'blocking_detail', 'lease_expired_at', 'lease_revoked_at', 'lease_revoke_reason' }

local PENDING_FIELDS = { 'pending_retry_reason', 'pending_replay_reason', 'pending_replay_requested_by',
  'pending_previous_attempt_index' }

local NONE, TEXT_ONLY = {}, { 'blocking_detail' }

-- Fields to unset when a new attempt starts. A managed record that was never claimed can only have the text.
local function to_unset(core, attempt_type)
  if core.managed and attempt_type == 'initial' then return is_set(core.blocking_detail) and TEXT_ONLY or NONE end
  local blank = {}
  for _, name in ipairs(LOSS_FIELDS) do blank[#blank + 1] = name end
  for _, name in ipairs(PENDING_FIELDS) do blank[#blank + 1] = name end
  for _, name in ipairs({ 'pending_replay_attempt', 'remaining_attempt_timeout' }) do
    if is_set(core[name]) then blank[#blank + 1] = name end
  end
  return blank
end

-- Writes the record of a new attempt. For managed executions, created_at, which is started_at, and the usage record
-- are left out: no function reads them.
local function open_attempt(c, execution_id, index, w, epoch, attempt_id, attempt_type, extra, managed)
  redis.call('HSET', key.attempt_record(c, execution_id, index),
    'attempt_id', attempt_id, 'execution_id', execution_id, 'attempt_index', index,
    'attempt_type', attempt_type, 'attempt_state', 'started', 'started_at', c.now_text, 'lease_id', w.lease_id, 'lease_epoch', epoch,
    'worker_id', w.worker_id, 'worker_instance_id', w.worker_instance_id, unpack(extra or NONE))
  redis.call('ZADD', key.exec_attempts(c, execution_id), c.now_text, index)
  if not managed then
    redis.call('HSET', key.attempt_record(c, execution_id, index), 'created_at', c.now_text)
    redis.call('HSET', key.attempt_usage(c, execution_id, index), 'last_usage_report_seq', '0')
  end
end

-- Starts the first attempt of a record that claim.read_simple gave, and that is in no eligible set any more. Its lane is the
-- one that its record names already.
function claim.start_simple(c, execution_id, core_key, core, w)
  local expires = number.time(c.now + w.ttl)
  redis.call('HSET', core_key,
    'lifecycle_phase', 'active',
    'ownership_state', 'leased',
    'attempt_state', 'running_attempt',
    'current_lease_id', w.lease_id,
    'lease_expires_at', expires,
    'current_worker_instance_id', w.worker_instance_id,
    'eligibility_state', 'not_applicable',
    'simple', '',
    'current_lease_epoch', '1',
    'total_attempt_count', '1',
    'current_attempt_index', '0',
    'current_attempt_id', w.attempt_id,
    'public_state', 'active',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
    'current_worker_id', w.worker_id,
    'blocking_reason', 'none',
    'lease_acquired_at', c.now_text,
    'started_at', c.now_text)
  enter_indexes(c, execution_id, w, expires)
  open_attempt(c, execution_id, '0', w, '1', w.attempt_id, 'initial', nil, true)
  return { epoch = '1', expires = expires, attempt_id = w.attempt_id, index = '0', type = 'initial' }
end

-- Starts a new attempt of a runnable record. `left` is an eligible set that it is not in, `w.attached` a mark of
-- lease.attach. Gives {lease_epoch, expires_at, attempt_id, index, type}.
function claim.start(c, execution_id, core_key, core, w, left)
  local index = tonumber(core.total_attempt_count) or 0
  local index_text = number.text(index)
  local attempt_type = ATTEMPT_TYPE[core.attempt_state] or 'initial'
  local extra = {}
  if attempt_type == 'retry' then
    extra = { 'retry_reason', core.pending_retry_reason or '',
      'previous_attempt_index', core.pending_previous_attempt_index or '' }
  elseif attempt_type == 'replay' then
    extra = { 'replay_reason', core.pending_replay_reason or '',
      'replay_requested_by', core.pending_replay_requested_by or '',
      'replayed_from_attempt_index', core.pending_previous_attempt_index or '' }
  end
  local lane = lifecycle.lane(core)
  if left ~= key.lane_eligible(c, lane) then order.leave(c, lane, execution_id, core) end
  if core.start_timeout then redis.call('ZREM', key.ffx_start_deadlines(c), execution_id) end
  local values = {
    'current_attempt_index', index_text,
    'total_attempt_count', number.text(index + 1),
    'current_attempt_id', w.attempt_id,
    'started_at', is_set(core.started_at) and core.started_at or c.now_text,
  }
  if w.attached then values[9], values[10] = 'attached', w.attached end
  local epoch, expires = take_lease(c, execution_id, core_key, core, w, w.attempt_id, values,
    to_unset(core, attempt_type))
  open_attempt(c, execution_id, index_text, w, epoch, w.attempt_id, attempt_type, extra, core.managed)
  if not core.managed then
    lease.history(c, execution_id, 'event', 'acquired', 'lease_id', w.lease_id, 'lease_epoch', epoch,
      'attempt_id', w.attempt_id, 'attempt_index', index_text, 'worker_id', w.worker_id, 'ts', c.now_text)
  end
  return { epoch = epoch, expires = expires, attempt_id = w.attempt_id, index = index_text, type = attempt_type }
end

-- Goes on with the attempt that was put aside, under what was left of its timeout unless `timeout` (ms) replaces it.
function claim.resume(c, execution_id, core_key, core, w, timeout)
  local index = core.current_attempt_index or ''
  local attempt_id = core.current_attempt_id or ''
  order.leave(c, lifecycle.lane(core), execution_id, core)
  local blank = { unpack(LOSS_FIELDS) }
  if is_set(core.remaining_attempt_timeout) then blank[#blank + 1] = 'remaining_attempt_timeout' end
  timeout = timeout or number.finite(core.remaining_attempt_timeout)
  local attached = timeout and lease.attach(core)
  local epoch, expires = take_lease(c, execution_id, core_key, core, w, attempt_id,
    attached and { 'attached', attached } or {}, blank)
  if timeout then
    redis.call('ZADD', key.index_attempt_timeout(c), c.now + timeout, execution_id)
    if core.managed then wake.due(c, c.now + timeout) end
  end
  record.write(key.attempt_record(c, execution_id, index), core.managed, {
    'attempt_state', 'started', 'resumed_at', c.now_text, 'lease_id', w.lease_id, 'lease_epoch', epoch,
    'worker_id', w.worker_id, 'worker_instance_id', w.worker_instance_id,
  }, { 'suspended_at', 'suspension_id' })
  if not core.managed then
    lease.history(c, execution_id, 'event', 'acquired', 'lease_id', w.lease_id, 'lease_epoch', epoch,
      'attempt_index', index, 'attempt_id', attempt_id, 'worker_id', w.worker_id,
      'reason', 'claim_resumed', 'ts', c.now_text)
  end
  return { epoch = epoch, expires = expires, attempt_id = attempt_id, index = index, type = 'resumed' }
end

-- How often an execution may be taken over before it is given up.
local function reclaim_limit(c, execution_id)
  return number.finite(record.policy(key.exec_policy(c, execution_id)).max_reclaim_count) or MAX_RECLAIMS
end

-- An execution that lost its owner too often fails for good.
local function give_up_reclaiming(c, execution_id, core_key, core, worker_set)
  lifecycle.end_attempt(c, execution_id, core, 'ended_failure', 'failure_reason', 'max_reclaims_exceeded')
  if is_set(core.current_attempt_index) then
    lease.close_stream(c, execution_id, core.current_attempt_index, 'attempt_failure', true)
  end
  lifecycle.released(c, execution_id, core,
    { lease_id = core.current_lease_id, lease_epoch = core.current_lease_epoch }, 'max_reclaims_exceeded')
  lease.drop(c, execution_id, core, worker_set)
  lifecycle.finish(c, execution_id, core_key, core, {
    outcome = 'failed', attempt_state = 'attempt_terminal', blank = lifecycle.LEASE_AND_LOSS_FIELDS,
    values = { 'failure_reason', 'max_reclaims_exceeded' }, reason = 'max_reclaims_exceeded',
    category = 'worker_lost',
  })
end

-- Takes an abandoned execution over with a new attempt; nil when it was given up instead.
function claim.take_over(c, execution_id, core_key, core, w, worker_set)
  local reclaims = tonumber(core.lease_reclaim_count) or 0
  if reclaims >= reclaim_limit(c, execution_id) then
    give_up_reclaiming(c, execution_id, core_key, core, worker_set)
    return nil
  end
  local old_index = core.current_attempt_index or ''
  local lost = 'lease_' .. core.ownership_state
  lifecycle.end_attempt(c, execution_id, core, 'interrupted_reclaimed', 'failure_reason', lost)
  lease.close_stream(c, execution_id, old_index, 'reclaimed')
  lease.drop(c, execution_id, core)
  local index = tonumber(core.total_attempt_count) or 0
  local index_text = number.text(index)
  local epoch, expires = take_lease(c, execution_id, core_key, core, w, w.attempt_id, {
    'current_attempt_index', index_text,
    'total_attempt_count', number.text(index + 1),
    'current_attempt_id', w.attempt_id,
    'lease_reclaim_count', number.text(reclaims + 1),
  }, { unpack(LOSS_FIELDS) })
  open_attempt(c, execution_id, index_text, w, epoch, w.attempt_id, 'reclaim',
    { 'reclaim_reason', lost, 'previous_attempt_index', old_index }, core.managed)
  lease.history(c, execution_id, 'event', 'reclaimed', 'old_lease_epoch', core.current_lease_epoch or '',
    'new_lease_id', w.lease_id, 'new_lease_epoch', epoch, 'new_attempt_id', w.attempt_id,
    'new_attempt_index', index_text, 'worker_id', w.worker_id, 'ts', c.now_text)
  return { epoch = epoch, expires = expires, attempt_id = w.attempt_id, index = index_text, type = 'reclaim' }
end

function claim.is_abandoned(core)
  return core.lifecycle_phase == 'active' and (core.ownership_state == 'lease_expired_reclaimable'
    or core.ownership_state == 'lease_revoked')
end

-- A grant is good for the worker, the instance and the lane that it names. Nil, or the error reply.
function claim.check_grant(c, grant_key, A)
  local grant = record.read(grant_key,
    { 'worker_id', 'worker_instance_id', 'lane_id', 'grant_expires_at', 'kind' })
  if not grant or grant.worker_id ~= A.worker_id then return reply.err('invalid_claim_grant') end
  if is_set(grant.grant_expires_at) and (tonumber(grant.grant_expires_at) or 0) < c.now then
    return reply.err('claim_grant_expired')
  end
  if is_set(grant.worker_instance_id) and grant.worker_instance_id ~= A.worker_instance_id then
    return reply.err('invalid_claim_grant')
  end
  if is_set(grant.lane_id) and grant.lane_id ~= A.lane_id then return reply.err('invalid_claim_grant') end
  return nil
end

-- Capability rules of a grant: nil, or the error reply.
local function check_capabilities(c, core_key, required_csv, offered_csv)
  local required, err = capability.parse(required_csv, 'required')
  if err then return err end
  local offered
  offered, err = capability.parse(offered_csv, 'worker')
  if err then return err end
  local missing = capability.missing(required, offered)
  if missing == '' then return nil end
  record.note_refusal(c, core_key, 'last_capability_mismatch_at')
  return reply.err('capability_mismatch', missing)
end

-- Writes a grant: `A` names the worker and the lane.
function claim.write_grant(c, grant_key, A, ttl)
  local expires = c.now + ttl
  redis.call('HSET', grant_key,
    'worker_id', A.worker_id, 'worker_instance_id', A.worker_instance_id, 'lane_id', A.lane_id,
    'capability_hash', A.capability_hash or '', 'route_snapshot_json', A.route_snapshot_json or '',
    'admission_summary', A.admission_summary or '', 'created_at', c.now_text,
    'grant_expires_at', number.text(expires))
  redis.call('PEXPIREAT', grant_key, expires)
end

-- @arguments grant execution_id:execution_id worker_id:worker_id worker_instance_id:worker_instance_id
--            lane_id:lane_id capability_hash:text? grant_ttl_ms:ms route_snapshot_json:json? admission_summary:text?
--            worker_capabilities_csv:csv?

-- @function ff_issue_claim_grant
-- @summary  Reserves one eligible execution for one worker for a short time.
-- @key      core            exec.core
-- @key      claim_grant     exec.claim_grant
-- @key      eligible        lane.eligible
-- @include  grant
-- @reply    OK execution_id:execution_id
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    execution_not_eligible
-- @error    grant_already_exists
-- @error    execution_not_in_eligible_set
-- @error    invalid_capabilities reason:text
-- @error    capability_mismatch missing:csv
-- @writes_on capability_mismatch core
function F.ff_issue_claim_grant(K, A)
  local ttl, err = number.whole('grant_ttl_ms', A.grant_ttl_ms)
  if err then return err end
  local c = call.open(K.core)
  local core = record.read(K.core, { 'lifecycle_phase', 'eligibility_state', 'required_capabilities' })
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'runnable' or core.eligibility_state ~= 'eligible_now' then
    return reply.err('execution_not_eligible')
  end
  if redis.call('EXISTS', K.claim_grant) == 1 then return reply.err('grant_already_exists') end
  if not redis.call('ZSCORE', K.eligible, A.execution_id) then
    return reply.err('execution_not_in_eligible_set')
  end
  err = check_capabilities(c, K.core, core.required_capabilities, A.worker_capabilities_csv)
  if err then return err end
  claim.write_grant(c, K.claim_grant, A, ttl)
  return reply.ok(A.execution_id)
end

-- @function ff_issue_reclaim_grant
-- @summary  Reserves one abandoned execution for one worker for a short time.
-- @key      core            exec.core
-- @key      claim_grant     exec.claim_grant
-- @key      lease_expiry    index.lease_expiry
-- @include  grant
-- @reply    OK execution_id:execution_id
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    execution_not_reclaimable
-- @error    grant_already_exists
-- @error    invalid_capabilities reason:text
-- @error    capability_mismatch missing:csv
-- @writes_on capability_mismatch core
function F.ff_issue_reclaim_grant(K, A)
  local ttl, err = number.whole('grant_ttl_ms', A.grant_ttl_ms)
  if err then return err end
  local c = call.open(K.core)
  local core = record.read(K.core, { 'lifecycle_phase', 'ownership_state', 'required_capabilities' })
  if not core then return reply.err('execution_not_found') end
  if not claim.is_abandoned(core) then return reply.err('execution_not_reclaimable') end
  if redis.call('EXISTS', K.claim_grant) == 1 then return reply.err('grant_already_exists') end
  err = check_capabilities(c, K.core, core.required_capabilities, A.worker_capabilities_csv)
  if err then return err end
  claim.write_grant(c, K.claim_grant, A, ttl)
  return reply.ok(A.execution_id)
end

-- Length of the lease that a claim asks for, and when it is to be renewed.
local function parse_lease(A)
  local n, err = {}, nil
  n.ttl, err = number.lease_ttl(A.lease_ttl_ms)
  if err then return nil, err end
  n.renewal, err = number.whole('renew_before_ms', A.renew_before_ms)
  if err then return nil, err end
  return n
end

-- Limits and policy of the attempt that a claim asks for, converted before anything is written. Nil, or the error reply.
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

-- What suffices to know of a record that was never claimed.
local STARTABLE_FIELDS = {
  'lifecycle_phase', 'ownership_state', 'eligibility_state', 'attempt_state', 'terminal_outcome',
  'current_lease_epoch', 'total_attempt_count', 'lane_id', 'started_at', 'managed', 'current_attempt_index', 'fair_key',
}

-- Whether a runnable record may start a new attempt: nil, or the error reply.
local function check_startable(core)
  if core.lifecycle_phase ~= 'runnable' then return reply.err('execution_not_leaseable') end
  if core.ownership_state ~= 'unowned' then return reply.err('lease_conflict') end
  if core.eligibility_state ~= 'eligible_now' then return reply.err('execution_not_leaseable') end
  if core.terminal_outcome ~= 'none' then return reply.err('execution_not_leaseable') end
  if core.attempt_state == 'running_attempt' then return reply.err('active_attempt_exists') end
  if core.attempt_state == 'attempt_interrupted' then return reply.err('use_claim_resumed_execution') end
  return nil
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
  err = check_startable(core) or claim.check_grant(c, K.claim_grant, A) or parse_attempt(A, n)
  if err then return err end

  redis.call('DEL', K.claim_grant)
  order.leave(c, lifecycle.lane(core), A.execution_id, core, K.eligible)
  local timed = n.timeout ~= 0 or n.deadline ~= 0
  local attempt = claim.start(c, A.execution_id, K.core, core, {
    worker_id = A.worker_id, worker_instance_id = A.worker_instance_id, lane = A.lane_id,
    lease_id = A.lease_id, attempt_id = A.attempt_id, ttl = n.ttl, renewal = n.renewal,
    attached = timed and lease.attach(core) or nil,
  }, K.eligible)
  if #n.policy > 0 then
    call.chunked('HSET', key.attempt_policy(c, A.execution_id, attempt.index), n.policy)
  end
  if n.timeout ~= 0 then redis.call('ZADD', K.attempt_timeout, c.now + n.timeout, A.execution_id) end
  if n.deadline ~= 0 then redis.call('ZADD', K.execution_deadline, n.deadline, A.execution_id) end
  if core.managed then graph.event(c, core, 'started', attempt.index, A.worker_instance_id) end
  return reply.ok(A.lease_id, attempt.epoch, attempt.expires, attempt.attempt_id, attempt.index, attempt.type)
end

-- @function ff_claim_resumed_execution
-- @summary  Consumes a grant and goes on with the attempt that was put aside, under a new lease. Without a remaining
--           timeout from the caller, what was left of the attempt's timeout counts.
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
  err = claim.check_grant(c, K.claim_grant, A)
  if err then
    if err[2] == 'claim_grant_expired' then redis.call('DEL', K.claim_grant) end
    return err
  end
  local remaining
  remaining, err = number.optional('remaining_attempt_timeout_ms', A.remaining_attempt_timeout_ms, 0)
  if err then return err end

  redis.call('DEL', K.claim_grant)
  order.leave(c, lifecycle.lane(core), A.execution_id, core, K.eligible)
  local attempt = claim.resume(c, A.execution_id, K.core, core, {
    worker_id = A.worker_id, worker_instance_id = A.worker_instance_id, lane = A.lane_id,
    lease_id = A.lease_id, ttl = ttl, renewal = math.floor(ttl * 2 / 3),
  }, remaining > 0 and remaining or nil)
  if core.managed then
    graph.event(c, core, 'resumed', attempt.index, A.worker_instance_id)
    wake.flush(c)
  end
  return reply.ok(A.lease_id, attempt.epoch, attempt.expires, attempt.attempt_id, attempt.index, attempt.type)
end

-- @function ff_reclaim_execution
-- @summary  Takes over an execution whose lease was lost, with a new attempt. At the limit of take-overs the
--           execution fails for good, which the error tells.
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
-- @writes_on max_retries_exhausted exec.core lease_history claim_grant attempt.record stream.meta lease_current
--           lease_expiry worker_leases active lane.terminal attempt_timeout execution_deadline flow.core flow.events
--           ffx.reclaimable
function F.ff_reclaim_execution(K, A)
  local ttl, err = number.lease_ttl(A.lease_ttl_ms)
  if err then return err end
  local c = call.open(K.core)
  local core = record.read(K.core, claim.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if not claim.is_abandoned(core) then return reply.err('execution_not_reclaimable') end
  err = claim.check_grant(c, K.claim_grant, A)
  if err then return err end

  redis.call('DEL', K.claim_grant)
  local attempt = claim.take_over(c, A.execution_id, K.core, core, {
    worker_id = A.worker_id, worker_instance_id = A.worker_instance_id, lane = A.lane_id,
    lease_id = A.lease_id, attempt_id = A.attempt_id, ttl = ttl, renewal = math.floor(ttl * 2 / 3),
  }, K.worker_leases)
  if not attempt then
    graph.settle(c)
    return reply.err('max_retries_exhausted')
  end
  if core.managed then graph.event(c, core, 'reclaimed', attempt.index, A.worker_instance_id) end
  return reply.ok(A.lease_id, attempt.epoch, attempt.expires, attempt.attempt_id, attempt.index, attempt.type)
end
