-- The store of runs with rows: see flow_store.lua. A function that is not here is in the named file.

store_run.read, store_run.values, store_run.value = run_fields.read, run_fields.values, run_fields.value

-- No caller needs all fields of a run.
function store_run.all() return {} end

function store_run.exists() return 1 end

store_run.set, store_run.clear, store_run.add = run_fields.set, run_fields.clear, run_fields.add

function store_run.node_count(run) return run.count end

store_run.add_nodes, store_run.plain_flow, store_run.flow = run_rows.add_nodes, run_rows.plain_flow, run_rows.flow

store_run.note_success, store_run.write_out = row_log.note_success, row_log.write_out

store_run.count_noted, store_run.read_noted, store_run.read_noted_of = row_log.count, row_log.read, row_log.read_node

store_run.note_unusual, store_run.note_extended = run_rows.note_unusual, run_rows.note_extended

store_run.add_open, store_run.result_execution = run_rows.add_open, run_rows.result_execution
