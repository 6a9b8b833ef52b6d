-- Leases executions that a scheduler has granted to a worker.

-- Leases the execution of a grant. Returns its description for the worker, nil when there is nothing left to run, or nil and the
-- error reply.
local function lease_granted(c, request, A, core_key, core)
  if claim.is_abandoned(core) then return leasing.take_over(c, request, A.execution_id, core_key, core, 0) end
  if core.lifecycle_phase ~= 'runnable' or core.ownership_state ~= 'unowned' or core.eligibility_state ~= 'eligible_now' then
    return nil, reply.err('execution_not_leaseable')
  end
  if core.managed and finally.is_over(flow_record.read(c, core.flow_id), core_key) then
    terminal.cancel(c, A.execution_id, core_key, record.read(core_key, terminal.END_FIELDS), 'flow is over', 'flow',
      { silent = true })
    return nil
  end
  local detail = claim_request.unfit(request, core)
  if detail then
    claiming.set_aside(c, A.execution_id, core, request.lane, detail)
    return nil
  end
  pauses.of(c)
  if claiming.is_blocked(c, request, core) then return nil, reply.err('execution_not_leaseable') end
  return leasing.lease_runnable(c, request, A.execution_id, core_key, core, 0)
end

-- @function ffx_claim_granted
-- @summary  Consumes a grant of ff_issue_claim_grant or ff_issue_reclaim_grant: leases the execution, fresh, resumed or
--           abandoned, and returns the data that the worker needs to run it. `executions` is empty when it is no longer to be
--           run, or not by this worker; it is then blocked or removed from the lane. After a lost reply, send it again with
--           `repeated`.
-- @flags    derives
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @include  claim_request
-- @reply    OK executions:list(claimed_execution)
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
-- @error    execution_not_found
-- @error    execution_not_leaseable
-- @error    invalid_claim_grant
-- @error    claim_grant_expired
function F.ffx_claim_granted(K, A)
  local request, err = claim_request.parse(A)
  if err then return err end
  if request.count ~= 1 then return reply.err('invalid_input', 'count must be 1, got: ' .. tostring(A.count)) end
  local c = call.open(K.partition)
  if request.repeated then
    local earlier = leasing.of_claim(c, request)
    if #earlier > 0 then return reply.ok(earlier) end
  end
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, claim.FIELDS)
  if not core then return reply.err('execution_not_found') end
  local grant_key = key.exec_claim_grant(c, A.execution_id)
  err = grant.check(c, grant_key, A)
  if err then return err end
  redis.call('DEL', grant_key)
  local leased
  leased, err = lease_granted(c, request, A, core_key, core)
  settle.run(c)
  return err or reply.ok(leased and { leased } or {})
end
