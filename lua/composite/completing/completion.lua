-- Completes executions, and leases the next ones to the same worker in the same call.

-- Returns true when this very attempt has been committed before, so the reply was lost.
local function already_completed(core, A)
  return core.lifecycle_phase == 'terminal' and core.terminal_outcome == 'success'
    and core.current_lease_epoch == A.lease_epoch and core.current_attempt_id == A.attempt_id
end

-- Commits the result of one execution. Its edges are resolved at once where joins may stop others that the call completes,
-- otherwise together with the edges of the others. Returns whether that had been done before, or nil and the error reply.
function completion.commit(c, A)
  if graph_store.is_gone(c, A.execution_id) then return nil, reply.err('graph_unknown') end
  local core_key = key.exec_core(c, A.execution_id)
  local core = fence.read_completion(c, core_key, A)
  if not core then return nil, reply.err('execution_not_found') end
  if already_completed(core, A) then return true end
  local f, err = lease.check_write(c, core_key, core, A)
  local result = A.result or ''
  if not err and stored_value.is_missing(c.at.prefix, result) then err = reply.err(stored_value.MISSING) end
  err = err or item_results.add_unusual(c, core, result)
  if err then return nil, err end
  if not store.row(core_key) then result = results.plain(stored_value.bytes(c.at.prefix, result)) end
  terminal.complete(c, A.execution_id, core_key, core, f, result)
  if flow_record.read(c, core.flow_id).joins then
    graph.count_ends(c)
    propagate.run(c)
  end
  return false
end

-- @function ffx_complete
-- @summary  Commits a result, resolves the edges that leave the execution, and leases the worker its next executions of the same
--           partition when it requests some (count > 0). After a lost reply, send it again with `repeated`. The result of an item
--           of a map is refused when it makes the results of all items together too large.
-- @flags    derives fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      result             value<result>
-- @include  claim_request
-- @reply    OK more:bool remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @reply    ALREADY_SATISFIED more:bool remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @error    execution_not_found
-- @error    graph_unknown
-- @error    results_too_large results:int items:int bytes:int limit:int
-- @error    value_missing
-- @error    set:lease_fence
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ffx_complete(K, A)
  local request, err = claim_request.parse(A)
  if err then return err end
  -- Abandoned executions are announced when they become so, and wait for a separate claim.
  request.skip_abandoned = true
  local c = call.open(K.partition)
  local x = turn.new(c, request)
  if request.count > 0 then c.next_up = x end
  local repeated
  repeated, err = completion.commit(c, A)
  if err then return err end
  propagate.run(c)
  local executions = claiming.claim(c, request, x)
  local remaining = claiming.remaining(c, request)
  settle.run(c)
  local answer = repeated and reply.already or reply.ok
  return answer(c.more and '1' or '0', remaining, executions, request.candidates or '')
end
