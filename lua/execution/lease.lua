-- Leases: history, renewal, expiry.

local HISTORY_LENGTH = 1000

-- An expired execution that was not taken over yet is checked again after this time (ms), so it does not hide newer expiries at
-- the head of the index.
local RECLAIM_BACKOFF_MS = 10000

-- Adds an entry to the history of an execution's leases. For managed executions it contains unusual events only: the attempt's
-- record and the flow's event log already contain each lease that was taken or given back, and a stream takes at least 4 KB.
function lease.history(c, execution_id, ...)
  redis.call('XADD', key.exec_lease_history(c, execution_id), 'MAXLEN', '~', c.history_length or HISTORY_LENGTH,
    '*', ...)
end

-- The core field `attached` of a managed record states which data it may have beyond a lease: with lease.TIMED, a timeout of its
-- attempts; with '1', also an output stream and the times of a renewal; with 'lease', also the lease record of the contract. A
-- record has 'lease' when it was not a member of a flow before. Other managed records have none of these: the lease record only
-- repeats the core.
lease.TIMED = 'timeout'

-- Reports whether a record has nothing beyond a lease, except a timeout.
function lease.is_plain(core)
  local attached = core.attached
  return core.managed ~= nil and (not is_set(attached) or attached == lease.TIMED)
end

function lease.has_record(core)
  return core.managed == nil or core.attached == 'lease'
end

-- Returns the value of `attached` for a record that gets a stream or a timeout; nil when it need not change.
function lease.attach(core)
  if lease.is_plain(core) then return '1' end
  return nil
end

-- Removes an execution from all indexes that contain only leased executions. `plain`: see lease.is_plain.
function lease.drop(c, execution_id, core, named_worker_set, plain)
  local is_row = store.row(key.exec_core(c, execution_id)) ~= nil
  if not plain and not is_row then redis.call('DEL', key.exec_lease_current(c, execution_id)) end
  if not plain or is_set(core.attached) then call.leave(c, 'ZREM', key.index_attempt_timeout(c), execution_id) end
  call.leave(c, 'ZREM', key.index_lease_expiry(c), execution_id)
  if is_row then
    if core.ownership_state ~= 'leased' then
      redis.call('ZREM', key.ffx_reclaimable(call.home(c), record.running_lane(core)), execution_id)
    end
    return
  end
  call.leave(c, 'ZREM', key.lane_active(c, record.running_lane(core)), execution_id)
  if is_set(core.current_lane) and core.current_lane ~= core.lane_id and is_set(core.lane_id) then
    redis.call('ZREM', key.lane_active(c, core.lane_id), execution_id)
  end
  lease.leave_worker(c, execution_id, core, named_worker_set)
  if core.ownership_state ~= 'leased' then
    redis.call('ZREM', key.ffx_reclaimable(call.home(c), record.running_lane(core)), execution_id)
  end
end

-- Removes an execution from its worker's set: the set that the record names, and the caller's when it named another.
function lease.leave_worker(c, execution_id, core, named_worker_set)
  local worker_set
  if is_set(core.current_worker_instance_id) then
    worker_set = key.index_worker_leases(c, core.current_worker_instance_id)
    call.leave(c, 'SREM', worker_set, execution_id)
  end
  if is_set(named_worker_set) and named_worker_set ~= worker_set then
    redis.call('SREM', named_worker_set, execution_id)
  end
end

-- Ends the output stream of an attempt, when it has one.
function lease.close_stream(c, execution_id, attempt_index, reason, only_open)
  local meta = key.stream_meta(c, execution_id, attempt_index)
  if redis.call('EXISTS', meta) == 0 then return end
  if only_open and is_set(redis.call('HGET', meta, 'closed_at')) then return end
  redis.call('HSET', meta, 'closed_at', c.now_text, 'closed_reason', reason)
end

-- Marks an expired lease as reclaimable. It does nothing when the mark exists.
function lease.mark_expired(c, core_key, core)
  if core.ownership_state == 'lease_expired_reclaimable' then return end
  local execution_id = core.execution_id or ''
  record.set(core_key,
    'lifecycle_phase', core.lifecycle_phase or 'active',
    'ownership_state', 'lease_expired_reclaimable',
    'eligibility_state', core.eligibility_state or 'not_applicable',
    'blocking_reason', 'waiting_for_worker',
    'blocking_detail', 'lease expired, awaiting reclaim',
    'terminal_outcome', core.terminal_outcome or 'none',
    'attempt_state', 'attempt_interrupted',
    'public_state', 'active',
    'lease_expired_at', c.now_text,
    'last_mutation_at', c.now_text)
  core.ownership_state = 'lease_expired_reclaimable'
  core.attempt_state = 'attempt_interrupted'
  lease.history(c, execution_id, 'event', 'expired',
    'lease_id', core.current_lease_id or '', 'lease_epoch', core.current_lease_epoch or '',
    'attempt_index', core.current_attempt_index or '', 'attempt_id', core.current_attempt_id or '',
    'worker_id', core.current_worker_id or '', 'worker_instance_id', core.current_worker_instance_id or '',
    'ts', c.now_text)
  if is_set(core.current_attempt_index) then
    lease.close_stream(c, execution_id, core.current_attempt_index, 'lease_expired', true)
  end
  if core.managed then
    event_log.add_for(c, core, 'lease_expired', core.current_attempt_index, core.current_worker_instance_id)
  end
end

-- Offers an expired or revoked execution to claiming workers.
function lease.offer_reclaim(c, execution_id, core)
  local lane = record.running_lane(core)
  redis.call('ZADD', key.ffx_reclaimable(call.home(c), lane), c.now, execution_id)
  wake.workers(c, lane)
end

-- Handles one lapsed entry of the expiry index: marks the lease and returns the outcome.
function lease.expire_if_due(c, execution_id, core_key, expiry_key)
  local core = record.read(core_key, fence.FIELDS)
  if not core then
    redis.call('ZREM', expiry_key, execution_id)
    return 'execution_not_found'
  end
  if core.lifecycle_phase ~= 'active' then
    redis.call('ZREM', expiry_key, execution_id)
    return 'not_active', core
  end
  if core.ownership_state == 'lease_expired_reclaimable' then
    lease.check_later(c, execution_id, expiry_key)
    return 'already_expired', core
  end
  if core.ownership_state == 'lease_revoked' then
    lease.check_later(c, execution_id, expiry_key)
    return 'already_revoked', core
  end
  if core.ownership_state == 'unowned' then
    redis.call('ZREM', expiry_key, execution_id)
    return 'unowned', core
  end
  if not fence.lapsed(c, core) then return 'not_yet_expired', core end
  core.execution_id = core.execution_id or execution_id
  lease.mark_expired(c, core_key, core)
  lease.check_later(c, execution_id, expiry_key)
  return 'marked_expired', core
end

function lease.check_later(c, execution_id, expiry_key)
  redis.call('ZADD', expiry_key, 'XX', c.now + RECLAIM_BACKOFF_MS, execution_id)
end

-- Checks a renewal. Returns nil, or the error reply.
function lease.check_renewal(c, core_key, core, args)
  local f, err = fence.resolve(args, core, false)
  if err then return err end
  if core.lifecycle_phase ~= 'active' then return reply.not_active(core) end
  if core.ownership_state == 'lease_revoked' then return reply.err('lease_revoked') end
  if fence.lapsed(c, core) then
    lease.mark_expired(c, core_key, core)
    return reply.err('lease_expired')
  end
  if args.attempt_index and args.attempt_index ~= core.current_attempt_index then
    return reply.err('stale_lease')
  end
  if not fence.matches(f, core) then return reply.err('stale_lease') end
  return nil
end

local NOTHING, ATTACHES = {}, { 'attached', '1' }

-- Extends a checked lease; returns the new expiry time as text.
function lease.extend(c, k, execution_id, core, ttl, grace)
  local expires = c.now + ttl
  local expires_text = number.text(expires)
  local deadline = c.now + math.floor(ttl * 2 / 3)
  record.set(k.core,
    'lease_last_renewed_at', c.now_text,
    'lease_renewal_deadline', deadline,
    'lease_expires_at', expires_text,
    'last_mutation_at', c.now_text,
    unpack(lease.is_plain(core) and ATTACHES or NOTHING))
  if lease.has_record(core) then
    redis.call('HSET', k.lease_current,
      'last_renewed_at', c.now_text, 'renewal_deadline', deadline, 'expires_at', expires_text)
    redis.call('PEXPIREAT', k.lease_current, expires + grace)
  end
  redis.call('ZADD', k.lease_expiry, expires, execution_id)
  return expires_text
end

-- @function ff_renew_lease
-- @summary  Extends the current lease; lease id and epoch do not change.
-- @flags    repeatable derives fence
-- @key      core            exec.core
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      lease_expiry    index.lease_expiry
-- @arg      execution_id    execution_id
-- @arg      attempt_index   attempt_index
-- @arg      attempt_id      attempt_id
-- @arg      lease_id        lease_id
-- @arg      lease_epoch     lease_epoch
-- @arg      lease_ttl_ms    ms
-- @arg      lease_history_grace_ms ms
-- @reply    OK expires_at:unix_ms
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    set:lease_fence
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ff_renew_lease(K, A)
  local ttl, err = number.lease_ttl(A.lease_ttl_ms)
  if err then return err end
  local grace
  grace, err = number.whole('lease_history_grace_ms', A.lease_history_grace_ms)
  if err then return err end
  local c = call.open(K.core)
  local core = fence.read(c, K.core, fence.RENEWAL_FIELDS)
  if not core then return reply.err('execution_not_found') end
  err = lease.check_renewal(c, K.core, core, A)
  if err then return err end
  local expires_text = lease.extend(c, K, A.execution_id, core, ttl, grace)
  -- Keepers check at the previous end of the lease, and find a later end by themselves.
  if c.now + ttl < (tonumber(core.lease_expires_at) or 0) then
    wake.due_for(c, core, c.now + ttl)
    wake.flush(c)
  end
  return reply.ok(expires_text)
end

-- @function ff_mark_lease_expired_if_due
-- @summary  Marks a lapsed lease as reclaimable. Never an error reply.
-- @flags    repeatable derives
-- @key      core            exec.core
-- @key      lease_current   exec.lease_current
-- @key      lease_expiry    index.lease_expiry
-- @key      lease_history   exec.lease_history
-- @arg      execution_id    execution_id
-- @reply    OK outcome:text
-- @reply    ALREADY_SATISFIED outcome:text
function F.ff_mark_lease_expired_if_due(K, A)
  local c = call.open(K.core)
  local outcome, core = lease.expire_if_due(c, A.execution_id, K.core, K.lease_expiry)
  if outcome ~= 'marked_expired' then return reply.already(outcome) end
  if wake.is_announced(core) then lease.offer_reclaim(c, A.execution_id, core) end
  return reply.ok(outcome)
end

-- @function ff_revoke_lease
-- @summary  Revokes the lease at once, on request of an operator. The execution waits to be taken over.
-- @flags    derives operator
-- @key      core            exec.core
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      lease_expiry    index.lease_expiry
-- @key      worker_leases   index.worker_leases optional
-- @arg      execution_id    execution_id
-- @arg      expected_lease_id lease_id optional
-- @arg      revoke_reason   text optional=operator
-- @reply    OK outcome:text lease_id:lease_id lease_epoch:lease_epoch
-- @reply    ALREADY_SATISFIED outcome:text
-- @error    execution_not_found
-- @error    execution_not_active terminal_outcome:text lease_epoch:text lifecycle_phase:text attempt_id:text
-- @error    no_active_lease
-- @error    stale_lease message:text
function F.ff_revoke_lease(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'active' then return reply.not_active(core) end
  if core.ownership_state == 'lease_revoked' then return reply.already('already_revoked') end
  if core.ownership_state == 'lease_expired_reclaimable' then return reply.already('already_expired') end
  if core.ownership_state ~= 'leased' then return reply.err('no_active_lease') end
  local lease_id = core.current_lease_id or ''
  if is_set(A.expected_lease_id) and A.expected_lease_id ~= lease_id then
    return reply.err('stale_lease', 'expected ' .. A.expected_lease_id .. ' but current is ' .. lease_id)
  end
  lease.revoke(c, K, A.execution_id, core, A.revoke_reason or 'operator')
  return reply.ok('revoked', lease_id, core.current_lease_epoch or '')
end

-- Revokes a lease. The entry of the expiry index is due at once, so that a search for abandoned work finds it.
function lease.revoke(c, k, execution_id, core, reason)
  record.set(k.core,
    'lifecycle_phase', 'active',
    'ownership_state', 'lease_revoked',
    'eligibility_state', core.eligibility_state or 'not_applicable',
    'blocking_reason', 'waiting_for_worker',
    'blocking_detail', 'lease revoked: ' .. reason,
    'terminal_outcome', 'none',
    'attempt_state', 'attempt_interrupted',
    'public_state', 'active',
    'lease_revoked_at', c.now_text,
    'lease_revoke_reason', reason,
    'last_mutation_at', c.now_text)
  core.ownership_state = 'lease_revoked'
  redis.call('DEL', k.lease_current)
  redis.call('ZADD', k.lease_expiry, c.now, execution_id)
  lease.leave_worker(c, execution_id, core, k.worker_leases)
  lease.history(c, execution_id, 'event', 'revoked',
    'lease_id', core.current_lease_id or '', 'lease_epoch', core.current_lease_epoch or '',
    'attempt_index', core.current_attempt_index or '', 'attempt_id', core.current_attempt_id or '',
    'worker_id', core.current_worker_id or '', 'worker_instance_id', core.current_worker_instance_id or '',
    'reason', reason, 'ts', c.now_text)
  if core.managed then event_log.add_for(c, core, 'lease_revoked', core.current_attempt_index, reason) end
  if not wake.is_announced(core) then return end
  if is_set(core.current_worker_instance_id) then
    wake.cancel(c, core.current_worker_instance_id, execution_id, core.current_lease_id, 'revoked', 'lease_revoked')
  end
  lease.offer_reclaim(c, execution_id, core)
  wake.flush(c)
end

-- Checks a write by a lease holder. Returns the resolved triple, or nil and the error reply; it also marks a lapsed lease as
-- expired.
function lease.check_write(c, core_key, core, args)
  if core.is_held or fence.holds(c, core, args) then return args end
  local f, err = fence.resolve(args, core, args.source == 'operator_override' and not fence.strict(c))
  if err then return nil, err end
  if core.lifecycle_phase ~= 'active' then return nil, reply.not_active(core) end
  if core.ownership_state == 'lease_revoked' then return nil, reply.err('lease_revoked') end
  if fence.lapsed(c, core) then
    lease.mark_expired(c, core_key, core)
    return nil, reply.err('lease_expired')
  end
  if not fence.matches(f, core) then return nil, reply.err('stale_lease') end
  return f
end
