-- Lifts the block of an execution.

-- Restores the wait that a lifted pause interrupted, unless that wait is over. Reports whether the execution waits.
local function wait_again(c, execution_id, core_key, core, was)
  hidden.clear(core_key)
  local state, lane = was[1], record.lane(core)
  local index, score, public = admission.index_of(c, core, state), c.now, 'rate_limited'
  if state == 'blocked_by_dependencies' then
    if dependency.open_edges(c, core, execution_id) == 0
      and redis.call('EXISTS', key.exec_deps_all_edges(c, execution_id)) == 1 then
      dependency.release(c, execution_id, { core = core_key }, record.read(core_key, dependency.CHILD_FIELDS))
      return true
    end
    index, score, public = key.lane_blocked_dependencies(c, lane), tonumber(core.created_at) or 0, 'waiting_children'
  elseif state == 'not_eligible_until_time' then
    local due = number.finite(core.delay_until)
    if not due or due <= c.now then return false end
    index, score, public = key.lane_delayed(c, lane), due, 'delayed'
    wake.delayed(c, lane, core, due)
  end
  redis.call('HSET', core_key, 'eligibility_state', state, 'blocking_reason', was[2] or '', 'blocking_detail', was[3] or '',
    'public_state', public, 'last_transition_at', c.now_text, 'last_mutation_at', c.now_text)
  if index then redis.call('ZADD', index, score, execution_id) end
  return true
end

-- @function ff_unblock_execution
-- @summary  Unblocks an execution: it is eligible again, or delayed until its own delay is over. An execution that was paused
--           during another wait continues that wait.
-- @flags    derives
-- @key      core            exec.core
-- @key      blocked         lane.blocked_budget chosen_by=expected_blocking_reason
-- @key      eligible        lane.eligible
-- @arg      execution_id    execution_id
-- @arg      now_ms          unix_ms optional
-- @arg      expected_blocking_reason text optional
-- @reply    OK outcome:text
-- @error    execution_not_found
-- @error    execution_not_eligible
function F.ff_unblock_execution(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, admission.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'runnable' or not admission.is_blocked(core) then
    return reply.err('execution_not_eligible')
  end
  if is_set(A.expected_blocking_reason) and A.expected_blocking_reason ~= core.blocking_reason then
    return reply.err('execution_not_eligible')
  end
  redis.call('ZREM', K.blocked, A.execution_id)
  admission.leave(c, A.execution_id, core)
  local was = hidden.read(K.core, core)
  if was and wait_again(c, A.execution_id, K.core, core, was) then
    settle.run(c)
    return reply.ok('unblocked')
  end
  requeue.ready(c, A.execution_id, K.core, core, {
    own_delay = true, values = { 'attempt_state', core.attempt_state or 'pending_first_attempt' },
    eligible = K.eligible,
  })
  settle.run(c)
  return reply.ok('unblocked')
end
