-- What is due in one partition, driven by a keeper.

local tick = {}

-- Entries of an index that are due, the earliest first.
local function due_in(c, index_key, limit)
  if limit <= 0 then return {} end
  return redis.call('ZRANGE', index_key, '-inf', c.now, 'BYSCORE', 'LIMIT', 0, limit)
end

local function promote_delayed(c, lane, limit)
  local delayed_key, eligible_key = key.lane_delayed(c, lane), key.lane_eligible(c, lane)
  local ids = due_in(c, delayed_key, limit)
  for _, execution_id in ipairs(ids) do
    park.promote(c, execution_id, key.exec_core(c, execution_id), delayed_key, eligible_key, c.now)
  end
  return #ids
end

local OFFERED = { marked_expired = true, already_expired = true, already_revoked = true }

local function expire_leases(c, limit)
  local expiry_key = key.index_lease_expiry(c)
  local ids = due_in(c, expiry_key, limit)
  for _, execution_id in ipairs(ids) do
    local outcome, core = lease.expire_if_due(c, execution_id, key.exec_core(c, execution_id), expiry_key)
    if OFFERED[outcome] and not flows.end_late(c, execution_id, key.exec_core(c, execution_id), core) then
      lease.offer_reclaim(c, execution_id, core)
    end
  end
  return #ids
end

-- A member that overstayed its attempt timeout fails this attempt and is retried by its policy. Executions
-- outside managed flows end, as the contract has it.
local function time_out_attempt(c, execution_id)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, lifecycle.END_FIELDS)
  redis.call('ZREM', key.index_attempt_timeout(c), execution_id)
  if not core or core.lifecycle_phase == 'terminal' then return end
  if not core.managed or core.lifecycle_phase ~= 'active' then
    lifecycle.expire(c, execution_id, core_key, core, 'attempt_timeout')
    return
  end
  local running_on = core.current_worker_instance_id
  local f = { lease_id = core.current_lease_id, lease_epoch = core.current_lease_epoch }
  local policy = record.policy(key.exec_policy(c, execution_id)).retry_policy
  local delay = retry.delay(policy, tonumber(core.retry_count) or 0)
  local reason = 'the attempt ran longer than its start-to-close timeout'
  if delay and flows.end_late(c, execution_id, core_key, core) then return end
  if delay then
    retry.schedule(c, execution_id, core_key, core, f, reason, 'timeout', c.now + delay)
  else
    retry.give_up(c, execution_id, core_key, core, f, reason, 'timeout')
  end
  if is_set(running_on) then wake.cancel(c, running_on, execution_id, core.current_lease_id, 'attempt_timeout') end
end

local function time_out_attempts(c, limit)
  local ids = due_in(c, key.index_attempt_timeout(c), limit)
  for _, execution_id in ipairs(ids) do time_out_attempt(c, execution_id) end
  return #ids
end

local function expire_executions(c, limit)
  local ids = due_in(c, key.index_execution_deadline(c), limit)
  for _, execution_id in ipairs(ids) do
    local core_key = key.exec_core(c, execution_id)
    local core = record.read(core_key, lifecycle.END_FIELDS)
    if core and core.lifecycle_phase ~= 'terminal' then
      lifecycle.expire(c, execution_id, core_key, core, 'execution_deadline')
    end
    redis.call('ZREM', key.index_execution_deadline(c), execution_id)
  end
  return #ids
end

-- A node that found no worker in time fails.
local function fail_unstarted(c, limit)
  local index_key = key.ffx_start_deadlines(c)
  local ids = due_in(c, index_key, limit)
  for _, execution_id in ipairs(ids) do
    redis.call('ZREM', index_key, execution_id)
    local core_key = key.exec_core(c, execution_id)
    local core = record.read(core_key, lifecycle.END_FIELDS)
    if core and core.lifecycle_phase == 'runnable' and pauses.keeps(c, core) then
      local timeout = tonumber(redis.call('HGET', core_key, 'start_timeout') or nil) or 0
      redis.call('ZADD', index_key, c.now + timeout, execution_id)
    elseif core and core.lifecycle_phase == 'runnable' and not is_set(core.current_attempt_index) then
      local reason = 'not started within its schedule-to-start timeout'
      lifecycle.leave_indexes(c, execution_id, core)
      lifecycle.finish(c, execution_id, core_key, core, {
        outcome = 'failed', attempt_state = core.attempt_state, blank = {},
        values = { 'failure_reason', reason, 'failure_category', 'timeout' },
        reason = reason, category = 'timeout',
      })
    end
  end
  return #ids
end

-- Waits that one tick ends at most: each may end its execution, and with it what depends on it.
local WAITS_PER_TICK = 64

local function expire_suspensions(c, limit)
  limit = math.min(limit, WAITS_PER_TICK)
  local index_key = key.index_suspension_timeout(c)
  local ids = due_in(c, index_key, limit)
  for _, execution_id in ipairs(ids) do
    local core_key = key.exec_core(c, execution_id)
    local k = suspension.keys(c, execution_id, record.read(core_key, { 'current_waitpoint_id' }) or {})
    k.core, k.suspension_timeout = core_key, index_key
    suspension.expire_if_due(c, k, execution_id)
  end
  if #ids == WAITS_PER_TICK then c.more = true end
  return #ids
end

-- Waitpoints that were opened ahead of a suspension that never came.
local function close_pending_waitpoints(c, limit)
  local index_key = key.index_pending_waitpoint_expiry(c)
  local ids = due_in(c, index_key, limit)
  for _, waitpoint_id in ipairs(ids) do
    local waitpoint_key = key.waitpoint_record(c, waitpoint_id)
    redis.call('ZREM', index_key, waitpoint_id)
    if redis.call('HGET', waitpoint_key, 'state') == 'pending' then
      suspension.close(c, { waitpoint = waitpoint_key, condition = key.waitpoint_condition(c, waitpoint_id) },
        'never_committed')
    end
  end
  return #ids
end

local function expire_flows(c, limit)
  local index_key = key.ffx_flow_deadlines(c)
  local ids = due_in(c, index_key, limit)
  for _, flow_id in ipairs(ids) do
    redis.call('ZREM', index_key, flow_id)
    local flow_key = key.flow_core(c, flow_id)
    local flow = record.read(flow_key, { 'public_flow_state', 'held' })
    if flow and not graph.is_over(flow) then
      graph.log(c, flow_id, 'flow_deadline')
      flows.stop(c, flow_id, flow_key, flow, 'failed', 'outcome', 'expired',
        'failure_reason', 'the flow ran longer than its deadline', 'failure_category', 'timeout')
    end
  end
  return #ids
end

local function end_owed(c, limit)
  local ended = 0
  for _, flow_id in ipairs(due_in(c, key.index_cancel_backlog(c), 16)) do
    if ended >= limit then
      c.more = true
      break
    end
    ended = ended + flows.end_owed_members(c, flow_id, limit - ended)
  end
  return ended
end

-- Upstreams that a join had no use for when it was decided.
local function cancel_siblings(c, limit)
  if limit <= 0 then return 0 end
  return joins.cancel_owed_siblings(c, limit)
end

-- Earliest score of an index, or nil.
local function head(index_key)
  local first = redis.call('ZRANGE', index_key, 0, 0, 'WITHSCORES')
  return tonumber(first[2] or nil)
end

-- Indexes whose scores are the times (ms) at which something is due.
local function clocks(c, lanes)
  local list = {
    key.index_lease_expiry(c), key.index_attempt_timeout(c), key.index_execution_deadline(c),
    key.index_suspension_timeout(c), key.index_pending_waitpoint_expiry(c), key.ffx_start_deadlines(c),
    key.ffx_flow_deadlines(c), key.index_cancel_backlog(c), key.ffx_held(c),
    key.ffx_unadmitted(c),
  }
  for _, lane in ipairs(lanes) do list[#list + 1] = key.lane_delayed(c, lane) end
  return list
end

-- Whether there is nothing to do here, now or at a time that is known. Most partitions are like this most of the time.
local function is_quiet(c, indexes)
  return redis.call('EXISTS', key.ffx_backlog(c), key.index_pending_cancel_groups(c), key.ffx_reruns(c), unpack(indexes)) == 0
end

-- When something is due next in this partition (ms), or nil.
local function next_due(c, indexes)
  if c.more then return c.now end
  local at
  for _, index_key in ipairs(indexes) do
    local score = head(index_key)
    if score and (not at or score < at) then at = score end
  end
  return at
end

-- Lanes of the partition, with those that the caller knows besides.
local function all_lanes(c, named)
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

local MAX_LIMIT = 256

-- @function ffx_tick
-- @summary  Does what is due in one partition, at most about `limit` items, and tells when something is due
--           next. Safe to call from any number of keepers.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      limit              int
-- @args     lanes              lane_id
-- @reply    OK now:unix_ms next_due_at:unix_ms more:bool promoted:int leases_expired:int attempts_timed_out:int deadlines_expired:int cancelled:int propagated:int suspensions_expired:int waitpoints_closed:int purged:int? candidates:list(candidate)?
-- @error    invalid_input message:text
function F.ffx_tick(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  limit = math.max(1, math.min(limit, MAX_LIMIT))
  local c = call.open(K.partition)
  local lanes = all_lanes(c, A.lanes)
  local indexes = clocks(c, lanes)
  local purged = number.text(flows.purge_due(c))
  if is_quiet(c, indexes) then
    return reply.ok(c.now_text, c.more and c.now_text or '', c.more and '1' or '0', '0', '0', '0', '0', '0', '0', '0', '0',
      purged, {})
  end
  local left = limit
  local function spend(count)
    left = left - count
    return number.text(count)
  end
  local propagated = spend(redis.call('EXISTS', key.ffx_backlog(c)) == 1 and graph.work_backlog(c, left) or 0)
  local promoted = 0
  for _, lane in ipairs(lanes) do promoted = promoted + promote_delayed(c, lane, left - promoted) end
  promoted = spend(promoted)
  local expired_leases = spend(expire_leases(c, left))
  local timed_out = spend(time_out_attempts(c, left))
  local deadlines = spend(expire_executions(c, left))
  deadlines = number.text(deadlines + spend(fail_unstarted(c, left)) + spend(expire_flows(c, math.min(left, 4))))
  promoted = number.text(promoted + spend(pauses.recheck_due(c, left)))
  local suspensions = spend(expire_suspensions(c, left))
  local waitpoints = spend(close_pending_waitpoints(c, left))
  local cancelled = spend(left > 0 and end_owed(c, left) or 0)
  cancelled = number.text(cancelled + spend(cancel_siblings(c, left)))
  flows.rerun_some(c)
  local candidates = limits.offer_due(c, left)
  spend(#candidates)
  if left <= 0 then c.more = true end
  graph.settle(c)
  local at = next_due(c, indexes)
  return reply.ok(c.now_text, at and number.text(math.max(at, 0)) or '', c.more and '1' or '0', promoted,
    expired_leases, timed_out, deadlines, cancelled, propagated, suspensions, waitpoints, purged, candidates)
end

-- @function ffx_end_leases
-- @summary  Ends every lease of a partition at once, for a caller that knows that no worker of before lives any
--           more. Looks at a bounded number per call; go on while `more`.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @reply    OK ended:int more:bool
function F.ffx_end_leases(K, A)
  local c = call.open(K.partition)
  local expiry_key = key.index_lease_expiry(c)
  local ended, seen = 0, redis.call('ZRANGE', expiry_key, 0, MAX_LIMIT - 1)
  for _, execution_id in ipairs(seen) do
    local core_key = key.exec_core(c, execution_id)
    local core = record.read(core_key, fence.FIELDS)
    if core and core.lifecycle_phase == 'active' and core.ownership_state == 'leased' then
      core.execution_id = core.execution_id or execution_id
      lease.mark_expired(c, core_key, core)
      lease.offer_reclaim(c, execution_id, core)
      ended = ended + 1
    end
    redis.call('ZADD', expiry_key, c.now + MAX_LEASE_MS, execution_id)
  end
  local rest = redis.call('ZRANGE', expiry_key, '-inf', c.now + MAX_LEASE_MS - 1, 'BYSCORE', 'LIMIT', 0, 1)
  return reply.ok(number.text(ended), #rest > 0 and '1' or '0')
end
