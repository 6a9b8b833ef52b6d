-- Completes a node in the usual case, in few steps: its first attempt has only run, and its success only lets other nodes of its
-- run start. All other cases use the general functions, with the same effect. It works on the bytes of the rows, and writes them
-- at once, so it does not handle runs that the call has loaded.

local ROW_BYTES, PLAIN = node_row.BYTES, run_head.PLAIN
-- Bytes of the header before the time of the end, before the flags, which follow it, and up to the end of the number of open
-- nodes, which follows them.
local CLOSED, FLAGS, BEHIND_OPEN = run_head.CLOSED_AT - 1, run_head.FLAGS_AT - 1, run_head.COUNT_AT - 1
local COUNTED_ACTIVE, COUNTED_WAITING = row.COUNTED_ACTIVE, row.COUNTED_WAITING

-- Maximum number of bytes between two rows that are written again unchanged: that takes less time than another command.
local MAX_GAP = 256

-- Maximum number of bytes that are read together for the rows of a node and of its successors.
local MAX_READ = 1024

-- Maximum number of unneeded bytes that are read between the rows of two successors: that takes less time than another command.
local MAX_SKIP = 1024

-- For the successors of a node: the bytes that contain their rows, the offset of each there, and the number of its open edges.
-- They are valid until the next completion.
local child_bytes, child_at, child_open = {}, {}, {}

-- Returns the bytes from the row of a node's i-th successor on, with the rows of the next ones that are close to it.
local function read_from(flow, successors, i)
  local first = successors[i].place
  local last = first
  for next_one = i + 1, successors.count do
    local place = successors[next_one].place
    if place - last > ROW_BYTES + MAX_SKIP then break end
    last = place
  end
  return redis.call('GETRANGE', flow.nodes_key, first, last + ROW_BYTES - 1)
end

-- Reads the successors of a node. Reports whether all of them are of the usual case. `bytes` are the bytes of the run's rows that
-- have been read, and begin after `from`.
local function read_children(flow, bytes, from, successors)
  for i = 1, successors.count do
    local child = successors[i]
    local at = child.place - from
    if at + ROW_BYTES > #bytes then
      bytes, from, at = read_from(flow, successors, i), child.place, 0
    end
    local open = row_bytes.open_edges(bytes, at)
    if not open or open < 1 or open == 1 and not child.plain then return false end
    child_bytes[i], child_at[i], child_open[i] = bytes, at, open
  end
  return true
end

-- Counts a node of another lane than the last one that the call has counted.
local function count(c, commits, flow, node, active, waiting)
  local counts = lane_counts.add(c.at, flow, node.ordinal, node.lane_id, active, waiting)
  commits.counts, commits.lane = counts, counts and node.lane_id
end

-- Leases a node that no longer waits to the completing worker, or enters it into its lane. Returns its row, and its event in two
-- parts. `name` is the name of the completed node if its result is an input of this one.
local function release(c, flow, node, stem, name, result)
  local execution_id, next_up = stem .. node.suffix, c.next_up
  local active = next_up and row_lease.take(c, next_up, flow, execution_id, node, name, result)
  local commits = c.commits
  if commits.lane == node.lane_id then
    local counts = commits.counts
    counts[COUNTED_WAITING] = counts[COUNTED_WAITING] - 1
    if active then counts[COUNTED_ACTIVE] = counts[COUNTED_ACTIVE] + 1 end
  else
    count(c, commits, flow, node, active and 1 or 0, -1)
  end
  if active then return active, node.line_started or row_lease.line_of(node, 'started', 'line_started'), next_up.logged_instance end
  local core = { created_at = flow.created_text, priority = node.priority, managed = '1', fair_key = flow.fair_key or '' }
  order.enter(c, node.lane_id, execution_id, core)
  order.announce(c, execution_id, core, node.lane_id)
  return row_bytes.ready(commits.now), '', ''
end

-- Returns the row of a node's i-th successor with the edge between them resolved, and its event in two parts.
local function resolve_edge(c, flow, successors, i, stem, result)
  local open = child_open[i]
  if open > 1 then return row_bytes.waiting(child_bytes[i], child_at[i], open - 1), '', '' end
  return release(c, flow, successors[i], stem, successors.names[i], result)
end

-- Writes adjacent rows, beginning with the row of `node`. `head`, unless it is nil, is written at `head_at` of the header.
local function write(flow, bytes, head_at, head, node, rows)
  local at = node.place
  if not head then
    redis.call('SETRANGE', flow.nodes_key, node.place_text, rows)
  elseif at <= #bytes and at - BEHIND_OPEN <= MAX_GAP then
    redis.call('SETRANGE', flow.nodes_key, head_at, head .. string.sub(bytes, BEHIND_OPEN + 1, at) .. rows)
  else
    redis.call('SETRANGE', flow.nodes_key, head_at, head)
    redis.call('SETRANGE', flow.nodes_key, node.place_text, rows)
  end
end

-- Resolves the edges to several nodes. Writes their rows, and returns the events.
local function resolve_edges(c, flow, successors, stem, result)
  local events, rows, first = {}, {}, successors[1]
  order.gather(c)
  for i = 1, successors.count do
    local line, by
    rows[#rows + 1], line, by = resolve_edge(c, flow, successors, i, stem, result)
    events[i] = line .. by
    local next_one = successors[i + 1]
    if not next_one or next_one.ordinal ~= successors[i].ordinal + 1 then
      redis.call('SETRANGE', flow.nodes_key, first.place_text, table.concat(rows))
      rows, first = {}, next_one
    end
  end
  order.write_gathered(c)
  return table.concat(events)
end

-- Writes the changes of a run's rows after a success, with the end of the run when `open` is 1, and with `behind`, which is nil or is written after the last row. Returns the
-- text for the event log.
local function succeed(c, flow, bytes, open, node, done, successors, stem, result, behind)
  local head_at, head = FLAGS + 1, nil
  if open == 1 then
    head_at = CLOSED
    head = struct.pack(run_head.STANDING, run_list.ended(c, flow.id), string.byte(bytes, FLAGS + 1) - PLAIN, 0)
  elseif not flow.is_small then
    head = struct.pack(run_head.OPEN_FORMAT, open - 1)
  end
  local count, line = successors.count, node.line_success or row_lease.line_of(node, 'success', 'line_success')
  if count == 1 and successors.last == node.ordinal + 1 then
    local child, event, by = resolve_edge(c, flow, successors, 1, stem, result)
    write(flow, bytes, head_at, head, node, done .. child)
    return c.now_text .. line .. event .. by
  end
  if behind then
    redis.call('SET', flow.nodes_key,
      string.sub(bytes, 1, head_at) .. head .. string.sub(bytes, BEHIND_OPEN + 1, node.place) .. done
        .. row_inputs.between(flow, bytes) .. behind)
    return c.now_text .. line
  end
  write(flow, bytes, head_at, head, node, done)
  if count == 1 then
    local child, event, by = resolve_edge(c, flow, successors, 1, stem, result)
    redis.call('SETRANGE', flow.nodes_key, successors[1].place_text, child)
    return c.now_text .. line .. event .. by
  end
  return c.now_text .. line .. (count > 0 and resolve_edges(c, flow, successors, stem, result) or '')
end

-- Creates the data that the completions of a call share: whether none of them is of the usual case, the entries that leave and
-- enter the index of leases, which row_complete.flush writes for all of them, the last lane and its counts, the time, and the
-- last bytes of the rows of nodes that have succeeded.
local function begin_commits(c)
  local now = row_bytes.time(c.now)
  local commits = {
    in_doubt = call.in_doubt(c), left = call.short_list(), entered = call.short_list(), now = now, ended = row_bytes.ended(now),
    terms = nil, lane = nil, counts = nil,
  }
  c.commits = commits
  return commits
end

-- The index of leases is often empty.
local CALLS_PER_TREE = 32

-- Writes the index of leases.
function row_complete.flush(c)
  local commits = c.commits
  if not commits then return end
  local index_key = key.index_lease_expiry(c)
  c.commits = nil
  if commits.entered[1] then call.keep_as_tree(c, index_key, CALLS_PER_TREE) end
  call.chunked('ZREM', index_key, commits.left)
  call.chunked('ZADD', index_key, commits.entered)
end

-- Returns the bytes that contain the row of a node and usually the rows of its successors, and the offset of these bytes.
local function read_rows(flow, node)
  local place = node.place
  local successors = graph_store.successors(flow.graph, node)
  local last = row.place((successors and successors.last or node.ordinal) + 1)
  if last - place > MAX_READ then last = place + ROW_BYTES end
  return redis.call('GETRANGE', flow.nodes_key, node.place_text, last - 1), place
end

-- Returns how many nodes of a small run are open. `bytes`: those that were read first.
local function count_open(flow, bytes)
  if flow.count == 1 then return 1 end
  if #bytes < row.place(flow.count + 1) then bytes = redis.call('GETRANGE', flow.nodes_key, 0, -1) end
  return row.count_open(bytes, flow.count)
end

-- Returns the data of a completion of the usual kind: the node, its row up to the changed part (see row_bytes.held_since), its
-- successors, whose rows row_complete has read, the record of its run, the first bytes of the run's rows, and the number of its
-- open nodes, which is nil in a small run with more than one. Returns nil for another completion.
local function look_up(c, commits, completion, execution_id, ordinal)
  local flow_id = string.sub(execution_id, -36, -5) .. '0000'
  if row.is_loaded(flow_id) then return nil end
  local flow, bytes, open, node = run_rows.plain(c, flow_id, ordinal)
  if not node then return nil end
  local rows, from = bytes, 0
  if node.place + ROW_BYTES > #bytes then rows, from = read_rows(flow, node) end
  local lease_id = completion.lease_id
  local since = row_bytes.held_since(rows, node.place - from, lease_id, c.now)
  if not since or row_record.attempt_of(lease_id) ~= completion.attempt_id then return nil end
  local successors = node.successors
  if successors == nil then successors = graph_store.successors(flow.graph, node) end
  if not successors or successors.count > c.budget or not read_children(flow, rows, from, successors) then
    return nil
  end
  -- When a node that ends has successors, other nodes are open.
  if flow.is_small then open = successors.count == 0 and count_open(flow, bytes) or nil end
  return node, row_bytes.done(successors.count) .. since .. commits.ended .. lease_id, successors, flow, bytes, open
end

-- Commits a completion if it is of the usual kind. Reports whether it did.
function row_complete.commit(c, completion)
  local execution_id, commits = completion.execution_id, c.commits or begin_commits(c)
  if string.byte(execution_id, -22) ~= 56 or completion.lease_epoch ~= '1' or commits.in_doubt then return false end
  local ordinal = tonumber(string.sub(execution_id, -4), 16)
  if not ordinal then return false end
  local node, done, successors, flow, bytes, open = look_up(c, commits, completion, execution_id, ordinal)
  if not node then return false end
  -- `open` is unknown when the completed node has successors, which items of a map do not have.
  if flow.fail_fast and open and item_results.add(flow.results_key, completion.result, open - 1, flow.count) then return false end
  c.budget = c.budget - successors.count
  if successors.others then row_edges.postpone(c, execution_id) end
  local result, left = completion.result, commits.left
  -- The result of the only node of a run is stored after its row, where it has room.
  local behind = flow.count == 1 and result ~= '' and row_inputs.behind(result) or nil
  if not behind then redis.call('HSET', flow.results_key, node.ordinal_text, result) end
  left[#left + 1] = execution_id
  if commits.lane == node.lane_id then
    local counts = commits.counts
    counts[COUNTED_ACTIVE] = counts[COUNTED_ACTIVE] - 1
  else
    count(c, commits, flow, node, -1, 0)
  end
  local text = succeed(c, flow, bytes, open, node, done, successors, string.sub(execution_id, 1, -5), result, behind)
  if node.attempt_timeout then call.leave(c, 'ZREM', key.index_attempt_timeout(c), execution_id) end
  if open == 1 then
    text = text .. '\n' .. graph.close_plain(c, flow.id, flow, graph_store.result(flow.graph) == ordinal and result or nil)
  end
  event_log.push(c, flow.id, flow.events_key, text)
  return true
end
