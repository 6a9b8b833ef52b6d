-- Limited executions, seen from their own partition. Limits themselves live in other slots: what stands here is which
-- limits an execution has (core field `limits`: "<count> <words>", a line feed, then JSON for the admitting side) and
-- how far its admission is (core field `admission`).
--
-- An admission is good for one lease. It names the admission's token, which is the lease epoch at the time it was asked
-- for, and the epoch that the execution must still have to be leased by it. So every end of a lease, by whichever
-- function, ends the admission as well, without a write.
--
-- Under a limit that is far away, an execution is leased first, and its worker asks for the place before it runs anything:
-- its admission ends in a question mark, since the record does not learn whether it came to that. Such a lease does not
-- pass its admission on to whoever takes over.

-- A candidate that nobody has admitted or queued is offered again after this time (ms). Later offers mend what was lost on
-- the way to another slot, or in it: the time doubles, up to the most. Offers are lost in numbers only while the network
-- is broken, and then none is for longer than that takes.
local OFFER_AGAIN_MS = 5000
local MAX_OFFER_AGAIN_MS = 120000

-- Mark of an abandoned execution that waits for an admission where it is.
local WAITING = 'waiting'
limits.WAITING = WAITING

-- Token and epoch of the admission of a record, or nil.
local function parse(core)
  local token, epoch = string.match(core.admission or '', '^(%d+) (%d+)$')
  return token, tonumber(epoch)
end

-- Token of the lease of an active record that asks for its place by itself, or nil.
local function asking(core)
  local token, epoch = string.match(core.admission or '', '^(%d+) (%d+) %?$')
  return token and tonumber(epoch) + 1 == (tonumber(core.current_lease_epoch) or 0) and token or nil
end

local function epoch_of(core) return tonumber(core.current_lease_epoch) or 0 end

-- Whether a record that may be leased has an admission for that.
function limits.admitted(core)
  local token, epoch = parse(core)
  return token ~= nil and epoch == epoch_of(core)
end

-- Token by which the lease of an active record is admitted, or nil.
local function held(core)
  local token, epoch = parse(core)
  return token and epoch + 1 == epoch_of(core) and token or nil
end

-- Places that a worker says there are in the limits that it has heard of, by quota.
local function rooms_of(request)
  if type(request.rooms) ~= 'table' then
    local rooms = {}
    for quota_policy_id, places in string.gmatch(request.rooms or '', '(%S+) (%d+)\n') do
      rooms[quota_policy_id] = tonumber(places)
    end
    request.rooms = rooms
  end
  return request.rooms
end

-- The quota that an execution asks first, when a worker may lease the execution ahead of its place.
local function roomy(request, core)
  if not is_set(request.rooms) then return nil end
  local quota_policy_id = string.match(core.limits, '"q":"([^"]+)"')
  return quota_policy_id and (rooms_of(request)[quota_policy_id] or 0) > 0 and quota_policy_id or nil
end

function limits.may_lease_ahead(request, core) return roomy(request, core) ~= nil end

-- Makes a runnable execution one that is leased before it has its place. Gives whether it may be.
function limits.lease_ahead(request, core)
  local quota_policy_id = roomy(request, core)
  if not quota_policy_id then return false end
  request.rooms[quota_policy_id] = request.rooms[quota_policy_id] - 1
  local epoch = number.text(epoch_of(core))
  core.admission = epoch .. ' ' .. epoch .. ' ?'
  core.leased_ahead = core.admission
  return true
end

-- The limits that a submitting call brings, by execution; nil when there are none. Nil and the error reply when they are
-- bad.
function limits.parse(A)
  if not A.limits then return nil, reply.err('invalid_input', 'the count of limits does not fit the arguments') end
  if #A.limits == 0 then return nil end
  local by_id = {}
  for _, entry in ipairs(A.limits) do
    if not string.find(entry.text, '^%d+ [^\n]*\n') then
      return nil, reply.err('invalid_input', 'malformed limits of execution ' .. entry.execution_id)
    end
    by_id[entry.execution_id] = entry
  end
  return by_id
end

-- Writes the limits of a new execution.
function limits.attach(c, execution_id, by_id)
  local entry = by_id[execution_id]
  if not entry then return end
  local quota = is_set(entry.quota_policy_id) and { 'quota_policy_id', entry.quota_policy_id } or {}
  redis.call('HSET', key.exec_core(c, execution_id), 'limits', entry.text, unpack(quota))
end

-- What the admitting side has to know.
local function candidate(c, execution_id, core, score)
  return { execution_id, number.text(epoch_of(core)), score, core.limits or '' }
end

local function offer(c, request, execution_id, core, score)
  request.candidates = request.candidates or {}
  table.insert(request.candidates, candidate(c, execution_id, core, score))
end

-- What a call moves between indexes, by key: `removed` members and `added` ones with their scores. limits.flush carries it
-- out, with one command for each key.
local function moves_of(c)
  if not c.moves then c.moves = { removed = {}, added = {} } end
  return c.moves
end

local function remove_later(c, index_key, member) table.insert(call.list_in(moves_of(c).removed, index_key), member) end

local function add_later(c, index_key, score, member)
  local list = call.list_in(moves_of(c).added, index_key)
  list[#list + 1] = score
  list[#list + 1] = member
end

-- Carries out what has been moved. Whoever reads an index or publishes what it holds calls it before.
function limits.flush(c)
  local moves = c.moves
  if not moves then return end
  c.moves = nil
  for index_key, members in pairs(moves.removed) do call.chunked('ZREM', index_key, members) end
  for index_key, pairs_list in pairs(moves.added) do call.chunked('ZADD', index_key, pairs_list) end
end

-- Moves a runnable execution to where it waits for its admission, and offers it to the caller. `score` is that of the
-- eligible set when it was met there: then limits.flush has to follow.
function limits.park(c, request, execution_id, core, from, score)
  local lane = lifecycle.lane(core)
  record.write(key.exec_core(c, execution_id), core.managed, {
    'eligibility_state', 'blocked_by_quota',
    'blocking_reason', 'waiting_for_quota',
    'blocking_detail', string.match(core.limits, '^%d+ ([^\n]*)') or '',
    'public_state', 'rate_limited',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }, {})
  if not score then
    score = redis.call('ZSCORE', key.lane_eligible(c, lane), execution_id) or c.now_text
    if from then redis.call('ZREM', from, execution_id) else order.leave(c, lane, execution_id, core) end
    redis.call('ZADD', key.lane_blocked_quota(c, lane), c.now, execution_id)
    redis.call('ZADD', key.ffx_unadmitted(c), c.now + OFFER_AGAIN_MS, execution_id)
  else
    if core.fair_key then
      order.leave(c, lane, execution_id, core)
    else
      remove_later(c, key.lane_eligible(c, lane), execution_id)
    end
    add_later(c, key.lane_blocked_quota(c, lane), c.now, execution_id)
    add_later(c, key.ffx_unadmitted(c), c.now + OFFER_AGAIN_MS, execution_id)
  end
  offer(c, request, execution_id, core, score)
end

-- Whether an abandoned execution may be taken over. One that has lost its admission is offered to the caller, once.
function limits.may_take_over(c, request, execution_id, core)
  if limits.admitted(core) or held(core) then return true end
  if core.admission ~= WAITING then
    redis.call('HSET', key.exec_core(c, execution_id), 'admission', WAITING)
    core.admission = WAITING
    offer(c, request, execution_id, core, c.now_text)
    redis.call('ZADD', key.ffx_unadmitted(c), c.now + OFFER_AGAIN_MS, execution_id)
  end
  return false
end

-- The admission of a lease that was lost goes on with the take-over.
function limits.carry(c, execution_id, core)
  local token = held(core)
  if token then
    redis.call('HSET', key.exec_core(c, execution_id), 'admission', token .. ' ' .. number.text(epoch_of(core)))
  end
end

-- What the worker of a new lease has to give back when it is over, as text; "" for nothing. A question mark before it tells
-- that the worker has to ask for it first.
function limits.debt(core)
  if not core.limits then return '' end
  local token, _, ahead = string.match(core.admission or '', '^(%d+) (%d+) ?(%??)$')
  return token and ahead .. token .. ' ' .. core.limits or ''
end

-- Whether a record waits for an admission under a token.
local function awaits(core, token)
  if number.text(epoch_of(core)) ~= token then return false end
  if claim.is_abandoned(core) then return core.admission == WAITING end
  return core.lifecycle_phase == 'runnable' and (core.eligibility_state == 'blocked_by_quota'
    or core.eligibility_state == 'eligible_now' and not limits.admitted(core))
end

-- What the admitting side has to know of an execution that waits for its admission; nil for any other.
function limits.waiting(c, execution_id, core)
  local token = number.text(epoch_of(core))
  if not core.limits or not awaits(core, token) or core.eligibility_state == 'eligible_now' then return nil end
  return candidate(c, execution_id, core, number.text(record.eligible_score(core)))
end

-- When an execution that waits is offered again: after as long as it has waited already.
local function offer_again_at(c, execution_id, core)
  local since = redis.call('ZSCORE', key.lane_blocked_quota(c, lifecycle.lane(core)), execution_id) or core.lease_expires_at
  local waited = c.now - (tonumber(since) or c.now)
  return c.now + math.max(OFFER_AGAIN_MS, math.min(waited, MAX_OFFER_AGAIN_MS))
end

-- Candidates that were not admitted in time, the longest waiting first.
function limits.offer_due(c, count)
  if count <= 0 then return {} end
  local offered = {}
  for _, execution_id in ipairs(duties.due_in(c, key.ffx_unadmitted(c), count)) do
    local core = record.read(key.exec_core(c, execution_id), claim.FIELDS)
    if core and core.limits and awaits(core, number.text(epoch_of(core))) then
      redis.call('ZADD', key.ffx_unadmitted(c), offer_again_at(c, execution_id, core), execution_id)
      offered[#offered + 1] = candidate(c, execution_id, core, number.text(record.eligible_score(core)))
    else
      redis.call('ZREM', key.ffx_unadmitted(c), execution_id)
    end
  end
  return offered
end

-- Makes an admitted execution ready for whoever comes.
local function release_to_lane(c, execution_id, core_key, core, admission_text)
  if core.lifecycle_phase == 'active' then
    redis.call('HSET', core_key, 'admission', admission_text)
    wake.workers(c, lifecycle.lane(core))
    return
  end
  local lane = lifecycle.lane(core)
  remove_later(c, key.lane_blocked_quota(c, lane), execution_id)
  record.write(core_key, core.managed, {
    'eligibility_state', 'eligible_now',
    'blocking_reason', 'waiting_for_worker',
    'public_state', 'waiting',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
    'admission', admission_text,
  }, { 'blocking_detail' })
  if core.fair_key or order.is_fair(c, lane) then
    order.enter(c, lane, execution_id, core)
  else
    add_later(c, key.lane_eligible(c, lane), record.eligible_score(core), execution_id)
  end
  if core.managed then graph.became_eligible(c, execution_id, core, lane) end
end

-- Takes in one admission. Gives 'leased' with what the worker needs, 'ready', 'incomplete' or 'gone'.
local function admit(c, request, entry, n)
  local execution_id = entry.execution_id
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, claim.FIELDS)
  local token = parse(core or {})
  -- One that was admitted may have been blocked since by a scheduler that did not know.
  local blocked = core and core.lifecycle_phase == 'runnable' and core.eligibility_state == 'blocked_by_quota'
  if core and token == entry.token and not blocked
    and (limits.admitted(core) or core.ownership_state == 'leased' and held(core)) then
    return 'ready'
  end
  if not core or not core.limits or not awaits(core, entry.token)
    or core.managed and graph.is_over(graph.flow(c, core.flow_id)) then
    return 'gone'
  end
  if entry.complete ~= '1' and string.sub(core.limits, 1, 2) ~= '1 ' then
    return 'incomplete', candidate(c, execution_id, core, number.text(record.eligible_score(core)))
  end
  remove_later(c, key.ffx_unadmitted(c), execution_id)
  local text = entry.token .. ' ' .. number.text(epoch_of(core))
  core.admission = text
  if n < request.count and lifecycle.lane(core) == request.lane and not work.hinders(c, request, core) then
    redis.call('HSET', core_key, 'admission', text)
    local leased = work.lease_admitted(c, request, execution_id, core_key, core, n)
    if leased then return 'leased', leased end
    return 'gone'
  end
  release_to_lane(c, execution_id, core_key, core, text)
  return 'ready'
end

-- @record candidate execution_id:execution_id token:int score:text limits:text

-- @function ffx_admit
-- @summary  Executions that have been admitted under their limits: leases those of the lane up to `count`, and makes the
--           others ready. `gone` are those that do not wait any more, whose admissions must be given back; `incomplete`
--           have more limits than the one that let them go. After a lost reply, send it again with `repeated`.
-- @flags    derives
-- @key      partition          ffx.partition
-- @include  claim_request
-- @group    admissions         execution_id:execution_id token:int complete:bool
-- @reply    OK executions:list(claimed_execution) gone:list(execution_id) incomplete:list(candidate)
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
function F.ffx_admit(K, A)
  local request, err = work.parse_claim(A)
  if err then return err end
  if not A.admissions then return reply.err('invalid_input', 'the count of admissions does not fit the arguments') end
  local c = call.open(K.partition)
  local out = request.repeated and request.count > 0 and work.leases_of_claim(c, request) or {}
  local gone, incomplete = {}, {}
  for _, entry in ipairs(A.admissions) do
    local outcome, detail = admit(c, request, entry, #out)
    if outcome == 'leased' then
      out[#out + 1] = detail
    elseif outcome == 'gone' then
      gone[#gone + 1] = entry.execution_id
    elseif outcome == 'incomplete' then
      incomplete[#incomplete + 1] = detail
    end
  end
  limits.flush(c)
  if #out > 0 then wake.due(c, c.now + request.ttl) end
  graph.settle(c)
  return reply.ok(out, gone, incomplete)
end

-- State of one admission: live, waiting (for being told), revoked or gone. What is not live or waiting cannot be used
-- any more.
local function verify(c, request, entry)
  local core_key = key.exec_core(c, entry.execution_id)
  local core = record.read(core_key, claim.FIELDS)
  if not core then return 'gone' end
  if awaits(core, entry.token) then return 'waiting' end
  if asking(core) == entry.token and core.ownership_state == 'leased' then return 'live' end
  if parse(core) ~= entry.token then return 'gone' end
  if core.ownership_state == 'leased' then return held(core) and 'live' or 'gone' end
  local waiting = core.eligibility_state == 'eligible_now' and limits.admitted(core)
  if waiting and entry.stale ~= '1' then return 'live' end
  redis.call('HDEL', core_key, 'admission')
  if not waiting then return 'gone' end
  limits.park(c, request, entry.execution_id, core)
  return 'revoked'
end

-- @record admission_state execution_id:execution_id token:int state:text limits:text

-- @function ffx_verify_admissions
-- @summary  Tells the keeper of a quota which of its admissions are in use. Those that are not cannot be used
--           afterwards; one that is `stale` and that nobody has taken up is revoked, and its execution waits again.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @group    admissions         execution_id:execution_id token:int stale:bool
-- @reply    OK states:list(admission_state)
-- @error    invalid_input message:text
function F.ffx_verify_admissions(K, A)
  if not A.admissions then return reply.err('invalid_input', 'the count of admissions does not fit the arguments') end
  local c = call.open(K.partition)
  local states = {}
  for i, entry in ipairs(A.admissions) do
    states[i] = { entry.execution_id, entry.token, verify(c, {}, entry), '' }
  end
  wake.flush(c)
  return reply.ok(states)
end

-- @function ffx_leased_ahead
-- @summary  How many executions a worker holds under leases that were given to it ahead of their places.
-- @flags    derives
-- @key      partition          ffx.partition
-- @arg      worker_instance_id worker_instance_id
-- @reply    OK executions:int
function F.ffx_leased_ahead(K, A)
  local c = call.open(K.partition)
  local n = 0
  for _, execution_id in ipairs(redis.call('SMEMBERS', key.index_worker_leases(c, A.worker_instance_id))) do
    local core = record.read(key.exec_core(c, execution_id),
      { 'ownership_state', 'current_worker_instance_id', 'current_lease_epoch', 'admission' })
    if core and core.ownership_state == 'leased' and core.current_worker_instance_id == A.worker_instance_id and asking(core) then
      n = n + 1
    end
  end
  return reply.ok(number.text(n))
end
