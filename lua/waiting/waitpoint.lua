-- Creates waitpoints ahead of their suspension, and closes waitpoints.

local OPEN_STATE = { pending = true, active = true }

-- Writes a waitpoint whose suspension has not begun. `expires` (ms) is nil without a limit. `o`: execution_id,
-- attempt_index, step and about (of a managed flow's function), expires_text (as it is stored), key and expiry_key (derived when
-- they are missing).
function waitpoint.write_pending(c, waitpoint_id, waitpoint_key, minted, expires, o)
  local record_key = o.key or key.waitpoint_record(c, waitpoint_id)
  redis.call('HSET', record_key, 'waitpoint_id', waitpoint_id, 'execution_id', o.execution_id,
    'attempt_index', o.attempt_index, 'suspension_id', '', 'waitpoint_key', waitpoint_key,
    'waitpoint_token', minted, 'state', 'pending', 'created_at', c.now_text, 'activated_at', '',
    'satisfied_at', '', 'closed_at', '', 'expires_at', o.expires_text or (expires and number.text(expires) or ''),
    'close_reason', '', 'signal_count', '0', 'matched_signal_count', '0', 'last_signal_at', '')
  if o.step then redis.call('HSET', record_key, 'step', o.step) end
  if is_set(o.about) then redis.call('HSET', record_key, 'about', o.about) end
  redis.call('SADD', key.exec_waitpoints(c, o.execution_id), waitpoint_id)
  if expires then
    redis.call('ZADD', o.expiry_key or key.index_pending_waitpoint_expiry(c), expires, waitpoint_id)
  end
end

-- @function ff_create_pending_waitpoint
-- @summary  Creates a waitpoint with its token while the execution still runs, so that the token can be given away before the
--           execution suspends.
-- @flags    derives
-- @key      core            exec.core
-- @key      waitpoint       waitpoint.record
-- @key      pending_waitpoint_expiry index.pending_waitpoint_expiry
-- @key      secrets         waitpoint.secrets optional
-- @arg      execution_id    execution_id
-- @arg      attempt_index   attempt_index
-- @arg      waitpoint_id    waitpoint_id
-- @arg      waitpoint_key   text
-- @arg      expires_at      unix_ms
-- @reply    OK waitpoint_id:waitpoint_id waitpoint_key:text waitpoint_token:text
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    execution_not_active terminal_outcome:text lease_epoch:text lifecycle_phase:text attempt_id:text
-- @error    no_active_lease
-- @error    stale_lease
-- @error    waitpoint_already_exists
-- @error    set:signing
function F.ff_create_pending_waitpoint(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'active' then return reply.not_active(core) end
  if core.ownership_state ~= 'leased' or fence.lapsed(c, core) then return reply.err('no_active_lease') end
  if core.current_attempt_index ~= A.attempt_index then return reply.err('stale_lease') end
  local existing = record.read(K.waitpoint, { 'state' })
  if existing and OPEN_STATE[existing.state] then return reply.err('waitpoint_already_exists') end
  local minted, code = waitpoint_token.mint(K.secrets, A.waitpoint_id, A.waitpoint_key, c.now_text)
  if not minted then return reply.err(code) end
  local expires, err = number.whole('expires_at', A.expires_at)
  if err then return err end

  waitpoint.write_pending(c, A.waitpoint_id, A.waitpoint_key, minted, expires, {
    key = K.waitpoint, execution_id = A.execution_id, attempt_index = A.attempt_index, expires_text = A.expires_at,
    expiry_key = K.pending_waitpoint_expiry,
  })
  wake.due_for(c, core, expires)
  wake.flush(c)
  return reply.ok(A.waitpoint_id, A.waitpoint_key, minted)
end

-- @function ff_close_waitpoint
-- @summary  Closes a waitpoint with its condition, so that signals are refused from now on.
-- @flags    derives repeatable
-- @key      core            exec.core
-- @key      waitpoint       waitpoint.record
-- @key      pending_waitpoint_expiry index.pending_waitpoint_expiry
-- @arg      waitpoint_id    waitpoint_id
-- @arg      reason          text optional=proactive_close
-- @reply    OK outcome:text?
-- @error    waitpoint_not_found
-- @error    waitpoint_not_open
-- @writes_on waitpoint_not_found pending_waitpoint_expiry
function F.ff_close_waitpoint(K, A)
  local c = call.open(K.waitpoint)
  local w = record.read(K.waitpoint, { 'state' })
  if not w then
    redis.call('ZREM', K.pending_waitpoint_expiry, A.waitpoint_id)
    return reply.err('waitpoint_not_found')
  end
  if w.state == 'closed' or w.state == 'expired' then
    redis.call('ZREM', K.pending_waitpoint_expiry, A.waitpoint_id)
    return reply.ok('already_closed')
  end
  if not OPEN_STATE[w.state] then return reply.err('waitpoint_not_open') end
  suspension_record.close(c, { waitpoint = K.waitpoint, condition = key.waitpoint_condition(c, A.waitpoint_id) },
    A.reason or 'proactive_close')
  redis.call('ZREM', K.pending_waitpoint_expiry, A.waitpoint_id)
  return reply.ok()
end
