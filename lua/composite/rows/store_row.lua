-- The store of executions that have rows: see store.lua. A function that is not here is in the named file.

store_row.read, store_row.values, store_row.value = row_record.read, row_record.values, row_record.value

-- No caller needs all fields of a row.
function store_row.all() return {} end

function store_row.exists() return 1 end

store_row.set, store_row.clear, store_row.add = row_record.set, row_record.clear, row_record.add

store_row.named_result, store_row.write_result = run_data.result, row_inputs.write_result

function store_row.result(r)
  local text = run_data.result(r)
  return text and stored_value.bytes(r.run.prefix, text)
end

function store_row.copy_result(r, _, target)
  local text = run_data.result(r)
  if text then stored_value.copy(r.run.prefix, text, target) end
  return text ~= false
end

function store_row.policy(r) return graph_store.of_row(r).policy end

store_row.timer_input = row_inputs.of_timer

function store_row.is_finally(r) return graph_store.is_finally(graph_store.of_row(r)) end

function store_row.is_node_of(r, flow_id) return r.run.id == flow_id end

store_row.fresh, store_row.delayed, store_row.mark_ready = row_steps.fresh, row_steps.delayed, row_steps.mark_ready

store_row.waiting, store_row.suspend, store_row.end_wait = row_steps.waiting, row_steps.suspend, row_steps.end_wait

store_row.held, store_row.succeed, store_row.await_retry = row_steps.held, row_steps.succeed, row_steps.await_retry

store_row.add_upstream, store_row.add_downstream = row_edges.add_upstream, row_edges.add_downstream

store_row.open_edges, store_row.count_edges = row_edges.open, row_edges.count

store_row.add_edges, store_row.take_edges = row_edges.add, row_edges.take

store_row.read_edge, store_row.write_edge, store_row.mark_late = row_joins.read, row_joins.write, row_joins.mark_late

store_row.close_edge, store_row.close_edges = row_joins.close_edge, row_joins.close_edges

store_row.ended_edges, store_row.recount_edges = row_joins.ended, row_joins.recount

store_row.reopen_edges, store_row.note_replay = row_edges.reopen, row_edges.note_replay

store_row.add_to_wave, store_row.drain = row_edges.add_to_wave, row_edges.drain

store_row.reopen_downstream, store_row.end_last = row_edges.reopen_downstream, row_edges.end_last
