-- Answers the queries of other calls about runs with rows.

-- Changes how many nodes of a run are open. Returns the new number.
function run_rows.add_open(run, by)
  if by ~= 0 then row.add_open(run, by) end
  return row.open(run)
end

function run_rows.result_execution(run)
  local ordinal = graph_store.result(graph_store.of_run(run)) or 0
  return ordinal > 0 and row.execution_id(run, ordinal) or nil
end

function run_rows.note_extended(run)
  if row.is_extended(run) then return end
  run_rows.note_unusual(run)
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

-- The function of the server, which does not exist yet while the library loads.
local function set_metatable(...)
  set_metatable = setmetatable
  return set_metatable(...)
end

local HEAD_BYTES, PENDING, PENDING_AT, IDENTITY = run_head.BYTES, run_head.PENDING, run_head.COUNT_AT, run_head.IDENTITY
local PLAIN = run_head.PLAIN

-- Keeps the record of a plain run.
local function keep(stem, flow)
  if known_count >= MAX_KNOWN then known.runs, known_count = {}, 0 end
  if not known.runs[stem] then known_count = known_count + 1 end
  known.runs[stem] = flow
end

-- Returns the record of a plain run, without the fields that only some of them have.
local function plain_of(c, flow_id, packed_id, nodes_key, identity, flags, count, class, g, listed, created, created_text, deadline)
  local joins = g.joins_text
  if joins == nil then joins = graph_store.joins_of(g) end
  return {
    id = flow_id, at = c.at, identity = identity, packed_id = packed_id, listed = listed, flags = flags, count = count, class = class,
    graph = g, public_flow_state = 'open', joins = joins or nil, children = nil, run_key_id = nil,
    flow_kind = class.flow_kind, namespace = class.namespace, retention = class.retention, created = created,
    created_text = created_text, deadline_at = deadline > 0 and number.time(deadline) or nil, is_small = count <= row.SMALL_RUN,
    read_to = count == 1 and run_data.LAST_OF_ONE or nil, key = nodes_key, results_key = nil, events_key = nil,
    data_key = nil, fair_key = nil, about = nil,
    is_plain = true, logged = nil, record_text = nil, input_at = nil, result_at = nil, budgets = nil, budget_ids = nil, parent_execution_id = nil, fail_fast = nil,
  }
end

-- Reads the fields that few runs have. `bytes`: the beginning of the rows.
local function read_further(c, flow, bytes)
  local flags = flow.flags
  if flags % (2 * run_head.SPECIAL) < run_head.FAIR then return end
  local fields = run_data.decode(run_data.record(flow, bytes), flow.id)
  flow.run_id, flow.trace_context, flow.fair_key = fields.run_id or '', fields.trace_context, fields.fair_key
  flow.parent_execution_id, flow.fail_fast = fields.parent_execution_id, fields.fail_fast
  if not row.is_special(flags) then return end
  local own = flags >= run_head.OVERLAY and redis.call('HMGET', key.flow_core(c, flow.id), 'budgets', 'budget_ids') or {}
  local head = not own[1] and graph_store.head(flow.graph)
  if own[1] then
    flow.budgets, flow.budget_ids = own[1], is_set(own[2]) and own[2] or nil
  elseif head and head.budgets then
    flow.budgets, flow.budget_ids = budget_gate.OF_GRAPH, is_set(head.blocking) and head.blocking or nil
  end
end

local function read_plain(c, stem, flow_id, identity, flags, marks, count, bytes)
  local listed, created, deadline, class_id = struct.unpack(IDENTITY, identity)
  local class = run_class.of_call(c, class_id)
  local flow = plain_of(c, flow_id, run_entries.pack_id(flow_id), key.flow_nodes(c, flow_id), identity, flags, count, class,
    graph_store.of_call(c, class.graph), listed, created, number.time(created), deadline)
  read_further(c, flow, bytes)
  if marks >= run_head.KEYED then flow.run_key_id = redis.call('HGET', key.flow_core(c, flow_id), 'run_key_id') or nil end
  if flow.graph.joins_text ~= nil then keep(stem, flow) end
  return flow
end

-- Keeps the record of a plain run without a parent that the call has created, so that it need not be read. `r` is its rows, and
-- `budgets` and `budget_ids` are the fields of the record.
function run_rows.created(c, r, class, run, budgets, budget_ids)
  local flow = plain_of(c, r.id, run.packed_id, r.key, struct.pack(IDENTITY, r.listed, r.created, r.deadline, r.class), r.flags, r.count,
    class, r.known_graph, r.listed, r.created, c.now_text, r.deadline)
  flow.fair_key = is_set(run.fair_key) and run.fair_key or nil
  flow.budgets, flow.budget_ids = budgets, is_set(budget_ids) and budget_ids or nil
  if r.marks >= run_head.KEYED then flow.run_key_id = run.arrival.key_id end
  run_data.note_record(flow, run.record)
  keep(r.stem, flow)
end

-- Returns the metatable of the records of plain runs that a call creates of one class, with the values that they have in common. `g`: the
-- graph in one of the partitions.
function run_rows.shared(c, class, g, deadline)
  local head = g.head
  local count = head.nodes
  return { __index = {
    count = count, class = class, public_flow_state = 'open', flow_kind = class.flow_kind, namespace = class.namespace,
    retention = class.retention, created = c.now, created_text = c.now_text, deadline_at = deadline > 0 and number.time(deadline) or nil,
    is_small = count <= row.SMALL_RUN, read_to = count == 1 and run_data.LAST_OF_ONE or nil, is_plain = true,
    budgets = head.budgets and budget_gate.OF_GRAPH or nil, budget_ids = head.budgets and is_set(head.blocking) and head.blocking or nil,
  } }
end

-- Keeps the record of one of these runs, and returns it.
function run_rows.begin(shared, at, g, stem, id, identity, packed_id, listed, flags, nodes_key, fair_key, record_text)
  local flow = {
    id = id, at = at, graph = g, identity = identity, packed_id = packed_id, listed = listed, flags = flags, key = nodes_key,
    fair_key = fair_key, record_text = record_text, input_at = nil, result_at = nil, about = nil, logged = nil, data_key = nil,
  }
  set_metatable(flow, shared)
  run_data.note_record(flow, record_text)
  keep(stem, flow)
  return flow
end

-- Returns the key of another part of a plain run.
function run_rows.key_of(flow, part) return string.sub(flow.key, 1, -6) .. part end

-- Returns the keys of the results of a plain run, of its event log, and of its hash `more`, which few calls need.
function run_rows.results_key(flow)
  local results_key = flow.results_key
  if not results_key then
    results_key = run_rows.key_of(flow, 'results')
    flow.results_key = results_key
  end
  return results_key
end

function run_rows.events_key(flow)
  local events_key = flow.events_key
  if not events_key then
    events_key = run_rows.key_of(flow, 'events')
    flow.events_key = events_key
  end
  return events_key
end

function run_rows.more_key(flow)
  local more_key = flow.more_key
  if not more_key then
    more_key = run_rows.key_of(flow, 'more')
    flow.more_key = more_key
  end
  return more_key
end

-- Adds the id and the trace context of a plain run to its record.
function run_rows.describe(flow)
  if flow.run_id or not flow.key then return flow end
  local fields = run_data.decode(run_data.record(flow), flow.id)
  flow.run_id, flow.trace_context = fields.run_id or '', fields.trace_context
  return flow
end

-- Returns the record of a run that is plain; nil for another one.
local function plain_flow(run, c, flow_id)
  if not row.is_plain(run) then return nil end
  local flow = known.runs[run.stem]
  local identity = struct.pack(IDENTITY, run.listed, run.created, run.deadline, run.class)
  if not flow or flow.at ~= c.at or flow.identity ~= identity then
    flow = read_plain(c, run.stem, flow_id, identity, run.flags, run.marks, run.count, run.bytes)
  end
  flow.children = row.has_children(run) and '1' or nil
  return flow
end

-- Does the same, but only for a run whose end depends on nothing else.
function run_rows.plain_flow(run, c, flow_id) return not row.is_judged(run) and plain_flow(run, c, flow_id) or nil end

-- Returns the record of a run with the fields that calls on its nodes need, whether it is plain or not.
function run_rows.flow(run, c, flow_id)
  local flow = plain_flow(run, c, flow_id)
  if flow then return flow end
  local class, g = run_class.of_run(run), graph_store.of_run(run)
  local joins = graph_store.joins_of(g)
  flow = {
    id = flow_id, class = class, graph = g, flow_kind = class.flow_kind, public_flow_state = run_head.STATE[run.state],
    deadline_at = run.deadline > 0 and number.time(run.deadline) or nil, joins = joins, key = run.key, count = run.count, flags = run.flags,
    bytes = run.bytes, paused = nil, children = row.has_children(run) and '1' or nil, run_id = nil, trace_context = nil, record_text = nil, input_at = nil,
    budgets = nil, budget_ids = nil, parent_execution_id = nil, fail_fast = nil,
  }
  read_further(c, flow, run.bytes)
  if row.has_overlay(run) then
    local further = redis.call('HMGET', row.overlay_key(run), 'joins', 'paused')
    flow.joins, flow.paused = further[1] or joins, further[2] or nil
  end
  return flow
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
  local _, identity, _, _, flags, _, events = struct.unpack(PENDING, bytes, PENDING_AT)
  return flags % (2 * PLAIN) >= PLAIN and identity == flow.identity and events
end

-- Returns the record of a plain run that the interpreter does not know; nil for another run.
function run_rows.find_plain(c, stem)
  if string.byte(stem, -18) ~= 56 then return nil end
  local flow_id = string.sub(stem, -32) .. '0000'
  local bytes = redis.call('GETRANGE', key.flow_nodes(c, flow_id), '0', HEAD_BYTES - 1)
  if #bytes < HEAD_BYTES or string.byte(bytes) ~= run_head.FORM then return nil end
  local count, identity, marks, _, flags = struct.unpack(PENDING, bytes, PENDING_AT)
  if flags % (2 * PLAIN) < PLAIN then return nil end
  return read_plain(c, stem, flow_id, identity, flags, marks, count)
end

-- Discards the record of a plain run that has changed.
function run_rows.forget(stem)
  if not known.runs[stem] then return end
  known.runs[stem], known_count = nil, known_count - 1
end

function run_rows.note_unusual(run)
  if not row.is_plain(run) then return end
  run.flags = run.flags - run_head.PLAIN
  row.touch_run(run)
end

function run_rows.note_judged(run)
  if row.is_judged(run) then return end
  run.marks = run.marks + run_head.JUDGED
  row.touch_run(run)
end

-- Ids of version 8 that end in an ordinal belong to nodes. Another execution with such an id would be hidden as soon as its run
-- exists.
function run_rows.refuse_id(execution_id)
  if row.ordinal(execution_id) == 0 then return nil end
  return 'execution ids of version 8 are those of nodes of runs, got: ' .. execution_id
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
