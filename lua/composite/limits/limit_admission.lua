-- The admission of limited executions, in the partition of the execution. Limits themselves are in other slots. The core field
-- `limits` contains the limits of an execution: their number, words for people, and JSON for the admitting side. The core field
-- `admission` contains the state of its admission.
--
-- An admission is good for one lease. It holds its token, which is the lease epoch at the time of the request, and the epoch that
-- the execution must still have to be leased by it. So every end of a lease, by whichever function, ends the admission as well,
-- without a write.
--
-- Under a limit that is far from full, an execution is leased first, and its worker requests the permit before it runs anything.
-- Its admission is `asking`, because the record does not learn whether the permit was given. Such a lease does not pass its
-- admission on when it is taken over. The worker gets the permits with the lease as a separate text; where the limits come from
-- the graph, it knows them, and gets limit_admission.OF_GRAPH.

-- @text limits    "{count:int} {words}\n{limits:json}"
-- @text admission {token:int} {epoch:int}{asking:' ?'}
-- @text permits   {ahead:'?'}{token:int} {limits}

-- A candidate that was neither admitted nor queued is offered again after this time (ms). Later offers repair losses on the way
-- to another slot, or in it: the time doubles, up to the maximum. Offers are lost in numbers only while the network is broken,
-- and then none is delayed for longer than the failure takes.
local OFFER_AGAIN_MS = 5000
local MAX_OFFER_AGAIN_MS = 120000

-- The admission of the first lease of an execution that is leased ahead, and the value that its worker receives when the graph
-- has the limits.
limit_admission.FIRST_AHEAD, limit_admission.OF_GRAPH = '0 0 ?', '?'

-- Mark of an abandoned execution that waits for an admission without moving.
local WAITING = 'waiting'
limit_admission.WAITING = WAITING

-- Returns token and epoch of the admission of a record, or nil.
local function token_of(core)
  local token, epoch, asking = decode.admission(core.admission or '')
  if not token or asking then return nil end
  return token, tonumber(epoch)
end
limit_admission.token_of = token_of

-- Returns the token of the lease of an active record that requests its place by itself, or nil.
local function asking_token(core)
  local token, epoch, asking = decode.admission(core.admission or '')
  return asking and tonumber(epoch) + 1 == (tonumber(core.current_lease_epoch) or 0) and token or nil
end
limit_admission.asking_token = asking_token

local function epoch_of(core) return tonumber(core.current_lease_epoch) or 0 end
limit_admission.epoch_of = epoch_of

-- Reports whether a record that may be leased has an admission for that.
function limit_admission.admitted(core)
  local token, epoch = token_of(core)
  return token ~= nil and epoch == epoch_of(core)
end

-- Returns the token by which the lease of an active record is admitted, or nil.
local function held_token(core)
  local token, epoch = token_of(core)
  return token and epoch + 1 == epoch_of(core) and token or nil
end
limit_admission.held_token = held_token

-- Returns the places, by quota, that a worker reports for the limits that it knows.
local function rooms_of(request)
  if type(request.rooms) ~= 'table' then
    local rooms = {}
    for quota_policy_id, permits in decode.room_list(request.rooms or '') do
      rooms[quota_policy_id] = tonumber(permits)
    end
    request.rooms = rooms
  end
  return request.rooms
end

-- The quotas of limits that the interpreter has read. Bounded: when it is full, it is emptied.
local known, known_count = {}, 0
local MAX_KNOWN = 256

-- Returns the quotas of limits, in the form that executions have.
function limit_admission.quotas_of(limits)
  local quotas = known[limits]
  if quotas then return quotas end
  quotas = {}
  for quota_policy_id in string.gmatch(limits, '"q":"([^"]+)"') do quotas[#quotas + 1] = quota_policy_id end
  if known_count >= MAX_KNOWN then known, known_count = {}, 0 end
  known[limits], known_count = quotas, known_count + 1
  return quotas
end

-- Returns the quotas of limits, when all of them have room, so that a worker may lease an execution ahead of its places.
local function roomy(request, limits)
  if not is_set(request.rooms) then return nil end
  local rooms, quotas = rooms_of(request), limit_admission.quotas_of(limits)
  for i = 1, #quotas do
    if (rooms[quotas[i]] or 0) <= 0 then return nil end
  end
  return #quotas > 0 and quotas or nil
end

function limit_admission.may_lease_ahead(request, core) return roomy(request, core.limits) ~= nil end

-- Takes a place in each of the limits from those that a worker reports. Reports whether all of them had one.
function limit_admission.take_room(request, limits)
  local quotas = roomy(request, limits)
  if not quotas then return false end
  local rooms = request.rooms
  for i = 1, #quotas do rooms[quotas[i]] = rooms[quotas[i]] - 1 end
  return true
end

-- Marks a runnable execution as leased before it has its place. Returns whether it may be.
function limit_admission.lease_ahead(request, core)
  if not limit_admission.take_room(request, core.limits) then return false end
  local epoch = number.text(epoch_of(core))
  core.admission = encode.admission(epoch, epoch, true)
  core.leased_ahead = core.admission
  return true
end

-- Returns the limits in a submitting call, by execution; nil when there are none. Returns nil and the error reply when they are
-- invalid.
function limit_admission.parse(A)
  if not A.limits then return nil, reply.err('invalid_input', 'the count of limits does not fit the arguments') end
  if #A.limits == 0 then return nil end
  local by_id = {}
  for _, entry in ipairs(A.limits) do
    if not decode.limits(entry.text) then
      return nil, reply.err('invalid_input', 'malformed limits of execution ' .. entry.execution_id)
    end
    by_id[entry.execution_id] = entry
  end
  return by_id
end

-- Writes the limits of a new execution.
function limit_admission.attach(c, execution_id, by_id)
  local entry = by_id[execution_id]
  if not entry then return end
  local quota = is_set(entry.quota_policy_id) and { 'quota_policy_id', entry.quota_policy_id } or {}
  record.set(key.exec_core(c, execution_id), 'limits', entry.text, unpack(quota))
end

-- Returns the data that the admitting side needs.
local function candidate(c, execution_id, core, score)
  return { execution_id, number.text(epoch_of(core)), score, core.limits or '' }
end
limit_admission.candidate = candidate

local function offer(c, request, execution_id, core, score)
  request.candidates = request.candidates or {}
  table.insert(request.candidates, candidate(c, execution_id, core, score))
end

-- Returns the moves of a call between indexes, by key: `removed` members and `added` ones with their scores.
-- limit_admission.flush writes them, with one command for each key.
local function moves_of(c)
  c = c.root or c
  if not c.moves then c.moves = { removed = {}, added = {} } end
  return c.moves
end

local function remove_later(c, index_key, member) table.insert(call.list_in(moves_of(c).removed, index_key), member) end
limit_admission.remove_later = remove_later

local function add_later(c, index_key, score, member)
  local list = call.list_in(moves_of(c).added, index_key)
  list[#list + 1] = score
  list[#list + 1] = member
end
limit_admission.add_later = add_later

-- Writes the moves of the call. Code that reads an index or publishes its members calls it first.
function limit_admission.flush(c)
  c = c.root or c
  local moves = c.moves
  if not moves then return end
  c.moves = nil
  for index_key, members in pairs(moves.removed) do call.chunked('ZREM', index_key, members) end
  for index_key, pairs_list in pairs(moves.added) do call.chunked('ZADD', index_key, pairs_list) end
end

-- Moves a runnable execution to the index in which it waits for its admission, and offers it to the caller. `score` is its score
-- in the eligible set when it was met there: then limit_admission.flush has to follow.
function limit_admission.await(c, request, execution_id, core, from, score)
  local lane = record.lane(core)
  local _, words = decode.limits(core.limits)
  record.write(key.exec_core(c, execution_id), core.managed, {
    'eligibility_state', 'blocked_by_quota',
    'blocking_reason', 'waiting_for_quota',
    'blocking_detail', words or '',
    'public_state', 'rate_limited',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }, {})
  if not score then
    score = redis.call('ZSCORE', order.index(c, lane, core), execution_id) or c.now_text
    if from then redis.call('ZREM', from, execution_id) else order.leave(c, lane, execution_id, core) end
    redis.call('ZADD', key.lane_blocked_quota(c, lane), c.now, execution_id)
    redis.call('ZADD', key.ffx_unadmitted(c), c.now + OFFER_AGAIN_MS, execution_id)
  else
    if core.fair_key then
      order.leave(c, lane, execution_id, core)
    else
      remove_later(c, order.index(c, lane, core), execution_id)
    end
    add_later(c, key.lane_blocked_quota(c, lane), c.now, execution_id)
    add_later(c, key.ffx_unadmitted(c), c.now + OFFER_AGAIN_MS, execution_id)
  end
  wake.due(c, c.now + OFFER_AGAIN_MS)
  offer(c, request, execution_id, core, score)
end

-- Reports whether an abandoned execution may be taken over. One that has lost its admission is offered to the caller, once.
function limit_admission.may_take_over(c, request, execution_id, core)
  if limit_admission.admitted(core) or held_token(core) then return true end
  if core.admission ~= WAITING then
    record.set(key.exec_core(c, execution_id), 'admission', WAITING)
    core.admission = WAITING
    offer(c, request, execution_id, core, c.now_text)
    redis.call('ZADD', key.ffx_unadmitted(c), c.now + OFFER_AGAIN_MS, execution_id)
    wake.due(c, c.now + OFFER_AGAIN_MS)
  end
  return false
end

-- Keeps the admission of a lost lease for the take-over.
function limit_admission.carry(c, execution_id, core)
  local token = held_token(core)
  if token then
    record.set(key.exec_core(c, execution_id), 'admission', encode.admission(token, number.text(epoch_of(core))))
  end
end

-- Returns the permits that the worker of a new lease has to give back at its end, as text; "" for none. It is `ahead` when the
-- worker has to request them first.
function limit_admission.permits_due(core)
  if not core.limits then return '' end
  local token, _, asking = decode.admission(core.admission or '')
  return token and encode.permits(asking, token, core.limits) or ''
end

-- Reports whether a record waits for an admission under a token.
local function awaits(core, token)
  if number.text(epoch_of(core)) ~= token then return false end
  if claim.is_abandoned(core) then return core.admission == WAITING end
  return core.lifecycle_phase == 'runnable' and (core.eligibility_state == 'blocked_by_quota'
    or core.eligibility_state == 'eligible_now' and not limit_admission.admitted(core))
end
limit_admission.awaits = awaits

-- Returns the data that the admitting side needs for an execution that waits for its admission; nil for any other.
function limit_admission.waiting(c, execution_id, core)
  local token = number.text(epoch_of(core))
  if not core.limits or not awaits(core, token) or core.eligibility_state == 'eligible_now' then return nil end
  return candidate(c, execution_id, core, number.text(record.eligible_score(core)))
end

-- Returns when a waiting execution is offered again: after as long as it has already waited.
local function offer_again_at(c, execution_id, core)
  local since = redis.call('ZSCORE', key.lane_blocked_quota(c, record.lane(core)), execution_id) or core.lease_expires_at
  local waited = c.now - (tonumber(since) or c.now)
  return c.now + math.max(OFFER_AGAIN_MS, math.min(waited, MAX_OFFER_AGAIN_MS))
end

-- Returns the candidates that were not admitted in time, the longest waiting first.
function limit_admission.offer_due(c, count)
  if count <= 0 then return {} end
  local offered = {}
  scan.each_due(c, 'admission', key.ffx_unadmitted(c), count, function(execution_id)
    local core = record.read(key.exec_core(c, execution_id), claim.FIELDS)
    if core and core.limits and awaits(core, number.text(epoch_of(core))) then
      redis.call('ZADD', key.ffx_unadmitted(c), offer_again_at(c, execution_id, core), execution_id)
      offered[#offered + 1] = candidate(c, execution_id, core, number.text(record.eligible_score(core)))
    else
      redis.call('ZREM', key.ffx_unadmitted(c), execution_id)
    end
  end)
  return offered
end
