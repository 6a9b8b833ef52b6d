-- Leases one execution to a worker: fresh, resumed, or abandoned by another worker.

-- A worker that exceeds its attempt timeout by this time (ms) counts as unable to notice it.
local TIMEOUT_GRACE_MS = 1000
leasing.TIMEOUT_GRACE_MS = TIMEOUT_GRACE_MS

-- Records when an attempt with a timeout is over.
function leasing.arm_timeout(c, execution_id, core)
  local timeout = tonumber(core.attempt_timeout)
  if not timeout then return end
  local at = c.now + timeout + TIMEOUT_GRACE_MS
  call.enter(c, key.index_attempt_timeout(c), execution_id, at)
  wake.due(c, at)
end

-- Starts a new attempt of a runnable execution, or continues the one that was put aside. `left`: it is in no eligible set of the
-- lane.
function leasing.lease_runnable(c, request, execution_id, core_key, core, n, left)
  local w = claim_request.lease_for(c, request, n)
  local attempt
  if core.row and core.lane_id == request.lane then
    if not left then order.leave(c, request.lane, execution_id, core) end
    attempt = row_steps.start_fresh(c, execution_id, core, w)
  elseif core.attempt_state == 'attempt_interrupted' then
    attempt = claim.resume(c, execution_id, core_key, core, w)
  else
    attempt = claim.start(c, execution_id, core_key, core, w, left)
  end
  -- A new attempt has its full timeout, regardless of the rest of an earlier one.
  if attempt.type ~= 'resumed' or not is_set(core.remaining_attempt_timeout) then leasing.arm_timeout(c, execution_id, core) end
  if attempt.type == 'resumed' then
    if core.managed then event_log.add_for(c, core, 'resumed', attempt.index, request.worker_instance_id) end
  elseif core.managed then
    event_log.note(c, execution_id, core, 'started', attempt.index, request.worker_instance_id)
  end
  wake.due(c, c.now + request.ttl)
  return claim_reply.describe(c, execution_id, core, attempt, w.lease_id)
end

-- Leases an abandoned execution again. Returns nil when it was given up instead.
function leasing.take_over(c, request, execution_id, core_key, core, n)
  redis.call('ZREM', key.ffx_reclaimable(call.home(c), request.lane), execution_id)
  if run_stop.end_late(c, execution_id, core_key, core) then return nil end
  local w = claim_request.lease_for(c, request, n)
  if core.limits then limit_admission.carry(c, execution_id, core) end
  local attempt = claim.take_over(c, execution_id, core_key, core, w)
  if not attempt then return nil end
  leasing.arm_timeout(c, execution_id, core)
  if core.managed then event_log.add_for(c, core, 'reclaimed', attempt.index, request.worker_instance_id) end
  wake.due(c, c.now + request.ttl)
  return claim_reply.describe(c, execution_id, core, attempt, w.lease_id)
end

-- Leases an execution that was admitted.
function leasing.lease_admitted(c, request, execution_id, core_key, core, n)
  if claim.is_abandoned(core) then return leasing.take_over(c, request, execution_id, core_key, core, n) end
  redis.call('ZREM', key.lane_blocked_quota(c, request.lane), execution_id)
  return leasing.lease_runnable(c, request, execution_id, core_key, core, n)
end

-- Appends the leases in a partition that an earlier try of the same claim made.
local function append_of_claim(c, request, base, out)
  for _, execution_id in ipairs(worker_leases.of(c, request.worker_instance_id)) do
    local core = record.read(key.exec_core(c, execution_id), claim.FIELDS)
    if core and core.ownership_state == 'leased' and string.sub(core.current_lease_id or '', 1, 24) == base then
      local attempt_type = redis.call('HGET',
        key.attempt_record(c, execution_id, core.current_attempt_index or ''), 'attempt_type')
      out[#out + 1] = claim_reply.describe(c, execution_id, core, {
        index = core.current_attempt_index, attempt_id = core.current_attempt_id, type = attempt_type or core.current_attempt_index ~= '0' and 'retry' or 'initial',
        epoch = core.current_lease_epoch, expires = core.lease_expires_at,
      }, core.current_lease_id)
    end
  end
end

-- Returns the leases that an earlier try of the same claim made, in any partition that uses the lane.
function leasing.of_claim(c, request)
  local base, out, home = string.sub(request.claim_id, 1, 24), {}, call.home(c)
  append_of_claim(c, request, base, out)
  if call.is_clustered() then return out end
  if home ~= c then append_of_claim(call.at(c, home.tag), request, base, out) end
  for _, partition in ipairs(redis.call('SMEMBERS', key.ffx_lane_partitions(home, request.lane))) do
    local beside = call.at(c, '{fp:' .. partition .. '}')
    if beside ~= c then append_of_claim(beside, request, base, out) end
  end
  return out
end
