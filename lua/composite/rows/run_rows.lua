-- Answers the queries of other calls about runs with rows.

-- Changes how many nodes of a run are open. Returns the new number.
function run_rows.add_open(run, _, by)
  if by ~= 0 then row.add_open(run, by) end
  return row.open(run)
end

function run_rows.result_execution(run)
  local ordinal = graph_store.result(graph_store.of_run(run)) or 0
  return ordinal > 0 and row.execution_id(run, ordinal) or nil
end

function run_rows.note_extended(run)
  if row.is_extended(run) then return end
  run.flags = run.flags + run_head.EXTENDED
  row.touch_run(run)
end

function run_rows.add_nodes(run, ids, from, to)
  for ordinal = from, to do ids[#ids + 1] = row.execution_id(run, ordinal) end
end

-- Records of plain runs that the interpreter knows, as flow_record.read returns them, in `runs` by the ids of their executions without
-- the ordinal. Each has the place of its run, its keys and graph, and the bytes of its header from `listed` on; these values do not
-- change. Bounded: when the table is full, it is emptied.
local known = { runs = {} }
run_rows.known = known
local known_count = 0
local MAX_KNOWN = 1024

-- Fields that are read of such a run, and of one with budgets or a parent.
local PLAIN_FIELDS = { 'flow_kind', 'run_id', 'deadline_at', 'trace_context', 'retention', 'fair_key', 'namespace' }
local SPECIAL_FIELDS = {
  'flow_kind', 'run_id', 'deadline_at', 'trace_context', 'retention', 'fair_key', 'namespace', 'budgets', 'budget_ids',
  'parent_execution_id', 'fail_fast',
}

local HEAD_BYTES, STATE, STATE_AT, IDENTITY = run_head.BYTES, run_head.STATE, run_head.COUNT_AT, run_head.IDENTITY
local PLAIN = run_head.PLAIN

-- Keeps the record of a plain run.
local function keep(stem, flow)
  if known_count >= MAX_KNOWN then known.runs, known_count = {}, 0 end
  if not known.runs[stem] then known_count = known_count + 1 end
  known.runs[stem] = flow
end

local function read_plain(c, stem, flow_id, identity, flags, count)
  local values = redis.call('HMGET', key.flow_core(c, flow_id), unpack(row.is_special(flags) and SPECIAL_FIELDS or PLAIN_FIELDS))
  if not values[1] then return nil end
  local listed, created, graph_hash = struct.unpack(IDENTITY, identity)
  local flow = {
    flow_kind = values[1], run_id = values[2] or '', deadline_at = values[3] or nil, trace_context = values[4] or nil,
    retention = values[5] or nil, fair_key = values[6] or nil, namespace = values[7] or nil, budgets = values[8] or nil,
    budget_ids = values[9] or nil, parent_execution_id = values[10] or nil, fail_fast = values[11] or nil, id = flow_id, at = c.at,
    identity = identity, public_flow_state = 'open', packed_id = run_entries.pack_id(flow_id), listed = listed,
    created = created, created_text = number.time(created),
    graph = graph_store.of_call(c, graph_hash), graph_hash = graph_hash, count = count, is_small = count <= row.SMALL_RUN,
    has_input = row.has_input(flags), read_to = count == 1 and row_inputs.LAST_OF_ONE or nil,
    nodes_key = key.flow_nodes(c, flow_id), results_key = key.flow_results(c, flow_id), events_key = key.flow_events(c, flow_id), about = nil,
    logged = nil,
  }
  keep(stem, flow)
  return flow
end

local function given(text) return is_set(text) and text or nil end

-- Keeps the record of a plain run without a parent that the call has created, so that it need not be read. `r` is its rows,
-- `deadline_at` a text, and `budgets` and `budget_ids` the fields of the record.
function run_rows.created(c, r, A, run, deadline_at, budgets, budget_ids)
  keep(r.stem, {
    flow_kind = A.flow_name, namespace = A.namespace, run_id = run.run_id, deadline_at = deadline_at, trace_context = given(run.trace_context),
    retention = given(A.retention), fair_key = given(run.fair_key), budgets = budgets, budget_ids = given(budget_ids), id = r.id, at = c.at,
    identity = struct.pack(IDENTITY, r.listed, r.created, r.graph), public_flow_state = 'open', packed_id = run.packed_id,
    listed = r.listed, created = r.created, created_text = c.now_text,
    graph = r.known_graph, graph_hash = r.graph, count = r.count, is_small = r.count <= row.SMALL_RUN,
    has_input = row.has_input(r.flags), read_to = r.count == 1 and row_inputs.LAST_OF_ONE or nil,
    nodes_key = r.key, results_key = key.flow_results(c, r.id), events_key = key.flow_events(c, r.id), about = nil,
    logged = nil,
  })
end

-- Returns the record of a run that is plain; nil for another one.
function run_rows.plain_flow(run, c, flow_id)
  if not row.is_plain(run) then return nil end
  local flow = known.runs[run.stem]
  if flow and flow.at == c.at and flow.listed == run.listed and flow.graph_hash == run.graph then return flow end
  return read_plain(c, run.stem, flow_id, struct.pack(IDENTITY, run.listed, run.created, run.graph), run.flags, run.count)
end

-- Number of rows after a node's row that are read with it where its success has other effects than to start its successors.
local MORE_ROWS = 1

-- Returns the last byte to read of a run together with its header, to include the rows of a node and of its successors: only if
-- they are near the beginning. For a small run, it includes all rows if the node has no successors.
function run_rows.last_to_read(flow, node)
  local successors, ordinal = graph_store.successors(flow.graph, node), node.ordinal
  local last = successors and successors.last or ordinal + MORE_ROWS
  if successors and successors.count == 0 and flow.is_small then last = flow.count end
  local to = row.place(flow.count, last + 1) - 1
  if to > row.LAST_OF_FIRST_READ then to = row.place(flow.count, ordinal + 1) - 1 end
  if to > row.LAST_OF_FIRST_READ then to = HEAD_BYTES - 1 end
  node.read_to = number.text(to)
  return node.read_to
end

-- Returns the number of the events of a run as its header has it, if bytes are the beginning of a run that is still plain, and the
-- one of a record that the interpreter knows.
function run_rows.events_of(flow, bytes)
  if #bytes < HEAD_BYTES then return nil end
  local _, identity, _, flags, _, events = struct.unpack(STATE, bytes, STATE_AT)
  return flags % (2 * PLAIN) >= PLAIN and identity == flow.identity and events
end

-- Returns the record of a plain run that the interpreter does not know; nil for another run.
function run_rows.find_plain(c, stem)
  if string.byte(stem, -18) ~= 56 then return nil end
  local flow_id = string.sub(stem, -32) .. '0000'
  local bytes = redis.call('GETRANGE', key.flow_nodes(c, flow_id), '0', HEAD_BYTES - 1)
  if #bytes < HEAD_BYTES or string.byte(bytes) ~= run_head.FORM then return nil end
  local count, identity, _, flags = struct.unpack(STATE, bytes, STATE_AT)
  if flags % (2 * PLAIN) < PLAIN then return nil end
  return read_plain(c, stem, flow_id, identity, flags, count)
end

function run_rows.note_unusual(run)
  if not row.is_plain(run) then return end
  run.flags = run.flags - run_head.PLAIN
  row.touch_run(run)
end

-- Ids of version 8 that end in an ordinal belong to nodes. Another execution with such an id would be hidden as soon as its run
-- exists.
function run_rows.refuse_id(execution_id)
  if row.ordinal(execution_id) == 0 then return nil end
  return 'execution ids of version 8 are those of nodes of runs, got: ' .. execution_id
end

-- Returns how many nodes of a run are open, as text; nil for flows without rows.
function run_rows.open_nodes(c, flow_id)
  local run = row.run(c, flow_id)
  return run and number.text(row.open(run)) or nil
end

-- Loads the rows of a page of members, which are adjacent, with one command.
function run_rows.load(c, ids)
  local first, last
  for _, execution_id in ipairs(ids) do
    local ordinal = row.ordinal(execution_id)
    if ordinal > 0 then first, last = first or ordinal, ordinal end
  end
  local run = first and row.run(c, row.run_id(ids[1]))
  if run and last > first then row.load(run, first, math.min(last, run.count)) end
end

-- Returns the definition of a flow, as JSON; false without one.
function run_rows.definition(c, flow_id)
  local run = row.run(c, flow_id)
  if not run then return false end
  return graph_store.definition(graph_store.of_run(run))
end

-- Returns the next nodes of a run, from the n-th on, that have not ended: at most `limit` of them, among `looked_at`: their
-- execution ids, and where to continue, nil after the last.
function run_rows.next_open(c, run, from, limit, looked_at)
  local ids, at = {}, from
  local to = math.min(run.count, from + looked_at - 1)
  if from <= to then row.load(run, from, to) end
  while at <= to and #ids < limit do
    if row.at(run, at).phase ~= 4 then ids[#ids + 1] = row.execution_id(run, at) end
    at = at + 1
  end
  return ids, at <= run.count and at or nil
end

-- @function ffx_find_node
-- @summary  Returns the execution of a node of a run, by the node's name.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      node               text
-- @reply    OK execution_id:execution_id
-- @error    flow_not_found
-- @error    execution_not_found
function F.ffx_find_node(K, A)
  local c = call.open(K.partition)
  local run = row.run(c, A.flow_id)
  if not run then return reply.err('flow_not_found') end
  local ordinal = graph_store.ordinal(run, A.node)
  if not ordinal then return reply.err('execution_not_found') end
  return reply.ok(row.execution_id(run, ordinal))
end
