-- Renews the leases of a worker, many in one call.

-- Returns the leases of this worker that it did not name.
local function orphans_of(c, worker_instance_id, named)
  local orphans = {}
  for _, execution_id in ipairs(worker_leases.of(c, worker_instance_id)) do
    if not named[execution_id] then
      local core = not graph_store.is_gone(c, execution_id) and record.read(key.exec_core(c, execution_id), fence.FIELDS)
      if core and core.ownership_state == 'leased' and core.current_worker_instance_id == worker_instance_id then
        orphans[#orphans + 1] = { execution_id, core.current_lease_id or '', core.current_lease_epoch or '',
          core.current_attempt_id or '' }
      end
    end
  end
  return orphans
end

-- @record    lost_lease execution_id:execution_id code:text
-- @record    held_lease execution_id:execution_id lease_id:lease_id lease_epoch:lease_epoch attempt_id:attempt_id

-- @function ffx_renew
-- @summary  Renews many leases of one worker in one partition. Returns which are gone, and, on request, which leases the engine
--           has for this worker that it did not name.
-- @flags    derives repeatable fence
-- @key      partition          ffx.partition
-- @arg      worker_instance_id worker_instance_id
-- @arg      lease_ttl          ms
-- @arg      report_orphans      bool
-- @group    leases             execution_id:execution_id lease_id:lease_id lease_epoch:lease_epoch attempt_id:attempt_id
-- @reply    OK expires_at:unix_ms lost:list(lost_lease) orphans:list(held_lease)
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
    local is_gone = graph_store.is_gone(c, execution_id)
    local core = not is_gone and fence.read(c, k.core, fence.RENEWAL_FIELDS)
    local refusal = is_gone and reply.err('graph_unknown') or not core and reply.err('execution_not_found')
      or lease.check_renewal(c, k.core, core, held)
    if refusal then
      lost[#lost + 1] = { execution_id, refusal[2] }
    else
      lease.extend(c, k, execution_id, core, ttl, ttl)
    end
  end
  local orphans = A.report_orphans == '1' and orphans_of(c, A.worker_instance_id, named) or {}
  return reply.ok(number.text(c.now + ttl), lost, orphans)
end
