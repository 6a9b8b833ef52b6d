-- The steps that nearly all nodes of all runs take, on their rows: made eligible, leased for the first time, ended with success.

-- The flags of a node that waits for another attempt, whose earlier ones have records, and that has only the least fields.
local AGAIN = node_row.RETRIED + node_row.RECORDED

local function is_again(r) return r.attempt == 5 and r.flags == AGAIN and r.phase == 1 end

-- Returns the core of a node that was never claimed, or is tried again, and has only the least fields; nil for another.
function row_steps.fresh(r)
  if is_again(r) then
    local node = graph_store.of_row(r)
    return r.elig == 1 and node.is_fresh and not node.limits and row_steps.core_again(r) or nil
  end
  if r.phase ~= 1 or r.attempt ~= 2 or r.total ~= 0 or r.elig ~= 1 and r.elig ~= 3 or r.flags ~= 0 then return nil end
  local node = graph_store.of_row(r)
  if not (node.is_fresh or node.wait and not node.delay and not node.capabilities) then return nil end
  return row_steps.core_of(r)
end

-- Returns the core of such a node.
function row_steps.core_of(r)
  local run, node = r.run, graph_store.of_row(r)
  return {
    row = r, lifecycle_phase = 'runnable', ownership_state = 'unowned', terminal_outcome = 'none', managed = '1', retry_count = '0',
    current_lease_epoch = '0', total_attempt_count = '0', attempt_state = 'pending_first_attempt',
    eligibility_state = r.elig == 1 and 'eligible_now' or 'blocked_by_dependencies', lane_id = node.lane_id, flow_id = run.id,
    node = node.name, execution_kind = node.kind, input_count = node.input_count, uses_flow_input = node.uses_flow_input,
    created_at = run.created_text or row.created_text(run), priority = node.priority, attempt_timeout = node.attempt_timeout,
    limits = node.limits, start_timeout = node.start_timeout, wait = node.wait and '1' or nil, wait_spec = node.wait,
    first_waitpoint = node.wait and row_record.waitpoint(r), fair_key = row_record.fair_key(r),
  }
end

-- Returns the core of such a node that is tried again.
function row_steps.core_again(r)
  local core = row_steps.core_of(r)
  core.attempt_state, core.total_attempt_count = 'pending_retry_attempt', number.text(r.total)
  core.retry_count, core.current_lease_epoch, core.started_at = number.text(r.retries), number.text(r.epoch), number.time(r.started)
  return core
end

-- Returns the core of a waitpoint node that is open for the first time and has only the least fields; nil for another node.
function row_steps.waiting(r)
  if r.phase ~= 3 or r.flags ~= 0 then return nil end
  local run, node = r.run, graph_store.of_row(r)
  if not node.wait then return nil end
  return {
    row = r, execution_id = row.execution_id(run, r.ordinal), lifecycle_phase = 'suspended', ownership_state = 'unowned',
    eligibility_state = 'not_applicable', terminal_outcome = 'none', attempt_state = 'none', public_state = 'suspended', managed = '1',
    wait = '1', wait_spec = node.wait, retry_count = '0', current_lease_epoch = '0', lane_id = node.lane_id, flow_id = run.id,
    node = node.name, created_at = run.created_text or row.created_text(run), priority = node.priority,
    current_waitpoint_id = row_record.waitpoint(r), first_waitpoint = row_record.waitpoint(r),
    current_suspension_id = wait.uuid(row_record.waitpoint(r)),
  }
end

-- Opens a waitpoint node that has only the least fields for the first time: see store.lua.
function row_steps.suspend(r, c, sleeps, waitpoint_id, detail)
  if r.flags ~= 0 or waitpoint_id ~= row_record.waitpoint(r) then return false end
  r.phase, r.owner, r.elig, r.why, r.outcome, r.attempt, r.public, r.ended, r.changed = 3, 1, 9, sleeps and 3 or 10, 1, 1, 6, 0, c.now
  row.touch(r)
  if sleeps then row_record.set(r, 'blocking_detail', detail) end
  return true
end

-- Ends such a node with success.
function row_steps.end_wait(r, c)
  if r.flags ~= 0 then return false end
  r.phase, r.owner, r.elig, r.why, r.outcome, r.attempt, r.public, r.ended, r.changed = 4, 1, 9, 1, 2, 1, 7, c.now, c.now
  row.touch(r)
  return true
end

-- Marks such a node as ready to run.
function row_steps.mark_ready(r, c)
  r.elig, r.why, r.public, r.changed = 1, 2, 1, c.now
  row.touch(r)
end

-- Delays such a node until a time (ms).
function row_steps.delay(c, r, execution_id, at)
  r.elig, r.why, r.public, r.changed = 2, 3, 2, c.now
  row.touch(r)
  redis.call('ZADD', key.lane_delayed(c, graph_store.of_row(r).lane_id), at, execution_id)
  wake.due(c, at)
end

-- Returns the core of a node that waits for its first or next start until a time, and has only the least fields; nil for another.
function row_steps.delayed(r)
  if r.phase ~= 1 or r.elig ~= 2 or graph_store.of_row(r).wait then return nil end
  if is_again(r) then return row_steps.core_again(r) end
  return r.attempt == 2 and r.total == 0 and r.flags == 0 and row_steps.core_of(r) or nil
end

-- Has a node wait for another attempt at a time (ms), after one that has a record by now has failed: see store.lua.
function row_steps.await_retry(r, c, category, reason, due)
  local flags = r.flags - (row_record.flag(r, node_row.RETRIED) and node_row.RETRIED or 0)
  if flags ~= node_row.LEASED + node_row.RECORDED or r.phase ~= 2 then return false end
  r.phase, r.owner, r.elig, r.why, r.attempt, r.public = 1, 1, 2, 4, 5, 2
  r.flags, r.retries, r.expires, r.worker, r.changed = r.flags - node_row.LEASED, r.retries + 1, 0, 0, c.now
  row_record.note_failure(r, due, category, reason)
  row.touch(r)
  return true
end

-- Leases a node to a worker for its next attempt.
local function start_again(c, r, execution_id, w)
  r.phase, r.owner, r.elig, r.why, r.attempt, r.public = 2, 2, 9, 1, 3, 5
  r.flags, r.index, r.total, r.epoch = node_row.RETRIED + node_row.LEASED, r.total, r.total + 1, r.epoch + 1
  r.lease, r.worker = w.lease_id, worker_registry.number(r.run, w.worker_instance_id, w.worker_id, c.now)
  r.expires, r.acquired, r.changed = c.now + w.ttl, c.now, c.now
  row.touch(r)
  call.enter(c, key.index_lease_expiry(c), execution_id, r.expires)
end

-- Leases a node to a worker as its first attempt. `ahead`: before it has its places under its limits.
function row_steps.start(c, r, execution_id, w, ahead)
  r.phase, r.owner, r.elig, r.why, r.attempt, r.public = 2, 2, 9, 1, 3, 5
  r.flags, r.index, r.total, r.epoch = ahead and node_row.LEASED + node_row.AHEAD or node_row.LEASED, 0, 1, 1
  r.lease, r.worker = w.lease_id, worker_registry.number(r.run, w.worker_instance_id, w.worker_id, c.now)
  r.expires, r.acquired, r.started, r.changed = c.now + w.ttl, c.now, c.now, c.now
  row.touch(r)
  call.enter(c, key.index_lease_expiry(c), execution_id, r.expires)
end

-- Does the same for a node whose core row_steps.fresh returned. Returns the same values as claim.start.
function row_steps.start_fresh(c, execution_id, core, w)
  if core.start_timeout then call.leave(c, 'ZREM', key.ffx_start_deadlines(c), execution_id) end
  local r = core.row
  if r.attempt == 5 then
    start_again(c, r, execution_id, w)
    return {
      epoch = number.text(r.epoch), expires = number.time(r.expires), attempt_id = w.attempt_id, index = number.text(r.index), type = 'retry',
    }
  end
  row_steps.start(c, r, execution_id, w, core.leased_ahead)
  return { epoch = '1', expires = number.time(r.expires), attempt_id = w.attempt_id, index = '0', type = 'initial' }
end

-- Returns the core of a node whose current, valid lease is the one that a completion names; nil for another.
function row_steps.held(r, c, args)
  if r.phase ~= 2 or r.owner ~= 2 or r.expires <= c.now or r.lease ~= args.lease_id or r.flags % 16 >= node_row.OTHER_ATTEMPT
    or number.text(r.epoch) ~= args.lease_epoch or row_record.attempt_of(r.lease) ~= args.attempt_id then
    return nil
  end
  local node = graph_store.of_row(r)
  return {
    is_held = true, managed = '1', lifecycle_phase = 'active', ownership_state = 'leased',
    current_attempt_index = number.text(r.index), lane_id = row_record.lane(r), flow_id = r.run.id, node = node.name,
    in_row = not row_record.flag(r, node_row.RECORDED) and '1' or nil, attached = row_record.attached(r), retry_count = number.text(r.retries),
  }
end

function row_steps.succeed(r, c)
  r.phase, r.owner, r.elig, r.why, r.outcome, r.attempt, r.public = 4, 1, 9, 1, 2, 7, 7
  row_record.set_flag(r, node_row.LEASED, false)
  row_record.set_flag(r, node_row.AHEAD, false)
  r.expires, r.ended, r.changed = 0, c.now, c.now
  row.touch(r)
end
