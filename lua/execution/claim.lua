-- Leases an execution: with a new attempt, with a resumed one, or after its worker abandoned it.

-- Core fields that a claim reads of a managed record that was never claimed; it reads the full list of others.
claim.FIRST_FIELDS = {
  'lifecycle_phase', 'eligibility_state', 'attempt_state', 'current_lease_epoch', 'total_attempt_count', 'lane_id',
  'execution_kind', 'created_at', 'retry_count', 'flow_id', 'managed', 'node', 'required_capabilities',
  'input_count', 'uses_flow_input', 'attempt_timeout', 'start_timeout', 'blocking_detail', 'limits', 'admission', 'attached', 'fair_key',
  'priority',
}

-- Returns the core fields that a claim reads.
-- It is built in a function: elements of a list take variables, and the library's modules leave few to the text of a file.
local function all_fields()
  return {
    'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome',
    'attempt_state', 'current_lease_epoch', 'total_attempt_count', 'current_attempt_index', 'current_attempt_id',
    'started_at', 'pending_retry_reason', 'pending_previous_attempt_index', 'pending_replay_reason',
    'pending_replay_requested_by', 'pending_replay_attempt', 'required_capabilities', 'lane_id', 'current_lane',
    'flow_id', 'managed', 'node', 'execution_kind', 'created_at', 'priority', 'retry_count', 'input_count',
    'uses_flow_input', 'attempt_timeout', 'start_timeout', 'lease_reclaim_count', 'current_worker_instance_id',
    'current_worker_id', 'current_lease_id', 'lease_expires_at', 'remaining_attempt_timeout', 'attached',
    'journal', 'limits', 'admission', 'fair_key', 'blocking_detail',
  }
end

-- Core fields that a claim reads.
claim.FIELDS = all_fields()

local ATTEMPT_TYPE = { pending_retry_attempt = 'retry', pending_replay_attempt = 'replay' }

local MAX_RECLAIMS = 100

-- Enters a new lease into the indexes of leases. A row itself names the worker.
local function enter_indexes(c, execution_id, core_key, w, expires)
  call.enter(c, key.index_lease_expiry(c), execution_id, expires)
  if store.row(core_key) then return end
  call.enter(c, key.index_worker_leases(c, w.worker_instance_id), execution_id)
  call.enter(c, key.lane_active(c, w.lane), execution_id, expires)
end

-- Writes a new lease into the core, with further fields, and into the indexes of leases.
local function write_lease(c, execution_id, core_key, w, epoch, expires, ...)
  record.set(core_key,
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
  enter_indexes(c, execution_id, core_key, w, expires)
end

-- Writes lease, core and indexes of a new lease. `w`: worker_id, worker_instance_id, lane, lease_id, ttl, renewal (ms until the
-- renewal deadline). `values`: further core fields, `blank`: core fields to unset. Returns epoch and expiry as text.
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

-- Fields that mark a lost lease, and the text of a waiting record.
local LOSS_FIELDS = { 'blocking_detail', 'lease_expired_at', 'lease_revoked_at', 'lease_revoke_reason' }

local PENDING_FIELDS = { 'pending_retry_reason', 'pending_replay_reason', 'pending_replay_requested_by',
  'pending_previous_attempt_index' }

local NONE, TEXT_ONLY = {}, { 'blocking_detail' }

-- Returns the fields to unset when a new attempt starts. A managed record that was never claimed can only have the text.
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

-- Starts a new attempt of a runnable record. `left`: the record is not in the eligible set of its lane. `w.attached` is a mark of
-- lease.attach. Returns {lease_epoch, expires_at, attempt_id, index, type}.
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
  local lane = record.lane(core)
  if not left then order.leave(c, lane, execution_id, core) end
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
  -- The first attempt of a node with a row is stored in the row: see attempt_record.
  if index > 0 or attempt_type ~= 'initial' or not store.row(core_key) then
    attempt_record.open(c, execution_id, index_text, w, epoch, w.attempt_id, attempt_type, extra, core.managed)
  end
  if not core.managed then
    lease.history(c, execution_id, 'event', 'acquired', 'lease_id', w.lease_id, 'lease_epoch', epoch,
      'attempt_id', w.attempt_id, 'attempt_index', index_text, 'worker_id', w.worker_id, 'ts', c.now_text)
  end
  return { epoch = epoch, expires = expires, attempt_id = w.attempt_id, index = index_text, type = attempt_type }
end

-- Continues the attempt that was put aside, with the rest of its timeout unless `timeout` (ms) replaces it.
function claim.resume(c, execution_id, core_key, core, w, timeout)
  local index = core.current_attempt_index or ''
  local attempt_id = core.current_attempt_id or ''
  order.leave(c, record.lane(core), execution_id, core)
  local blank = { unpack(LOSS_FIELDS) }
  if is_set(core.remaining_attempt_timeout) then blank[#blank + 1] = 'remaining_attempt_timeout' end
  timeout = timeout or number.finite(core.remaining_attempt_timeout)
  local attached, values = timeout and lease.attach(core), {}
  if attached then values = { 'attached', attached } end
  -- Losses in a row count: a managed execution that has made progress starts again at 0.
  if core.managed and (tonumber(core.lease_reclaim_count) or 0) > 0 then
    values[#values + 1] = 'lease_reclaim_count'
    values[#values + 1] = '0'
  end
  local epoch, expires = take_lease(c, execution_id, core_key, core, w, attempt_id, values, blank)
  if timeout then
    call.enter(c, key.index_attempt_timeout(c), execution_id, c.now + timeout)
    wake.due_for(c, core, c.now + timeout)
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

-- Returns how often an execution may be taken over before it is given up.
function claim.reclaim_limit(c, execution_id)
  return number.finite(policies.of(c, execution_id).max_reclaim_count) or MAX_RECLAIMS
end

-- Fails an execution for good that lost its owner too often.
local function give_up_reclaiming(c, execution_id, core_key, core, worker_set, reclaims)
  local reason, values = 'max_reclaims_exceeded', nil
  if core.managed then
    reason = 'its worker was lost' .. (reclaims > 0 and ' ' .. number.text(reclaims + 1) .. ' times' or '')
    values = { 'failure_reason', reason, 'failure_category', 'worker_lost' }
  end
  attempt_record.finish(c, execution_id, core, 'ended_failure', 'failure_reason', reason)
  if is_set(core.current_attempt_index) then
    lease.close_stream(c, execution_id, core.current_attempt_index, 'attempt_failure', true)
  end
  terminal.released(c, execution_id, core,
    { lease_id = core.current_lease_id, lease_epoch = core.current_lease_epoch }, 'max_reclaims_exceeded')
  lease.drop(c, execution_id, core, worker_set)
  terminal.finish(c, execution_id, core_key, core, {
    outcome = 'failed', attempt_state = 'attempt_terminal', blank = terminal.LEASE_AND_LOSS_FIELDS,
    values = values or { 'failure_reason', reason }, reason = reason, category = 'worker_lost',
  })
end

-- Takes over an abandoned execution with a new attempt. Returns nil when it was given up instead.
function claim.take_over(c, execution_id, core_key, core, w, worker_set)
  local reclaims = tonumber(core.lease_reclaim_count) or 0
  if reclaims >= claim.reclaim_limit(c, execution_id) then
    give_up_reclaiming(c, execution_id, core_key, core, worker_set, reclaims)
    return nil
  end
  local old_index = core.current_attempt_index or ''
  local lost = 'lease_' .. core.ownership_state
  attempt_record.finish(c, execution_id, core, 'interrupted_reclaimed', 'failure_reason', lost)
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
  attempt_record.open(c, execution_id, index_text, w, epoch, w.attempt_id, 'reclaim',
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
