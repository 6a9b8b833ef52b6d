-- Ends the lease of an execution on request of its holder and leaves the attempt open; the same attempt is resumed later.

-- Ends the lease and leaves the attempt open. The rest of its timeout is kept until the attempt continues. `p`: phase (runnable
-- when it is missing), eligibility, reason, detail, public, suspension (marker in the attempt record), released (history), values
-- (further core fields), from_start (the work begins anew, and so does its timeout).
function suspend_lease.interrupt(c, execution_id, core_key, core, f, p, k)
  attempt_record.note(c, execution_id, core,
    'attempt_state', 'suspended', 'suspended_at', c.now_text, 'suspension_id', p.suspension)
  local timeout_at = not p.from_start and tonumber(redis.call('ZSCORE', key.index_attempt_timeout(c), execution_id) or nil)
  lease.drop(c, execution_id, core, k and k.worker_leases)
  local values = {
    'lifecycle_phase', p.phase or 'runnable',
    'ownership_state', 'unowned',
    'eligibility_state', p.eligibility,
    'blocking_reason', p.reason,
    'blocking_detail', p.detail,
    'terminal_outcome', 'none',
    'attempt_state', 'attempt_interrupted',
    'public_state', p.public,
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }
  for _, value in ipairs(p.values or {}) do values[#values + 1] = value end
  if timeout_at then
    values[#values + 1] = 'remaining_attempt_timeout'
    values[#values + 1] = number.text(math.max(1, math.floor(timeout_at) - c.now))
  end
  record.write(core_key, core.managed, values, terminal.LEASE_FIELDS)
  if not core.managed then
    lease.history(c, execution_id, 'event', 'released',
      'lease_id', f.lease_id or '', 'lease_epoch', f.lease_epoch or '',
      'attempt_index', core.current_attempt_index or '', 'attempt_id', f.attempt_id or '',
      'reason', p.released, 'ts', c.now_text)
  end
end

-- @function ff_delay_execution
-- @summary  Pauses the lease holder's attempt until a time; the worker's slot is free during the pause.
-- @flags    derives fence
-- @key      core            exec.core
-- @key      attempt         attempt.record
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      lease_expiry    index.lease_expiry
-- @key      worker_leases   index.worker_leases
-- @key      active          lane.active
-- @key      delayed         lane.delayed
-- @key      attempt_timeout index.attempt_timeout
-- @arg      execution_id    execution_id
-- @arg      lease_id        lease_id omittable
-- @arg      lease_epoch     lease_epoch omittable
-- @arg      attempt_id      attempt_id omittable
-- @arg      delay_until     unix_ms
-- @arg      source          text optional
-- @reply    OK delay_until:unix_ms
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    set:lease_fence
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ff_delay_execution(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  local f, err = lease.check_write(c, K.core, core, A)
  if err then return err end
  local at
  at, err = number.whole('delay_until', A.delay_until)
  if err then return err end
  suspend_lease.interrupt(c, A.execution_id, K.core, core, f, {
    eligibility = 'not_eligible_until_time', reason = 'waiting_for_delay',
    detail = 'delayed until ' .. A.delay_until, public = 'delayed', suspension = 'worker_delay',
    released = 'worker_delay', values = { 'delay_until', A.delay_until },
  }, K)
  redis.call('ZADD', K.delayed, at, A.execution_id)
  if core.managed then
    event_log.add_for(c, core, 'delayed', core.current_attempt_index, A.delay_until)
    flow_record.owe_if_over(c, A.execution_id, core)
  end
  wake.delayed(c, record.lane(core), core, at)
  wake.flush(c)
  return reply.ok(A.delay_until)
end

-- @function ff_move_to_waiting_children
-- @summary  Pauses the lease holder's attempt until all its dependencies are satisfied. When none of them is open, the attempt
--           can be claimed again at once; without any dependency, it waits until it is promoted.
-- @flags    derives fence
-- @key      core            exec.core
-- @key      attempt         attempt.record
-- @key      lease_current   exec.lease_current
-- @key      lease_history   exec.lease_history
-- @key      lease_expiry    index.lease_expiry
-- @key      worker_leases   index.worker_leases
-- @key      active          lane.active
-- @key      blocked_dependencies lane.blocked_dependencies
-- @key      attempt_timeout index.attempt_timeout
-- @arg      execution_id    execution_id
-- @arg      lease_id        lease_id omittable
-- @arg      lease_epoch     lease_epoch omittable
-- @arg      attempt_id      attempt_id omittable
-- @arg      source          text optional
-- @reply    OK
-- @error    execution_not_found
-- @error    set:lease_fence
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ff_move_to_waiting_children(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  local f, err = lease.check_write(c, K.core, core, A)
  if err then return err end
  local how = {
    eligibility = 'blocked_by_dependencies', reason = 'waiting_for_children',
    detail = 'waiting for child executions to complete', public = 'waiting_children',
    suspension = 'waiting_children', released = 'waiting_children',
  }
  local blocked = dependency.open_edges(c, core, A.execution_id) > 0
    or not core.managed and redis.call('EXISTS', key.exec_deps_all_edges(c, A.execution_id)) == 0
  if not blocked then
    how.eligibility, how.reason, how.detail, how.public = 'eligible_now', 'waiting_for_worker', '', 'waiting'
  end
  suspend_lease.interrupt(c, A.execution_id, K.core, core, f, how, K)
  if not blocked then
    requeue.make_eligible(c, A.execution_id, core)
  elseif not store.row(K.core) then
    redis.call('ZADD', K.blocked_dependencies, tonumber(core.created_at) or 0, A.execution_id)
  end
  if core.managed then
    event_log.add_for(c, core, 'waiting_children', core.current_attempt_index)
    flow_record.owe_if_over(c, A.execution_id, core)
  end
  wake.flush(c)
  return reply.ok()
end
