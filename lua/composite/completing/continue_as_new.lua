-- Continues nodes as new: a function begins again with a state that it carries over. It keeps the waitpoints that were opened
-- ahead of waits that have not begun, and the signals that came too early for the waits that have. All other data of its former
-- generation is removed.

local FIELDS = {
  'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome', 'attempt_state',
  'current_lease_id', 'current_lease_epoch', 'current_attempt_id', 'current_attempt_index',
  'current_worker_id', 'current_worker_instance_id', 'lease_expires_at', 'lane_id', 'current_lane',
  'flow_id', 'managed', 'node', 'created_at', 'priority', 'retry_count', 'attached', 'fair_key', 'journal', 'generation',
}

-- Fields of a waitpoint that may be kept.
local WAITPOINT_FIELDS = { 'state', 'expires_at', 'decided_at', 'by_token', 'step', 'waitpoint_key', 'created_at', 'close_reason', 'signal_bytes' }

-- Fields of a waitpoint that begins anew.
local EMPTY = {
  'state', 'pending', 'suspension_id', '', 'activated_at', '', 'satisfied_at', '', 'closed_at', '', 'close_reason', '',
  'expires_at', '', 'signal_count', '0', 'matched_signal_count', '0',
}

-- Keeps the rest of the early signals of a named wait that ended with a part of them. They are for the next wait of that name:
-- the waitpoint is pending again, with another token, because the holder of the former token meant the former wait. Returns
-- whether there are any.
local function keep_early(c, work, execution_id, waitpoint_id, w)
  local step, generation_key = w.step or '', 'wpk:' .. waitpoint_id .. ':' .. c.now_text .. ':' .. (w.decided_at or '')
  local bytes = past.remove_until(c, work, execution_id, waitpoint_id, step, w.decided_at)
  if w.by_token then bytes = bytes + past.remove_by_token(c, work, execution_id, waitpoint_id, step) end
  if redis.call('XLEN', key.waitpoint_signals(c, waitpoint_id)) == 0 then return false end
  past.note_wait(c, execution_id, waitpoint_id, w)
  local waitpoint_key = key.waitpoint_record(c, waitpoint_id)
  redis.call('HSET', waitpoint_key, 'waitpoint_key', generation_key, 'created_at', c.now_text,
    'waitpoint_token', waitpoint_token.mint(key.waitpoint_secrets(c), waitpoint_id, generation_key, c.now_text) or '',
    'signal_bytes', number.text(math.max(0, (tonumber(w.signal_bytes) or 0) - bytes)), unpack(EMPTY))
  redis.call('HDEL', waitpoint_key, 'decided_at', 'by_token', 'about')
  redis.call('UNLINK', key.waitpoint_condition(c, waitpoint_id))
  return true
end

-- Reports whether the waitpoint that was opened ahead is kept.
local function is_kept(c, work, execution_id, waitpoint_id)
  local w = record.read(key.waitpoint_record(c, waitpoint_id), WAITPOINT_FIELDS)
  if not w then return false end
  if w.state == 'pending' then
    local expires = number.finite(w.expires_at)
    if not expires or expires > c.now then return true end
    suspension_record.close(c, { waitpoint = key.waitpoint_record(c, waitpoint_id) }, 'never_committed')
    return false
  end
  return w.decided_at ~= nil and keep_early(c, work, execution_id, waitpoint_id, w)
end

-- Returns the kept entries of the journal, in turn with their waitpoints, and those waitpoints as a set with their numbers of
-- signals.
local function kept_entries(c, work, execution_id, journal_key)
  local entries, kept, signals = {}, {}, 0
  for _, entry in ipairs(redis.call('HKEYS', journal_key)) do
    local waitpoint_id = string.sub(entry, 1, 5) == 'open:' and redis.call('HGET', journal_key, entry)
    if waitpoint_id and is_kept(c, work, execution_id, waitpoint_id) then
      entries[#entries + 1], entries[#entries + 2] = entry, waitpoint_id
      kept[waitpoint_id] = true
      signals = signals + redis.call('XLEN', key.waitpoint_signals(c, waitpoint_id))
    end
  end
  return entries, kept, signals
end

-- Begins the next generation of a function, with a state. Returns nil, or the error reply.
local function renew(c, execution_id, core_key, core, next_number, state)
  local err = journal.check_state(state)
  if err then return err end
  local work, entries, kept, signals = past.work(), {}, {}, 0
  if core.journal then entries, kept, signals = kept_entries(c, work, execution_id, key.exec_journal(c, execution_id)) end
  journal.restart(c, execution_id, core_key, next_number, state, entries)
  local spent = {}
  for _, waitpoint_id in ipairs(redis.call('SMEMBERS', key.exec_waitpoints(c, execution_id))) do
    if not kept[waitpoint_id] then spent[#spent + 1] = waitpoint_id end
  end
  if #spent > 0 then
    past.remove_all(c, work, execution_id, core_key, spent, signals)
    redis.call('UNLINK', key.exec_suspension(c, execution_id))
  end
  record.set(core_key, 'generation', number.text(next_number), 'retry_count', '0')
  return nil
end

-- @function ffx_continue_as_new
-- @go       ContinueAsNew
-- @summary  Continues the lease holder's function as new: its journal is empty except for the state, which its next call gets in
--           place of its input, its retries count from the start, and the execution is eligible again. Waitpoints that were
--           opened ahead of waits that have not begun stay, with their signals. Signals that came by name before a wait that
--           others ended stay as well: they are for the next wait of that name. Records of past waits are removed, a bounded
--           number at once. The generation is counted, from 1 on; the caller names the one that ends. The worker is leased its
--           next executions of the same partition when it requests some (count > 0), which may include this one. After a lost
--           reply, send it again with `repeated`.
-- @flags    derives fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      generation         int
-- @arg      state              bytes<state>
-- @include  claim_request
-- @reply    OK remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    journal_full message:text
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ffx_continue_as_new(K, A)
  local request, err = claim_request.parse(A)
  if err then return err end
  local ended
  ended, err = number.whole('generation', A.generation)
  if err then return err end
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, FIELDS)
  if not core then return reply.err('execution_not_found') end
  local function claim_next()
    local executions = claiming.claim(c, request)
    local remaining = claiming.remaining(c, request)
    settle.run(c)
    return reply.ok(remaining, executions, request.candidates or {})
  end
  local current = tonumber(core.generation) or 1
  if current == ended + 1 and core.current_attempt_id == A.attempt_id then return claim_next() end
  local f
  f, err = lease.check_write(c, core_key, core, A)
  if err then return claiming.is_carried_out(c, request, core, A) and claim_next() or err end
  if current ~= ended then
    return reply.err('invalid_input', 'the generation is ' .. number.text(current) .. ', not ' .. A.generation)
  end
  if run_stop.end_late(c, A.execution_id, core_key, core) then return claim_next() end
  err = renew(c, A.execution_id, core_key, core, ended + 1, A.state)
  if err then return err end
  suspend_lease.interrupt(c, A.execution_id, core_key, core, f, {
    eligibility = 'eligible_now', reason = 'waiting_for_worker', detail = 'goes on as new', public = 'waiting',
    suspension = 'continued', released = 'by_worker', from_start = true,
  })
  requeue.make_eligible(c, A.execution_id, core)
  event_log.add_for(c, core, 'continued', core.current_attempt_index, number.text(ended + 1))
  return claim_next()
end
