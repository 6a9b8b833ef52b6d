-- Checks who may write, with the fence triple (lease id, lease epoch, attempt id) of the lease holder.

-- Core fields that the checks below compare.
fence.FIELDS = {
  'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome', 'attempt_state',
  'current_lease_id', 'current_lease_epoch', 'current_attempt_id', 'current_attempt_index',
  'current_worker_id', 'current_worker_instance_id', 'lease_expires_at', 'lane_id', 'current_lane',
  'flow_id', 'managed', 'node', 'created_at', 'priority', 'retry_count', 'attached', 'fair_key', 'in_row',
}

-- The fields that suffice for a renewal while the lease is valid.
fence.RENEWAL_FIELDS = {
  'lifecycle_phase', 'ownership_state', 'current_lease_epoch', 'lease_expires_at', 'current_lease_id',
  'current_attempt_id', 'current_attempt_index', 'managed', 'attached',
}

-- @errors lease_fence execution_not_active terminal_outcome:text lease_epoch:text lifecycle_phase:text
--         attempt_id:text fence_required partial_fence_triple lease_revoked lease_expired stale_lease

-- Reports whether the operator of this partition has turned off the parts of the contract that trust the caller.
function fence.strict(c)
  return redis.call('HGET', key.ffx_partition(c), 'strict_authority') == '1'
end

-- Returns the triple to check against: the caller's, or the record's own for an operator override. Returns nil and the error
-- reply when the triple is incomplete or missing.
function fence.resolve(args, core, override_allowed)
  local given = 0
  if is_set(args.lease_id) then given = given + 1 end
  if is_set(args.lease_epoch) then given = given + 1 end
  if is_set(args.attempt_id) then given = given + 1 end
  if given == 3 then return args end
  if given > 0 then return nil, reply.err('partial_fence_triple') end
  if override_allowed and args.source == 'operator_override' then
    return {
      lease_id = core.current_lease_id,
      lease_epoch = core.current_lease_epoch,
      attempt_id = core.current_attempt_id,
    }
  end
  return nil, reply.err('fence_required')
end

function fence.matches(f, core)
  return f.lease_id == core.current_lease_id and f.lease_epoch == core.current_lease_epoch
    and f.attempt_id == core.current_attempt_id
end

-- Returns true when the lease has expired by the server's clock.
function fence.lapsed(c, core)
  return (tonumber(core.lease_expires_at) or 0) <= c.now
end

-- Returns the core of an execution for a call by its lease holder: the `fields` given, or all of fence.FIELDS when the lease is
-- not valid.
function fence.read(c, core_key, fields)
  local core = record.read(core_key, fields)
  if core and (core.ownership_state ~= 'leased' or fence.lapsed(c, core)) then
    core = record.read(core_key, fence.FIELDS)
  end
  return core
end

-- Does the same for a completion, which is the most frequent call. Usually the caller holds a valid lease. The core then has the
-- field is_held instead of the fields of the lease, and there is nothing more to check.
function fence.read_completion(c, core_key, args)
  local s, at = store.of(core_key)
  return s.held(at, c, args) or s.read(at, fence.FIELDS)
end

-- Reports whether a call comes from the holder of a valid lease: the usual case, which needs no closer check.
function fence.holds(c, core, args)
  return core.lifecycle_phase == 'active' and core.ownership_state == 'leased' and not fence.lapsed(c, core)
    and fence.matches(args, core) and is_set(args.lease_id) and is_set(args.lease_epoch) and is_set(args.attempt_id)
end
