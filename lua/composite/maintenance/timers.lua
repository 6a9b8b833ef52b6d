-- The timed tasks of a partition: the work of each on due entries, and the indexes that contain its due times. Every step can be
-- repeated, and run by any number of keepers.

-- Returns the lanes of the partition, with those that the caller knows in addition.
function timers.lanes(c, named)
  audience.note()
  local lanes = redis.call('SMEMBERS', key.ffx_lanes(c))
  local known = {}
  for _, lane in ipairs(lanes) do known[lane] = true end
  for _, lane in ipairs(named) do
    if not known[lane] then
      known[lane] = true
      lanes[#lanes + 1] = lane
    end
  end
  return lanes
end

local function promote_in_lane(c, lane, limit)
  local delayed_key, eligible_key = key.lane_delayed(c, lane), key.lane_eligible(c, lane)
  return usual_retry.promote(c, lane, delayed_key, limit, function(execution_id)
    requeue.promote(c, execution_id, key.exec_core(c, execution_id), delayed_key, eligible_key, c.now)
  end)
end

local OFFERED = { marked_expired = true, already_expired = true, already_revoked = true }

local function expire_leases(c, limit)
  local expiry_key = key.index_lease_expiry(c)
  return scan.each_due(c, 'lease_expiry', expiry_key, limit, function(execution_id)
    local outcome, core = lease.expire_if_due(c, execution_id, key.exec_core(c, execution_id), expiry_key)
    if OFFERED[outcome] and not run_stop.end_late(c, execution_id, key.exec_core(c, execution_id), core) then
      local due = outcome == 'already_revoked' and c.now or lost_worker.due(c, execution_id, core)
      if due > c.now then
        redis.call('ZADD', expiry_key, 'XX', number.time(due), execution_id)
      else
        lease.offer_reclaim(c, execution_id, core)
      end
    end
  end)
end

-- Fails the attempt of a member that exceeded its timeout; the member is retried by its policy. Executions outside managed flows
-- end, as the contract requires.
local function time_out_attempt(c, execution_id)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, terminal.END_FIELDS)
  redis.call('ZREM', key.index_attempt_timeout(c), execution_id)
  if not core or core.lifecycle_phase == 'terminal' then return end
  if not core.managed or core.lifecycle_phase ~= 'active' then
    terminal.expire(c, execution_id, core_key, core, 'attempt_timeout')
    return
  end
  local running_on = core.current_worker_instance_id
  local f = { lease_id = core.current_lease_id, lease_epoch = core.current_lease_epoch }
  local policy = policies.of(c, execution_id).retry_policy
  local delay = retry.delay(policy, tonumber(core.retry_count) or 0)
  if delay and not retry.is_allowed(c, execution_id, policy, 'timeout', delay) then delay = nil end
  local reason = 'the attempt ran longer than its start-to-close timeout'
  if delay and run_stop.end_late(c, execution_id, core_key, core) then return end
  if delay then
    retry.schedule(c, execution_id, core_key, core, f, reason, 'timeout', c.now + delay)
  else
    retry.give_up(c, execution_id, core_key, core, f, reason, 'timeout', nil, nil, true)
  end
  if core.awaits_release then
    wake.stop(c, running_on, execution_id, core, 'expired', 'attempt_timeout')
  elseif is_set(running_on) then
    wake.cancel(c, running_on, execution_id, core.current_lease_id, 'expired', 'attempt_timeout')
  end
end

local function time_out_attempts(c, limit)
  return scan.each_due(c, 'attempt_timeout', key.index_attempt_timeout(c), limit,
    function(execution_id) time_out_attempt(c, execution_id) end)
end

local function expire_executions(c, limit)
  return scan.each_due(c, 'execution_deadline', key.index_execution_deadline(c), limit, function(execution_id)
    local core_key = key.exec_core(c, execution_id)
    local core = record.read(core_key, terminal.END_FIELDS)
    redis.call('ZREM', key.index_execution_deadline(c), execution_id)
    if core and core.lifecycle_phase ~= 'terminal' and not (core.managed and ending.lapse(c, execution_id, core_key)) then
      terminal.expire(c, execution_id, core_key, core, 'execution_deadline')
    end
  end)
end

-- Fails a node that found no worker in time.
local function fail_unstarted(c, limit)
  local index_key = key.ffx_start_deadlines(c)
  return scan.each_due(c, 'start_deadline', index_key, limit, function(execution_id)
    redis.call('ZREM', index_key, execution_id)
    local core_key = key.exec_core(c, execution_id)
    local core = record.read(core_key, terminal.END_FIELDS)
    if core and core.lifecycle_phase == 'runnable' and pauses.keeps(c, core) then
      local timeout = tonumber(record.value(core_key, 'start_timeout') or nil) or 0
      redis.call('ZADD', index_key, c.now + timeout, execution_id)
    elseif core and core.lifecycle_phase == 'runnable' and not is_set(core.current_attempt_index) then
      local reason = 'not started within its schedule-to-start timeout'
      terminal.leave_indexes(c, execution_id, core)
      terminal.finish(c, execution_id, core_key, core, {
        outcome = 'failed', attempt_state = core.attempt_state, blank = {},
        values = { 'failure_reason', reason, 'failure_category', 'timeout' },
        reason = reason, category = 'timeout',
      })
    end
  end)
end

-- Maximum number of waits that one tick ends: each may end its execution, and with it those that depend on it.
local WAITS_PER_TICK = 64

local function expire_suspensions(c, limit)
  local index_key = key.index_suspension_timeout(c)
  local count = scan.each_due(c, 'suspension_timeout', index_key, math.min(limit, WAITS_PER_TICK), function(execution_id)
    local core_key = key.exec_core(c, execution_id)
    local k = suspension_record.keys(c, execution_id, record.read(core_key, { 'current_waitpoint_id' }) or {})
    k.core, k.suspension_timeout = core_key, index_key
    suspension.expire_if_due(c, k, execution_id)
  end)
  if count == WAITS_PER_TICK then c.more = true end
  return count
end

-- Closes waitpoints that were opened ahead of a suspension that never began, and removes waitpoints from former generations.
local function close_pending_waitpoints(c, limit)
  local index_key = key.index_pending_waitpoint_expiry(c)
  local work = past.work()
  return scan.each_due(c, 'pending_waitpoint_expiry', index_key, limit, function(waitpoint_id)
    local waitpoint_key = key.waitpoint_record(c, waitpoint_id)
    local w = redis.call('HMGET', waitpoint_key, 'state', 'spent', 'execution_id')
    redis.call('ZREM', index_key, waitpoint_id)
    if w[2] then
      past.go_on(c, work, waitpoint_id, w[3])
    elseif w[1] == 'pending' then
      suspension_record.close(c, { waitpoint = waitpoint_key, condition = key.waitpoint_condition(c, waitpoint_id) },
        'never_committed')
    end
  end)
end

local function expire_flows(c, limit)
  local index_key = key.ffx_flow_deadlines(c)
  return scan.each_due(c, 'flow_deadline', index_key, limit, function(flow_id)
    redis.call('ZREM', index_key, flow_id)
    local flow_key = key.flow_core(c, flow_id)
    local flow = record.read(flow_key, { 'public_flow_state', 'joins', 'finally_until', 'closed_at' })
    -- The time of the finally nodes is over: they fail, and so does the flow, unless it has ended otherwise.
    if flow and flow.finally_until and not flow.closed_at then
      record.set(flow_key, 'finally_over', '1')
      run_stop.owe_all(c, flow_id)
      run_stop.end_owed(c, flow_id, limit)
    elseif flow and not flow_record.is_over(flow) then
      event_log.add(c, flow_id, 'flow_deadline')
      run_stop.stop(c, flow_id, flow_key, 'failed', 'outcome', 'expired',
        'failure_reason', 'the flow ran longer than its deadline', 'failure_category', 'timeout')
      run_list.not_failed(c, flow_id, flow_key)
      run_list.failed(c, flow_id, flow_key, 'timeout')
    end
  end)
end

local function end_owed(c, limit)
  local ended = 0
  scan.each_due(c, 'cancel_backlog', key.index_cancel_backlog(c), 16, function(flow_id)
    if ended >= limit then
      c.more = true
    else
      ended = ended + run_stop.end_owed(c, flow_id, limit - ended)
    end
  end)
  return ended
end

-- Cancels upstreams that a decided join no longer needed.
local function cancel_siblings(c, limit)
  if limit <= 0 then return 0 end
  return sibling_cancel.drain(c, limit)
end

local function promote_delayed(c, limit, lanes)
  local promoted = 0
  for _, lane in ipairs(lanes) do promoted = promoted + promote_in_lane(c, lane, limit - promoted) end
  return promoted
end

local function work_backlog(c, limit)
  if limit <= 0 or redis.call('EXISTS', key.ffx_backlog(c)) == 0 then return 0 end
  return propagate.drain_backlog(c, limit)
end

-- Maximum number of flows per tick: each is much work.
local FLOWS_PER_TICK = 4

local function expire_some_flows(c, limit) return expire_flows(c, math.min(limit, FLOWS_PER_TICK)) end

local function end_some_owed(c, limit) return limit > 0 and end_owed(c, limit) or 0 end

local function offer_candidates(c, limit)
  c.candidates = limit_admission.offer_due(c, limit)
  return #c.candidates
end

local function one(builder)
  return function(c) return { builder(c) } end
end

-- Returns the tasks in the order in which a tick performs them. `work` gets the context, how many items are left to the call, and
-- the lanes of the partition; it returns how many it has worked on. `clocks` names the indexes whose scores are due times (ms),
-- `signs` further keys that exist when there is something to do. A `free` task bounds itself and takes nothing from the others.
function timers.list()
  return {
    {
      name = 'retention',
      work = function(c)
        run_holes.compact(c)
        return purge.run_due(c) + graph_upkeep.remove_due(c)
      end,
      clocks = function(c) return { key.ffx_purge_due(c), key.ffx_unused_graphs(c) } end, signs = one(key.ffx_hollow_lists), free = true,
    },
    { name = 'propagation', work = work_backlog, signs = one(key.ffx_backlog) },
    {
      name = 'delayed_promotion', work = promote_delayed,
      clocks = function(c, lanes)
        local list = {}
        for i, lane in ipairs(lanes) do list[i] = key.lane_delayed(c, lane) end
        return list
      end,
    },
    { name = 'lease_expiry', work = expire_leases, clocks = one(key.index_lease_expiry) },
    { name = 'attempt_timeout', work = time_out_attempts, clocks = one(key.index_attempt_timeout) },
    { name = 'execution_deadline', work = expire_executions, clocks = one(key.index_execution_deadline) },
    { name = 'start_deadline', work = fail_unstarted, clocks = one(key.ffx_start_deadlines) },
    { name = 'flow_deadline', work = expire_some_flows, clocks = one(key.ffx_flow_deadlines) },
    { name = 'pause_recheck', work = pauses.recheck_due, clocks = one(key.ffx_held) },
    { name = 'suspension_timeout', work = expire_suspensions, clocks = one(key.index_suspension_timeout) },
    {
      name = 'pending_waitpoint_expiry', work = close_pending_waitpoints, clocks = one(key.index_pending_waitpoint_expiry),
    },
    { name = 'cancel_backlog', work = end_some_owed, clocks = one(key.index_cancel_backlog) },
    { name = 'sibling_cancel_dispatch', work = cancel_siblings, signs = one(key.index_pending_cancel_groups) },
    { name = 'rerun', work = rerun.advance, signs = one(key.ffx_reruns), free = true },
    { name = 'child_runs', work = child_run.take_relay_entries, clocks = child_run.due_indexes },
    { name = 'admission', work = offer_candidates, clocks = one(key.ffx_unadmitted) },
    { name = 'schedule', work = schedule.take_due, clocks = one(key.ffx_schedules_due), free = true },
    { name = 'run_key', work = run_key.check_due, clocks = one(key.ffx_run_keys_due), free = true },
    { name = 'bulk_job', work = bulk_job.take_due, clocks = one(key.ffx_bulk_jobs_due), free = true },
  }
end
