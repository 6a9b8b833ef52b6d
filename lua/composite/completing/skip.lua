-- Ends nodes without a result on request of their worker: the child run of such a node has succeeded, and its result was skipped.

-- Returns true when this very attempt has been skipped before, so the reply was lost.
local function already_skipped(core, A)
  return core.lifecycle_phase == 'terminal' and core.terminal_outcome == 'skipped'
    and core.current_lease_epoch == A.lease_epoch and core.current_attempt_id == A.attempt_id
end

-- Ends the running attempt, whose node is skipped for a reason, as by a condition.
local function skip(c, execution_id, core_key, core, f, reason)
  attempt_record.finish(c, execution_id, core, 'ended_cancelled', 'failure_reason', reason)
  lease.close_stream(c, execution_id, core.current_attempt_index or '', 'attempt_success')
  lease.drop(c, execution_id, core)
  terminal.released(c, execution_id, core, f, 'skipped')
  terminal.finish(c, execution_id, core_key, core, {
    outcome = 'skipped', attempt_state = 'attempt_terminal', reason = reason, values = { 'failure_reason', reason },
    blank = terminal.LEASE_AND_LOSS_FIELDS,
  })
end

-- @function ffx_skip
-- @summary  Skips the lease holder's node, since its child run has succeeded without a result: the nodes that depend on it are
--           skipped as after a condition. The worker is leased its next executions of the same partition when it requests some
--           (count > 0). After a lost reply, send it again with `repeated`. In a flow that is over, it is cancelled.
-- @flags    derives fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      reason             text
-- @include  claim_request
-- @reply    OK remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ffx_skip(K, A)
  local request, err = claim_request.parse(A)
  if err then return err end
  request.skip_abandoned = true
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  if not already_skipped(core, A) then
    local f
    f, err = lease.check_write(c, core_key, core, A)
    if err then return err end
    if not core.managed then return reply.err('invalid_input', 'the execution belongs to no flow that was submitted whole') end
    if not run_stop.end_late(c, A.execution_id, core_key, core) then skip(c, A.execution_id, core_key, core, f, A.reason) end
  end
  local executions = claiming.claim(c, request)
  local remaining = claiming.remaining(c, request)
  settle.run(c)
  return reply.ok(remaining, executions, request.candidates or {})
end
