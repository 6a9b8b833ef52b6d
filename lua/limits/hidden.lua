-- The state that a pause hides of an execution that was already waiting: marks of its record, which apply again when the pause is
-- lifted. A pause also applies to delayed executions, and to executions that wait for dependencies or are blocked otherwise. Runs
-- are paused by separate calls, so that their nodes hide nothing.

local PAUSES = { blocked_by_operator = true, blocked_by_lane_state = true }

local PAUSED_FIELDS = { 'paused_eligibility_state', 'paused_blocking_reason', 'paused_blocking_detail' }

-- Reports whether an eligibility state belongs to a pause.
function hidden.is_pause(state) return PAUSES[state] == true end

-- Keeps the present state of an execution that is to be paused. A second pause does not change the kept state.
function hidden.remember(core_key, core)
  if PAUSES[core.eligibility_state] then return end
  redis.call('HSET', core_key, 'paused_eligibility_state', core.eligibility_state,
    'paused_blocking_reason', core.blocking_reason or '', 'paused_blocking_detail', core.blocking_detail or '')
end

-- Returns the state that a pause of a record hides: eligibility, reason and detail; nil when there is none.
function hidden.read(core_key, core)
  if core.managed or not PAUSES[core.eligibility_state] then return nil end
  local was = redis.call('HMGET', core_key, unpack(PAUSED_FIELDS))
  return is_set(was[1] or nil) and was or nil
end

-- Reports whether an execution is paused and, without the pause, waits for dependencies.
function hidden.has_dependencies(core_key, child)
  local was = child.lifecycle_phase == 'runnable' and hidden.read(core_key, child)
  return was ~= nil and was ~= false and was[1] == 'blocked_by_dependencies'
end

-- Removes the kept states of an execution that has ended. `core`, when it is given, is its state before the end.
function hidden.forget(core_key, core)
  if store.row(core_key) or core and core.eligibility_state ~= 'blocked_by_dependencies' and not PAUSES[core.eligibility_state] then
    return
  end
  redis.call('HDEL', core_key, 'prior_eligibility_state', 'prior_blocking_reason', 'prior_blocking_detail', unpack(PAUSED_FIELDS))
end

-- Removes the kept state of a pause that is lifted.
function hidden.clear(core_key) redis.call('HDEL', core_key, unpack(PAUSED_FIELDS)) end
