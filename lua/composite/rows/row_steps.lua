-- The steps that nearly all nodes of all runs take, on their rows: made eligible, leased for the first time, ended with success.

-- Returns the core of a node that was never claimed and has only the least fields; nil for another.
function row_steps.fresh(r)
  if r.phase ~= 1 or r.attempt ~= 2 or r.total ~= 0 or r.elig ~= 1 and r.elig ~= 3 or r.flags ~= 0 then return nil end
  if not graph_store.of_row(r).plain then return nil end
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
    limits = node.limits,
    fair_key = row_record.fair_key(r),
  }
end

-- Marks such a node as ready to run.
function row_steps.mark_ready(r, c)
  r.elig, r.why, r.public, r.changed = 1, 2, 1, c.now
  row.touch(r)
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
  row_steps.start(c, core.row, execution_id, w, core.leased_ahead)
  return { epoch = '1', expires = number.time(core.row.expires), attempt_id = w.attempt_id, index = '0', type = 'initial' }
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
    in_row = not row_record.flag(r, node_row.RECORDED) and '1' or nil, attached = row_record.attached(r),
  }
end

function row_steps.succeed(r, c)
  r.phase, r.owner, r.elig, r.why, r.outcome, r.attempt, r.public = 4, 1, 9, 1, 2, 7, 7
  row_record.set_flag(r, node_row.LEASED, false)
  row_record.set_flag(r, node_row.AHEAD, false)
  r.expires, r.ended, r.changed = 0, c.now, c.now
  row.touch(r)
end
