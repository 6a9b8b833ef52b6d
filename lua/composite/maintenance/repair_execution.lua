-- Repairs the index entries of an execution. Its record is authoritative, and its index entries follow from it. The record is
-- read in the call that repairs, so a repair never races with a transition. Correct entries are not written.

-- Enters a waiting execution into the queue of its key, and the key into the line, where keys take turns.
local function repair_queue(c, execution_id, core, lane, score)
  if not redis.call('ZSCORE', key.ffx_turns(call.home(c), lane), core.fair_key or '') then repair_index.note(c, 'turns') end
  repair_index.place(c, 'queue', order.queue_for(c, lane, execution_id, core), execution_id, score, true)
end

-- Reports whether an eligible execution is in a queue. Claims move executions without a key that were entered before the first
-- key to the queue of the empty key.
local function is_queued(c, core, lane)
  return is_set(core.fair_key)
    or order.is_fair(c, lane) and redis.call('HEXISTS', key.ffx_order(call.home(c), lane), 'adopted_to') == 0
end

-- Records the lane of an execution: the lanes of managed flows, and lanes on which other executions have been found.
local function learn_lane(c, core, lane)
  if not core.managed and core.lifecycle_phase == 'terminal' or not pauses.note_lane(c, lane) then return end
  if core.managed then repair_index.note(c, 'lanes') end
end

local function repair_lane(c, execution_id, core)
  local lane, index, score, exact = repair_index.home(c, core)
  learn_lane(c, core, lane or record.lane(core))
  -- The place of a suspended execution follows from its suspension.
  if not index or index == 'suspended' then return end
  if index == 'eligible' and order.is_ordered(c, core) and is_queued(c, core, lane) then repair_queue(c, execution_id, core, lane, score) end
  if not repair_index.place(c, 'lane:' .. index, repair_index.key_of(c, core, lane, index), execution_id, score, exact) then return end
  if index == 'eligible' then
    order.announce(c, execution_id, core, lane)
  elseif index == 'delayed' then
    wake.delayed(c, lane, core, score)
  end
end

-- Enters an active execution into the index of its lease, into the set of its worker and, when its worker is lost, into the index
-- in which workers find it.
local function repair_lease(c, execution_id, core)
  local expiry_key = key.index_lease_expiry(c)
  local leased = core.ownership_state == 'leased'
  local expires = leased and number.finite(core.lease_expires_at) or nil
  if repair_index.place(c, 'lease_expiry', expiry_key, execution_id, expires or c.now, expires ~= nil) then wake.due(c, expires or c.now) end
  if core.ownership_state ~= 'lease_revoked' and is_set(core.current_worker_instance_id)
    and not store.row(key.exec_core(c, execution_id)) then
    repair_index.add(c, 'worker_leases', key.index_worker_leases(c, core.current_worker_instance_id), execution_id)
  end
  if not core.managed then return end
  local timeout = tonumber(core.attempt_timeout)
  if leased and timeout then
    repair_index.place(c, 'attempt_timeout', key.index_attempt_timeout(c), execution_id, c.now + timeout + leasing.TIMEOUT_GRACE_MS, false)
  end
  -- The check for lapsed leases offers it again, to workers or to its limits.
  if not leased and core.admission ~= limit_admission.WAITING
    and not redis.call('ZSCORE', key.ffx_reclaimable(call.home(c), record.running_lane(core)), execution_id)
    and tonumber(redis.call('ZSCORE', expiry_key, execution_id)) > math.max(c.now, lost_worker.due(c, execution_id, core)) then
    redis.call('ZADD', expiry_key, c.now, execution_id)
    repair_index.note(c, 'reclaimable')
    wake.due(c, c.now)
  end
end

local function repair_suspension(c, execution_id, core)
  local s = record.read(key.exec_suspension(c, execution_id), { 'timeout_at', 'closed_at', 'created_at' }) or {}
  local at = not is_set(s.closed_at) and number.finite(s.timeout_at)
  repair_index.place(c, 'lane:suspended', key.lane_suspended(c, record.lane(core)), execution_id, at or suspension_record.NO_TIMEOUT, at)
  local index_key = key.index_suspension_timeout(c)
  if not at then
    repair_index.drop(c, 'suspension_timeout', 'ZREM', index_key, execution_id)
  elseif repair_index.place(c, 'suspension_timeout', index_key, execution_id, at, true) then
    wake.due(c, at)
  end
  if core.managed then
    repair_index.place(c, 'open_waits', key.ffx_open_waits(c), execution_id, number.finite(s.created_at) or c.now, false)
  end
end

-- Enters an execution that waits for a budget into the list of that budget, or releases it when the budget is open.
local function repair_budget(c, execution_id, core)
  local flow = record.read(key.flow_core(c, core.flow_id or ''), { 'budget_ids' })
  if not flow or not is_set(flow.budget_ids) then return end
  local words, budget_id = budget_gate.closed(c, flow)
  if words then
    repair_index.place(c, 'budget_waiting', key.ffx_budget_waiting(c, budget_id), execution_id, record.eligible_score(core), false)
  else
    repair_index.note(c, 'budget_waiting')
    budget_gate.release(c, execution_id)
  end
end

-- Enters a blocked runnable execution of a flow into the index in which it is checked again.
local function repair_waiting(c, execution_id, core)
  local state = core.eligibility_state
  local till = core.ending and number.finite(core.ending_until)
  if till then
    if repair_index.place(c, 'execution_deadline', key.index_execution_deadline(c), execution_id, till, true) then wake.due(c, till) end
  elseif state == 'eligible_now' and tonumber(core.start_timeout) and not is_set(core.current_attempt_index) then
    local at = c.now + tonumber(core.start_timeout)
    if repair_index.place(c, 'start_deadlines', key.ffx_start_deadlines(c), execution_id, at, false) then wake.due(c, at) end
  elseif state == 'blocked_by_operator' and pauses.is_held(core) then
    if repair_index.place(c, 'held', key.ffx_held(c), execution_id, c.now, false) then wake.due(c, c.now) end
  elseif state == 'blocked_by_budget' then
    repair_budget(c, execution_id, core)
  elseif state == 'blocked_by_quota' and core.limits and not limit_admission.admitted(core) then
    if repair_index.place(c, 'unadmitted', key.ffx_unadmitted(c), execution_id, c.now, false) then wake.due(c, c.now) end
  end
end

-- Closes waitpoints that were opened ahead of a wait which does not begin, and removes waitpoints from former generations.
local function repair_waitpoints(c, execution_id)
  for _, waitpoint_id in ipairs(redis.call('SMEMBERS', key.exec_waitpoints(c, execution_id))) do
    local w = redis.call('HMGET', key.waitpoint_record(c, waitpoint_id), 'state', 'expires_at', 'spent')
    local at = w[3] and c.now or w[1] == 'pending' and number.finite(w[2])
    if at then repair_index.place(c, 'pending_waitpoint_expiry', key.index_pending_waitpoint_expiry(c), waitpoint_id, at, true) end
  end
end

-- Lists a group that owes its siblings a cancel.
function repair_execution.group(c, flow_id, execution_id)
  if redis.call('HGET', key.flow_edgegroup(c, flow_id, execution_id), 'cancel_siblings_pending_flag') == 'true' then
    repair_index.add(c, 'pending_cancel_groups', key.index_pending_cancel_groups(c), flow_id .. '|' .. execution_id)
  end
end

-- Repairs a flow that only its members name, each once per call. Returns whether that may have changed the record.
local function repair_membership(c, execution_id, core)
  c.known_flows = c.known_flows or {}
  local known = c.known_flows[core.flow_id]
  local changed = false
  if known == nil then
    known = record.exists(key.flow_core(c, core.flow_id)) == 1
    c.known_flows[core.flow_id] = known
    if known and core.managed and not run_list.has(c, core.flow_id) then
      repair_flow.flow(c, core.flow_id)
      changed = true
    end
  end
  if known then
    local s, at = store.of(key.exec_core(c, execution_id))
    if not s.is_node_of(at, core.flow_id) then
      repair_index.add(c, 'members', key.flow_members(c, core.flow_id), execution_id)
    end
    if not core.managed then repair_execution.group(c, core.flow_id, execution_id) end
  end
  return changed
end

-- Reports whether a record of a member is left whose flow is gone.
local function is_left_over(c, execution_id, core)
  if is_set(core.execution_id) and core.execution_id ~= execution_id then return true end
  if not is_set(core.flow_id) then return false end
  c.has_flow = c.has_flow or {}
  if c.has_flow[core.flow_id] == nil then
    c.has_flow[core.flow_id] = record.exists(key.flow_core(c, core.flow_id)) == 1
  end
  return not c.has_flow[core.flow_id]
end

-- Enters an execution into all indexes that its record names. Returns the record, or nil when there is none.
function repair_execution.execution(c, execution_id, core)
  core = core or repair_index.read(c, execution_id)
  if not core or not core.lifecycle_phase or core.managed and is_left_over(c, execution_id, core) then return nil end
  local is_row = store.row(key.exec_core(c, execution_id)) ~= nil
  if not is_row then repair_index.add(c, 'all_executions', key.index_all_executions(c), execution_id) end
  if core.managed and core.wait and core.lifecycle_phase == 'runnable' and core.eligibility_state == 'eligible_now' then
    -- Waitpoints are opened by the call that releases their nodes.
    wait.open(c, execution_id, key.exec_core(c, execution_id), core)
    repair_index.note(c, 'waitpoints')
    core = repair_index.read(c, execution_id)
  end
  repair_lane(c, execution_id, core)
  -- The repair of its flow has checked it as a member, and may have released it.
  if is_set(core.flow_id) and repair_membership(c, execution_id, core) then core = repair_index.read(c, execution_id) end
  if core.lifecycle_phase == 'terminal' then
    if is_row then repair_rows.edges_from(c, execution_id) end
    if core.managed and redis.call('EXISTS', key.ffx_unresolved_edges(c, execution_id)) == 1
      and not redis.call('LPOS', key.ffx_backlog(c), execution_id) then
      redis.call('RPUSH', key.ffx_backlog(c), execution_id)
      repair_index.note(c, 'backlog')
      wake.due(c, c.now)
    end
    return core
  end
  repair_waitpoints(c, execution_id)
  if core.lifecycle_phase == 'active' then
    repair_lease(c, execution_id, core)
  elseif core.lifecycle_phase == 'suspended' then
    if core.managed and repair_wait.execution(c, execution_id) then return repair_index.read(c, execution_id) end
    repair_suspension(c, execution_id, core)
  elseif core.managed then
    repair_waiting(c, execution_id, core)
  end
  if core.eligibility_state == 'blocked_by_dependencies' then
    if is_row then repair_rows.edges_to(c, execution_id, core) else repair_edges.execution(c, execution_id, core) end
  end
  return core
end
