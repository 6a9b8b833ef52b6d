-- The arguments of a claim: the lane, the number of executions, the worker's activities and capabilities, and the length of the
-- lease. `rooms` has an element for each limit that was far from full in the worker's last reply. That many executions under such
-- a limit are leased ahead: the worker requests their permits afterwards, before it runs them. `kinds` is a set.

-- @list room "{quota_policy_id} {permits:int}\n"
-- @set  kind {kind}

-- @arguments claim_request lane_id:lane_id worker_id:worker_id worker_instance_id:worker_instance_id claim_id:text repeated:bool count:int lease_ttl:ms aside:bool kinds:text capabilities:csv? rooms:text?

-- The parsed data that workers send in every claim, by their instances. The table is bounded: when it is full, it is emptied.
local known, known_count = {}, 0
local MAX_KNOWN = 256

-- Converts the data of a worker about itself. Returns nil and the error reply when they are invalid.
local function read_worker(instance, lease_ttl, capabilities)
  audience.note()
  local ttl, err = number.lease_ttl(lease_ttl)
  if err then return nil, err end
  local offered
  offered, err = capability.parse(capabilities, 'worker')
  if err then return nil, err end
  local worker = {
    lease_ttl = lease_ttl, capabilities = capabilities, ttl = ttl, renewal = math.floor(ttl * 2 / 3), offered = offered,
    logged_instance = event_log.escaped(instance),
  }
  if known_count >= MAX_KNOWN then known, known_count = {}, 0 end
  if not known[instance] then known_count = known_count + 1 end
  known[instance] = worker
  return worker
end

-- Converts the numbers and sets of a claim request, before anything is written: the arguments in their order.
function claim_request.of(lane, worker_id, instance, claim_id, repeated, count_text, lease_ttl, aside, kinds, capabilities, rooms)
  local count, err = number.SMALL_OF[count_text], nil
  if not count then
    count, err = number.whole('count', count_text)
    if err then return nil, err end
  end
  instance = instance or ''
  local worker = known[instance]
  if not worker or worker.lease_ttl ~= lease_ttl or worker.capabilities ~= capabilities then
    worker, err = read_worker(instance, lease_ttl, capabilities)
    if err then return nil, err end
  end
  if count > 0 and (instance == '' or #(claim_id or '') ~= 36) then
    return nil, reply.err('invalid_input', 'claim_id must be a UUID and worker_instance_id be given')
  end
  return {
    lane = lane, worker_id = worker_id, worker_instance_id = instance, logged_instance = worker.logged_instance,
    claim_id = claim_id, repeated = repeated == '1', count = count, ttl = worker.ttl, aside = aside == '1',
    kinds = kinds or '', offered = worker.offered, renewal = worker.renewal, rooms = rooms, drained = nil, base = nil, skip_abandoned = nil,
  }
end

function claim_request.parse(A)
  return claim_request.of(A.lane_id, A.worker_id, A.worker_instance_id, A.claim_id, A.repeated, A.count, A.lease_ttl, A.aside, A.kinds,
    A.capabilities, A.rooms)
end

-- Ends of the ids of the first leases of a claim.
local SUFFIXES, MAX_SUFFIXES = {}, 64
claim_request.SUFFIXES = SUFFIXES

local function suffix_of(n)
  local suffix = SUFFIXES[n]
  if not suffix then
    suffix = string.format('%011x', n)
    if n < MAX_SUFFIXES then SUFFIXES[n] = suffix end
  end
  return suffix
end

-- Returns the id of the n-th lease of a request. It derives from the claim's id, so a repeated claim finds its leases again. When
-- those leases are over, the repeat leases with other ids: the time is part of them.
function claim_request.lease_id(c, request, n)
  local base = request.base
  if not base then
    base = string.sub(request.claim_id, 1, 24) .. '0'
    request.base = base
  end
  if request.repeated then return base .. string.format('%07x%04x', c.now % 268435456, n + 1) end
  return base .. (SUFFIXES[n] or suffix_of(n))
end

-- Returns the request, with the id of its n-th lease, and of the attempt that begins with it.
function claim_request.lease_for(c, request, n)
  request.lease_id = claim_request.lease_id(c, request, n)
  request.attempt_id = row_record.attempt_of(request.lease_id)
  return request
end

-- Results of searches in the list of kinds of the previous claim, which is usually the same: whether each kind is in it. Bounded
-- by MAX_FOUND.
local last_kinds, found_kinds, found_count = nil, {}, 0
local MAX_FOUND = 64

-- Reports whether the worker knows a kind. Without a list of kinds, it knows all of them.
function claim_request.knows(request, kind)
  local kinds = request.kinds
  if not kinds then return true end
  if kinds ~= last_kinds or found_count >= MAX_FOUND then last_kinds, found_kinds, found_count = kinds, {}, 0 end
  kind = kind or ''
  local found = found_kinds[kind]
  if found == nil then
    found = decode.has_kind(kinds, kind)
    found_kinds[kind], found_count = found, found_count + 1
  end
  return found
end

-- Returns why this worker cannot run an execution: nil, or a text for the record.
function claim_request.unfit(request, core)
  if not claim_request.knows(request, core.execution_kind) then
    return 'no running worker knows activity "' .. (core.execution_kind or '') .. '"'
  end
  if not is_set(core.required_capabilities) then return nil end
  local required = capability.parse(core.required_capabilities, 'required') or {}
  local missing = capability.missing(required, request.offered)
  if missing == '' then return nil end
  return 'no running worker offers: ' .. missing
end
