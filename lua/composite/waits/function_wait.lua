-- Steps and waits of functions: suspends them, records a step, opens a waitpoint ahead, and reads the journal.

local STEP_FIELDS = {
  'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome', 'attempt_state',
  'current_lease_id', 'current_lease_epoch', 'current_attempt_id', 'current_attempt_index',
  'current_worker_id', 'current_worker_instance_id', 'lease_expires_at', 'lane_id', 'current_lane',
  'flow_id', 'managed', 'node', 'created_at', 'priority', 'retry_count', 'attached', 'journal',
  'fair_key',
}

-- Returns the waitpoint that the step has opened ahead, when it is still pending, or nil. Signals that came late for it were
-- refused, so an expired one does not count.
local function opened_ahead(c, execution_id, core, step)
  local id = journal.get(c, execution_id, core, 'open:' .. step)
  if not id then return nil end
  local w = record.read(key.waitpoint_record(c, id),
    { 'waitpoint_key', 'waitpoint_token', 'state', 'expires_at' }) or {}
  local expires = number.finite(w.expires_at)
  if w.state ~= 'pending' or expires and expires <= c.now then return nil end
  return { id = id, key = w.waitpoint_key or '', token = w.waitpoint_token or '', pending = true }
end

-- Returns the waitpoint of a wait that is to begin, or nil and the error reply.
local function waitpoint_for(c, A, core)
  local w = opened_ahead(c, A.execution_id, core, A.step)
  if w then return w end
  w = { id = wait.uuid(A.suspension_id), key = A.waitpoint_key }
  local code
  w.token, code = waitpoint_token.mint(key.waitpoint_secrets(c), w.id, w.key, c.now_text)
  if not w.token then return nil, reply.err(code) end
  return w
end

-- Returns the earlier result of the step, or nil: signals came before the wait, or this call's first reply was lost.
local function brought_before(c, A, core)
  return core.lifecycle_phase == 'active' and journal.get(c, A.execution_id, core, 'await:' .. A.step)
end

-- Returns the executions that a worker is leased in place of the suspended one.
local function claim_next(c, request)
  local executions = claiming.claim(c, request)
  local remaining = claiming.remaining(c, request)
  settle.run(c)
  return reply.ok(remaining, executions, '', request.candidates or {})
end

-- @function ffx_suspend
-- @summary  The lease holder's function waits for signals: its slot is free, and it runs again once they have come, with the
--           result of the wait in its journal, under await:<step>. A waitpoint that ffx_open_waitpoint has made for the step is
--           used, with its signals; when they are enough, the lease stays, and the answer is ALREADY_SATISFIED with that entry.
--           Otherwise the worker is leased its next executions of the same partition when it requests some (count > 0). The
--           caller makes the suspension id, one for each wait, and sends it again with a repeat after a lost reply. The answer is
--           then OK also when the attempt has been resumed since: the repeat may lease this very execution. timeout 0 is none.
-- @flags    derives fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      step               text
-- @arg      suspension_id      suspension_id
-- @arg      waitpoint_key      text
-- @arg      condition          json
-- @arg      timeout            ms
-- @arg      timeout_behavior   text optional
-- @arg      collect            bool
-- @arg      about              json optional
-- @include  claim_request
-- @reply    OK remaining:int executions:list(claimed_execution) result:bytes<result> candidates:list(candidate)?
-- @reply    ALREADY_SATISFIED remaining:int executions:list(claimed_execution) result:bytes<result>
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    already_suspended
-- @error    journal_full message:text
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
-- @error    set:signing
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ffx_suspend(K, A)
  local request, err = claim_request.parse(A)
  if err then return err end
  request.skip_abandoned = true
  err = journal.check_step(A.step)
  if err then return err end
  if #(A.suspension_id or '') ~= 36 then return reply.err('invalid_input', 'suspension_id must be a UUID') end
  err = is_set(A.about) and wait.check_about('step ' .. A.step, A.about)
  if err then return err end
  local spec
  spec, err = wait.parse('step ' .. A.step, A.condition, A.timeout, A.timeout_behavior, A.collect == '1')
  if err then return err end
  if spec.sleeps and not spec.timeout then return reply.err('invalid_input', 'step ' .. A.step .. ': a timer must have a timeout') end
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, STEP_FIELDS)
  if not core then return reply.err('execution_not_found') end
  local earlier = record.read(key.exec_suspension(c, A.execution_id), { 'suspension_id', 'closed_at' })
  local repeated = earlier and earlier.suspension_id == A.suspension_id
  if repeated and not brought_before(c, A, core) then return claim_next(c, request) end
  local f
  f, err = lease.check_write(c, core_key, core, A)
  if err then return claiming.is_carried_out(c, request, core, A) and claim_next(c, request) or err end
  local before = brought_before(c, A, core)
  if before then return reply.already('0', {}, before) end
  if run_stop.end_late(c, A.execution_id, core_key, core) then return claim_next(c, request) end
  if earlier and not is_set(earlier.closed_at) then return reply.err('already_suspended') end
  err = journal.check_room(c, A.execution_id, core, 0)
  if err then return err end
  local w
  w, err = waitpoint_for(c, A, core)
  if err then return err end

  local k = wait.keys(c, A.execution_id, w.id)
  if earlier then redis.call('DEL', k.suspension) end
  local a = wait.arguments(c, A.execution_id, {
    attempt_index = core.current_attempt_index, suspension_id = A.suspension_id, step = A.step, timeout = spec.timeout,
    behaviour = spec.behaviour, condition_json = A.condition, about = A.about, sleeps = spec.sleeps,
  })
  local decided = suspension_record.begin(c, k, a, w, spec.condition)
  if decided then
    local payload = redis.call('GET', key.signal_payload(c, decided)) or ''
    return reply.already('0', {}, wait.record(c, A.execution_id, core_key, A.step, k, { payload = payload }))
  end
  k.core = core_key
  suspension.enter(c, k, a, core, f, w, spec.timeout and c.now + spec.timeout)
  return claim_next(c, request)
end

-- @function ffx_record_step
-- @summary  Records the result of a step of the lease holder's function, so that the step is not repeated when the function runs
--           again. The first value stays; the reply is the stored one.
-- @flags    derives repeatable fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      step               text
-- @arg      value              bytes<step>
-- @reply    OK value:bytes<step>
-- @reply    ALREADY_SATISFIED value:bytes<step>
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    journal_full message:text
-- @error    invalid_input message:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ffx_record_step(K, A)
  local err = journal.check_step(A.step)
  if err then return err end
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, STEP_FIELDS)
  if not core then return reply.err('execution_not_found') end
  local f
  f, err = lease.check_write(c, core_key, core, A)
  if not f then return err end
  local entry = 'once:' .. A.step
  local first = journal.get(c, A.execution_id, core, entry)
  if first then return reply.already(first) end
  err = journal.check_room(c, A.execution_id, core, #A.value)
  if err then return err end
  journal.put(c, A.execution_id, core_key, entry, A.value)
  return reply.ok(A.value)
end

-- @function ffx_open_waitpoint
-- @summary  Opens the waitpoint of a step ahead of its wait, so that the token can be given away while the function still runs.
--           Signals that come before the wait are kept. A step has one such waitpoint for all attempts; another one only when the
--           first was closed, or not used in time, before the step has waited. expires_in 0 means unlimited.
-- @flags    derives repeatable fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      step               text
-- @arg      waitpoint_id       waitpoint_id
-- @arg      waitpoint_key      text
-- @arg      expires_in         ms
-- @arg      about              json optional
-- @reply    OK waitpoint_id:waitpoint_id waitpoint_token:text
-- @reply    ALREADY_SATISFIED waitpoint_id:waitpoint_id waitpoint_token:text
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    waitpoint_already_exists
-- @error    journal_full message:text
-- @error    invalid_input message:text
-- @error    set:signing
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ffx_open_waitpoint(K, A)
  local err = journal.check_step(A.step)
  if err then return err end
  local expires_in
  expires_in, err = number.count('expires_in', A.expires_in, 0)
  if err then return err end
  if #(A.waitpoint_id or '') ~= 36 then return reply.err('invalid_input', 'waitpoint_id must be a UUID') end
  err = is_set(A.about) and wait.check_about('step ' .. A.step, A.about)
  if err then return err end
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, STEP_FIELDS)
  if not core then return reply.err('execution_not_found') end
  local f
  f, err = lease.check_write(c, core_key, core, A)
  if not f then return err end
  local entry = 'open:' .. A.step
  local id = journal.get(c, A.execution_id, core, entry)
  if id and (opened_ahead(c, A.execution_id, core, A.step) or brought_before(c, A, core)) then
    if is_set(A.about) then redis.call('HSETNX', key.waitpoint_record(c, id), 'about', A.about) end -- a signal has opened it
    return reply.already(id, redis.call('HGET', key.waitpoint_record(c, id), 'waitpoint_token') or '')
  end
  err = not id and journal.check_room(c, A.execution_id, core, 0, true)
  if err then return err end
  if redis.call('EXISTS', key.waitpoint_record(c, A.waitpoint_id)) == 1 then
    return reply.err('waitpoint_already_exists')
  end
  local minted, code = waitpoint_token.mint(key.waitpoint_secrets(c), A.waitpoint_id, A.waitpoint_key, c.now_text)
  if not minted then return reply.err(code) end
  local expires = expires_in > 0 and c.now + expires_in or nil
  waitpoint.write_pending(c, A.waitpoint_id, A.waitpoint_key, minted, expires, {
    execution_id = A.execution_id, attempt_index = core.current_attempt_index, step = A.step, about = A.about,
  })
  if expires then wake.due(c, expires) end
  journal.put(c, A.execution_id, core_key, entry, A.waitpoint_id)
  wake.flush(c)
  return reply.ok(A.waitpoint_id, minted)
end

-- @function ffx_read_journal
-- @summary  Returns the journal of an execution, in pages: for one that is too large to come with a claim.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text journal:list(journal_entry)
-- @error    invalid_input message:text
function F.ffx_read_journal(K, A)
  if is_set(A.cursor) and not string.match(A.cursor, '^%d+$') then
    return reply.err('invalid_input', 'cursor must be a number, got: ' .. A.cursor)
  end
  local c = call.open(K.partition)
  local page = redis.call('HSCAN', key.exec_journal(c, A.execution_id), is_set(A.cursor) and A.cursor or '0', 'COUNT', 8)
  return reply.ok(page[1] == '0' and '' or page[1], journal.entries(page[2]))
end
