-- Blocks runnable executions, by budget, quota, route, operator or policy, and changes priorities.

-- Blocking reason → eligibility state.
local STATE_OF_REASON = {
  waiting_for_budget = 'blocked_by_budget',
  waiting_for_quota = 'blocked_by_quota',
  waiting_for_capable_worker = 'blocked_by_route',
  paused_by_operator = 'blocked_by_operator',
  paused_by_policy = 'blocked_by_lane_state',
}

-- Eligibility state → builder of the lane's index. A pause by policy does not have its own index.
local INDEX_OF_STATE = {
  blocked_by_budget = key.lane_blocked_budget,
  blocked_by_quota = key.lane_blocked_quota,
  blocked_by_route = key.lane_blocked_route,
  blocked_by_operator = key.lane_blocked_operator,
}

function admission.is_blocked(core)
  return core.eligibility_state == 'blocked_by_lane_state' or INDEX_OF_STATE[core.eligibility_state] ~= nil
end

-- Returns the index of a lane that contains executions of an eligibility state, or nil.
function admission.index_of(c, core, state)
  local build = INDEX_OF_STATE[state]
  return build and build(c, record.lane(core))
end

-- Removes an execution from the index of its block. After a pause by policy, for which the caller chose the index, it is removed
-- from each.
function admission.leave(c, execution_id, core)
  local index = admission.index_of(c, core, core.eligibility_state)
  if index then
    redis.call('ZREM', index, execution_id)
  elseif core.eligibility_state == 'blocked_by_lane_state' then
    for _, build in pairs(INDEX_OF_STATE) do redis.call('ZREM', build(c, record.lane(core)), execution_id) end
  end
end

-- Returns the fields that keep a block while dependencies hide it, as a flat list.
function admission.remember(core)
  return {
    'prior_eligibility_state', core.eligibility_state,
    'prior_blocking_reason', core.blocking_reason or '',
    'prior_blocking_detail', core.blocking_detail or '',
  }
end

admission.PRIOR_FIELDS = { 'prior_eligibility_state', 'prior_blocking_reason', 'prior_blocking_detail' }

-- Restores the block that a runnable record had before its dependencies.
function admission.restore(c, execution_id, core_key, core, attempt_state)
  record.write(core_key, core.managed, {
    'eligibility_state', core.prior_eligibility_state,
    'blocking_reason', core.prior_blocking_reason or '',
    'blocking_detail', core.prior_blocking_detail or '',
    'attempt_state', attempt_state,
    'public_state', 'rate_limited',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }, admission.PRIOR_FIELDS)
  local index = admission.index_of(c, core, core.prior_eligibility_state)
  if index then redis.call('ZADD', index, c.now, execution_id) end
end

admission.FIELDS = {
  'execution_id', 'lifecycle_phase', 'eligibility_state', 'blocking_reason', 'terminal_outcome', 'attempt_state',
  'current_lease_epoch', 'current_attempt_id', 'created_at', 'priority', 'delay_until', 'lane_id', 'current_lane',
  'flow_id', 'managed', 'node', 'start_timeout', 'current_attempt_index', 'wait', 'fair_key', 'blocking_detail',
}

-- Reports whether a block of an eligibility state may replace the present state of a record.
local function may_block(core, state)
  local now = core.eligibility_state
  if now == 'eligible_now' or now == state then return true end
  return hidden.is_pause(state) and not core.managed
    and (now == 'not_eligible_until_time' or now == 'blocked_by_dependencies' or admission.is_blocked(core))
end

-- Removes an execution that is to be paused from the index of its present state, and keeps that state. When it is already paused,
-- the state that the first pause hides is kept.
local function hide(c, execution_id, core_key, core)
  local now, lane = core.eligibility_state, record.lane(core)
  admission.leave(c, execution_id, core)
  if now == 'not_eligible_until_time' then
    redis.call('ZREM', key.lane_delayed(c, lane), execution_id)
  elseif now == 'blocked_by_dependencies' then
    redis.call('ZREM', key.lane_blocked_dependencies(c, lane), execution_id)
  end
  hidden.remember(core_key, core)
end

-- @function ff_change_priority
-- @summary  Changes the priority of an eligible execution.
-- @flags    derives repeatable operator
-- @key      core            exec.core
-- @key      eligible        lane.eligible
-- @arg      execution_id    execution_id
-- @arg      new_priority    int
-- @reply    OK old_priority:int new_priority:int
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    execution_not_eligible
function F.ff_change_priority(K, A)
  local priority, err = number.priority('new_priority', A.new_priority)
  if err then return err end
  local c = call.open(K.core)
  local core = record.read(K.core, admission.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'runnable' or core.eligibility_state ~= 'eligible_now' then
    return reply.err('execution_not_eligible')
  end
  local old, new = core.priority or '0', number.text(priority)
  record.set(K.core, 'priority', new, 'last_mutation_at', c.now_text)
  core.priority = new
  order.enter(c, record.lane(core), A.execution_id, core, K.eligible)
  wake.entered(c, record.lane(core), core)
  wake.flush(c)
  return reply.ok(old, new)
end

-- @function ff_block_execution_for_admission
-- @summary  Blocks an eligible execution until the missing resource is available. A pause, which has the reason
--           paused_by_operator or paused_by_policy, also holds back delayed and blocked executions, except in runs. The key
--           `blocked` counts only for reasons without an index.
-- @flags    derives repeatable
-- @key      core            exec.core
-- @key      eligible        lane.eligible
-- @key      blocked         lane.blocked_budget chosen_by=blocking_reason
-- @arg      execution_id    execution_id
-- @arg      blocking_reason text
-- @arg      blocking_detail text optional
-- @arg      now_ms          unix_ms optional
-- @reply    OK outcome:text
-- @error    execution_not_found
-- @error    execution_not_active terminal_outcome:text lease_epoch:text lifecycle_phase:text attempt_id:text
-- @error    execution_not_eligible
-- @error    invalid_blocking_reason
function F.ff_block_execution_for_admission(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, admission.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase == 'terminal' then return reply.not_active(core) end
  if core.lifecycle_phase ~= 'runnable' then return reply.err('execution_not_eligible') end
  local state = STATE_OF_REASON[A.blocking_reason]
  if not state then return reply.err('invalid_blocking_reason') end
  if not may_block(core, state) then return reply.err('execution_not_eligible') end
  if core.eligibility_state == 'eligible_now' then
    if hidden.is_pause(state) then hidden.forget(K.core) end
  elseif core.eligibility_state ~= state then
    hide(c, A.execution_id, K.core, core)
  end
  record.write(K.core, core.managed, {
    'lifecycle_phase', 'runnable',
    'ownership_state', 'unowned',
    'eligibility_state', state,
    'blocking_reason', A.blocking_reason,
    'blocking_detail', A.blocking_detail or '',
    'terminal_outcome', 'none',
    'attempt_state', core.attempt_state or 'pending_first_attempt',
    'public_state', 'rate_limited',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }, {})
  order.leave(c, record.lane(core), A.execution_id, core, K.eligible)
  redis.call('ZADD', admission.index_of(c, core, state) or K.blocked, c.now, A.execution_id)
  if core.managed and state == 'blocked_by_budget' then budget.await(c, A.execution_id, core) end
  return reply.ok('blocked')
end
