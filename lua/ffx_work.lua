-- What a worker does: claim, complete, fail, give back, renew.

-- Upstream results handed out with a claim: at most this many, and this many bytes in all per execution. What
-- is left out is read with ffx_read_inputs.
local MAX_INLINE_INPUTS = 64
local MAX_INLINE_BYTES = 1048576

-- Entries of an index that one claim may look at beyond those it takes: of what was set aside more, since that is
-- asked for rarely and what nobody can run stays at its head.
local MAX_PASSED_OVER = 64
local MAX_PASSED_ASIDE = 256

-- A worker that overstays its attempt timeout by this time (ms) is taken to be unable to notice.
local TIMEOUT_GRACE_MS = 1000

-- @record    claimed_execution execution_id:execution_id node:text kind:text flow_id:flow_id flow_name:text run_id:text attempt_index:attempt_index attempt_id:attempt_id attempt_type:text lease_id:lease_id lease_epoch:lease_epoch lease_expires_at:unix_ms deadline_at:unix_ms retry_count:int created_at:unix_ms policy:json trace_context:text payload:bytes flow_input:bytes inputs_complete:bool inputs:list(node_input) journal_complete:bool journal:list(journal_entry) admission:text
-- @record    journal_entry name:text value:bytes
-- @record    node_input name:text result:bytes
-- @arguments claim_request lane_id:lane_id worker_id:worker_id worker_instance_id:worker_instance_id claim_id:text repeated:bool count:int lease_ttl:ms aside:bool kinds:text capabilities:csv?

-- Numbers and sets of a claim request, converted before anything is written.
function work.parse_claim(A)
  local count, err = number.whole('count', A.count)
  if err then return nil, err end
  local ttl
  ttl, err = number.lease_ttl(A.lease_ttl)
  if err then return nil, err end
  local offered
  offered, err = capability.parse(A.capabilities, 'worker')
  if err then return nil, err end
  if count > 0 and (not is_set(A.worker_instance_id) or #(A.claim_id or '') ~= 36) then
    return nil, reply.err('invalid_input', 'claim_id must be a UUID and worker_instance_id be given')
  end
  return {
    lane = A.lane_id, worker_id = A.worker_id, worker_instance_id = A.worker_instance_id,
    claim_id = A.claim_id, repeated = A.repeated == '1', count = count, ttl = ttl, aside = A.aside == '1',
    kinds = A.kinds or '', offered = offered,
  }
end

-- Ends of the ids of the first lease, which is the most frequent one.
local FIRST_SUFFIX = '00000000000'

-- Ids of the n-th lease of a claim derive from the claim's id, so a repeated claim finds its leases again.
local function lease_for(request, n)
  local base = string.sub(request.claim_id, 1, 24)
  local suffix = n == 0 and FIRST_SUFFIX or string.format('%011x', n)
  return {
    worker_id = request.worker_id, worker_instance_id = request.worker_instance_id, lane = request.lane,
    lease_id = base .. '0' .. suffix, attempt_id = base .. '1' .. suffix, ttl = request.ttl,
    renewal = math.floor(request.ttl * 2 / 3),
  }
end

local function knows(request, kind)
  return string.find(request.kinds, '\n' .. (kind or '') .. '\n', 1, true) ~= nil
end

-- Why this worker cannot run an execution: nil, or a text for the record.
local function unfit(request, core)
  if not knows(request, core.execution_kind) then
    return 'no running worker knows activity "' .. (core.execution_kind or '') .. '"'
  end
  if not is_set(core.required_capabilities) then return nil end
  local required = capability.parse(core.required_capabilities, 'required') or {}
  local missing = capability.missing(required, request.offered)
  if missing == '' then return nil end
  return 'no running worker offers: ' .. missing
end

-- Takes an execution that this worker cannot run out of the way of those it can.
local function set_aside(c, execution_id, core, lane, detail)
  record.write(key.exec_core(c, execution_id), core.managed, {
    'eligibility_state', 'blocked_by_route',
    'blocking_reason', 'waiting_for_capable_worker',
    'blocking_detail', detail,
    'public_state', 'rate_limited',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }, {})
  redis.call('ZREM', key.lane_eligible(c, lane), execution_id)
  redis.call('ZADD', key.lane_blocked_route(c, lane), c.now, execution_id)
  redis.call('PUBLISH', key.channel_wake(c, lane), 'aside ' .. call.partition(c) .. ' ' .. (core.execution_kind or ''))
end

-- Results of the upstreams that feed an execution, as {name, result} pairs, and whether that is all of them.
local function inputs_of(c, execution_id, core)
  local count = tonumber(core.input_count) or 0
  if count == 0 then return {}, true end
  if count > MAX_INLINE_INPUTS then return {}, false end
  local heirs = c.heirs
  if heirs and #(heirs.fed[execution_id] or {}) == count then
    if #heirs.result * count > MAX_INLINE_BYTES then return {}, false end
    return heirs.fed[execution_id], true
  end
  local inputs, bytes = {}, 0
  local g = graph.flow(c, core.flow_id).joins and joins.of(c, core.flow_id, execution_id)
  for _, edge_id in ipairs(redis.call('SMEMBERS', key.flow_in(c, core.flow_id, execution_id))) do
    local edge = redis.call('HMGET', key.flow_edge(c, core.flow_id, edge_id),
      'data_passing_ref', 'upstream_execution_id')
    if is_set(edge[1]) and joins.feeds(c, g, execution_id, edge_id) then
      local result = redis.call('GET', key.exec_result(c, edge[2])) or ''
      bytes = bytes + #result
      if bytes > MAX_INLINE_BYTES then return inputs, false end
      inputs[#inputs + 1] = { edge[1], result }
    end
  end
  return inputs, true
end

-- All that a worker needs to run what it leased, in the order of the record claimed_execution.
local function describe(c, execution_id, core, attempt, lease_id)
  local flow = graph.flow(c, core.flow_id)
  local inputs, complete = inputs_of(c, execution_id, core)
  local payload = ''
  if not core.managed then payload = redis.call('GET', key.exec_payload(c, execution_id)) or '' end
  local flow_input = ''
  if core.uses_flow_input then flow_input = redis.call('GET', key.flow_input(c, core.flow_id)) or '' end
  local steps, all_steps = journal.inline(c, execution_id, core)
  local deadline = flow.deadline_at
  if not core.managed then deadline = redis.call('ZSCORE', key.index_execution_deadline(c), execution_id) end
  return {
    execution_id, core.node or '', core.execution_kind or '', core.flow_id or '', flow.flow_kind or '',
    flow.run_id or '', attempt.index, attempt.attempt_id, attempt.type, lease_id, attempt.epoch,
    attempt.expires, deadline or '', core.retry_count or '0', core.created_at or '',
    redis.call('GET', key.exec_policy(c, execution_id)) or '', flow.trace_context or '', payload, flow_input,
    complete and '1' or '0', inputs, all_steps and '1' or '0', steps, limits.debt(core),
  }
end

local function arm_timeout(c, execution_id, core)
  local timeout = tonumber(core.attempt_timeout)
  if not timeout then return end
  local at = c.now + timeout + TIMEOUT_GRACE_MS
  redis.call('ZADD', key.index_attempt_timeout(c), at, execution_id)
  wake.due(c, at)
end

-- Starts a new attempt of a runnable execution, or goes on with the one that was put aside. `left`: see claim.start.
local function lease_runnable(c, request, execution_id, core_key, core, n, left)
  local w = lease_for(request, n)
  w.left = left
  local attempt
  if core.attempt_state == 'attempt_interrupted' then
    attempt = claim.resume(c, execution_id, core_key, core, w)
  else
    attempt = claim.start(c, execution_id, core_key, core, w)
  end
  -- A new attempt has all of its time, whatever an earlier one had left.
  if attempt.type ~= 'resumed' or not is_set(core.remaining_attempt_timeout) then arm_timeout(c, execution_id, core) end
  if core.managed then
    graph.event(c, core, attempt.type == 'resumed' and 'resumed' or 'started', attempt.index,
      request.worker_instance_id)
  end
  return describe(c, execution_id, core, attempt, w.lease_id)
end

-- Leases one eligible execution; nil when it cannot be leased, and then it is out of the way.
local function take_eligible(c, request, execution_id, n)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, claim.FIRST_FIELDS)
  if core and not (core.managed and core.attempt_state == 'pending_first_attempt') then
    core = record.read(core_key, claim.FIELDS)
  end
  if not core or core.lifecycle_phase ~= 'runnable' or core.eligibility_state ~= 'eligible_now' then
    redis.call('ZREM', key.lane_eligible(c, request.lane), execution_id)
    return nil
  end
  if core.managed and graph.is_over(graph.flow(c, core.flow_id)) then
    lifecycle.cancel(c, execution_id, core_key, record.read(core_key, lifecycle.END_FIELDS), 'flow is over', 'flow',
      { silent = true })
    return nil
  end
  local detail = unfit(request, core)
  if detail then
    set_aside(c, execution_id, core, request.lane, detail)
    return nil
  end
  detail = pauses.why(c, core, graph.flow(c, core.flow_id))
  if detail then
    pauses.hold(c, execution_id, core, request.lane, detail)
    return nil
  end
  if core.limits and not limits.admitted(core) then
    limits.park(c, request, execution_id, core)
    return nil
  end
  wake.taken(c, request.lane)
  return lease_runnable(c, request, execution_id, core_key, core, n)
end

-- An execution that a completion makes ready, and that the worker may run next, is leased by the same call without a
-- stop in the eligible set: it is an heir. `heirs` is the list of them, with the request of the call, and what the
-- completed execution feeds: its result, and by execution the {name, result} pairs.
local function no_heirs(request, execution_id, result)
  return { request = request, upstream_id = execution_id, result = result or '', fed = {} }
end

-- An edge of the completed execution hands its result to a child under a name, if it has one.
function work.feed(heirs, upstream_id, child_id, name)
  if upstream_id ~= heirs.upstream_id or not is_set(name) then return end
  local fed = heirs.fed[child_id]
  if not fed then
    fed = {}
    heirs.fed[child_id] = fed
  end
  fed[#fed + 1] = { name, heirs.result }
end

-- Whether an execution that may run now becomes an heir.
function work.inherit(c, heirs, execution_id, core_key, core)
  local request = heirs.request
  if #heirs >= request.count or not core.managed or core.wait or core.lane_id ~= request.lane
    or core.attempt_state ~= 'pending_first_attempt' or core.total_attempt_count ~= '0'
    or (number.finite(core.delay_until) or 0) > c.now or unfit(request, core)
    or core.limits or graph.flow(c, core.flow_id).paused then
    return false
  end
  heirs[#heirs + 1] = { execution_id = execution_id, core_key = core_key, core = core }
  return true
end

-- Leases the heirs, but no one before what is more urgent in the lane.
local function take_heirs(c, request, out)
  local heirs = c.heirs
  if not heirs or #heirs == 0 then return end
  local eligible_key = key.lane_eligible(c, request.lane)
  local head = redis.call('ZRANGE', eligible_key, 0, 0, 'WITHSCORES')
  -- Behind the mark of a pause, everything goes the long way.
  local urgent = head[1] == pauses.MARK and -math.huge or tonumber(head[2] or nil)
  request.drained = not urgent
  for _, heir in ipairs(heirs) do
    if urgent and urgent < record.eligible_score(heir.core) then
      dependency.ready(c, heir.execution_id, heir.core_key, heir.core)
    else
      out[#out + 1] = lease_runnable(c, request, heir.execution_id, heir.core_key, heir.core, #out, eligible_key)
    end
  end
end

-- Whether a pause keeps an execution that is not eligible from being taken.
local function is_paused(c, request, core)
  return pauses.stops(c, request.lane) or pauses.why(c, core, graph.flow(c, core.flow_id)) ~= nil
end

-- Leases one execution that another worker has set aside; nil when this one cannot run it either, and then it
-- stays, or when it is not set aside any more.
local function take_set_aside(c, request, execution_id, n)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, claim.FIELDS)
  if not core or core.lifecycle_phase ~= 'runnable' or core.eligibility_state ~= 'blocked_by_route' then
    redis.call('ZREM', key.lane_blocked_route(c, request.lane), execution_id)
    return nil
  end
  if core.managed and graph.is_over(graph.flow(c, core.flow_id)) then
    lifecycle.cancel(c, execution_id, core_key, core, 'flow is over', 'flow', { silent = true })
    return nil
  end
  if unfit(request, core) or is_paused(c, request, core) then return nil, true end
  if core.limits and not limits.admitted(core) then
    limits.park(c, request, execution_id, core, key.lane_blocked_route(c, request.lane))
    return nil
  end
  redis.call('ZREM', key.lane_blocked_route(c, request.lane), execution_id)
  return lease_runnable(c, request, execution_id, core_key, core, n)
end

-- Takes over one abandoned execution; nil when there was nothing to take. The second value tells that it stays.
local function take_abandoned(c, request, execution_id, n)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, claim.FIELDS)
  if not core or not claim.is_abandoned(core) then
    redis.call('ZREM', key.ffx_reclaimable(c, request.lane), execution_id)
    return nil
  end
  if unfit(request, core) or is_paused(c, request, core) then return nil, true end
  if core.limits and not limits.may_take_over(c, request, execution_id, core) then return nil, true end
  return work.take_over(c, request, execution_id, core_key, core, n)
end

-- Leases an abandoned execution anew; nil when it was given up instead.
function work.take_over(c, request, execution_id, core_key, core, n)
  redis.call('ZREM', key.ffx_reclaimable(c, request.lane), execution_id)
  if flows.end_late(c, execution_id, core_key, core) then return nil end
  local w = lease_for(request, n)
  if core.limits then limits.carry(c, execution_id, core) end
  local attempt = claim.take_over(c, execution_id, core_key, core, w)
  if not attempt then return nil end
  arm_timeout(c, execution_id, core)
  if core.managed then graph.event(c, core, 'reclaimed', attempt.index, request.worker_instance_id) end
  return describe(c, execution_id, core, attempt, w.lease_id)
end

-- Whether something keeps this worker from running an execution that was admitted.
function work.hinders(c, request, core)
  return unfit(request, core) ~= nil or is_paused(c, request, core)
end

-- Leases an execution that was admitted.
function work.lease_admitted(c, request, execution_id, core_key, core, n)
  if claim.is_abandoned(core) then return work.take_over(c, request, execution_id, core_key, core, n) end
  redis.call('ZREM', key.lane_blocked_quota(c, request.lane), execution_id)
  return lease_runnable(c, request, execution_id, core_key, core, n)
end

-- The leases that an earlier try of the same claim made.
function work.leases_of_claim(c, request)
  local base = string.sub(request.claim_id, 1, 24)
  local out = {}
  for _, execution_id in ipairs(redis.call('SMEMBERS', key.index_worker_leases(c, request.worker_instance_id))) do
    local core = record.read(key.exec_core(c, execution_id), claim.FIELDS)
    if core and core.ownership_state == 'leased' and string.sub(core.current_lease_id or '', 1, 24) == base then
      local attempt_type = redis.call('HGET',
        key.attempt_record(c, execution_id, core.current_attempt_index or ''), 'attempt_type')
      out[#out + 1] = describe(c, execution_id, core, {
        index = core.current_attempt_index, attempt_id = core.current_attempt_id, type = attempt_type or '',
        epoch = core.current_lease_epoch, expires = core.lease_expires_at,
      }, core.current_lease_id)
    end
  end
  return out
end

-- Leases what an index holds, from its head on, until the request is filled or `limit` entries were passed over.
-- Gives how many were passed over, how many of them are still in the index, and whether that is all that it holds.
local function take_from(c, request, index_key, take, out, limit)
  local passed, stayed = 0, 0
  while #out < request.count and passed < limit do
    local wanted = request.count - #out
    -- One more than wanted tells whether there is more.
    local heads = redis.call('ZRANGE', index_key, stayed, stayed + wanted)
    for i = 1, math.min(wanted, #heads) do
      local execution_id = heads[i]
      local taken, stays
      if execution_id ~= pauses.MARK then
        taken, stays = take(c, request, execution_id, #out)
      elseif pauses.stops(c, request.lane) then
        return passed, stayed
      else
        stays = true
      end
      if taken then out[#out + 1] = taken else passed = passed + 1 end
      if stays then stayed = stayed + 1 end
    end
    if #heads <= wanted then return passed, stayed, true end
  end
  return passed, stayed, false
end

-- Leases up to request.count executions.
function work.claim(c, request)
  if request.count <= 0 then return {} end
  if request.repeated then
    local earlier = work.leases_of_claim(c, request)
    if #earlier > 0 then return earlier end
  end
  local out = {}
  take_heirs(c, request, out)
  if not request.handed_on then
    local passed, stayed, all = take_from(c, request, key.ffx_reclaimable(c, request.lane), take_abandoned, out,
      MAX_PASSED_OVER)
    -- Not when the search was cut short, else the worker would ask for the rest again and again.
    if passed < MAX_PASSED_OVER then request.unfit, request.none_abandoned = stayed, all end
  end
  if request.aside then
    take_from(c, request, key.lane_blocked_route(c, request.lane), take_set_aside, out, MAX_PASSED_ASIDE)
  end
  if #out < request.count then
    local _, _, all = take_from(c, request, key.lane_eligible(c, request.lane), take_eligible, out, MAX_PASSED_OVER)
    request.drained = all
  end
  if #out > 0 then wake.due(c, c.now + request.ttl) end
  return out
end

-- How many executions of the lane are left for this worker to claim, as text.
function work.remaining(c, request)
  if request.count <= 0 then return '0' end
  local abandoned = 0
  if request.unfit and not request.none_abandoned then
    abandoned = math.max(0, redis.call('ZCARD', key.ffx_reclaimable(c, request.lane)) - request.unfit)
  end
  if c.pauses and pauses.stops(c, request.lane) then return '0' end
  local added = c.lanes[request.lane]
  if request.drained and not (added and added.count > 0) then return number.text(abandoned) end
  return number.text(redis.call('ZCOUNT', key.lane_eligible(c, request.lane), '(-inf', '+inf') + abandoned)
end

-- Tells the other workers how a claim has left the lane: those that wait for their turn need not come, or more of them
-- must.
local function tell_others(c, request, taken, remaining, A)
  if A.tell_none == '1' and remaining == '0' and request.unfit == 0 then
    wake.none(c, request.lane)
  elseif A.tell_more == '1' and remaining ~= '0' and taken >= request.count then
    wake.workers(c, request.lane)
  end
end

-- @function ffx_claim
-- @summary  Leases up to `count` executions of a lane in one partition: fresh, resumed and abandoned ones alike.
--           Executions that the worker cannot run are set aside until one comes that can; with `aside`, such are
--           looked through as well. After a lost reply, send it again with `repeated`, and the same leases come
--           back. A worker that is not alone lets the others know when it leaves nothing (tell_none), or more than it
--           could take (tell_more).
-- @flags    derives
-- @key      partition          ffx.partition
-- @arg      tell_none          bool
-- @arg      tell_more          bool
-- @include  claim_request
-- @reply    OK remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
function F.ffx_claim(K, A)
  local request, err = work.parse_claim(A)
  if err then return err end
  local c = call.open(K.partition)
  local executions = work.claim(c, request)
  local remaining = work.remaining(c, request)
  tell_others(c, request, #executions, remaining, A)
  graph.settle(c)
  return reply.ok(remaining, executions, request.candidates or {})
end

-- True when this very attempt has been committed before, so the reply was lost.
local function already_completed(core, A)
  return core.lifecycle_phase == 'terminal' and core.terminal_outcome == 'success'
    and core.current_lease_epoch == A.lease_epoch and core.current_attempt_id == A.attempt_id
end

-- @function ffx_complete
-- @summary  Commits a result, resolves the edges that leave the execution, and leases the worker its next
--           executions of the same partition when it asks for some (count > 0). After a lost reply, send it
--           again with `repeated`.
-- @flags    derives fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      result             bytes
-- @include  claim_request
-- @reply    OK more:bool remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @reply    ALREADY_SATISFIED more:bool remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events
function F.ffx_complete(K, A)
  local request, err = work.parse_claim(A)
  if err then return err end
  -- Abandoned executions are announced when they become so, and wait for a claim of their own.
  request.handed_on = true
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = fence.read(c, core_key, fence.COMPLETION_FIELDS)
  if not core then return reply.err('execution_not_found') end
  local repeated = already_completed(core, A)
  if not repeated then
    local f
    f, err = fence.check_write(c, core_key, core, A)
    if err then return err end
    if request.count > 0 then c.heirs = no_heirs(request, A.execution_id, A.result) end
    lifecycle.complete(c, A.execution_id, core_key, core, f, A.result)
    graph.propagate(c)
  end
  local executions = work.claim(c, request)
  local remaining = work.remaining(c, request)
  graph.settle(c)
  local answer = repeated and reply.already or reply.ok
  return answer(c.more and '1' or '0', remaining, executions, request.candidates or {})
end

-- What an earlier try of the same failure report did, or nil when there was none.
local function earlier_failure(c, A, core)
  local attempt = record.read(key.attempt_record(c, A.execution_id, A.attempt_index),
    { 'attempt_id', 'attempt_state' })
  if not attempt or attempt.attempt_id ~= A.attempt_id or attempt.attempt_state ~= 'ended_failure' then
    return nil
  end
  if core.lifecycle_phase == 'terminal' and core.current_attempt_id == A.attempt_id then
    return 'terminal_failed', ''
  end
  return 'retry_scheduled', redis.call('HGET', key.exec_core(c, A.execution_id), 'delay_until') or ''
end

-- Delay before the next attempt (ms), or nil when the execution fails for good.
local function retry_delay(c, A, core, retry_after, jitter)
  if A.retryable ~= '1' then return nil end
  local policy = record.policy(key.exec_policy(c, A.execution_id)).retry_policy
  local delay = retry.delay(policy, tonumber(core.retry_count) or 0)
  if not delay then return nil end
  if retry_after then return retry_after end
  return retry.jittered(policy, delay, jitter)
end

-- @function ffx_fail
-- @summary  Ends the attempt with a failure: schedules the next attempt by the stored policy, or fails the
--           execution and skips what depends on it. In a flow that is over, there is no next attempt: the execution is
--           cancelled.
-- @flags    derives repeatable fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      attempt_index      attempt_index
-- @arg      reason             text
-- @arg      category           text
-- @arg      retryable          bool
-- @arg      retry_after        ms optional
-- @arg      jitter_permille    int
-- @reply    OK outcome:text due_at:unix_ms more:bool
-- @reply    ALREADY_SATISFIED outcome:text due_at:unix_ms more:bool
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    invalid_input message:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events
function F.ffx_fail(K, A)
  local retry_after, err = number.optional('retry_after', A.retry_after, nil)
  if err then return err end
  local jitter
  jitter, err = number.whole('jitter_permille', A.jitter_permille)
  if err then return err end
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'active' then
    local outcome, due_at = earlier_failure(c, A, core)
    if outcome then return reply.already(outcome, due_at, '0') end
  end
  local f
  f, err = fence.check_write(c, core_key, core, A)
  if err then return err end
  local delay = retry_delay(c, A, core, retry_after, jitter)
  if delay and flows.end_late(c, A.execution_id, core_key, core) then
    graph.settle(c)
    return reply.ok('cancelled', '', c.more and '1' or '0')
  end
  if delay then
    retry.schedule(c, A.execution_id, core_key, core, f, A.reason, A.category, c.now + delay)
    wake.flush(c)
    return reply.ok('retry_scheduled', number.text(c.now + delay), '0')
  end
  retry.give_up(c, A.execution_id, core_key, core, f, A.reason, A.category)
  graph.settle(c)
  return reply.ok('terminal_failed', '', c.more and '1' or '0')
end

-- @function ffx_release
-- @summary  Gives an execution back unfinished. It is eligible again at once and its attempt is not spent; it goes on
--           under what is left of its timeout.
-- @flags    derives repeatable fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      reason             text
-- @reply    OK
-- @reply    ALREADY_SATISFIED
-- @error    execution_not_found
-- @error    set:lease_fence
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events
function F.ffx_release(K, A)
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase == 'runnable' and core.attempt_state == 'attempt_interrupted'
    and core.current_lease_epoch == A.lease_epoch and core.current_attempt_id == A.attempt_id then
    return reply.already()
  end
  local f, err = fence.check_write(c, core_key, core, A)
  if err then return err end
  park.execution(c, A.execution_id, core_key, core, f, {
    eligibility = 'eligible_now', reason = 'waiting_for_worker', detail = A.reason or '', public = 'waiting',
    suspension = 'released', released = 'given_back', from_start = true,
  })
  park.make_eligible(c, A.execution_id, core)
  if core.managed then graph.event(c, core, 'given_back', core.current_attempt_index, A.reason) end
  wake.flush(c)
  return reply.ok()
end

-- Leases of this worker that it did not name.
local function strays_of(c, worker_instance_id, named)
  local strays = {}
  for _, execution_id in ipairs(redis.call('SMEMBERS', key.index_worker_leases(c, worker_instance_id))) do
    if not named[execution_id] then
      local core = record.read(key.exec_core(c, execution_id), fence.FIELDS)
      if core and core.ownership_state == 'leased' and core.current_worker_instance_id == worker_instance_id then
        strays[#strays + 1] = { execution_id, core.current_lease_id or '', core.current_lease_epoch or '',
          core.current_attempt_id or '' }
      end
    end
  end
  return strays
end

-- @record    lost_lease execution_id:execution_id code:text
-- @record    held_lease execution_id:execution_id lease_id:lease_id lease_epoch:lease_epoch attempt_id:attempt_id

-- @function ffx_renew
-- @summary  Renews many leases of one worker in one partition, tells which are gone, and, when asked, which
--           leases the engine has for this worker that it did not name.
-- @flags    derives repeatable fence
-- @key      partition          ffx.partition
-- @arg      worker_instance_id worker_instance_id
-- @arg      lease_ttl          ms
-- @arg      report_strays      bool
-- @group    leases             execution_id:execution_id lease_id:lease_id lease_epoch:lease_epoch attempt_id:attempt_id
-- @reply    OK expires_at:unix_ms lost:list(lost_lease) strays:list(held_lease)
-- @error    invalid_input message:text
function F.ffx_renew(K, A)
  local ttl, err = number.lease_ttl(A.lease_ttl)
  if err then return err end
  local c = call.open(K.partition)
  local lost, named = {}, {}
  local expiry_key = key.index_lease_expiry(c)
  for _, held in ipairs(A.leases) do
    local execution_id = held.execution_id
    named[execution_id] = true
    local k = {
      core = key.exec_core(c, execution_id), lease_current = key.exec_lease_current(c, execution_id),
      lease_expiry = expiry_key,
    }
    local core = fence.read(c, k.core, fence.RENEWAL_FIELDS)
    local refusal = not core and reply.err('execution_not_found') or lease.check_renewal(c, k.core, core, held)
    if refusal then
      lost[#lost + 1] = { execution_id, refusal[2] }
    else
      lease.extend(c, k, execution_id, core, ttl, ttl)
    end
  end
  local strays = A.report_strays == '1' and strays_of(c, A.worker_instance_id, named) or {}
  return reply.ok(number.text(c.now + ttl), lost, strays)
end

-- @function ffx_announce
-- @summary  Releases executions that were set aside for want of a worker that knows their activity or offers
--           their capabilities, as far as the calling worker does. Looks at a bounded number per call; go on
--           with next_cursor until it is empty.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      lane_id            lane_id
-- @arg      kinds              text
-- @arg      capabilities       csv optional
-- @arg      cursor             text optional
-- @reply    OK released:int next_cursor:text
-- @error    invalid_capabilities reason:text
function F.ffx_announce(K, A)
  local offered, err = capability.parse(A.capabilities, 'worker')
  if err then return err end
  local c = call.open(K.partition)
  local request = { kinds = A.kinds or '', offered = offered }
  local blocked_key = key.lane_blocked_route(c, A.lane_id)
  local page = redis.call('ZSCAN', blocked_key, is_set(A.cursor) and A.cursor or '0', 'COUNT', 200)
  local released = 0
  for i = 1, #page[2], 2 do
    local execution_id = page[2][i]
    local core_key = key.exec_core(c, execution_id)
    local core = record.read(core_key, claim.FIELDS)
    if not core or core.eligibility_state ~= 'blocked_by_route' then
      redis.call('ZREM', blocked_key, execution_id)
    elseif not unfit(request, core) then
      redis.call('ZREM', blocked_key, execution_id)
      record.write(core_key, core.managed, {
        'eligibility_state', 'eligible_now',
        'blocking_reason', 'waiting_for_worker',
        'public_state', 'waiting',
        'last_transition_at', c.now_text,
        'last_mutation_at', c.now_text,
      }, { 'blocking_detail' })
      park.make_eligible(c, execution_id, core)
      released = released + 1
    end
  end
  wake.flush(c)
  return reply.ok(number.text(released), page[1] == '0' and '' or page[1])
end
