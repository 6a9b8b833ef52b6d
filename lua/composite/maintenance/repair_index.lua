-- Repairs of single index entries: adding, moving and removing them, counted by index, and the index that a record
-- belongs to.

-- Counts a repaired entry of an index.
function repair_index.note(c, index)
  c = c.root or c
  c.repaired = c.repaired or {}
  c.repaired[index] = (c.repaired[index] or 0) + 1
end

-- @record repaired_index index:text entries:int

-- Returns the repairs as a list of records, by index.
function repair_index.report(c)
  local list = {}
  for index, entries in pairs(c.repaired or {}) do list[#list + 1] = { index, number.text(entries) } end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

-- Adds a member to a set unless it is there.
function repair_index.add(c, index, set_key, member)
  if redis.call('SADD', set_key, member) == 1 then
    repair_index.note(c, index)
    return true
  end
  return false
end

-- Gives a member a score: the given one when it is `exact`, any otherwise. Returns whether that was a change.
function repair_index.place(c, index, index_key, member, score, exact)
  local found = tonumber(redis.call('ZSCORE', index_key, member) or nil)
  if found and (not exact or found == score) then return false end
  redis.call('ZADD', index_key, score, member)
  repair_index.note(c, index)
  return true
end

-- Removes a member from an index in which it does not belong.
function repair_index.drop(c, index, command, index_key, member)
  if redis.call(command, index_key, member) == 1 then repair_index.note(c, index) end
end

-- Removes an entry from a list in which it does not belong.
function repair_index.drop_entry(c, index, list_key, entry)
  if redis.call('LREM', list_key, 1, entry) == 1 then repair_index.note(c, index) end
end

local FIELDS = {
  'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome',
  'attempt_state', 'lane_id', 'current_lane', 'created_at', 'priority', 'delay_until', 'completed_at', 'flow_id', 'managed',
  'node', 'current_worker_instance_id', 'current_lease_epoch', 'lease_expires_at', 'start_timeout', 'attempt_timeout',
  'current_attempt_index', 'fair_key', 'limits', 'admission', 'execution_id', 'replay_count', 'wait', 'prior_eligibility_state',
  'child_flow_id', 'child_outcome', 'is_row', 'ending', 'ending_until',
}

function repair_index.read(c, execution_id) return record.read(key.exec_core(c, execution_id), FIELDS) end

-- Returns the key of the lane index for an execution.
function repair_index.key_of(c, core, lane, index)
  if index == 'eligible' then return order.index(c, lane, core) end
  return key['lane_' .. index](c, lane)
end

local BY_ELIGIBILITY = {
  eligible_now = 'eligible', not_eligible_until_time = 'delayed', blocked_by_dependencies = 'blocked_dependencies',
  blocked_by_budget = 'blocked_budget', blocked_by_quota = 'blocked_quota', blocked_by_route = 'blocked_route',
  blocked_by_operator = 'blocked_operator',
}

-- Returns the lane index for an execution: lane, name of the index, score, and whether the score must be exact. Nil for states
-- without one.
function repair_index.home(c, core)
  local phase, lane = core.lifecycle_phase, record.lane(core)
  if core.is_row and (phase == 'terminal' or phase == 'active' or core.eligibility_state == 'blocked_by_dependencies') then
    return nil
  end
  if phase == 'terminal' then
    return lane, 'terminal', number.finite(core.completed_at) or c.now, is_set(core.completed_at)
  elseif phase == 'active' then
    return record.running_lane(core), 'active', number.finite(core.lease_expires_at) or c.now, false
  elseif phase == 'suspended' then
    return lane, 'suspended', suspension_record.NO_TIMEOUT, false
  elseif phase ~= 'runnable' then
    return nil
  end
  local index = BY_ELIGIBILITY[core.eligibility_state]
  if index == 'eligible' then return lane, index, record.eligible_score(core), true end
  if index == 'delayed' then
    local at = number.finite(core.delay_until)
    return lane, index, at or c.now, at ~= nil
  end
  if index == 'blocked_dependencies' then return lane, index, number.finite(core.created_at) or 0, true end
  return lane, index, c.now, false
end
