-- Admits limited executions: leases those that were given permits, and verifies admissions.

-- Makes an admitted execution ready for any worker.
local function release_to_lane(c, execution_id, core_key, core, admission_text)
  if core.lifecycle_phase == 'active' then
    record.set(core_key, 'admission', admission_text)
    wake.workers(c, record.lane(core))
    return
  end
  local lane = record.lane(core)
  limit_admission.remove_later(c, key.lane_blocked_quota(c, lane), execution_id)
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
    limit_admission.add_later(c, order.index(c, lane, core), record.eligible_score(core), execution_id)
  end
  order.announce(c, execution_id, core, lane)
end

-- Handles one admission. Returns 'leased' with the data for the worker, 'ready', 'incomplete' or 'gone'.
local function admit(c, request, entry, n)
  local execution_id = entry.execution_id
  if graph_store.is_gone(c, execution_id) then return 'gone' end
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, claim.FIELDS)
  local token = limit_admission.token_of(core or {})
  -- A scheduler that did not know the admission may have blocked the execution since.
  local blocked = core and core.lifecycle_phase == 'runnable' and core.eligibility_state == 'blocked_by_quota'
  if core and token == entry.token and not blocked
    and (limit_admission.admitted(core) or core.ownership_state == 'leased' and limit_admission.held_token(core)) then
    return 'ready'
  end
  if not core or not core.limits or not limit_admission.awaits(core, entry.token)
    or core.managed and finally.is_over(flow_record.read(c, core.flow_id), core_key) then
    return 'gone'
  end
  if entry.complete ~= '1' and (decode.limits(core.limits)) ~= '1' then
    return 'incomplete', limit_admission.candidate(c, execution_id, core, number.text(record.eligible_score(core)))
  end
  limit_admission.remove_later(c, key.ffx_unadmitted(c), execution_id)
  local text = encode.admission(entry.token, number.text(limit_admission.epoch_of(core)))
  core.admission = text
  if n < request.count and record.lane(core) == request.lane and not claiming.is_blocked(c, request, core) then
    record.set(core_key, 'admission', text)
    local leased = leasing.lease_admitted(c, request, execution_id, core_key, core, n)
    if leased then return 'leased', leased end
    return 'gone'
  end
  release_to_lane(c, execution_id, core_key, core, text)
  return 'ready'
end

-- @record candidate execution_id:execution_id token:int score:text limits:text

-- @function ffx_admit
-- @summary  Handles executions that have been admitted under their limits: leases up to `count` of them in the lane, and makes
--           the others ready. `gone` are those that no longer wait, whose admissions must be given back; `incomplete` have more
--           limits than the one that admitted them. After a lost reply, send it again with `repeated`.
-- @flags    derives
-- @key      partition          ffx.partition
-- @include  claim_request
-- @group    admissions         execution_id:execution_id token:int complete:bool
-- @reply    OK executions:list(claimed_execution) gone:list(execution_id) incomplete:list(candidate)
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
function F.ffx_admit(K, A)
  local request, err = claim_request.parse(A)
  if err then return err end
  if not A.admissions then return reply.err('invalid_input', 'the count of admissions does not fit the arguments') end
  local c = call.open(K.partition)
  local out = request.repeated and request.count > 0 and leasing.of_claim(c, request) or {}
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
  limit_admission.flush(c)
  settle.run(c)
  return reply.ok(out, gone, incomplete)
end

-- Returns the state of one admission: live, waiting (for its notice), revoked or gone. An admission in another state than live or
-- waiting can no longer be used.
local function verify(c, request, entry)
  local core_key = key.exec_core(c, entry.execution_id)
  local core = record.read(core_key, claim.FIELDS)
  if not core then return 'gone' end
  if limit_admission.awaits(core, entry.token) then return 'waiting' end
  if limit_admission.asking_token(core) == entry.token and core.ownership_state == 'leased' then return 'live' end
  if limit_admission.token_of(core) ~= entry.token then return 'gone' end
  if core.ownership_state == 'leased' then return limit_admission.held_token(core) and 'live' or 'gone' end
  local waiting = core.eligibility_state == 'eligible_now' and limit_admission.admitted(core)
  if waiting and entry.stale ~= '1' then return 'live' end
  record.clear(core_key, 'admission')
  if not waiting then return 'gone' end
  limit_admission.await(c, request, entry.execution_id, core)
  return 'revoked'
end

-- @record admission_state execution_id:execution_id token:int state:text limits:text

-- @function ffx_verify_admissions
-- @summary  Returns to the keeper of a quota which of its admissions are in use. The others cannot be used afterwards; one that
--           is `stale` and that no worker uses is revoked, and its execution waits again.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @group    admissions         execution_id:execution_id token:int stale:bool
-- @reply    OK states:list(admission_state) faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_verify_admissions(K, A)
  if not A.admissions then return reply.err('invalid_input', 'the count of admissions does not fit the arguments') end
  local c = call.open_guarded(K.partition)
  local states = {}
  for i, entry in ipairs(A.admissions) do
    local _, state = call.guarded(c, 'quota', entry.execution_id, function() return verify(c, {}, entry) end)
    states[i] = { entry.execution_id, entry.token, state or 'unread', '' }
  end
  wake.flush(c)
  return reply.ok(states, c.faults)
end

-- @function ffx_leased_ahead
-- @summary  Returns how many executions a worker holds under leases that were given to it ahead of their places.
-- @flags    derives
-- @key      partition          ffx.partition
-- @arg      worker_instance_id worker_instance_id
-- @reply    OK executions:int
function F.ffx_leased_ahead(K, A)
  local c = call.open_guarded(K.partition)
  local n = 0
  local function count(execution_id)
    local core = record.read(key.exec_core(c, execution_id),
      { 'ownership_state', 'current_worker_instance_id', 'current_lease_epoch', 'admission' })
    if core and core.ownership_state == 'leased' and core.current_worker_instance_id == A.worker_instance_id and limit_admission.asking_token(core) then
      n = n + 1
    end
  end
  -- An execution that raises an error does not count as held; the index reconciliation reports it.
  for _, execution_id in ipairs(worker_leases.of(c, A.worker_instance_id)) do call.guarded(c, 'quota', execution_id, count) end
  return reply.ok(number.text(n))
end
