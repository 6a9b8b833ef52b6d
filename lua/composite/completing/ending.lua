-- Ends that wait. A node that is ended while something of it goes on has ended when that has, so what follows from its end, be it the end
-- of its run, comes after it. Two things may go on: the run that the node stands for, which is cancelled and ends with its cleanup; and the
-- function of a worker that is told to stop, until the worker says that it has returned or its lease ends. Functions are waited for where
-- nodes run in the end (see finally), and where the node has a run, which its worker may be about to start.
--
-- Until then the record of the node says that it waits, and keeps how it ends: `ending` (the outcome), ending_reason, ending_flags; and
-- ending_lease and ending_until, of the function. `stopped_at` is when it was ended. `unreleased` says that its lease ended before its
-- function was known to have returned; `returned` is the lease of a function that has, of which the worker reports nothing else.

local OWN_FIELDS = { 'child_flow_id', 'child_outcome', 'ending', 'returned' }

local function has_run(own) return own.child_flow_id ~= nil and not own.child_outcome end

-- Whether the worker of a node that is ended from outside may still run its function.
local function may_work(c, core, own, t)
  return t.interrupts and own.returned ~= core.current_lease_id and core.lifecycle_phase == 'active' and core.ownership_state == 'leased' and not fence.lapsed(c, core)
end

-- Keeps the end of a node until its lease does: whoever works off deadlines of executions finds it.
local function await_release(c, execution_id, at)
  redis.call('ZADD', key.index_execution_deadline(c), at, execution_id)
  wake.due(c, at)
end

local function detail_of(works, outcome)
  return works and outcome .. ': its function has not returned' or outcome .. ': its run has not ended'
end

local function enter_blocked(c, execution_id, core_key, core)
  if store.row(core_key) then return end
  redis.call('ZADD', key.lane_blocked_dependencies(c, record.lane(core)), tonumber(core.created_at) or 0, execution_id)
end

-- Writes that a node waits for its end.
local function hold(c, execution_id, core_key, core, t, works)
  local values = {
    'lifecycle_phase', 'runnable', 'ownership_state', 'unowned', 'eligibility_state', 'blocked_by_dependencies',
    'blocking_reason', 'waiting_for_children', 'blocking_detail', detail_of(works, t.outcome), 'terminal_outcome', 'none',
    'attempt_state', 'attempt_terminal', 'public_state', works and 'active' or 'waiting_children',
    'last_transition_at', c.now_text, 'last_mutation_at', c.now_text,
    'ending', t.outcome, 'stopped_at', c.now_text, 'ending_flags', (t.tolerated and 't' or '') .. (t.silent and 's' or ''),
  }
  if is_set(t.reason) then record.append(values, 'ending_reason', t.reason) end
  if works then
    record.append(values, 'ending_lease', core.current_lease_id)
    record.append(values, 'ending_until', core.lease_expires_at)
  end
  for _, value in ipairs(t.values or {}) do values[#values + 1] = value end
  record.write(core_key, core.managed, values, t.blank)
  enter_blocked(c, execution_id, core_key, core)
end

-- Keeps the end of a node, if it has to wait. Reports whether that is so: see terminal.defer.
function ending.defer(c, execution_id, core_key, core, t)
  if t.is_due then return false end
  local flow = flow_record.read(c, core.flow_id)
  local has_finally = flow.joins == finally.JOINS
  if not (flow.children or has_finally) then return false end
  local own = record.read(core_key, OWN_FIELDS)
  if own.ending then
    enter_blocked(c, execution_id, core_key, core)
    return true
  end
  local runs = has_run(own)
  local works = may_work(c, core, own, t) and (runs or has_finally and not finally.is_one(core_key))
  if not (runs or works) then return false end
  hold(c, execution_id, core_key, core, t, works)
  if works then
    core.awaits_release = true
    await_release(c, execution_id, tonumber(core.lease_expires_at))
  end
  if runs then child_run.stop(c, execution_id, own.child_flow_id, t.reason or t.outcome, not works) end
  return true
end

-- The function of a node that waits for its end has returned; or its lease has ended before it was known to (`lapsed`).
local function release(c, execution_id, core_key, lapsed)
  redis.call('ZREM', key.index_execution_deadline(c), execution_id)
  record.clear(core_key, 'ending_lease', 'ending_until')
  if lapsed then record.set(core_key, 'unreleased', '1') end
  local own = record.read(core_key, { 'child_flow_id', 'child_outcome', 'ending', 'ending_reason' })
  if not has_run(own) then return kept_end.finish(c, execution_id, core_key) end
  record.set(core_key, 'public_state', 'waiting_children', 'blocking_detail', detail_of(false, own.ending), 'last_transition_at', c.now_text)
  child_run.stop(c, execution_id, own.child_flow_id, own.ending_reason or own.ending, true)
end

-- The lease of a node has ended that waits for its end. False for other nodes.
function ending.lapse(c, execution_id, core_key)
  local till = tonumber(record.value(core_key, 'ending_until') or nil)
  if not till then return false end
  if till > c.now then await_release(c, execution_id, till) else release(c, execution_id, core_key, true) end
  return true
end

-- @function ffx_end_stopped
-- @summary  The function has returned of an execution that was ended while its worker had the lease: what has waited for that goes on.
--           For one that is about to be ended, since the deadline of its run is over, it is noted. `more` says that there is more to do than one call does.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @reply    OK more:bool
function F.ffx_end_stopped(K, A)
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, { 'ending_lease', 'lifecycle_phase', 'current_lease_id' })
  if core and core.ending_lease == A.lease_id then
    release(c, A.execution_id, core_key)
  elseif core and core.lifecycle_phase == 'active' and core.current_lease_id == A.lease_id then
    record.set(core_key, 'returned', A.lease_id)
  end
  settle.run(c)
  return reply.ok(c.more and '1' or '0')
end
