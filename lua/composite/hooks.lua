-- The hooks that composite calls set. Each is declared in the file of the contract library that calls it, with what it
-- does in a library without composite calls.

call.in_doubt = recovery.in_doubt

function call.on_begin()
  row.forget()
  run_counts.drop()
  lane_counts.drop()
  run_feed.drop()
end

function call.on_finish()
  row.flush()
  run_counts.write()
  lane_counts.write()
  run_feed.write()
end

wake.tells_of_others = audience.is_present

function wake.note_lane(c, lane)
  if audience.is_present() then pauses.note_lane(c, lane) end
end

dependency.hand_off = handoff.add
propagate.hand_result = handoff.feed
propagate.resolve_unmanaged = repair_edges.resolve_unmanaged
terminal.on_member_end = propagate.leave_to_keeper

graph.on_parent_failed = child_run.abandon
graph.on_fatal_failure = run_stop.stop_rest

function graph.on_reopened(c, flow_id, flow_key, flow)
  child_run.reopened(c, flow_id, flow_key)
  run_recount.reopened(c, flow_id, flow.outcome, flow.closed_at)
  run_key.reopened(c, flow_id, flow_key)
end

function graph.on_closed(c, flow_id, flow_key, flow, outcome)
  run_counts.ended(c, flow, outcome)
  run_feed.ended(c, flow_id, flow, outcome)
  if flow.retention then purge.retain(c, flow_id, flow.retention, outcome) end
  if flow.parent_execution_id then child_run.ended(c, flow_id, flow_key) end
  if flow.run_key_id then run_key.ended(c, flow_id, flow.run_key_id) end
end

event_log.on_note = run_feed.note

tagging.on_changed = run_list.retag

timer.input = row_inputs.of_timer

function budget.on_given_back(c, budget_id) budget_use.given_back(c, budget_use.keys(c, budget_id)) end
