-- Nodes that go on as new: the journal of a function is emptied, and it begins again with a state that it carries over.

local FIELDS = {
  'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome', 'attempt_state',
  'current_lease_id', 'current_lease_epoch', 'current_attempt_id', 'current_attempt_index',
  'current_worker_id', 'current_worker_instance_id', 'lease_expires_at', 'lane_id', 'current_lane',
  'flow_id', 'managed', 'node', 'created_at', 'priority', 'retry_count', 'attached', 'fair_key', 'journal', 'generation',
}

-- @function ffx_continue_as_new
-- @go       ContinueAsNew
-- @summary  The lease holder's function goes on as new: its journal is empty but for the state, which its next call gets in the place of
--           its input, its retries count from the start, and the execution is eligible again. The generation is counted, from 1 on;
--           the caller names the one that ends. The worker is leased its next executions of the same partition when it asks for some
--           (count > 0), which may be this one. After a lost reply, send it again with `repeated`.
-- @flags    derives fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      generation         int
-- @arg      state              bytes
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
  local generation
  generation, err = number.whole('generation', A.generation)
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
  if current == generation + 1 and core.current_attempt_id == A.attempt_id then return claim_next() end
  local f
  f, err = lease.check_write(c, core_key, core, A)
  if err then return claiming.is_carried_out(c, request, core, A) and claim_next() or err end
  if current ~= generation then
    return reply.err('invalid_input', 'the generation is ' .. number.text(current) .. ', not ' .. A.generation)
  end
  if run_stop.end_late(c, A.execution_id, core_key, core) then return claim_next() end
  err = journal.renew(c, A.execution_id, core_key, generation + 1, A.state)
  if err then return err end
  record.set(core_key, 'generation', number.text(generation + 1), 'retry_count', '0')
  suspend_lease.interrupt(c, A.execution_id, core_key, core, f, {
    eligibility = 'eligible_now', reason = 'waiting_for_worker', detail = 'goes on as new', public = 'waiting',
    suspension = 'continued', released = 'by_worker', from_start = true,
  })
  requeue.make_eligible(c, A.execution_id, core)
  event_log.add_for(c, core, 'continued', core.current_attempt_index, number.text(generation + 1))
  return claim_next()
end
