-- Grants executions to a worker that does not claim by itself: those that its claim would lease, in the same order and under the
-- same rules.

-- Core fields of the limits in other partitions that have to be queried before an execution is granted.
local ASKED_FIELDS = { 'budget_ids', 'quota_policy_id' }

-- Reports whether budgets or quotas of the contract, or limits that have not admitted it, have to be queried for an execution.
local function is_to_ask(c, execution_id, core)
  if core.limits and not claim.is_abandoned(core) and not limit_admission.admitted(core) then return true end
  local asked = record.read(key.exec_core(c, execution_id), ASKED_FIELDS)
  return asked ~= nil and (is_set(asked.budget_ids) or is_set(asked.quota_policy_id))
end

-- @function ffx_grant_next
-- @summary  Grants a worker the execution of a lane in one partition that a claim of this worker would lease next: abandoned ones
--           first, else by the turn of keys, by ageing, priority and age. Executions that already have a grant are passed over,
--           those that the worker cannot run are set aside, and those that a pause or a budget of their run holds back are
--           blocked. An execution for which budgets, quotas or limits in other partitions have to be queried is named without a
--           grant: ff_issue_claim_grant or ff_issue_reclaim_grant issues it. `execution_id` is empty when there is none. Ids in
--           `passed_over`, one a line, are not granted. Without `kinds`, the worker knows all activities. A grant whose reply is
--           lost expires unused.
-- @flags    derives
-- @key      partition          ffx.partition
-- @arg      lane_id            lane_id
-- @arg      worker_id          worker_id
-- @arg      worker_instance_id worker_instance_id
-- @arg      grant_ttl          ms
-- @arg      kinds              text optional
-- @arg      capabilities       csv optional
-- @arg      passed_over        text optional
-- @reply    OK execution_id:text granted:bool reclaim:bool
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
function F.ffx_grant_next(K, A)
  local ttl, err = number.whole('grant_ttl', A.grant_ttl)
  if err then return err end
  local offered
  offered, err = capability.parse(A.capabilities, 'worker')
  if err then return err end
  local c = call.open(K.partition)
  local request = { lane = A.lane_id, count = 1, named = true, offered = offered, kinds = is_set(A.kinds) and A.kinds or nil }
  local passed_over = '\n' .. (A.passed_over or '') .. '\n'
  function request.spoken_for(execution_id)
    return redis.call('EXISTS', key.exec_claim_grant(call.at(c, execution_id), execution_id)) == 1
      or string.find(passed_over, '\n' .. execution_id .. '\n', 1, true) ~= nil
  end
  local found = claiming.select_next(c, request, function(at, execution_id, core)
    local granted = not is_to_ask(at, execution_id, core)
    if granted then grant.write(at, key.exec_claim_grant(at, execution_id), A, ttl) end
    return { execution_id, granted and '1' or '0', claim.is_abandoned(core) and '1' or '0' }
  end)
  settle.run(c)
  return reply.ok(unpack(found or { '', '0', '0' }))
end
