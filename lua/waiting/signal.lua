-- Delivers signals to waitpoints.

local DEFAULT_DEDUP_MS = 86400000
local DEFAULT_STREAM_LENGTH = 1000
local DEFAULT_MAX_SIGNALS = 10000

-- Returns the numbers of a signal, or nil and the error reply. Without a positive time, repeated signals are not recognised;
-- without a positive maximum, there is none. `delayed`: a resumption may be delayed.
local function parse_numbers(A, delayed)
  local n, err = {}, nil
  n.dedup_ttl_ms = 0
  if A.dedup_ttl_ms ~= '' then
    n.dedup_ttl_ms, err = number.optional('dedup_ttl_ms', A.dedup_ttl_ms, DEFAULT_DEDUP_MS)
    if err then return nil, err end
  end
  n.signal_maxlen, err = number.count('signal_maxlen', A.signal_maxlen, DEFAULT_STREAM_LENGTH)
  if err then return nil, err end
  n.max_signals_per_execution, err =
    number.optional('max_signals_per_execution', A.max_signals_per_execution, DEFAULT_MAX_SIGNALS)
  if err then return nil, err end
  if delayed then n.resume_delay_ms, err = number.optional('resume_delay_ms', A.resume_delay_ms, 0) end
  if err then return nil, err end
  return n
end

-- @arguments signal signal_id:signal_id execution_id:execution_id waitpoint_id:waitpoint_id signal_name:text
--            signal_category:text source_type:text source_identity:text payload:bytes<signal>? payload_encoding:text?=json
--            idempotency_key:text? correlation_id:text? target_scope:text?=waitpoint created_at:unix_ms?
--            dedup_ttl_ms:ms?=86400000 resume_delay_ms:ms?=0 signal_maxlen:int?=1000
--            max_signals_per_execution:int?=10000 waitpoint_token:text? comment:text?
-- @errors    token missing_token invalid_token token_expired

-- Fields of the waitpoint that a delivery reads.
signal.WAITPOINT_FIELDS = {
  'waitpoint_key', 'created_at', 'state', 'execution_id', 'expires_at', 'close_reason', 'signal_count',
  'matched_signal_count', 'signal_bytes', 'about',
}

-- Reads the waitpoint and checks the token, which must be one for this execution. Returns nil and the error reply when the caller
-- has not proven its right; the reply then reveals nothing else about the waitpoint.
local function authorise(c, K, A)
  local w = record.read(K.waitpoint, signal.WAITPOINT_FIELDS)
  if not w or not w.created_at then return nil, reply.err('invalid_token') end
  local code =
    waitpoint_token.check(c, K.secrets, A.waitpoint_token, A.waitpoint_id, w.waitpoint_key or '', w.created_at)
  if code then
    record.note_refusal(c, K.core, 'last_hmac_validation_failed_at')
    return nil, reply.err(code)
  end
  if w.execution_id ~= A.execution_id then return nil, reply.err('invalid_token') end
  return w
end

-- Reports whether the caller requests that its signal is recognised when it is sent again.
local function is_deduplicated(K, A, n)
  return is_set(A.idempotency_key) and n.dedup_ttl_ms > 0 and is_set(K.dedup)
end

-- Returns the id under which a signal was accepted before, or nil.
function signal.earlier(K, A, n)
  return is_deduplicated(K, A, n) and redis.call('GET', K.dedup) or nil
end

function signal.limit_reached(K, n)
  return n.max_signals_per_execution > 0 and redis.call('ZCARD', K.exec_signals) >= n.max_signals_per_execution
end

-- Records an accepted signal. Its record is written last: a signal without one has not been accepted.
local function accept(c, K, A, core, n, effect)
  if is_deduplicated(K, A, n) then
    if n.keep_dedup then
      redis.call('SET', K.dedup, A.signal_id)
    else
      redis.call('SET', K.dedup, A.signal_id, 'PX', n.dedup_ttl_ms)
    end
  end
  if is_set(A.payload) then redis.call('SET', K.payload, A.payload) end
  redis.call('XADD', K.signals, 'MAXLEN', '~', n.signal_maxlen, '*', 'signal_id', A.signal_id,
    'signal_name', A.signal_name, 'signal_category', A.signal_category or 'external', 'source_type', A.source_type,
    'source_identity', A.source_identity, 'matched', '0', 'accepted_at', c.now_text)
  redis.call('ZADD', K.exec_signals, c.now, A.signal_id)
  redis.call('HSET', K.signal, 'signal_id', A.signal_id, 'target_execution_id', A.execution_id,
    'target_waitpoint_id', A.waitpoint_id, 'target_scope', A.target_scope or 'waitpoint',
    'signal_name', A.signal_name, 'signal_category', A.signal_category or 'external', 'source_type', A.source_type,
    'source_identity', A.source_identity, 'correlation_id', A.correlation_id or '',
    'idempotency_key', A.idempotency_key or '',
    'created_at', is_set(A.created_at) and A.created_at or c.now_text, 'accepted_at', c.now_text,
    'matched_waitpoint_id', A.waitpoint_id, 'payload_encoding', A.payload_encoding or 'json',
    'observed_effect', effect, unpack(wait.comment(K.core, core, A.comment)))
end

-- Checks whether a waitpoint with its condition (nil without one) takes signals now. Returns nil, or the error reply.
local function check_target(core, w, state, A)
  local suspended = core.lifecycle_phase == 'suspended'
  if core.lifecycle_phase == 'terminal' then return reply.err('target_not_signalable') end
  if not suspended and w.state == 'pending' then return reply.err('waitpoint_pending_use_buffer_script') end
  if not suspended and w.state ~= 'active' then return reply.err('target_not_signalable') end
  if not state then return reply.err('waitpoint_not_found') end
  if state.closed or suspended and (w.state ~= 'active' or core.current_waitpoint_id ~= A.waitpoint_id) then
    return reply.err('waitpoint_closed')
  end
  return nil
end

local function count_signal(c, K, A, core, w, matched)
  local values = { 'signal_count', number.text((tonumber(w.signal_count) or 0) + 1), 'last_signal_at', c.now_text }
  if matched then
    values[5], values[6] = 'matched_signal_count', number.text((tonumber(w.matched_signal_count) or 0) + 1)
  end
  redis.call('HSET', K.waitpoint, unpack(values))
  if core.managed then signal.weigh(K, A) end
  if core.managed and core.lifecycle_phase == 'suspended' or redis.call('EXISTS', K.suspension) == 1 then
    redis.call('HSET', K.suspension, 'last_signal_at', c.now_text)
  end
end

-- Maximum size (bytes) of the payload of one signal, and of all signals to one waitpoint with their texts, in managed flows.
local MAX_PAYLOAD = 65536
local MAX_SIGNAL_BYTES = 1048576

-- Returns the bytes that a signal adds to its waitpoint: its payload, and the texts that the waiting function receives with it.
function signal.weight(payload_bytes, name, category, source, correlation_id)
  return payload_bytes + #(name or '') + #(category or 'external') + #(source or '') + #(correlation_id or '')
end

local function weight_of(A)
  return signal.weight(#(A.payload or ''), A.signal_name, A.signal_category, A.source_identity, A.correlation_id)
end

-- Returns the error reply for a signal to a managed flow that is too large; nil for another one.
function signal.check_size(w, A)
  local bytes, sum = #(A.payload or ''), (tonumber(w.signal_bytes) or 0) + weight_of(A)
  if bytes > MAX_PAYLOAD then
    return reply.err('signal_too_large', number.text(bytes), number.text(MAX_PAYLOAD))
  elseif sum > MAX_SIGNAL_BYTES then
    return reply.err('signal_too_large', number.text(sum), number.text(MAX_SIGNAL_BYTES))
  end
  return nil
end

-- Adds a signal's size to the total of its waitpoint.
function signal.weigh(K, A) redis.call('HINCRBY', K.waitpoint, 'signal_bytes', weight_of(A)) end

-- Handles a met condition: closes the suspension, and resumes the execution when it is suspended.
function signal.satisfy(c, K, A, core, delay, state)
  suspension_record.close(c, K, 'resumed', { satisfied = true, condition_reason = 'satisfied',
    known = core.managed and core.lifecycle_phase == 'suspended' and suspension_record.ALL or nil })
  redis.call('ZREM', K.suspension_timeout, A.execution_id)
  if core.lifecycle_phase ~= 'suspended' then return end
  suspension.finish_wait(c, A.execution_id, K.core, core, {
    delay = delay, detail = 'resume delay ' .. number.text(delay) .. 'ms after signal ' .. A.signal_name,
    eligible = K.eligible, delayed = K.delayed, suspended = K.suspended,
  }, K, { payload = A.payload or '', state = state })
end

-- Gives a signal to an active waitpoint, after all checks. `w` is the waitpoint, `state` its condition. Returns the effect.
function signal.deliver(c, K, A, core, w, state, n, delay)
  local effect = 'no_op'
  local place = condition.match(state, A.signal_name, A.signal_id, A.source_identity)
  if place then
    effect = condition.is_met(state) and 'resume_condition_satisfied' or 'appended_to_waitpoint'
  end
  accept(c, K, A, core, n, effect)
  if place then condition.write_match(K.condition, state, place) end
  count_signal(c, K, A, core, w, place ~= nil)
  if core.managed then event_log.add_for(c, core, 'signalled', core.current_attempt_index, A.signal_name) end
  if effect == 'resume_condition_satisfied' then signal.satisfy(c, K, A, core, delay, state) end
  return effect
end

-- Returns the reply to the sender of a signal with such an effect: the outcome, and whether the signal counts. An early signal to
-- the wait of a function does not count yet, since only the wait states which signals it needs.
function signal.told(effect)
  local counts = effect == 'resume_condition_satisfied' or effect == 'appended_to_waitpoint'
  return effect == 'resume_condition_satisfied' and 'resumed' or 'accepted', counts and '1' or '0'
end

-- Returns the outcome for the sender of a late signal, by the reason for which the wait was closed.
function signal.ended_as(reason)
  reason = reason or ''
  return (string.sub(reason, 1, 9) == 'timed_out' or reason == 'never_committed') and 'expired' or 'closed'
end

-- @function ff_deliver_signal
-- @summary  Delivers a signal to an active waitpoint. Once its condition is met, the suspended execution continues.
-- @flags    derives
-- @key      core            exec.core
-- @key      condition       waitpoint.condition
-- @key      signals         waitpoint.signals
-- @key      exec_signals    exec.signals
-- @key      signal          signal.record
-- @key      payload         signal.payload
-- @key      dedup           signal.dedup optional
-- @key      waitpoint       waitpoint.record
-- @key      suspension      exec.suspension
-- @key      eligible        lane.eligible
-- @key      suspended       lane.suspended
-- @key      delayed         lane.delayed
-- @key      suspension_timeout index.suspension_timeout
-- @key      secrets         waitpoint.secrets optional
-- @include  signal
-- @reply    OK signal_id:signal_id effect:text
-- @reply    DUPLICATE signal_id:signal_id
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    set:token
-- @error    set:signing
-- @error    target_not_signalable
-- @error    waitpoint_pending_use_buffer_script
-- @error    waitpoint_not_found
-- @error    waitpoint_closed
-- @error    signal_limit_exceeded
-- @error    signal_too_large bytes:int limit:int
-- @writes_on invalid_keys_missing_hmac core
-- @writes_on missing_token core
-- @writes_on invalid_token core
-- @writes_on hmac_secret_not_initialized core
-- @writes_on token_expired core
-- @writes_on invalid_secret core
function F.ff_deliver_signal(K, A)
  local n, bad = parse_numbers(A, true)
  local c = call.open(K.core)
  local core = record.read(K.core, suspension.FIELDS)
  if not core then return reply.err('execution_not_found') end
  local w, err = authorise(c, K, A)
  if err then return err end
  local earlier = n and signal.earlier(K, A, n)
  if earlier then return reply.duplicate(earlier) end
  local state = condition.read(K.condition)
  err = check_target(core, w, state, A) or bad
  if err then return err end
  if signal.limit_reached(K, n) then return reply.err('signal_limit_exceeded') end
  err = core.managed and signal.check_size(w, A)
  if err then return err end
  local effect = signal.deliver(c, K, A, core, w, state, n, n.resume_delay_ms)
  settle.run(c)
  return reply.ok(A.signal_id, effect)
end

local BUFFERED = 'buffered_for_pending_waitpoint'
signal.BUFFERED = BUFFERED

-- Keeps a signal to a pending waitpoint, after all checks. `effect` is recorded with the signal.
function signal.buffer(c, K, A, core, n, effect)
  accept(c, K, A, core, n, effect)
  if not core.managed then return end
  signal.weigh(K, A)
  event_log.add_for(c, core, 'signalled', core.current_attempt_index, A.signal_name)
end

-- @function ff_buffer_signal_for_pending_waitpoint
-- @summary  Keeps a signal to a waitpoint whose suspension has not begun. The suspension reads it when it begins.
-- @flags    derives
-- @key      core            exec.core
-- @key      condition       waitpoint.condition
-- @key      signals         waitpoint.signals
-- @key      exec_signals    exec.signals
-- @key      signal          signal.record
-- @key      payload         signal.payload
-- @key      dedup           signal.dedup optional
-- @key      waitpoint       waitpoint.record
-- @key      secrets         waitpoint.secrets optional
-- @include  signal
-- @reply    OK signal_id:signal_id effect:text
-- @reply    DUPLICATE signal_id:signal_id
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    set:token
-- @error    set:signing
-- @error    waitpoint_closed
-- @error    waitpoint_not_pending
-- @error    signal_limit_exceeded
-- @error    signal_too_large bytes:int limit:int
-- @writes_on invalid_keys_missing_hmac core
-- @writes_on missing_token core
-- @writes_on invalid_token core
-- @writes_on hmac_secret_not_initialized core
-- @writes_on token_expired core
-- @writes_on invalid_secret core
function F.ff_buffer_signal_for_pending_waitpoint(K, A)
  local n, bad = parse_numbers(A)
  local c = call.open(K.core)
  local core = record.read(K.core, suspension.FIELDS)
  if not core then return reply.err('execution_not_found') end
  local w, err = authorise(c, K, A)
  if err then return err end
  local earlier = n and signal.earlier(K, A, n)
  if earlier then return reply.duplicate(earlier) end
  if w.state == 'closed' or w.state == 'expired' then return reply.err('waitpoint_closed') end
  if w.state ~= 'pending' then return reply.err('waitpoint_not_pending') end
  if bad then return bad end
  if signal.limit_reached(K, n) then return reply.err('signal_limit_exceeded') end
  err = core.managed and signal.check_size(w, A)
  if err then return err end
  signal.buffer(c, K, A, core, n, BUFFERED)
  return reply.ok(A.signal_id, BUFFERED)
end
