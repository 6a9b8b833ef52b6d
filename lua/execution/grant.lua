-- Grants: an execution is reserved for one worker for a short time, in which no other can claim it.

-- A grant is good for the worker, the instance and the lane that it names. Nil, or the error reply.
function grant.check(c, grant_key, A)
  local found = record.read(grant_key,
    { 'worker_id', 'worker_instance_id', 'lane_id', 'grant_expires_at', 'kind' })
  if not found or found.worker_id ~= A.worker_id then return reply.err('invalid_claim_grant') end
  if is_set(found.grant_expires_at) and (tonumber(found.grant_expires_at) or 0) < c.now then
    return reply.err('claim_grant_expired')
  end
  if is_set(found.worker_instance_id) and found.worker_instance_id ~= A.worker_instance_id then
    return reply.err('invalid_claim_grant')
  end
  if is_set(found.lane_id) and found.lane_id ~= A.lane_id then return reply.err('invalid_claim_grant') end
  return nil
end

-- Capability rules of a grant: nil, or the error reply.
local function check_capabilities(c, core_key, required_csv, offered_csv)
  local required, err = capability.parse(required_csv, 'required')
  if err then return err end
  local offered
  offered, err = capability.parse(offered_csv, 'worker')
  if err then return err end
  local missing = capability.missing(required, offered)
  if missing == '' then return nil end
  record.note_refusal(c, core_key, 'last_capability_mismatch_at')
  return reply.err('capability_mismatch', missing)
end

-- Writes a grant: `A` names the worker and the lane.
function grant.write(c, grant_key, A, ttl)
  local expires = c.now + ttl
  redis.call('HSET', grant_key,
    'worker_id', A.worker_id, 'worker_instance_id', A.worker_instance_id, 'lane_id', A.lane_id,
    'capability_hash', A.capability_hash or '', 'route_snapshot_json', A.route_snapshot_json or '',
    'admission_summary', A.admission_summary or '', 'created_at', c.now_text,
    'grant_expires_at', number.text(expires))
  redis.call('PEXPIREAT', grant_key, expires)
end

-- @arguments grant execution_id:execution_id worker_id:worker_id worker_instance_id:worker_instance_id
--            lane_id:lane_id capability_hash:text? grant_ttl_ms:ms route_snapshot_json:json? admission_summary:text?
--            worker_capabilities_csv:csv?

-- @function ff_issue_claim_grant
-- @summary  Reserves one eligible execution for one worker for a short time.
-- @key      core            exec.core
-- @key      claim_grant     exec.claim_grant
-- @key      eligible        lane.eligible
-- @include  grant
-- @reply    OK execution_id:execution_id
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    execution_not_eligible
-- @error    grant_already_exists
-- @error    execution_not_in_eligible_set
-- @error    invalid_capabilities reason:text
-- @error    capability_mismatch missing:csv
-- @writes_on capability_mismatch core
function F.ff_issue_claim_grant(K, A)
  local ttl, err = number.whole('grant_ttl_ms', A.grant_ttl_ms)
  if err then return err end
  local c = call.open(K.core)
  local core = record.read(K.core,
    { 'lifecycle_phase', 'eligibility_state', 'required_capabilities', 'managed', 'lane_id', 'current_lane' })
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'runnable' or core.eligibility_state ~= 'eligible_now' then
    return reply.err('execution_not_eligible')
  end
  if redis.call('EXISTS', K.claim_grant) == 1 then return reply.err('grant_already_exists') end
  if not redis.call('ZSCORE', order.index(c, record.lane(core), core, K.eligible), A.execution_id) then
    return reply.err('execution_not_in_eligible_set')
  end
  err = check_capabilities(c, K.core, core.required_capabilities, A.worker_capabilities_csv)
  if err then return err end
  grant.write(c, K.claim_grant, A, ttl)
  return reply.ok(A.execution_id)
end

-- @function ff_issue_reclaim_grant
-- @summary  Reserves one abandoned execution for one worker for a short time.
-- @key      core            exec.core
-- @key      claim_grant     exec.claim_grant
-- @key      lease_expiry    index.lease_expiry
-- @include  grant
-- @reply    OK execution_id:execution_id
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    execution_not_reclaimable
-- @error    grant_already_exists
-- @error    invalid_capabilities reason:text
-- @error    capability_mismatch missing:csv
-- @writes_on capability_mismatch core
function F.ff_issue_reclaim_grant(K, A)
  local ttl, err = number.whole('grant_ttl_ms', A.grant_ttl_ms)
  if err then return err end
  local c = call.open(K.core)
  local core = record.read(K.core, { 'lifecycle_phase', 'ownership_state', 'required_capabilities' })
  if not core then return reply.err('execution_not_found') end
  if not claim.is_abandoned(core) then return reply.err('execution_not_reclaimable') end
  if redis.call('EXISTS', K.claim_grant) == 1 then return reply.err('grant_already_exists') end
  err = check_capabilities(c, K.core, core.required_capabilities, A.worker_capabilities_csv)
  if err then return err end
  grant.write(c, K.claim_grant, A, ttl)
  return reply.ok(A.execution_id)
end
