-- Delivers signals to waits of managed flows, and ends waits on request of operators.

-- Maximum number of signals that a waitpoint keeps before its wait begins.
local MAX_EARLY = 1024

-- Maximum number of signals of one execution.
local MAX_SIGNALS = 10000

-- Maximum size of names, sources and keys (bytes).
local MAX_TEXT = 256

-- A signal is recognised as long as its waitpoint exists.
local LIMITS = { dedup_ttl_ms = 1, keep_dedup = true, signal_maxlen = MAX_SIGNALS, max_signals_per_execution = MAX_SIGNALS }

-- Returns the error reply for arguments that no waitpoint takes; nil when they are valid.
function wait_control.check_signal(A)
  if #(A.signal_id or '') ~= 36 then return reply.err('invalid_input', 'signal_id must be a UUID') end
  for _, name in ipairs({ 'signal_name', 'source_type', 'source_identity', 'idempotency_key', 'signal_category', 'correlation_id' }) do
    if #(A[name] or '') > MAX_TEXT then
      return reply.err('invalid_input', name .. ' must have at most ' .. MAX_TEXT .. ' bytes, got: ' .. #A[name])
    end
  end
  if not is_set(A.signal_name) then return reply.err('invalid_input', 'signal_name must be given') end
  return nil
end

-- Returns the keys of a signal to a waitpoint.
local function signal_keys(c, A)
  local k = wait.keys(c, A.execution_id, A.waitpoint_id)
  k.exec_signals = key.exec_signals(c, A.execution_id)
  k.signal = key.signal_record(c, A.signal_id)
  k.payload = key.signal_payload(c, A.signal_id)
  k.suspension_timeout = key.index_suspension_timeout(c)
  if is_set(A.idempotency_key) then k.dedup = key.signal_dedup(c, A.waitpoint_id, A.idempotency_key) end
  return k
end

-- Returns the record of this very signal or of the first one with its idempotency key, or nil.
local function delivered_before(c, k, A)
  local id = k.dedup and redis.call('GET', k.dedup) or A.signal_id
  local s = record.read(key.signal_record(c, id), { 'observed_effect', 'target_waitpoint_id' })
  if not s then return nil end
  return { id = id, effect = s.observed_effect, here = s.target_waitpoint_id == A.waitpoint_id }
end

-- Returns why a waitpoint takes no more signals, or nil.
local function over(c, core, w, A)
  local expires = number.finite(w.expires_at)
  if w.state == 'pending' then
    if core.lifecycle_phase == 'terminal' then return 'closed' end
    return expires and expires <= c.now and 'expired' or nil
  elseif w.state ~= 'active' then
    return signal.ended_as(w.close_reason)
  elseif core.lifecycle_phase ~= 'suspended' or core.current_waitpoint_id ~= A.waitpoint_id then
    return 'closed'
  end
  return nil
end

-- Returns the effect of an early signal, or nil when the wait is already decided: signals to a waitpoint node are applied to its
-- condition, as if it were open.
local function early_effect(k, A, core)
  if not core.wait then return signal.BUFFERED end
  local state = condition.fresh(wait.of_node(record.value(k.core, 'wait_spec')).condition)
  suspension_record.match_early(k, state)
  if condition.is_met(state) then return nil end
  return condition.match(state, A.signal_name, A.signal_id, A.source_identity) and 'appended_to_waitpoint' or 'no_op', state
end

-- Returns the reply to a signal that does not count: with why, and the names that do.
local function uncounted(outcome, signal_id, first, state, A)
  if not state then return { outcome, signal_id, first, '0' } end
  return { outcome, signal_id, first, '0', '', condition.refusal(state, A.signal_name, A.source_identity), condition.names(state) }
end

-- Sends a signal to a pending waitpoint, as take does.
local function take_early(c, k, A, core)
  if redis.call('XLEN', k.signals) >= MAX_EARLY then
    return nil, reply.err('signal_limit_exceeded', number.text(MAX_EARLY))
  end
  local effect, state = early_effect(k, A, core)
  if not effect then return { 'closed', A.signal_id, '', '0' } end
  signal.buffer(c, k, A, core, LIMITS, effect)
  if not core.wait and A.target_scope ~= 'step' then redis.call('HINCRBY', k.waitpoint, 'by_token', 1) end
  local outcome, counts = signal.told(effect)
  if effect == 'no_op' then return uncounted(outcome, A.signal_id, '', state, A) end
  return { outcome, A.signal_id, '', counts }
end

-- Reports whether an execution takes no more signals in its generation.
local function is_full(k)
  return signal.limit_reached(k, LIMITS)
    and redis.call('ZCARD', k.exec_signals) - past.signals(k.core) >= MAX_SIGNALS
end

-- Sends a signal to a waitpoint, for a caller that may do so. Returns the outcome, the signal's id, the outcome of the first
-- delivery, whether it counts, and the schema that it has to match, as a list; nil and the error reply when it is refused.
local function take(c, k, A, core, w)
  local before = delivered_before(c, k, A)
  if before and not before.here then
    return nil, reply.err('invalid_input', 'signal_id ' .. A.signal_id .. ' belongs to another waitpoint')
  elseif before then
    local outcome, counts = signal.told(before.effect)
    if before.effect == 'no_op' then return uncounted('duplicate', before.id, outcome, condition.read(k.condition), A) end
    return { 'duplicate', before.id, outcome, counts }
  end
  local ended = over(c, core, w, A)
  if ended then return { ended, A.signal_id, '', '0' } end
  local schema = wait.unchecked(k.core, core, w, A)
  if schema then return { 'unchecked', A.signal_id, '', '0', schema } end
  if is_full(k) then return nil, reply.err('signal_limit_exceeded', number.text(MAX_SIGNALS)) end
  local err = signal.check_size(w, A)
  if err then return nil, err end
  if w.state == 'pending' then return take_early(c, k, A, core) end
  -- A node's waitpoint without signals has the condition of its graph.
  local state = core.row and not w.signal_bytes and condition.fresh(wait.of_node(core.wait_spec).condition) or condition.read(k.condition)
  if not state or state.closed then return { 'closed', A.signal_id, '', '0' } end
  local effect = signal.deliver(c, k, A, core, w, state, LIMITS, 0)
  local outcome, counts = signal.told(effect)
  if effect == 'no_op' then return uncounted(outcome, A.signal_id, '', state, A) end
  return { outcome, A.signal_id, '', counts }
end

-- Returns the reply to a signal to a wait of a former generation, in the form of take; nil unless its token belongs to such a
-- wait.
local function take_late(c, k, A)
  local step, outcome = past.wait(c, k.secrets, A)
  if not step then return nil end
  local before, waitpoint_id = past.signal(c, A.execution_id, step, A)
  if before and waitpoint_id == A.waitpoint_id then return before end
  return { outcome, A.signal_id, '', '0' }
end

-- Does the same for a waitpoint by its id, after the checks of its arguments. `core`: see suspension.core, when it is at hand.
function wait_control.take(c, A, core)
  local k = signal_keys(c, A)
  local w = record.read(k.waitpoint, signal.WAITPOINT_FIELDS) or {}
  return take(c, k, A, core or suspension.core(k.core), w)
end

-- A signal as its sender describes it, the SHA-1 in hex of the schema with which its payload was checked, and the comment of a
-- rejection.
-- @arguments outgoing_signal signal_id:signal_id signal_name:text source_type:text source_identity:text idempotency_key:text? payload:bytes<signal>? signal_category:text? correlation_id:text? checked:text? comment:text?

-- @function ffx_signal
-- @summary  Sends a signal to a waitpoint of a managed flow, in one step with all its effects: a wait that has not begun keeps
--           it, a wait that it decides ends. A signal with a known idempotency key, or the same id, is a duplicate, permanently:
--           the reply names the first one and its effect. Outcomes: accepted (`matched`: it counts), resumed, duplicate, closed
--           (the wait is over), expired (its time was up). A token that does not belong to this waitpoint of this execution is
--           invalid_token, whatever is wrong with it. Where the wait has a schema for answers, the caller checks the payload with
--           it and sends its SHA-1 in hex as `checked`; without it, or with another schema's, the outcome is unchecked, with the
--           schema, and nothing has changed.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      waitpoint_id       waitpoint_id
-- @arg      waitpoint_token    text
-- @include  outgoing_signal
-- @reply    OK outcome:text signal_id:signal_id first_outcome:text matched:bool answer_schema:text? uncounted:text? counting:list(text)?
-- @error    invalid_token
-- @error    signal_limit_exceeded limit:int
-- @error    signal_too_large bytes:int limit:int
-- @error    invalid_input message:text
function F.ffx_signal(K, A)
  local err = wait_control.check_signal(A)
  if err then return err end
  if not is_set(A.signal_category) then A.signal_category = nil end -- the default of signals
  local c = call.open(K.partition)
  local k = signal_keys(c, A)
  local w = record.read(k.waitpoint, signal.WAITPOINT_FIELDS) or {}
  local code = waitpoint_token.check(c, k.secrets, A.waitpoint_token, A.waitpoint_id, w.waitpoint_key or '', w.created_at or '')
  local core = suspension.core(k.core)
  if code or not core or not w.created_at or w.execution_id ~= A.execution_id then
    local late = core and take_late(c, k, A)
    return late and reply.ok(unpack(late)) or reply.err('invalid_token')
  end
  local answer
  answer, err = take(c, k, A, core, w)
  if err then return err end
  settle.run(c)
  return reply.ok(unpack(answer))
end

-- Ends the wait as if its signals had come, with the result of an operator.
local function resume(c, A, core_key, core, k)
  suspension_record.close(c, k, 'resumed', { satisfied = true })
  if core.managed then event_log.add_for(c, core, 'resumed_by_operator', core.current_attempt_index, A.actor) end
  suspension.finish_wait(c, A.execution_id, core_key, core, {}, k, { result = A.result })
end

-- @function ffx_end_wait
-- @summary  Ends one wait of a managed flow on request of an operator: with resume = 1 it continues, with the given result
--           (empty: the signals so far); with 0 the execution is cancelled, or a pending waitpoint closed. The result of a wait
--           that collects signals must be a list of signals; the result of another one is checked like the payload of ffx_signal,
--           and without that check nothing changes and the reply has the schema. Needs no token. The execution of another
--           namespace or flow than the given ones counts as missing.
-- @flags    derives repeatable operator
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      waitpoint_id       waitpoint_id
-- @arg      resume             bool
-- @arg      result             bytes<result> optional
-- @arg      reason             text
-- @arg      actor              text
-- @arg      namespace          namespace optional
-- @arg      flow_id            flow_id optional
-- @arg      checked            text optional
-- @reply    OK public_state:public_state more:bool answer_schema:text?
-- @reply    ALREADY_SATISFIED public_state:public_state more:bool
-- @error    execution_not_found
-- @error    waitpoint_not_found
-- @error    execution_not_suspended
-- @error    invalid_input message:text
function F.ffx_end_wait(K, A)
  if #(A.result or '') > 1048576 then
    return reply.err('invalid_input', 'result must have at most 1048576 bytes, got: ' .. #A.result)
  end
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, wait.END_FIELDS)
  if not core or not wait.belongs(core, A) then return reply.err('execution_not_found') end
  local k = wait.keys(c, A.execution_id, A.waitpoint_id)
  local w = record.read(k.waitpoint, { 'state', 'execution_id', 'about' })
  if not w or w.execution_id ~= A.execution_id then return reply.err('waitpoint_not_found') end
  if w.state ~= 'pending' and w.state ~= 'active' then return reply.already(core.public_state or '', '0') end
  local waiting = core.lifecycle_phase == 'suspended' and core.current_waitpoint_id == A.waitpoint_id
  if A.resume == '1' then
    if not waiting then return reply.err('execution_not_suspended') end
    local schema = is_set(A.result) and not wait.collects(k) and wait.unchecked(core_key, core, w, A)
    if schema then return reply.ok('', '0', schema) end
    resume(c, A, core_key, core, k)
  elseif waiting then
    terminal.cancel(c, A.execution_id, core_key, core, A.reason, A.actor)
  else
    suspension_record.close(c, { waitpoint = k.waitpoint, condition = k.condition }, 'cancelled')
    redis.call('ZREM', k.pending_waitpoint_expiry, A.waitpoint_id)
  end
  settle.run(c)
  return reply.ok(record.value(core_key, 'public_state') or '', c.more and '1' or '0')
end
