-- Lost workers: who takes over an execution whose worker was lost, and when.
--
-- A worker that is killed takes down all that it ran, and nothing says which execution killed it, if any did. So the first loss is
-- mended at once, by any worker. An execution that is lost again waits a growing time, and for a worker that has lived for a
-- lease: a program that crashes soon after each of its starts takes nothing down twice. From the third loss on, and before the
-- last one that its policy allows, an execution is a suspect, which a worker runs alone: it can harm itself only.

-- So many take-overs are made in company.
local IN_COMPANY = 2

-- The wait (ms) for the second take-over. Each further one waits twice as long, up to the longest.
local FIRST_DELAY_MS, LONGEST_DELAY_MS = 1000, 60000

-- A busy worker that is asked to run a suspect has this time (ms) to finish what it runs. Then another worker is asked.
local TURN_MS = 30000

-- How often a managed execution has been taken over, and how many take-overs are left; none are left of one that the next claim gives
-- up.
local function take_overs(c, execution_id, reclaims)
  reclaims = tonumber(reclaims) or 0
  return reclaims, claim.reclaim_limit(c, execution_id) - reclaims
end

-- When (ms) an execution whose lease ran out may be taken over.
function lost_worker.due(c, execution_id, core)
  if not core.managed then return c.now end
  local stored = record.read(key.exec_core(c, execution_id), { 'lease_reclaim_count', 'lease_expired_at' })
  local reclaims, left = take_overs(c, execution_id, stored.lease_reclaim_count)
  if reclaims == 0 or left <= 0 then return c.now end
  local expired = number.finite(stored.lease_expired_at) or c.now
  return expired + math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ^ (reclaims - 1))
end

-- Whether an abandoned execution has to wait for a worker other than this one, or until this one runs nothing else. One that an
-- operator took from its worker does not: nothing was killed.
function lost_worker.waits(c, request, execution_id, core)
  if not core.managed or core.ownership_state == 'lease_revoked' then return false end
  local reclaims, left = take_overs(c, execution_id, core.lease_reclaim_count)
  if left <= 0 or reclaims == 0 and left > 1 then return false end
  if request.is_new then return true end
  if request.alone or reclaims < IN_COMPANY and left > 1 then return false end
  request.suspect = true
  return true
end

-- Whether the worker of a claim that met a suspect is to run it: it shall finish what it runs and claim alone. One worker of a lane
-- is asked at a time.
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
