-- Deferred ends. When a node is ended while a part of it still runs, it ends together with that part; the effects of its end, for
-- example the end of its run, come after that. Two parts may still run: the child run of the node, which is cancelled and ends
-- with its cleanup; and the function of a worker that was requested to stop, until the worker reports its return or its lease
-- ends. Functions are waited for where nodes run in the end (see finally), and where the node has a child run, which its worker
-- may be about to start.
--
-- Until then the record of the node shows that it waits, and keeps its outcome: `ending` (the outcome), ending_reason,
-- ending_flags; and ending_lease and ending_until, of the function. `stopped_at` is when it was ended. `unreleased` means that
-- its lease ended before its function was known to have returned; `returned` is the lease of a returned function, for which the
-- worker reports nothing else.

local OWN_FIELDS = { 'child_flow_id', 'child_outcome', 'ending', 'returned' }

local function has_run(own) return own.child_flow_id ~= nil and not own.child_outcome end

-- Reports whether the worker of a node that is ended from outside may still run its function.
local function may_work(c, core, own, t)
  return t.interrupts and own.returned ~= core.current_lease_id and core.lifecycle_phase == 'active' and core.ownership_state == 'leased' and not fence.lapsed(c, core)
end

-- Keeps the end of a node until its lease ends: the keeper finds it among the deadlines of executions.
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

-- Records that a node waits for its end.
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

-- Defers the end of a node, if it has to wait. Reports whether that is so: see terminal.defer.
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

-- Handles the return of the function of a node that waits for its end, or the end of its lease before that was known (`lapsed`).
local function release(c, execution_id, core_key, lapsed)
  redis.call('ZREM', key.index_execution_deadline(c), execution_id)
  record.clear(core_key, 'ending_lease', 'ending_until')
  if lapsed then record.set(core_key, 'unreleased', '1') end
  local own = record.read(core_key, { 'child_flow_id', 'child_outcome', 'ending', 'ending_reason' })
  if not has_run(own) then return kept_end.finish(c, execution_id, core_key) end
  record.set(core_key, 'public_state', 'waiting_children', 'blocking_detail', detail_of(false, own.ending), 'last_transition_at', c.now_text)
  child_run.stop(c, execution_id, own.child_flow_id, own.ending_reason or own.ending, true)
end

-- Handles the end of the lease of a node that waits for its end. Returns false for other nodes.
function ending.lapse(c, execution_id, core_key)
  local till = tonumber(record.value(core_key, 'ending_until') or nil)
  if not till then return false end
  if till > c.now then await_release(c, execution_id, till) else release(c, execution_id, core_key, true) end
  return true
end

-- @function ffx_end_stopped
-- @summary  Reports that the function of an execution has returned which was ended while its worker had the lease, so that
--           whatever waits for this continues. For an execution that is about to be ended, since the deadline of its run is over,
--           the return is recorded. `more` means that there is more work than one call does.
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
