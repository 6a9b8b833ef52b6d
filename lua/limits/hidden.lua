-- What a pause hides of an execution that was waiting already: marks of its record, which count again when the pause is lifted. A
-- pause reaches what is delayed, waits for dependencies or is blocked otherwise, too. Runs are paused by calls of their own, so that
-- their nodes hide nothing.

local PAUSES = { blocked_by_operator = true, blocked_by_lane_state = true }

local PAUSED_FIELDS = { 'paused_eligibility_state', 'paused_blocking_reason', 'paused_blocking_detail' }

-- Whether an eligibility state is that of a pause.
function hidden.is_pause(state) return PAUSES[state] == true end

-- Marks what an execution that is to be paused waits for. A pause over a pause hides what that did.
function hidden.remember(core_key, core)
  if PAUSES[core.eligibility_state] then return end
  redis.call('HSET', core_key, 'paused_eligibility_state', core.eligibility_state,
    'paused_blocking_reason', core.blocking_reason or '', 'paused_blocking_detail', core.blocking_detail or '')
end

-- What a pause of a record hides: eligibility, reason and detail; nil when that is nothing.
function hidden.read(core_key, core)
  if core.managed or not PAUSES[core.eligibility_state] then return nil end
  local was = redis.call('HMGET', core_key, unpack(PAUSED_FIELDS))
  return is_set(was[1] or nil) and was or nil
end

-- Whether an execution waits for dependencies behind a pause.
function hidden.has_dependencies(core_key, child)
  local was = child.lifecycle_phase == 'runnable' and hidden.read(core_key, child)
  return was ~= nil and was ~= false and was[1] == 'blocked_by_dependencies'
end

-- Forgets what a pause or dependencies hid of an execution that has ended. `core`, when it is given, is as it was before.
function hidden.forget(core_key, core)
  if store.row(core_key) or core and core.eligibility_state ~= 'blocked_by_dependencies' and not PAUSES[core.eligibility_state] then
    return
  end
  redis.call('HDEL', core_key, 'prior_eligibility_state', 'prior_blocking_reason', 'prior_blocking_detail', unpack(PAUSED_FIELDS))
end

-- Forgets what a pause hid that is lifted.
function hidden.clear(core_key) redis.call('HDEL', core_key, unpack(PAUSED_FIELDS)) end
