-- Nodes with child runs. Parent and child may be in different partitions, so no call changes both. The record of the parent names
-- the child before the child starts, and the flow of the child names its parent. A notice from one to the other is a relay entry,
-- which keepers receive with a tick and deliver until it is acknowledged.

-- A relay entry is returned to keepers again after this time (ms), unless it was acknowledged. Keepers check once whether the
-- parent of an open run still wants it, because the client that started the run may have been too late.
local RETRY_MS = 2000
local FIRST_LOOK_MS = 10000

-- Where partitions are on several servers, the failover of one server may lose the end of a run, its start, or the notice to the
-- node. Keepers therefore compare a node and its run as long as both are open: after this time (ms), and then each time after as
-- long as the wait has lasted, at most an hour. On a single server they stop once the parent wants its run, because all
-- partitions lose the same changes.
local LOOK_MS, MAX_LOOK_MS = 60000, 3600000

-- Due time of an open run that is not checked (ms from now).
local NEVER_MS = 3155760000000

local ENTRIES_PER_CALL = 32

-- Returns the fields of a parent that are read here.
-- It is built in a function: elements of a list take variables, and the library's modules leave few to the text of a file.
local function parent_fields()
  return {
    'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome', 'attempt_state',
    'current_lease_id', 'current_lease_epoch', 'current_attempt_id', 'current_attempt_index',
    'current_worker_id', 'current_worker_instance_id', 'lease_expires_at', 'lane_id', 'current_lane',
    'flow_id', 'managed', 'node', 'created_at', 'priority', 'retry_count', 'attached', 'replay_count', 'blocking_reason',
    'delay_until', 'child_flow_id', 'child_number', 'child_try', 'child_input', 'child_mode', 'child_ends', 'child_outcome',
    'child_kept', 'last_mutation_at', 'ending', 'ending_lease',
  }
end

local PARENT_FIELDS = parent_fields()

-- Returns when an entry that has waited since a time (ms) is checked again.
local function look_again(c, since)
  return c.now + math.max(LOOK_MS, math.min(c.now - (tonumber(since) or c.now), MAX_LOOK_MS))
end

-- Records a run that was submitted for a node.
function child_run.submitted(c, flow_id)
  redis.call('ZADD', key.ffx_children(c), c.now + FIRST_LOOK_MS, flow_id)
  wake.due(c, c.now + FIRST_LOOK_MS)
end

-- Schedules the notice to the parent that its run is over. Ends are counted, since a run that is run again ends more than once.
function child_run.ended(c, flow_id, flow_key)
  record.add(flow_key, 'ends', 1)
  redis.call('ZADD', key.ffx_children(c), c.now, flow_id)
  wake.due(c, c.now)
end

-- Records that the run is open again.
function child_run.reopened(c, flow_id, flow_key)
  if record.value(flow_key, 'parent_execution_id') then child_run.submitted(c, flow_id) end
end

-- Returns the entry that requests the state of a node's run.
local function awaiting(execution_id, flow_id)
  return 'await ' .. flow_id .. ' ' .. execution_id
end

local function is_waiting(core)
  return core.lifecycle_phase == 'runnable' and core.eligibility_state == 'blocked_by_dependencies'
    and core.attempt_state == 'attempt_interrupted'
end

-- Reports whether a node is being ended, and waits for the end of its run.
local function is_ending(core)
  return core.ending ~= nil and not core.ending_lease and not core.child_outcome
end

-- Reports whether a node waits for its run, whose end it has not received, or for its own end: its upstreams cannot start it.
function child_run.is_awaited(core)
  return core.ending ~= nil or is_waiting(core) and core.child_flow_id ~= nil and not core.child_outcome
end

-- Owes a run its cancel or its purge.
local function owe(c, kind, flow_id, reason)
  redis.call('ZADD', key.ffx_unwanted(c), c.now, kind .. ' ' .. flow_id .. ' ' .. (reason or ''))
  wake.due(c, c.now)
end

-- Ends the run of a node that is being ended. `awaits`: the node receives the end of the run.
function child_run.stop(c, execution_id, flow_id, reason, awaits)
  owe(c, 'cancel', flow_id, reason)
  if not awaits then return end
  redis.call('ZADD', key.ffx_unwanted(c), c.now, awaiting(execution_id, flow_id))
end

-- Ends the run of a node that has ended without success, if it has one that is not known to be over.
function child_run.abandon(c, execution_id, outcome, reason)
  local core = record.read(key.exec_core(c, execution_id), { 'child_flow_id', 'child_outcome' })
  if core and core.child_flow_id and not core.child_outcome then
    redis.call('ZREM', key.ffx_unwanted(c), awaiting(execution_id, core.child_flow_id))
    owe(c, 'cancel', core.child_flow_id, is_set(reason) and reason or 'the node that it belongs to is ' .. outcome)
  end
end

-- Purges the runs of a node that is removed: its present run, and the earlier ones that it has kept. `core` has child_flow_id and
-- child_kept. `removed` is a list that receives the ids of these runs, or nil.
function child_run.discard(c, core, removed)
  local function purge_run(flow_id)
    owe(c, 'purge', flow_id)
    if removed then removed[#removed + 1] = flow_id end
  end
  if core.child_flow_id then purge_run(core.child_flow_id) end
  for flow_id in string.gmatch(core.child_kept or '', '[^,]+') do purge_run(flow_id) end
end

-- @record relay_entry kind:text flow_id:flow_id parent_execution_id:text ends:int outcome:text reason:text

-- Returns the indexes whose scores are the times (ms) at which an entry is due.
function child_run.due_indexes(c)
  return { key.ffx_children(c), key.ffx_unwanted(c) }
end

-- Returns the state of a node's run, as a relay entry; nil when it no longer belongs to a node.
local function child_entry(c, flow_id)
  local flow = record.read(key.flow_core(c, flow_id), { 'parent_execution_id', 'closed_at', 'ends', 'outcome', 'created_at' })
  if not flow or not flow.parent_execution_id then
    redis.call('ZREM', key.ffx_children(c), flow_id)
    return nil
  end
  local again = flow.closed_at and c.now + RETRY_MS or look_again(c, flow.created_at)
  redis.call('ZADD', key.ffx_children(c), again, flow_id)
  return { flow.closed_at and 'ended' or 'open', flow_id, flow.parent_execution_id, flow.ends or '0',
    flow.closed_at and flow.outcome or '', '' }
end

-- Returns a task that is owed to a run, as a relay entry; nil when it is no longer owed.
local function owed_entry(c, owed)
  local kind, flow_id, rest = string.match(owed, '^(%S+) (%S+) (.*)$')
  if kind ~= 'await' then
    redis.call('ZADD', key.ffx_unwanted(c), c.now + RETRY_MS, owed)
    return { kind, flow_id, '', '0', '', rest }
  end
  local core = record.read(key.exec_core(c, rest), PARENT_FIELDS)
  if not core or core.child_flow_id ~= flow_id or not (is_waiting(core) or is_ending(core)) then
    redis.call('ZREM', key.ffx_unwanted(c), owed)
    return nil
  end
  redis.call('ZADD', key.ffx_unwanted(c), look_again(c, core.last_mutation_at), owed)
  return { kind, flow_id, rest, '0', '', '' }
end

-- Makes an entry of a due index due soon after a start of the server, because the server may have lost its changes.
function child_run.look_soon(c, index_key, entry)
  if recovery.in_doubt(c) then
    redis.call('ZADD', index_key, 'XX', 'LT', c.now, entry)
    wake.due(c, c.now)
  end
end

-- Returns the due relay entries to a caller that delivers them: open (check whether the parent still wants the run), ended
-- (notify the parent), cancel and purge (do that to the run), await (query the state of the run for which a node waits). An entry
-- that is not acknowledged is returned again, an await as long as the node waits. Returns how many there are.
function child_run.take_relay_entries(c, limit)
  if not c.carries then return 0 end
  local entries = {}
  limit = math.min(limit, ENTRIES_PER_CALL)
  scan.each_due(c, 'child_runs', key.ffx_children(c), limit,
    function(flow_id) entries[#entries + 1] = child_entry(c, flow_id) end)
  scan.each_due(c, 'child_runs', key.ffx_unwanted(c), limit - #entries,
    function(owed) entries[#entries + 1] = owed_entry(c, owed) end)
  c.relay_entries = entries
  return #entries
end

-- @function ffx_end_errand
-- @go       EndRelayEntry
-- @summary  Acknowledges a relay entry. The entry of an ended run is removed only if the run was not run again since. After the
--           answer that an open run is wanted, keepers no longer check it.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      kind               text
-- @arg      flow_id            flow_id
-- @arg      ends               int
-- @arg      reason             text
-- @reply    OK
function F.ffx_end_errand(K, A)
  local c = call.open(K.partition)
  if A.kind == 'cancel' or A.kind == 'purge' then
    redis.call('ZREM', key.ffx_unwanted(c), A.kind .. ' ' .. A.flow_id .. ' ' .. (A.reason or ''))
    return reply.ok()
  end
  local flow = record.read(key.flow_core(c, A.flow_id), { 'closed_at', 'ends' })
  if A.kind == 'open' and flow and not flow.closed_at then
    redis.call('ZADD', key.ffx_children(c), 'XX', c.now + NEVER_MS, A.flow_id)
    return reply.ok()
  end
  if flow and not (flow.closed_at and flow.ends == A.ends) then return reply.ok() end
  redis.call('ZREM', key.ffx_children(c), A.flow_id)
  if flow then record.set(key.flow_core(c, A.flow_id), 'told', A.ends) end
  return reply.ok()
end

-- Returns the mode and the number of the run for a try of a node: 'new' starts the run, 'rerun' runs the nodes again that did not
-- succeed. The same input uses the same run, as long as that has not succeeded.
local function choose(core, try, input_hash)
  local count = tonumber(core.child_number) or 0
  if not core.child_flow_id then return 'new', 1 end
  if core.child_input == input_hash then
    if core.child_try == try then return core.child_mode, count end
    if core.child_outcome ~= 'success' then return 'rerun', count end
  end
  return 'new', count + 1
end

-- @function ffx_link_child
-- @summary  Records the child run of the lease holder's node, before the run is started. A try of the node, which a retry or a
--           replay begins, keeps its run through lost workers. The caller proposes a number and the matching flow id; when the
--           answer is another number, nothing was written, and it calls again with that number. States: new (the run is to be
--           started, which is safe to repeat), rerun (run the nodes again that did not succeed, under the id of the try), ended
--           (with its outcome), over (the node has ended, since its flow has). A run that another one replaces is cancelled and
--           purged, with the runs that it has kept; with `keep` it is kept as long as the node.
-- @flags    derives repeatable fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      number             int
-- @arg      child_flow_id      flow_id
-- @arg      input_hash         text
-- @arg      keep               bool optional
-- @reply    OK state:text number:int try:text outcome:text
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    invalid_input message:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ffx_link_child(K, A)
  local proposed, err = number.whole('number', A.number)
  if err then return err end
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, PARENT_FIELDS)
  if not core then return reply.err('execution_not_found') end
  local f
  f, err = lease.check_write(c, core_key, core, A)
  if not f then return err end
  if not core.managed then return reply.err('invalid_input', 'the execution belongs to no flow that was submitted whole') end
  if run_stop.end_late(c, A.execution_id, core_key, core) then
    settle.run(c)
    return reply.ok('over', '0', '', '')
  end
  local try = (core.replay_count or '0') .. '.' .. (core.retry_count or '0')
  local mode, count = choose(core, try, A.input_hash)
  if count ~= proposed then return reply.ok('other', number.text(count), try, '') end
  if core.child_try == try and core.child_input == A.input_hash then
    if core.child_outcome then return reply.ok('ended', number.text(count), try, core.child_outcome) end
    return reply.ok(mode, number.text(count), try, '')
  end
  if mode == 'new' then
    if core.child_flow_id and A.keep == '1' then
      record.set(core_key, 'child_kept', (core.child_kept and core.child_kept .. ',' or '') .. core.child_flow_id)
    elseif core.child_flow_id then
      child_run.discard(c, core)
      record.clear(core_key, 'child_kept')
    end
    record.clear(core_key, 'child_ends')
  end
  record.clear(core_key, 'child_outcome')
  record.set(core_key, 'child_flow_id', A.child_flow_id, 'child_number', number.text(count), 'child_try', try,
    'child_input', A.input_hash, 'child_mode', mode, 'last_mutation_at', c.now_text)
  record.set(key.flow_core(c, core.flow_id), 'children', '1')
  wake.flush(c)
  return reply.ok(mode, number.text(count), try, '')
end

-- @function ffx_await_child
-- @summary  The lease holder's node waits for its run: its slot is free, and it is claimed again when the run is over. When the
--           node has already received that, the lease stays, and the answer is ALREADY_SATISFIED. Otherwise the worker is leased
--           its next executions of the same partition when it requests some (count > 0). After a lost reply, send it again with
--           `repeated`. The answer is then OK also when the attempt has been resumed since: the repeat may lease this very
--           execution. With `looks`, keepers query the run as long as the node waits.
-- @flags    derives fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      child_flow_id      flow_id
-- @arg      detail             text
-- @arg      looks              bool optional
-- @include  claim_request
-- @reply    OK remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @reply    ALREADY_SATISFIED remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ffx_await_child(K, A)
  local request, err = claim_request.parse(A)
  if err then return err end
  request.skip_abandoned = true
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, PARENT_FIELDS)
  if not core then return reply.err('execution_not_found') end
  local function claim_next()
    local executions = claiming.claim(c, request)
    local remaining = claiming.remaining(c, request)
    settle.run(c)
    return reply.ok(remaining, executions, request.candidates or {})
  end
  local repeated = core.lifecycle_phase == 'runnable' and core.attempt_state == 'attempt_interrupted'
    and core.current_lease_epoch == A.lease_epoch and core.current_attempt_id == A.attempt_id
  if repeated then return claim_next() end
  local f
  f, err = lease.check_write(c, core_key, core, A)
  if err then return claiming.is_carried_out(c, request, core, A) and claim_next() or err end
  if core.child_flow_id ~= A.child_flow_id then
    return reply.err('invalid_input', 'the node waits for ' .. (core.child_flow_id or 'no run') .. ', not for ' .. A.child_flow_id)
  end
  if run_stop.end_late(c, A.execution_id, core_key, core) then return claim_next() end
  if core.child_outcome then return reply.already('0', {}, {}) end
  suspend_lease.interrupt(c, A.execution_id, core_key, core, f, {
    eligibility = 'blocked_by_dependencies', reason = 'waiting_for_children', detail = A.detail,
    public = 'waiting_children', suspension = 'waiting_children', released = 'waiting_children',
  })
  if not store.row(core_key) then
    redis.call('ZADD', key.lane_blocked_dependencies(c, record.lane(core)), tonumber(core.created_at) or 0, A.execution_id)
  end
  if A.looks == '1' then
    redis.call('ZADD', key.ffx_unwanted(c), c.now + LOOK_MS, awaiting(A.execution_id, A.child_flow_id))
    wake.due(c, c.now + LOOK_MS)
  end
  event_log.add_for(c, core, 'waiting_children', core.current_attempt_index, A.detail)
  return claim_next()
end

-- Marks the run of a node to be started again, because it is missing although it was started.
local function forget(core_key)
  record.clear(core_key, 'child_ends', 'child_outcome')
  record.set(core_key, 'child_mode', 'new')
end

-- @function ffx_ask_child
-- @summary  Returns the state of a run for which a node waits. When the run is over, its end is sent once more. States: gone,
--           open, ended.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @reply    OK state:text
function F.ffx_ask_child(K, A)
  local c = call.open(K.partition)
  local flow = record.read(key.flow_core(c, A.flow_id), { 'parent_execution_id', 'closed_at' })
  if not flow or not flow.parent_execution_id then return reply.ok('gone') end
  if not flow.closed_at then
    redis.call('ZADD', key.ffx_children(c), 'NX', c.now + LOOK_MS, A.flow_id)
    wake.due(c, c.now + LOOK_MS)
    wake.flush(c)
    return reply.ok('open')
  end
  redis.call('ZADD', key.ffx_children(c), c.now, A.flow_id)
  wake.due(c, c.now)
  wake.flush(c)
  return reply.ok('ended')
end

-- @function ffx_child_ended
-- @summary  Notifies a node that its run is over, so that it continues; without an outcome, it only queries the node. The outcome
--           `lost` means that the run no longer exists: the node starts it again. States: gone (the node does not exist, or has
--           another run), over (the node has ended, or has continued after that run and keeps it), waiting (the node is not, or
--           was not, done with the run).
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      child_flow_id      flow_id
-- @arg      ends               int
-- @arg      outcome            text optional
-- @reply    OK state:text
-- @error    invalid_input message:text
function F.ffx_child_ended(K, A)
  local ends, err = number.whole('ends', A.ends)
  if err then return err end
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, PARENT_FIELDS)
  if not core then return reply.ok('gone') end
  -- The end of a turn after which the loop has continued: the run is kept.
  if string.find(core.child_kept or '', A.child_flow_id, 1, true) then return reply.ok('over') end
  if core.child_flow_id ~= A.child_flow_id then return reply.ok('gone') end
  local state = core.lifecycle_phase == 'terminal' and 'over' or 'waiting'
  -- The run of a node that is being ended is not needed.
  if core.ending and not is_set(A.outcome) then return reply.ok('over') end
  if state == 'over' and A.outcome == 'lost' then return reply.ok(state) end
  if A.outcome == 'lost' then
    forget(core_key)
  elseif not is_set(A.outcome) or ends <= (tonumber(core.child_ends) or 0) and not is_ending(core) then
    return reply.ok(state) -- a node that is being ended does not run its run again: the earlier end of the run counts
  else
    record.set(core_key, 'child_ends', A.ends, 'child_outcome', A.outcome)
  end
  if is_ending(core) then
    redis.call('ZREM', key.ffx_unwanted(c), awaiting(A.execution_id, A.child_flow_id))
    kept_end.finish(c, A.execution_id, core_key)
  elseif is_waiting(core) then
    redis.call('ZREM', key.ffx_unwanted(c), awaiting(A.execution_id, A.child_flow_id))
    if not store.row(core_key) then
      redis.call('ZREM', key.lane_blocked_dependencies(c, record.lane(core)), A.execution_id)
    end
    requeue.ready(c, A.execution_id, core_key, core, {})
  end
  settle.run(c)
  return reply.ok(state)
end

-- @record item_state state:text attempts:int outcome:text result:value<result> reason:text category:text details:bytes<details>?

local MAX_RESULTS_PER_CALL = 256
local MAX_RESULT_BYTES = 1048576

local ITEM_FIELDS = {
  'public_state', 'total_attempt_count', 'terminal_outcome', 'failure_reason', 'failure_category', 'cancellation_reason',
  'failure_details',
}

-- @function ffx_read_results
-- @summary  Returns the states of executions of one partition, with their results, in the requested order: from the first on, as
--           many as have a mebibyte together, but at least one. Call again for the rest.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @args     executions         execution_id
-- @reply    OK executions:list(item_state)
-- @error    invalid_input message:text
function F.ffx_read_results(K, A)
  if #A.executions > MAX_RESULTS_PER_CALL then
    return reply.err('invalid_input', 'at most ' .. MAX_RESULTS_PER_CALL .. ' executions in one call, got: ' .. #A.executions)
  end
  local c = call.open(K.partition)
  local out, bytes = {}, 0
  for _, execution_id in ipairs(A.executions) do
    local core = record.read(key.exec_core(c, execution_id), ITEM_FIELDS) or {}
    local outcome, result = core.terminal_outcome or 'none', ''
    if outcome == 'success' then result = results.named(c, execution_id) or '' end
    bytes = bytes + stored_value.size(result)
    if bytes > MAX_RESULT_BYTES and #out > 0 then break end
    local reason = is_set(core.failure_reason) and core.failure_reason or core.cancellation_reason
    local succeeded = outcome == 'success'
    out[#out + 1] = { core.public_state or '', core.total_attempt_count or '0', outcome, result,
      not succeeded and reason or '', not succeeded and core.failure_category or '',
      not succeeded and core.failure_details or '' }
  end
  return reply.ok(out)
end
