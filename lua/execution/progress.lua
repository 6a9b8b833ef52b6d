-- Progress that a lease holder reports.

-- The detail of a progress event: the percentage, which may be missing, and the message.
-- @text progress {percent:word} {words}

-- Logs a report. The flow's event log keeps the last report of each execution, so that many reports do not displace other events.
local function log_progress(c, core_key, core, A)
  local before = record.value(core_key, 'progress_event')
  local detail = encode.progress(A.progress_pct or '', A.progress_message or '')
  record.set(core_key, 'progress_event', event_log.replace_progress(c, core, before, detail))
end

-- @function ff_update_progress
-- @summary  Records the progress that the lease holder reports.
-- @flags    derives repeatable
-- @key      core            exec.core
-- @arg      execution_id    execution_id
-- @arg      lease_id        lease_id omittable
-- @arg      lease_epoch     lease_epoch omittable
-- @arg      progress_pct    text optional
-- @arg      progress_message text optional
-- @reply    OK
-- @error    execution_not_found
-- @error    execution_not_active terminal_outcome:text lease_epoch:text lifecycle_phase:text attempt_id:text
-- @error    lease_revoked
-- @error    lease_expired
-- @error    stale_lease
function F.ff_update_progress(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'active' then return reply.not_active(core) end
  if core.ownership_state == 'lease_revoked' then return reply.err('lease_revoked') end
  if fence.lapsed(c, core) then return reply.err('lease_expired') end
  if A.lease_id ~= core.current_lease_id or A.lease_epoch ~= core.current_lease_epoch then
    return reply.err('stale_lease')
  end
  local values = { 'last_mutation_at', c.now_text, 'progress_updated_at', c.now_text }
  if is_set(A.progress_pct) then
    values[#values + 1] = 'progress_pct'
    values[#values + 1] = A.progress_pct
  end
  if is_set(A.progress_message) then
    values[#values + 1] = 'progress_message'
    values[#values + 1] = A.progress_message
  end
  record.set(K.core, unpack(values))
  if core.managed then log_progress(c, K.core, core, A) end
  return reply.ok()
end
