-- Claims: leasing eligible, abandoned and set-aside executions of a lane to a worker.

-- Maximum number of entries of an index that one claim may read beyond those that it takes. It is larger for executions that were
-- set aside, since that search is rare and executions that no worker can run stay at the head.
local MAX_PASSED_OVER = 64
local MAX_PASSED_ASIDE = 256

-- Number of entries that are read together once an entry of an eligible set was passed over.
local PASSED_AT_A_TIME = 16

-- Sets an execution aside that this worker cannot run, so that it does not block others.
function claiming.set_aside(c, execution_id, core, lane, detail)
  record.write(key.exec_core(c, execution_id), core.managed, {
    'eligibility_state', 'blocked_by_route',
    'blocking_reason', 'waiting_for_capable_worker',
    'blocking_detail', detail,
    'public_state', 'rate_limited',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }, {})
  order.leave(c, lane, execution_id, core)
  redis.call('ZADD', key.lane_blocked_route(c, lane), c.now, execution_id)
  wake.send(key.channel_wake(c, lane), message.aside(call.partition(c), core.execution_kind or ''))
end

-- Returns the key and the core of an eligible execution that this worker may have, except for its limits. Returns nil when it may
-- not; the execution is then out of the eligible set. The same applies to an execution whose graph is missing: the keeper enters
-- it again when the graph is back.
local function suitable(c, request, execution_id, eligible_key)
  if graph_store.is_gone(c, execution_id) then
    order.leave_index(c, request.lane, execution_id, eligible_key, order.key_of(c, request.lane, execution_id, {}))
    return nil
  end
  local core_key = key.exec_core(c, execution_id)
  local s, at = store.of(core_key)
  local core = s.fresh(at) or s.read(at, claim.FIRST_FIELDS)
  if core and not core.row and not (core.managed and core.attempt_state == 'pending_first_attempt') then
    core = record.read(core_key, claim.FIELDS)
  end
  if not core or core.lifecycle_phase ~= 'runnable' or core.eligibility_state ~= 'eligible_now' then
    order.leave_index(c, request.lane, execution_id, eligible_key, order.key_of(c, request.lane, execution_id, core or {}))
    return nil
  end
  if core.managed and finally.is_over(flow_record.read(c, core.flow_id), core_key) then
    terminal.cancel(c, execution_id, core_key, record.read(core_key, terminal.END_FIELDS), 'flow is over', 'flow',
      { silent = true })
    return nil
  end
  local detail = claim_request.unfit(request, core)
  if detail then
    claiming.set_aside(c, execution_id, core, request.lane, detail)
    return nil
  end
  detail = pauses.why(c, core, flow_record.read(c, core.flow_id))
  if detail then
    pauses.hold(c, execution_id, core, request.lane, detail)
    return nil
  end
  if budget_gate.hold(c, execution_id, core) then return nil end
  return core_key, core
end

-- Leases one eligible execution. Returns nil when it cannot be leased; it is then out of the eligible set, at the latest with
-- limit_admission.flush. It was found in the set `eligible_key`; `score` is the score of its place.
local function take_eligible(c, request, execution_id, n, eligible_key, score)
  local core_key, core = suitable(c, request, execution_id, eligible_key)
  if not core_key then return nil end
  if core.limits and not limit_admission.admitted(core) and not limit_admission.lease_ahead(request, core) then
    limit_admission.await(c, request, execution_id, core, nil, score)
    return nil
  end
  wake.taken(c, request.lane, core)
  return leasing.lease_runnable(c, request, execution_id, core_key, core, n)
end

-- Reports whether a pause keeps an execution that is not eligible from being taken.
local function is_paused(c, request, core)
  return pauses.stops(c, request.lane) or pauses.why(c, core, flow_record.read(c, core.flow_id)) ~= nil
end

-- Leases one execution that another worker has set aside. Returns nil when this worker cannot run it either, so that it stays, or
-- when it is no longer set aside.
local function take_set_aside(c, request, execution_id, n)
  local core_key = key.exec_core(c, execution_id)
  local core = not graph_store.is_gone(c, execution_id) and record.read(core_key, claim.FIELDS)
  if not core or core.lifecycle_phase ~= 'runnable' or core.eligibility_state ~= 'blocked_by_route' then
    redis.call('ZREM', key.lane_blocked_route(c, request.lane), execution_id)
    return nil
  end
  if core.managed and finally.is_over(flow_record.read(c, core.flow_id), core_key) then
    terminal.cancel(c, execution_id, core_key, core, 'flow is over', 'flow', { silent = true })
    return nil
  end
  if claim_request.unfit(request, core) or is_paused(c, request, core) then return nil, true end
  if budget_gate.hold(c, execution_id, core) then return nil end
  if core.limits and not limit_admission.admitted(core) then
    limit_admission.await(c, request, execution_id, core, key.lane_blocked_route(c, request.lane))
    return nil
  end
  redis.call('ZREM', key.lane_blocked_route(c, request.lane), execution_id)
  return leasing.lease_runnable(c, request, execution_id, core_key, core, n)
end

-- Returns the key and the core of an abandoned execution that this worker may take over. Returns nil when there is nothing to
-- take; the third value reports whether it stays.
local function suitable_abandoned(c, request, execution_id)
  local core_key = key.exec_core(c, execution_id)
  local core = not graph_store.is_gone(c, execution_id) and record.read(core_key, claim.FIELDS)
  if not core or not claim.is_abandoned(core) then
    redis.call('ZREM', key.ffx_reclaimable(call.home(c), request.lane), execution_id)
    return nil
  end
  if claim_request.unfit(request, core) or is_paused(c, request, core) then return nil, nil, true end
  if lost_worker.waits(c, request, execution_id, core) then return nil, nil, true end
  if core.limits and not limit_admission.may_take_over(c, request, execution_id, core) then return nil, nil, true end
  return core_key, core
end

-- Takes over one abandoned execution. Returns nil when there was nothing to take; the second value reports whether it stays.
local function take_abandoned(c, request, execution_id, n)
  local core_key, core, stays = suitable_abandoned(c, request, execution_id)
  if not core_key then return nil, stays end
  return leasing.take_over(c, request, execution_id, core_key, core, n)
end

-- Reports whether something keeps this worker from running an execution that was admitted.
function claiming.is_blocked(c, request, core)
  return claim_request.unfit(request, core) ~= nil or is_paused(c, request, core)
    or not claim.is_abandoned(core) and budget_gate.closed(c, flow_record.read(c, core.flow_id)) ~= nil
end

-- Leases the entries of an index, from its head on, until the request is filled or `limit` entries were passed over. Returns how
-- many were passed over, how many of them are still in the index, and whether the index has no others.
local function take_from(c, request, index_key, take, out, limit)
  local passed, stayed = 0, 0
  while #out < request.count and passed < limit do
    local wanted = request.count - #out
    -- One more entry than wanted shows whether there are more.
    local heads = redis.call('ZRANGE', index_key, stayed, stayed + wanted)
    if math.min(wanted, #heads) > 1 then call.gather(c) end
    for i = 1, math.min(wanted, #heads) do
      local taken, stays = take(call.at(c, heads[i]), request, heads[i], #out)
      if taken then out[#out + 1] = taken else passed = passed + 1 end
      if stays then stayed = stayed + 1 end
    end
    call.write_gathered(c)
    if #heads <= wanted then return passed, stayed, true end
  end
  return passed, stayed, false
end

-- Returns the eligible set that a claim takes from: the set of the lane for all partitions of the server, unless executions
-- outside of managed flows wait in the partition that ffx_claim names.
local function index_of(c, request)
  if not request.eligible_key then
    local home, own = key.lane_eligible(call.home(c), request.lane), key.lane_eligible(c, request.lane)
    request.eligible_key = request.named and own ~= home and redis.call('EXISTS', own) == 1 and own or home
  end
  return request.eligible_key
end

-- Takes from the eligible set, in the order of the lane, until the request is filled or too many entries were passed over.
-- Executions that were promised to others (see request.spoken_for) are left in the set.
local function take_from_lane(c, request, take, out)
  local eligible_key = index_of(c, request)
  if eligible_key ~= key.lane_eligible(call.home(c), request.lane) and pauses.stops(c, request.lane) then return end
  local passed, from, spoken_for = 0, 0, request.spoken_for
  while #out < request.count and passed < MAX_PASSED_OVER and from <= MAX_PASSED_ASIDE do
    limit_admission.flush(c)
    local wanted = request.count - #out
    local looked_at = (passed > 0 or from > 1) and math.max(wanted, PASSED_AT_A_TIME) or wanted
    -- One more entry shows whether there are more, and so whether the order matters.
    local heads = redis.call('ZRANGE', eligible_key, from, from + looked_at, 'WITHSCORES')
    if heads[1] == pauses.MARK then
      if pauses.stops(c, request.lane) then return end
      from = 1
    else
      local choose = #heads > 2 * wanted and claim_order.chooser(c, request, eligible_key)
      if wanted > 1 and #heads > 2 then
        call.gather(c)
        order.leave_together(c)
      end
      local i = 1
      while i <= math.min(2 * looked_at, #heads) and #out < request.count do
        local execution_id, score, fair_key = heads[i], heads[i + 1], nil
        if spoken_for and spoken_for(execution_id) then
          from = from + 1
        else
          if choose then execution_id, fair_key = choose(execution_id, tonumber(score)) end
          local at = call.at(c, execution_id)
          local taken = take(at, request, execution_id, #out, eligible_key, execution_id == heads[i] and score or nil)
          if taken then
            out[#out + 1] = taken
          else
            passed = passed + 1
            -- A record that is gone does not contain its key.
            if fair_key then order.leave_index(c, request.lane, execution_id, eligible_key, fair_key) end
          end
        end
        i = i + 2
      end
      order.write_leaving(c)
      request.drained = not choose and i > #heads
      if request.drained then break end
    end
  end
  limit_admission.flush(c)
end

-- Promises one execution of the lane: among those without a promise, the one that a claim of the same worker would lease.
-- `promise` gets the context of its partition, its id and core, and returns its decision, or nil when the execution is not
-- available.
function claiming.select_next(c, request, promise)
  local out = {}
  take_from(c, request, key.ffx_reclaimable(call.home(c), request.lane), function(at, _, execution_id)
    if request.spoken_for(execution_id) then return nil, true end
    local core_key, core, stays = suitable_abandoned(at, request, execution_id)
    return core_key and promise(at, execution_id, core), stays
  end, out, MAX_PASSED_OVER)
  if not out[1] then
    take_from_lane(c, request, function(at, _, execution_id, _, eligible_key)
      local core_key, core = suitable(at, request, execution_id, eligible_key)
      return core_key and promise(at, execution_id, core)
    end, out)
  end
  return out[1]
end

-- Leases executions of the lane until the call has request.count.
function claiming.fill(c, request, x)
  -- Executions may have entered the lane since the call has found it empty.
  if #x.leased < request.count then request.drained = nil end
  usual_lease.take_from_lane(x, index_of(c, request))
  turn.write(x)
  if #x.leased < request.count and not request.drained then take_from_lane(c, request, take_eligible, x.leased) end
end

-- Leases up to request.count executions. `x`: the call of the usual path, with those that it has leased so far; nil to begin one.
function claiming.claim(c, request, x)
  if request.count <= 0 then return {} end
  x = x or turn.new(c, request)
  local out = x.leased
  -- Leases that the call itself has made by now show that the earlier try did not reach this point.
  if request.repeated and #out == 0 then
    local earlier = leasing.of_claim(c, request)
    if #earlier > 0 then return earlier end
  end
  handoff.lease(c, request, out)
  if not request.skip_abandoned then
    local passed, stayed, all = take_from(c, request, key.ffx_reclaimable(call.home(c), request.lane), take_abandoned, out,
      MAX_PASSED_OVER)
    -- Not when the search was cut short: otherwise the worker would request the rest again and again.
    if passed < MAX_PASSED_OVER then request.unfit, request.none_abandoned = stayed, all end
  end
  if request.aside then
    take_from(c, request, key.lane_blocked_route(c, request.lane), take_set_aside, out, MAX_PASSED_ASIDE)
  end
  x.is_mixed = true -- the general functions may have loaded runs
  if #out < request.count then claiming.fill(c, request, x) end
  return out
end

-- Reports whether a refused call that gives up a lease, which the caller no longer holds, repeats a call that succeeded. Then the
-- attempt has been resumed since, under a later lease, or the earlier try has leased executions in a reply that was lost. The
-- execution itself may be one of them.
function claiming.is_carried_out(c, request, core, holder)
  if not request.repeated then return false end
  local is_resumed = core.current_attempt_id == holder.attempt_id
    and (tonumber(core.current_lease_epoch) or 0) > (tonumber(holder.lease_epoch) or 0)
  return is_resumed or request.count > 0 and #leasing.of_claim(c, request) > 0
end

-- Returns how many executions of the lane are left for this worker to claim, as text: where others wait in addition to those that
-- it got, at least one.
function claiming.remaining(c, request)
  if request.count <= 0 then return '0' end
  local abandoned = 0
  if request.unfit and not request.none_abandoned then
    abandoned = math.max(0, redis.call('ZCARD', key.ffx_reclaimable(call.home(c), request.lane)) - request.unfit)
  end
  if c.pauses and pauses.stops(c, request.lane) then return '0' end
  if request.drained == false then return number.text(1 + abandoned) end
  local added = wake.added(c, request.lane)
  if request.drained and not (added and added.count > 0) then return number.text(abandoned) end
  return number.text(redis.call('ZCOUNT', index_of(c, request), '(-inf', '+inf') + abandoned)
end

-- Notifies the other workers of the state in which a claim has left the lane: workers that wait for their turn need not come, or
-- more of them must.
local function tell_others(c, request, taken, remaining)
  local tell = request.tell
  if tell.none and (taken > 0 or tell.empty) and remaining == '0' and request.unfit == 0 then
    wake.none(c, request.lane, tell.place)
  elseif tell.more and remaining ~= '0' and taken >= request.count then
    local home = call.home(c)
    local is_home = index_of(c, request) == key.lane_eligible(home, request.lane)
    wake.pass_on(c, request.lane, tell.place, taken, is_home and home or c)
  end
end

-- @function ffx_claim
-- @summary  Leases up to `count` executions of a lane in one partition, or of all partitions of a server that has them all:
--           fresh, resumed and abandoned ones alike. Executions that the worker cannot run are set aside until one comes that
--           can; with `aside`, such executions are searched as well. After a lost reply, send it again with `repeated`, and the
--           same leases are returned. A worker that is not alone notifies the others when it leaves nothing (tell_none), also
--           when there was nothing (tell_empty), or more than it could take (tell_more). The former goes to the workers that
--           received the message at the same slot of the wake ring (`place`), or to all; the latter to as many as it takes. On a
--           server with all partitions, executions that were set aside are searched in the named partition, and executions
--           outside of managed flows that wait there come before the lane. A worker that has lived for less than a lease sends
--           is_new; one that runs nothing else and claims one execution sends alone: an execution that may kill its worker is
--           leased to the latter only. `suspect` requests the worker to claim alone once it runs nothing.
-- @flags    derives
-- @key      partition          ffx.partition
-- @arg      tell_none          bool
-- @arg      tell_empty         bool
-- @arg      tell_more          bool
-- @arg      place              text optional
-- @arg      is_new             bool
-- @arg      alone              bool
-- @include  claim_request
-- @reply    OK remaining:int suspect:bool executions:list(claimed_execution) candidates:list(candidate)
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
function F.ffx_claim(K, A)
  local request, err = claim_request.parse(A)
  if err then return err end
  request.named, request.is_new, request.alone = true, A.is_new == '1', A.alone == '1'
  request.tell = { none = A.tell_none == '1', empty = A.tell_empty == '1', more = A.tell_more == '1', place = A.place }
  local c = call.open(K.partition)
  local executions = claiming.claim(c, request)
  local remaining = claiming.remaining(c, request)
  tell_others(c, request, #executions, remaining)
  lost_worker.end_turn(c, request)
  local suspect = lost_worker.is_asked(c, request)
  settle.run(c)
  return reply.ok(remaining, suspect and '1' or '0', executions, request.candidates or {})
end
