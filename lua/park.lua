-- A lease holder puts its execution aside; the same attempt goes on later.

-- Ends the lease and leaves the attempt open; what is left of its timeout is kept for when it goes on. `p`: phase
-- (runnable when it is missing), eligibility, reason, detail, public, suspension (marker in the attempt record),
-- released (history), values (further core fields), from_start (the work begins anew, and so does its timeout).
function park.execution(c, execution_id, core_key, core, f, p, k)
  attempts.note(c, execution_id, core,
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
  record.write(core_key, core.managed, values, lifecycle.LEASE_FIELDS)
  if not core.managed then
    lease.history(c, execution_id, 'event', 'released',
      'lease_id', f.lease_id or '', 'lease_epoch', f.lease_epoch or '',
      'attempt_index', core.current_attempt_index or '', 'attempt_id', f.attempt_id or '',
      'reason', p.released, 'ts', c.now_text)
  end
end

-- Makes a record that nothing holds back any longer ready to be claimed, at once or when it is due. `r`: values and
-- blank (further core fields); due (ms) with reason and detail for a delay; own_delay: the record's own delay still
-- counts; eligible and delayed (indexes of its lane, derived when they are missing). Gives the public state.
function park.ready(c, execution_id, core_key, core, r)
  local due, reason, detail = r.due, r.reason, r.detail
  if r.own_delay then
    due, reason = number.finite(core.delay_until), 'waiting_for_delay'
    if due and due > c.now then detail = 'delayed until ' .. core.delay_until else due = nil end
  end
  if core.wait and not due then
    if r.values then redis.call('HSET', core_key, unpack(r.values)) end
    if r.blank and #r.blank > 0 then redis.call('HDEL', core_key, unpack(r.blank)) end
    return waits.open(c, execution_id, core_key, core)
  end
  local values = {
    'lifecycle_phase', 'runnable',
    'ownership_state', 'unowned',
    'eligibility_state', due and 'not_eligible_until_time' or 'eligible_now',
    'blocking_reason', due and reason or 'waiting_for_worker',
    'terminal_outcome', 'none',
    'public_state', due and 'delayed' or 'waiting',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }
  local function append(list)
    for _, value in ipairs(list) do values[#values + 1] = value end
  end
  append(r.values or {})
  local blank = { unpack(r.blank or {}) }
  if not due then
    blank[#blank + 1] = 'blocking_detail'
  elseif r.own_delay then
    append({ 'blocking_detail', detail })
  else
    append({ 'blocking_detail', detail, 'delay_until', number.text(due) })
  end
  record.write(core_key, core.managed, values, blank)
  local lane = lifecycle.lane(core)
  if due then
    redis.call('ZADD', r.delayed or key.lane_delayed(c, lane), due, execution_id)
    if core.managed then wake.due(c, due) end
    return 'delayed'
  end
  order.enter(c, lane, execution_id, core, r.eligible)
  if core.managed then graph.became_eligible(c, execution_id, core, lane) end
  return 'waiting'
end

local NOTHING_ELSE = {}

-- The same for a record that claim.read_simple gave, and that nothing holds back: what else the state of a record that may
-- run says, it says already.
function park.ready_simple(c, execution_id, core_key, core, eligible_key)
  local fed_mark = claim.fed_mark(core)
  redis.call('HSET', core_key,
    'eligibility_state', 'eligible_now',
    'public_state', 'waiting',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
    'blocking_reason', 'waiting_for_worker', unpack(fed_mark and { 'simple', fed_mark } or NOTHING_ELSE))
  order.enter(c, core.lane_id, execution_id, core, eligible_key)
  graph.became_eligible(c, execution_id, core, core.lane_id)
end

-- Puts a runnable record into the eligible set of its lane.
function park.make_eligible(c, execution_id, core)
  local lane = lifecycle.lane(core)
  order.enter(c, lane, execution_id, core)
  if core.managed then wake.eligible(c, lane, execution_id, core.priority) end
end

-- @function ff_delay_execution
-- @summary  The lease holder pauses its attempt until a time; the slot is free meanwhile.
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
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events
function F.ff_delay_execution(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  local f, err = fence.check_write(c, K.core, core, A)
  if err then return err end
  local at
  at, err = number.whole('delay_until', A.delay_until)
  if err then return err end
  park.execution(c, A.execution_id, K.core, core, f, {
    eligibility = 'not_eligible_until_time', reason = 'waiting_for_delay',
    detail = 'delayed until ' .. A.delay_until, public = 'delayed', suspension = 'worker_delay',
    released = 'worker_delay', values = { 'delay_until', A.delay_until },
  }, K)
  redis.call('ZADD', K.delayed, at, A.execution_id)
  if core.managed then
    graph.event(c, core, 'delayed', core.current_attempt_index, A.delay_until)
    wake.due(c, at)
    flows.owe_parked(c, A.execution_id, core)
    wake.flush(c)
  end
  return reply.ok(A.delay_until)
end

-- @function ff_move_to_waiting_children
-- @summary  The lease holder pauses its attempt until all its dependencies are satisfied. When none is open any
--           more, the attempt can be claimed again at once.
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
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events
function F.ff_move_to_waiting_children(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  local f, err = fence.check_write(c, K.core, core, A)
  if err then return err end
  local wait = {
    eligibility = 'blocked_by_dependencies', reason = 'waiting_for_children',
    detail = 'waiting for child executions to complete', public = 'waiting_children',
    suspension = 'waiting_children', released = 'waiting_children',
  }
  local blocked = dependency.open_edges(c, core, A.execution_id) > 0
  if not blocked then
    wait.eligibility, wait.reason, wait.detail, wait.public = 'eligible_now', 'waiting_for_worker', '', 'waiting'
  end
  park.execution(c, A.execution_id, K.core, core, f, wait, K)
  if blocked then
    redis.call('ZADD', K.blocked_dependencies, tonumber(core.created_at) or 0, A.execution_id)
  else
    park.make_eligible(c, A.execution_id, core)
  end
  if core.managed then
    graph.event(c, core, 'waiting_children', core.current_attempt_index)
    flows.owe_parked(c, A.execution_id, core)
    wake.flush(c)
  end
  return reply.ok()
end

-- Core fields that a promotion reads.
local PROMOTE_FIELDS = {
  'lifecycle_phase', 'eligibility_state', 'delay_until', 'created_at', 'priority', 'lane_id', 'current_lane',
  'managed', 'execution_id', 'node', 'flow_id', 'wait', 'fair_key',
}

-- A delayed execution whose time has come becomes eligible. `now` is the clock to compare with (ms).
function park.promote(c, execution_id, core_key, delayed_key, eligible_key, now)
  local core = record.read(core_key, PROMOTE_FIELDS)
  if not core then
    redis.call('ZREM', delayed_key, execution_id)
    return 'not_found_cleaned'
  end
  if core.lifecycle_phase ~= 'runnable' then
    redis.call('ZREM', delayed_key, execution_id)
    return 'not_runnable_cleaned'
  end
  if core.eligibility_state ~= 'not_eligible_until_time' then
    redis.call('ZREM', delayed_key, execution_id)
    if core.eligibility_state == 'eligible_now' then
      order.enter(c, lifecycle.lane(core), execution_id, core, eligible_key)
    end
    return 'not_delayed_cleaned'
  end
  local delay_until = number.finite(core.delay_until)
  if not delay_until then
    delay_until = tonumber(redis.call('ZSCORE', delayed_key, execution_id) or nil) or 0
  end
  if delay_until > now then return 'not_yet_due' end
  if core.wait then
    redis.call('ZREM', delayed_key, execution_id)
    waits.open(c, execution_id, core_key, core)
    return 'promoted'
  end
  local now_text = number.text(now)
  record.write(core_key, core.managed, {
    'lifecycle_phase', 'runnable',
    'ownership_state', 'unowned',
    'eligibility_state', 'eligible_now',
    'blocking_reason', 'waiting_for_worker',
    'terminal_outcome', 'none',
    'public_state', 'waiting',
    'last_transition_at', now_text,
    'last_mutation_at', now_text,
  }, { 'blocking_detail', 'delay_until' })
  redis.call('ZREM', delayed_key, execution_id)
  order.enter(c, lifecycle.lane(core), execution_id, core, eligible_key)
  if core.managed then wake.eligible(c, lifecycle.lane(core), execution_id, core.priority) end
  return 'promoted'
end

-- @function ff_promote_delayed
-- @summary  A delayed execution whose time has come, by the caller's clock, becomes eligible.
-- @flags    derives repeatable
-- @key      core            exec.core
-- @key      delayed         lane.delayed
-- @key      eligible        lane.eligible
-- @arg      execution_id    execution_id
-- @arg      now_ms          unix_ms
-- @reply    OK outcome:text
-- @error    invalid_input message:text
function F.ff_promote_delayed(K, A)
  local now, err = number.whole('now_ms', A.now_ms)
  if err then return err end
  local c = call.open(K.core)
  local outcome = park.promote(c, A.execution_id, K.core, K.delayed, K.eligible, now)
  graph.settle(c)
  return reply.ok(outcome)
end

-- The flow's event log keeps the last report of each execution, so that many of them do not push out what else happened.
local function log_progress(c, core_key, core, A)
  local before = redis.call('HGET', core_key, 'progress_event')
  if before then redis.call('XDEL', key.flow_events(c, core.flow_id), before) end
  local id = graph.log_alone(c, core.flow_id, 'progress', core.node or core.execution_id, core.current_attempt_index,
    (A.progress_pct or '') .. ' ' .. (A.progress_message or ''))
  redis.call('HSET', core_key, 'progress_event', id)
end

-- @function ff_update_progress
-- @summary  Records how far the lease holder has come.
-- @flags    derives repeatable
-- @key      core            exec.core
-- @arg      execution_id    execution_id
-- @arg      lease_id        lease_id omittable
-- @arg      lease_epoch     lease_epoch omittable
-- @arg      progress_pct    text optional
-- @arg      progress_message text optional
-- @reply    OK
-- @error    execution_not_found
-- @error    execution_not_active terminal_outcome:text lease_epoch:text lifecycle_phase:text attempt_id:text
-- @error    lease_revoked
-- @error    lease_expired
-- @error    stale_lease
function F.ff_update_progress(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'active' then return reply.not_active(core) end
  if core.ownership_state == 'lease_revoked' then return reply.err('lease_revoked') end
  if fence.lapsed(c, core) then return reply.err('lease_expired') end
  if A.lease_id ~= core.current_lease_id or A.lease_epoch ~= core.current_lease_epoch then
    return reply.err('stale_lease')
  end
  local values = { 'last_mutation_at', c.now_text, 'progress_updated_at', c.now_text }
  if is_set(A.progress_pct) then
    values[#values + 1] = 'progress_pct'
    values[#values + 1] = A.progress_pct
  end
  if is_set(A.progress_message) then
    values[#values + 1] = 'progress_message'
    values[#values + 1] = A.progress_message
  end
  redis.call('HSET', K.core, unpack(values))
  if core.managed then log_progress(c, K.core, core, A) end
  return reply.ok()
end
