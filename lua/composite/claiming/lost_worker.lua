-- Lost workers: which worker takes over an execution whose worker was lost, and when.
--
-- A worker that is killed ends all executions that it ran, and nothing shows which of them killed it, if any did. So any worker
-- takes over at once after the first loss. An execution that is lost again waits a growing time, and for a worker that has lived
-- for a lease: a program that crashes soon after each of its starts loses nothing twice. From the third loss on, and before the
-- last take-over that its policy allows, an execution is a suspect, which a worker runs alone: it can harm only itself.

-- Number of take-overs by a worker that also runs others.
local IN_COMPANY = 2

-- The wait (ms) for the second take-over. Each further one waits twice as long, up to the longest.
local FIRST_DELAY_MS, LONGEST_DELAY_MS = 1000, 60000

-- A busy worker that is requested to run a suspect has this time (ms) to finish its executions. Then another worker is requested.
local TURN_MS = 30000

-- Returns how often a managed execution has been taken over, and how many take-overs are left; none are left when the next claim
-- gives it up.
local function take_overs(c, execution_id, reclaims)
  reclaims = tonumber(reclaims) or 0
  return reclaims, claim.reclaim_limit(c, execution_id) - reclaims
end

-- Returns when (ms) an execution whose lease ran out may be taken over. The wait begins with the end of the lease, so a late
-- keeper does not prolong it.
function lost_worker.due(c, execution_id, core)
  if not core.managed then return c.now end
  local stored = record.read(key.exec_core(c, execution_id), { 'lease_reclaim_count', 'lease_expired_at', 'lease_expires_at' })
  local reclaims, left = take_overs(c, execution_id, stored.lease_reclaim_count)
  if reclaims == 0 or left <= 0 then return c.now end
  -- A lease that was ended before its time has expired before it would have run out.
  local lost_at = math.min(number.finite(stored.lease_expired_at) or c.now, number.finite(stored.lease_expires_at) or c.now)
  return lost_at + math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ^ (reclaims - 1))
end

-- Reports whether an abandoned execution has to wait for a worker other than this one, or until this one runs nothing else. An
-- execution whose lease an operator revoked does not: no worker was killed.
function lost_worker.waits(c, request, execution_id, core)
  if not core.managed or core.ownership_state == 'lease_revoked' then return false end
  local reclaims, left = take_overs(c, execution_id, core.lease_reclaim_count)
  if left <= 0 or reclaims == 0 and left > 1 then return false end
  if request.is_new then return true end
  if request.alone or reclaims < IN_COMPANY and left > 1 then return false end
  request.suspect = true
  return true
end

-- Reports whether the worker of a claim that met a suspect is requested to run it: it finishes its executions and claims alone.
-- One worker of a lane is requested at a time.
function lost_worker.is_asked(c, request)
  if not request.suspect then return false end
  local turn_key = key.ffx_suspect_turn(call.home(c), request.lane)
  if redis.call('SET', turn_key, request.worker_instance_id, 'NX', 'PX', TURN_MS) then return true end
  return redis.call('GET', turn_key) == request.worker_instance_id
end

-- Ends the turn of a worker that has claimed alone.
function lost_worker.end_turn(c, request)
  if request.alone then redis.call('DEL', key.ffx_suspect_turn(call.home(c), request.lane)) end
end
