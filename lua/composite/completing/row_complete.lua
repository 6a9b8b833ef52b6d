-- Completing a node in the usual case, in few steps: its first attempt has done nothing but run, and what follows from its success
-- is that other nodes of its run may start. Everything else goes the long way, with the same effect. It works on the bytes of the
-- rows, and writes them at once, so it leaves runs alone that the call has loaded.

-- Bytes between two rows are written again as they are, up to so many: that takes less than a further command.
local MAX_GAP = 256

local function place_of(ordinal) return row.HEAD_BYTES + (ordinal - 1) * row.ROW_BYTES end

-- The bytes that have the row of a node, and where it begins there. `bytes`: those that were read first.
local function find_row(flow, bytes, ordinal)
  local at = place_of(ordinal)
  if at + row.ROW_BYTES <= #bytes then return bytes, at end
  return redis.call('GETRANGE', flow.nodes_key, at, at + row.ROW_BYTES - 1), 0
end

-- Of the nodes behind a node, the bytes that have their rows, where they begin there, and how many edges that lead to them are open.
-- They are valid until the next completion.
local child_bytes, child_at, child_open = {}, {}, {}

-- Looks at the nodes behind a node. Reports whether all of them are of the usual case.
local function read_children(flow, bytes, successors)
  for i = 1, successors.count do
    local child, at = find_row(flow, bytes, successors[i])
    local open = row_bytes.open_edges(child, at)
    if not open or open < 1 or open == 1 and not graph_store.node(flow.graph, successors[i]).plain then return false end
    child_bytes[i], child_at[i], child_open[i] = child, at, open
  end
  return true
end

-- The line of a node in the event log, but for what follows the attempt.
local function line_of(node, event, name)
  local line = node[name]
  if not line then
    line = '\n' .. encode.logged(event, node.name, '0', '')
    node[name] = line
  end
  return line
end

-- A node that waits for nothing any more is leased to the completing worker, or enters its lane. Gives its row, and its event. `name`
-- is that of the completed node, where its result goes there.
local function release(c, flow_id, flow, ordinal, stem, name, result)
  local node, next_up = graph_store.node(flow.graph, ordinal), c.next_up
  local execution_id = row.with_ordinal(stem, ordinal)
  local active = next_up and row_lease.take(c, next_up, flow_id, flow, execution_id, node, name, result)
  if active then return active, (node.line_started or line_of(node, 'started', 'line_started')) .. next_up.logged_instance end
  local core = { created_at = flow.created_text, priority = node.priority, managed = '1', fair_key = flow.fair_key or '' }
  order.enter(c, node.lane_id, execution_id, core)
  order.announce(c, execution_id, core, node.lane_id)
  return row_bytes.ready(c.packed_now), ''
end

-- The row of the i-th node behind a node, with the edge between them resolved. Gives its event, too.
local function resolve_edge(c, flow_id, flow, node, successors, i, stem, result)
  local open = child_open[i]
  if open > 1 then return row_bytes.waiting(child_bytes[i], child_at[i], open - 1), '' end
  return release(c, flow_id, flow, successors[i], stem, successors.carries[i] and node.name, result)
end

-- Writes rows, the first of them at a place, and before them the number of open nodes at another.
local function write(flow, bytes, head_at, head, at, rows)
  if at <= #bytes and at - row.BEHIND_OPEN <= MAX_GAP then
    redis.call('SETRANGE', flow.nodes_key, head_at, head .. string.sub(bytes, row.BEHIND_OPEN + 1, at) .. rows)
  else
    redis.call('SETRANGE', flow.nodes_key, head_at, head)
    redis.call('SETRANGE', flow.nodes_key, at, rows)
  end
end

-- Resolves the edges to several nodes, or to one that does not follow at once. Writes their rows, and gives the events.
local function resolve_edges(c, flow_id, flow, node, successors, stem, result)
  local events, rows, first = {}, {}, successors[1]
  order.gather(c)
  for i = 1, successors.count do
    rows[#rows + 1], events[i] = resolve_edge(c, flow_id, flow, node, successors, i, stem, result)
    local next_one = successors[i + 1]
    if next_one ~= successors[i] + 1 then
      redis.call('SETRANGE', flow.nodes_key, place_of(first), table.concat(rows))
      rows, first = {}, next_one
    end
  end
  order.write_gathered(c)
  return table.concat(events)
end

-- Writes what a success changes of the rows of its run. Gives the events.
local function succeed(c, flow_id, flow, bytes, open, ordinal, done, node, successors, stem, result)
  local head_at, head = row.FLAGS + 1, nil
  if open == 1 then
    head_at, head = row.FLAGS, struct.pack('<BI4', string.byte(bytes, row.FLAGS + 1) - row.PLAIN, 0)
  else
    head = struct.pack('<I4', open - 1)
  end
  local events = node.line_success or line_of(node, 'success', 'line_success')
  if successors.count == 1 and successors[1] == ordinal + 1 then
    local child, event = resolve_edge(c, flow_id, flow, node, successors, 1, stem, result)
    write(flow, bytes, head_at, head, place_of(ordinal), done .. child)
    return events .. event
  end
  write(flow, bytes, head_at, head, place_of(ordinal), done)
  if successors.count > 0 then events = events .. resolve_edges(c, flow_id, flow, node, successors, stem, result) end
  return events
end

-- What leaves the index of leases with a completion, and what enters it; row_complete.flush writes it for all completions of the call.
local function leave_lease(c, execution_id)
  local left = c.leases_left
  if not left then
    left = {}
    c.leases_left, c.leases_entered = left, {}
    c.packed_now = row_bytes.time(c.now)
  end
  left[#left + 1] = execution_id
end

-- Writes the index of leases.
function row_complete.flush(c)
  local left = c.leases_left
  if not left then return end
  local index_key, entered = key.index_lease_expiry(c), c.leases_entered
  c.leases_left = nil
  call.chunked('ZREM', index_key, left)
  call.chunked('ZADD', index_key, entered)
end

-- Commits a completion if it is of the usual kind. Reports whether it did.
function row_complete.commit(c, completion)
  local execution_id, sub = completion.execution_id, string.sub
  if string.byte(execution_id, -22) ~= 56 or completion.lease_epoch ~= '1' or call.in_doubt(c) then return false end
  local flow_id = sub(execution_id, -36, -5) .. '0000'
  if row.is_loaded(flow_id) then return false end
  local ordinal, lease_id = tonumber(sub(execution_id, -4), 16), completion.lease_id
  if not ordinal then return false end
  local flow, bytes, open = run_rows.plain(c, flow_id, ordinal)
  if not flow then return false end
  local held, at = find_row(flow, bytes, ordinal)
  if not row_bytes.is_held(held, at, lease_id, c.now) or row_record.attempt_of(lease_id) ~= completion.attempt_id then return false end
  local node = graph_store.node(flow.graph, ordinal)
  local successors = graph_store.successors(node)
  local left = c.budget or call.WORK_BUDGET
  if not successors or successors.count > left or successors.count > 0 and successors[1] <= ordinal
    or not read_children(flow, bytes, successors) then
    return false
  end
  c.budget = left - successors.count
  local result = completion.result
  if result ~= '' then redis.call('HSET', flow.results_key, ordinal, result) end
  leave_lease(c, execution_id)
  local done = row_bytes.done(held, at, lease_id, successors.count, c.packed_now)
  local events = succeed(c, flow_id, flow, bytes, open, ordinal, done, node, successors, sub(execution_id, 1, -5), result)
  if node.attempt_timeout then call.leave(c, 'ZREM', key.index_attempt_timeout(c), execution_id) end
  if open == 1 then
    if flow.result_execution_id == execution_id then call.list_in(c, 'completed')[execution_id] = result end
    events = events .. '\n' .. graph.close_plain(c, flow_id, flow)
  end
  event_log.push(c, flow_id, flow.events_key, c.now_text .. events)
  return true
end
