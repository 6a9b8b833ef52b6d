-- Completes executions, and leases the next ones to the same worker in the same call.

-- Returns true when this very attempt has been committed before, so the reply was lost.
local function already_completed(core, A)
  return core.lifecycle_phase == 'terminal' and core.terminal_outcome == 'success'
    and core.current_lease_epoch == A.lease_epoch and core.current_attempt_id == A.attempt_id
end

-- Commits the result of one execution. Its edges are resolved at once where joins may stop others that the call completes,
-- otherwise together with the edges of the others. Returns whether that had been done before, or nil and the error reply.
local function commit(c, A)
  if row_complete.commit(c, A) then return false end
  if graph_store.is_gone(c, A.execution_id) then return nil, reply.err('graph_unknown') end
  local core_key = key.exec_core(c, A.execution_id)
  local core = fence.read_completion(c, core_key, A)
  if not core then return nil, reply.err('execution_not_found') end
  if already_completed(core, A) then return true end
  local f, err = lease.check_write(c, core_key, core, A)
  err = err or item_results.add_unusual(c, core, A.result or '')
  if err then return nil, err end
  terminal.complete(c, A.execution_id, core_key, core, f, A.result)
  if flow_record.read(c, core.flow_id).joins then
    graph.count_ends(c)
    propagate.run(c)
  end
  return false
end

local NOTHING = {}

-- Resolves the edges of the completions in the partition of a context, and counts the ends.
local function follow(c)
  row_complete.flush(c)
  graph.count_ends(c)
  propagate.run(c)
end

-- Returns the next executions of a worker after its completions: remaining, executions and candidates of the reply. An empty list
-- is an empty text, since a table takes much longer.
local function claim_next(c, request)
  follow(c)
  local room = c.budget
  for _, beside in ipairs(c.contexts or NOTHING) do
    beside.budget = room
    follow(beside)
    room = beside.budget
  end
  local executions = claiming.claim(c, request)
  local remaining = claiming.remaining(c, request)
  settle.run(c)
  return remaining, executions, request.candidates or ''
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
-- @arg      result             bytes
-- @include  claim_request
-- @reply    OK more:bool remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @reply    ALREADY_SATISFIED more:bool remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @error    execution_not_found
-- @error    graph_unknown
-- @error    results_too_large results:int items:int bytes:int limit:int
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
  if request.count > 0 then c.next_up = handoff.new(request) end
  local repeated
  repeated, err = commit(c, A)
  if err then return err end
  local remaining, executions, candidates = claim_next(c, request)
  local answer = repeated and reply.already or reply.ok
  return answer(c.more and '1' or '0', remaining, executions, candidates)
end

-- Maximum number of completions in one call.
local MAX_COMPLETIONS = 64

-- Returns the context of the partition of an execution that a call completes. The work that a call may do is bounded for all
-- partitions together.
local function context_of(c, execution_id, before)
  local at = call.at(c, execution_id)
  if at == before then return at end
  if at ~= c and at.next_up ~= c.next_up then at.next_up = c.next_up end
  if not at.ends then graph.gather_ends(at) end
  at.budget = before.budget
  return at
end

-- Reports whether a partition that the call has worked in has more work than one call does.
local function has_more(c)
  if c.more then return '1' end
  for _, beside in ipairs(c.contexts or NOTHING) do
    if beside.more then return '1' end
  end
  return '0'
end

-- @function ffx_complete_many
-- @summary  Commits the results of several executions of one worker, as ffx_complete does for each, and leases it up to `count`
--           executions that come next. On a server that has all partitions, the executions may be of any of them. The outcomes
--           are in the order of the completions, with blanks between them: OK, ALREADY_SATISFIED, or the code with which
--           ffx_complete would have refused; a refused completion does not affect the others. After a lost reply, send it again
--           with `repeated`.
-- @flags    derives
-- @key      partition          ffx.partition
-- @include  claim_request
-- @group    completions        execution_id:any_execution_id lease_id:lease_id lease_epoch:lease_epoch attempt_id:attempt_id result:bytes
-- @reply    OK more:bool remaining:int outcomes:text executions:list(claimed_execution) candidates:list(candidate)
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
function F.ffx_complete_many(K, A)
  local request, err = claim_request.parse(A)
  if err then return err end
  local completions = A.completions
  if not completions or #completions > MAX_COMPLETIONS then
    return reply.err('invalid_input', 'completions must be at most ' .. MAX_COMPLETIONS .. ', got: '
      .. tostring(A.completions_count))
  end
  request.skip_abandoned = true
  local c = call.open(K.partition)
  call.gather(c)
  graph.gather_ends(c)
  if request.count > 0 then c.next_up = handoff.new(request) end
  local outcomes, at = call.short_list(), c
  for i, completion in ipairs(completions) do
    at = context_of(c, completion.execution_id, at)
    local repeated, refusal = commit(at, completion)
    outcomes[i] = refusal and refusal[2] or repeated and 'ALREADY_SATISFIED' or 'OK'
  end
  c.budget = at.budget
  local remaining, executions, candidates = claim_next(c, request)
  return reply.ok(has_more(c), remaining, table.concat(outcomes, ' '), executions, candidates)
end
