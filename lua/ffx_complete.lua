-- A worker commits a result and goes on with what comes next.

-- True when this very attempt has been committed before, so the reply was lost.
local function already_completed(core, A)
  return core.lifecycle_phase == 'terminal' and core.terminal_outcome == 'success'
    and core.current_lease_epoch == A.lease_epoch and core.current_attempt_id == A.attempt_id
end

-- @function ffx_complete
-- @summary  Commits a result, resolves the edges that leave the execution, and leases the worker its next
--           executions of the same partition when it asks for some (count > 0). After a lost reply, send it
--           again with `repeated`.
-- @flags    derives fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      result             bytes
-- @include  claim_request
-- @reply    OK more:bool remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @reply    ALREADY_SATISFIED more:bool remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events
function F.ffx_complete(K, A)
  local request, err = work.parse_claim(A)
  if err then return err end
  -- Abandoned executions are announced when they become so, and wait for a claim of their own.
  request.handed_on = true
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = fence.read(c, core_key, fence.COMPLETION_FIELDS)
  if not core then return reply.err('execution_not_found') end
  local repeated = already_completed(core, A)
  if not repeated then
    local f
    f, err = fence.check_write(c, core_key, core, A)
    if err then return err end
    if request.count > 0 then c.heirs = work.no_heirs(request, A.execution_id, A.result) end
    lifecycle.complete(c, A.execution_id, core_key, core, f, A.result)
    graph.propagate(c)
  end
  local executions = work.claim(c, request)
  local remaining = work.remaining(c, request)
  graph.settle(c)
  local answer = repeated and reply.already or reply.ok
  return answer(c.more and '1' or '0', remaining, executions, request.candidates or {})
end
