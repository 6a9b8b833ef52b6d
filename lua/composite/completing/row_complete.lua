-- Completing a node in the usual case, in few steps: its first attempt has done nothing but run, and what follows from its success
-- is that other nodes of its run may start. Everything else goes the long way, with the same effect. It works on the bytes of the
-- rows, and writes them at once, so it leaves runs alone that the call has loaded.

-- Bytes between two rows are written again as they are, up to so many: that takes less than a further command.
local MAX_GAP = 256

-- The flags of a run and how many of its nodes are open, in the header: where they are, and where what follows them is.
local FLAGS, BEHIND_OPEN = 3, 8

local function place_of(ordinal) return row.HEAD_BYTES + (ordinal - 1) * row.ROW_BYTES end

-- The row of a node, by the bytes that were read first if it is among them.
local function row_at(nodes_key, bytes, ordinal)
  local at = place_of(ordinal)
  if at + row.ROW_BYTES <= #bytes then return string.sub(bytes, at + 1, at + row.ROW_BYTES) end
  return redis.call('GETRANGE', nodes_key, at, at + row.ROW_BYTES - 1)
end

-- The rows of the nodes behind a node, and how many edges that lead to them are open; false where one of them is not of the usual
-- case. They are valid until the next call of this function.
local child_rows, child_open = {}, {}

local function read_children(nodes_key, bytes, g, successors)
  for i = 1, successors.count do
    local child = row_at(nodes_key, bytes, successors[i])
    local open = row_bytes.open_edges(child)
    if not open or open < 1 or open == 1 and not graph_store.node(g, successors[i]).plain then return false end
    child_rows[i], child_open[i] = child, open
  end
  return true
end

-- What is to be written of the rows, in pieces: those of the piece at hand, where it begins and ends, and the bytes that were read.
local parts, part_count, piece_from, piece_to = {}, 0, 0, 0

local function write_piece(nodes_key)
  if part_count == 0 then return end
  redis.call('SETRANGE', nodes_key, piece_from, table.concat(parts, '', 1, part_count))
  part_count = 0
end

local function write(nodes_key, bytes, at, text)
  if part_count > 0 and at ~= piece_to then
    if at > piece_to and at <= #bytes and at - piece_to <= MAX_GAP then
      part_count = part_count + 1
      parts[part_count] = string.sub(bytes, piece_to + 1, at)
    else
      write_piece(nodes_key)
    end
  end
  if part_count == 0 then piece_from = at end
  part_count = part_count + 1
  parts[part_count], piece_to = text, at + #text
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
  if active then return active, line_of(node, 'started', 'line_started') .. next_up.logged_instance end
  local core = {
    created_at = flow.created_text, priority = node.priority, managed = '1', fair_key = flow.fair_key or '',
    start_timeout = node.start_timeout,
  }
  order.enter(c, node.lane_id, execution_id, core)
  order.announce(c, execution_id, core, node.lane_id)
  return row_bytes.ready(c.packed_now), ''
end

-- Resolves the edges that lead on from a node. Gives the events.
local function resolve_edges(c, flow_id, flow, nodes_key, bytes, node, successors, stem, result)
  local events, count = '', successors.count
  if count > 1 then order.gather(c) end
  for i = 1, count do
    local ordinal, open, text, event = successors[i], child_open[i], nil, nil
    if open > 1 then
      text = row_bytes.waiting(child_rows[i], open - 1)
    else
      text, event = release(c, flow_id, flow, ordinal, stem, successors.carries[i] and node.name, result)
      if event ~= '' then events = events .. event end
    end
    write(nodes_key, bytes, place_of(ordinal), text)
  end
  if count > 1 then order.write_gathered(c) end
  return events
end

-- Writes what a success changes of the rows of its run. Gives the events, the last of them with the end of the run.
local function succeed(c, flow_id, flow, nodes_key, bytes, open, ordinal, held, node, successors, stem, result)
  if open == 1 then
    local flags = string.byte(bytes, FLAGS + 1)
    write(nodes_key, bytes, FLAGS, struct.pack('<BI4', flags - row.PLAIN, 0))
  else
    write(nodes_key, bytes, FLAGS + 1, struct.pack('<I4', open - 1))
  end
  write(nodes_key, bytes, place_of(ordinal), row_bytes.done(held, successors.count, c.packed_now))
  local events = line_of(node, 'success', 'line_success')
  if successors.count > 0 then
    events = events .. resolve_edges(c, flow_id, flow, nodes_key, bytes, node, successors, stem, result)
  end
  write_piece(nodes_key)
  return events
end

-- What the call needs to know of a completion of the usual case: the bytes of its run, the record, how many nodes are open, its row, its
-- node and the nodes behind it. Nil for others.
local function find(c, completion, flow_id, ordinal, nodes_key)
  local bytes = redis.call('GETRANGE', nodes_key, '0', row.LAST_OF_FIRST_READ)
  local flow, open = run_rows.plain(c, flow_id, nodes_key, bytes)
  if not flow then return nil end
  local held = row_at(nodes_key, bytes, ordinal)
  if not row_bytes.is_held(held, completion.lease_id, c.now) or row_record.attempt_of(completion.lease_id) ~= completion.attempt_id then
    return nil
  end
  local node = graph_store.node(flow.graph, ordinal)
  local successors = graph_store.successors(node)
  c.budget = c.budget or call.WORK_BUDGET
  if not successors or successors.count > c.budget or successors.count > 0 and successors[1] <= ordinal
    or not read_children(nodes_key, bytes, flow.graph, successors) then
    return nil
  end
  c.budget = c.budget - successors.count
  return bytes, flow, open, held, node, successors
end

-- Commits a completion if it is of the usual kind. Reports whether it did.
function row_complete.commit(c, completion)
  local execution_id = completion.execution_id
  local ordinal = row.ordinal(execution_id)
  if ordinal == 0 or completion.lease_epoch ~= '1' or call.in_doubt(c) then return false end
  local flow_id = row.run_id(execution_id)
  if row.is_loaded(flow_id) then return false end
  local nodes_key = key.flow_nodes(c, flow_id)
  local bytes, flow, open, held, node, successors = find(c, completion, flow_id, ordinal, nodes_key)
  if not bytes then return false end
  local result = completion.result
  if result ~= '' then redis.call('HSET', key.flow_results(c, flow_id), ordinal, result) end
  c.packed_now = c.packed_now or row_bytes.time(c.now)
  local events = succeed(c, flow_id, flow, nodes_key, bytes, open, ordinal, held, node, successors,
    string.sub(execution_id, 1, -5), result)
  call.leave(c, 'ZREM', key.index_lease_expiry(c), execution_id)
  if node.attempt_timeout then call.leave(c, 'ZREM', key.index_attempt_timeout(c), execution_id) end
  if open == 1 then
    if flow.result_execution_id == execution_id then call.list_in(c, 'completed')[execution_id] = result end
    events = events .. '\n' .. graph.close_plain(c, flow_id, flow)
  end
  event_log.push(c, flow_id, c.now_text .. events)
  return true
end
