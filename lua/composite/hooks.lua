-- Sets all hooks: rules to which composite calls add something, and events that they follow. Each is declared in the file that
-- calls it, with its effect in a library without composite calls.

-- The stores of executions and flows: see store.lua and flow_store.lua.

store.row = row.of_key

function store.of(core_key)
  local r = row.of_key(core_key)
  if r then return store_row, r end
  local run = row.of_flow_key(core_key)
  if run then return store_run, run end
  return store_record, core_key
end

function flow_store.of(c, flow_id)
  local run = row.run(c, flow_id)
  if run then return store_run, run end
  return store_flow, key.flow_core(c, flow_id)
end

function flow_store.of_key(flow_key)
  local run = row.of_flow_key(flow_key)
  if run then return store_run, run end
  return store_flow, flow_key
end

function store.of_entry(c, entry)
  local run = row.run(c, row.run_id(entry))
  if run then return store_row, run end
  return store_record, entry
end

-- The frame of a call, and its counters.

call.in_doubt = recovery.in_doubt

local held = call.held

function call.on_begin()
  held.rows, held.ends, held.run_counts, held.lane_counts, held.feeds = nil, nil, nil, nil, nil
  row.forget()
  run_counts.drop()
  lane_counts.drop()
  run_list.drop()
  run_feed.drop()
end

-- The rows come first, because they change other data.
function call.on_finish()
  if held.rows then
    row.flush()
    row.forget()
    held.rows = nil
  end
  if held.ends then
    run_list.write()
    held.ends = nil
  end
  if held.run_counts then
    run_counts.write()
    held.run_counts = nil
  end
  if held.lane_counts then
    lane_counts.write()
    held.lane_counts = nil
  end
  if held.feeds then
    run_feed.write()
    held.feeds = nil
  end
end

row.on_counted = lane_counts.moved

-- Executions outside of runs.

wake.tells_of_others = audience.is_present

function wake.note_lane(c, lane)
  if audience.is_present() then pauses.note_lane(c, lane) end
end

create.refuse_id = run_rows.refuse_id

propagate.resolve_unmanaged = repair_edges.resolve_unmanaged
terminal.on_member_end = propagate.leave_to_keeper

-- A completion leases the executions that it makes ready.

dependency.hand_off = handoff.add
propagate.hand_result = handoff.feed

-- Ends of nodes and flows.

terminal.defer = ending.defer

graph.on_parent_failed = child_run.abandon
graph.on_fatal_failure = run_stop.stop_rest

graph.on_closing = run_list.close

function graph.on_reopened(c, flow_id, flow_key, flow)
  child_run.reopened(c, flow_id, flow_key)
  run_recount.reopened(c, flow_id, flow.outcome)
  run_list.reopen(c, flow_id, flow.outcome)
  run_holes.settle(c)
  run_key.reopened(c, flow_id, flow_key)
end

function graph.on_closed(c, flow_id, flow, outcome, result, waiters)
  run_counts.ended(c, flow, outcome)
  run_feed.ended(c, flow_id, flow, outcome)
  if flow.retention then purge.retain(c, flow_id, flow.retention, outcome) end
  if flow.parent_execution_id then child_run.ended(c, flow_id, key.flow_core(c, flow_id)) end
  if flow.run_key_id then run_key.ended(c, flow_id, flow.run_key_id) end
  if waiters ~= run_watch.NOT_AWAITED then run_watch.ended(c, flow_id, outcome, result, waiters) end
end

-- Other hooks.

event_log.on_note = run_feed.note

event_log.in_row = row_log.note

tagging.on_changed = run_list.retag

tolerated_failures.on_first = run_list.failed
tolerated_failures.on_forgotten = run_list.not_failed

function budget.on_given_back(c, budget_id) budget_use.given_back(c, budget_use.keys(c, budget_id)) end
