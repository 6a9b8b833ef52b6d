-- Ends a node in the usual case, in few steps: an attempt has only run, the first one or one after failures, and its success only
-- lets other nodes of its run start, or counts at their joins. All other cases use the general functions, with the same effect. It
-- works on the bytes of the rows, and writes them at once, so it does not handle runs that the call has loaded.

local known, ORDINAL_OF = run_rows.known, row.ORDINAL_OF
local HEAD_BYTES, ROW_BYTES, PLAIN = run_head.BYTES, node_row.BYTES, run_head.PLAIN
local LEASE_BYTES = #row.NO_LEASE
-- Bytes of the header before the state, and before the number of open nodes. Only the number of events follows the latter.
local STATE, OPEN = run_head.STATE_AT - 1, run_head.OPEN_AT - 1
local ACTIVE = row.COUNTED_ACTIVE

-- Maximum number of bytes that are read together for the rows of a node and of its successors, and of unneeded ones between the rows
-- of two successors: that takes less time than another command.
local MAX_READ = 1024

-- For the successors of a node: the bytes that contain their rows, the offset of each there, and the number of its open edges.
-- They are valid until the next completion.
local child_bytes, child_at, child_open = {}, {}, {}

-- Returns the bytes from the row of a node's i-th successor on, with the rows of the next ones that are close to it.
local function read_from(run, successors, i)
  local first = successors[i].place
  local last = first
  for next_one = i + 1, successors.count do
    local place = successors[next_one].place
    if place - last > ROW_BYTES + MAX_READ then break end
    last = place
  end
  return redis.call('GETRANGE', run.key, first, last + ROW_BYTES - 1)
end

-- Reads the successors of a node. Reports whether all of them are of the usual case. `bytes` are the bytes of the run's rows that
-- have been read, and begin after `from`.
local function read_children(run, bytes, from, successors)
  for i = 1, successors.count do
    local child = successors[i]
    local at = child.place - from
    if at + ROW_BYTES > #bytes then
      bytes, from, at = read_from(run, successors, i), child.place, 0
    end
    local open = row_bytes.open_edges(bytes, at)
    if not open or open < 1 or open == 1 and not child.plain then return false end
    child_bytes[i], child_at[i], child_open[i] = bytes, at, open
  end
  return true
end

-- For the joins among the successors of a node: the results of usual_join.open_to.
local join_open = {}

-- Does the same for a node with joins among its successors. Returns the successors without joins, or all when the success satisfies
-- the only one, which is a join; false for other cases.
local function read_with_joins(run, bytes, from, successors, stem)
  local n = 0
  for i = 1, successors.count do
    local child = successors[i]
    local at = child.place - from
    if at + ROW_BYTES > #bytes then
      bytes, from, at = read_from(run, successors, i), child.place, 0
    end
    local open = row_bytes.open_edges(bytes, at)
    if child.join then
      open = usual_join.open_to(run, stem, successors, child, open)
      join_open[i] = open
    end
    if not open or open < 1 and not child.join or open == 1 and not (child.plain or child.join) then return false end
    if not child.join or open == 1 then
      n = n + 1
      child_bytes[n], child_at[n], child_open[n] = bytes, at, open
    end
  end
  return n > successors.rest.count and successors or successors.rest
end

-- Counts a node of a lane that has waited for upstreams.
local function count_ready(x, here, run, node, is_leased)
  if here.lane ~= node.lane_id then return turn.count(here, run, node, is_leased and 1 or 0, -1) end
  local counts = here.counts
  counts[row.COUNTED_WAITING] = counts[row.COUNTED_WAITING] - 1
  if is_leased then counts[ACTIVE] = counts[ACTIVE] + 1 end
end

-- Enters a node that no longer waits for upstreams in its lane. Returns its row.
local function enter_lane(x, here, run, execution_id, node)
  local core = {
    created_at = run.created_text, priority = node.priority, managed = '1', fair_key = run.fair_key or '', start_timeout = node.start_timeout,
  }
  order.enter(here.c, node.lane_id, execution_id, core)
  if node.join then x.looked, x.waiting = false, turn.MANY end -- it waits in the lane of the worker, too
  order.announce(here.c, execution_id, core, node.lane_id)
  return row_bytes.ready(x.now)
end

-- Returns the row of a node's i-th successor with the edge between them resolved, and its event in two parts: as a line of the event
-- log, or as the course of the run contains it. A node that no longer waits is leased to the worker, or enters
-- its lane, as a join always does.
local function resolve_edge(x, here, run, successors, i, stem, result)
  local open = child_open[i]
  if open > 1 then return row_bytes.waiting(child_bytes[i], child_at[i], open - 1), '', '' end
  local node = successors[i]
  local execution_id, is_leased = stem .. node.suffix, usual_lease.may_hand_on(x, here, run, node)
  count_ready(x, here, run, node, is_leased)
  if not is_leased then return enter_lane(x, here, run, execution_id, node), '', '' end
  local lease_id = usual_lease.hand_on(x, here, run, execution_id, node, successors.names[i], result)
  local leased = row_bytes.leased(here.leased, lease_id, node.limits)
  if not run.logged then return leased, node.started, '' end
  return leased, node.line_started or usual_lease.line_of(node, 'started', 'line_started'), x.logged_instance
end

-- Resolves the edges to several nodes. Writes their rows, and returns the events.
local function resolve_edges(x, here, run, successors, stem, result)
  local events, rows, first = {}, {}, successors[1]
  order.gather(here.c)
  for i = 1, successors.count do
    local line, by
    rows[#rows + 1], line, by = resolve_edge(x, here, run, successors, i, stem, result)
    events[i] = line .. by
    local next_one = successors[i + 1]
    if not next_one or next_one.ordinal ~= successors[i].ordinal + 1 then
      redis.call('SETRANGE', run.key, first.place_text, table.concat(rows))
      rows, first = {}, next_one
    end
  end
  order.write_gathered(here.c)
  return table.concat(events)
end

-- Returns the bytes that contain the row of a node and usually the rows of its successors, and the offset of these bytes.
local function read_rows(run, node, successors)
  local place = node.place
  local last = row.place(run.count, (successors and successors.last or node.ordinal) + 1)
  if last - place > MAX_READ then last = place + ROW_BYTES end
  return redis.call('GETRANGE', run.key, node.place_text, last - 1), place
end

-- Returns how many nodes of a small run are open. `bytes`: those that were read first.
local function count_open(run, bytes)
  if run.count == 1 then return 1 end
  if #bytes < row.place(run.count, run.count + 1) then bytes = redis.call('GETRANGE', run.key, 0, -1) end
  return row.count_open(bytes, run.count)
end

-- Ends the run whose last node has succeeded. `bytes`: its first bytes. Returns the outcome of the completion: when nothing but the
-- process of the worker waits for the run, and the result of the node is the run's result, the process learns of the end by the
-- outcome.
local function close(x, here, run, bytes, node, result)
  local waiters, outcome, head = string.sub(bytes, run_head.ORIGIN_AT, run_head.WATCHED_AT), 'OK', run.graph.head
  if (head and head.result or graph_store.result(run.graph)) ~= node.ordinal then
    result = nil
  elseif waiters == x.alone then
    waiters, outcome = run_watch.NOT_AWAITED, 'ended'
  end
  graph.close_plain(here.c, run.id, run, result, waiters)
  return outcome
end

-- Writes the end of the only node of a run.
local function write_only(x, here, run, bytes, flags, done, result)
  local head, before = struct.pack(run_head.STANDING, run_list.ended(here.c, run.packed_id), flags - PLAIN, 0,
    run.logged and row.LOGGED or row_log.EVENTS_OF_ONE), row_bytes.completed(x, bytes)
  local length = result ~= '' and run_data.length_of(result)
  if not length then
    redis.call('HSET', run_rows.results_key(run), '1', result)
    redis.call('SETRANGE', run.key, STATE, before .. head .. done)
  else
    redis.call('SET', run.key, string.sub(bytes, 1, STATE) .. before .. head .. done .. run_data.before_result(run, bytes) .. length .. result)
  end
end

-- Writes the row of a node that has succeeded, and rows after it, with the header, in other cases than row_log.write_small. `log`:
-- the events, unless they are logged. `open`: how many nodes were open.
local function write_other(x, here, run, bytes, flags, open, events, log, node, rows)
  local at, head = OPEN, nil
  if open == 1 then
    at = STATE
    head = row_bytes.completed(x, bytes)
      .. struct.pack(run_head.END, run_list.ended(here.c, run.packed_id), flags - PLAIN, 0)
  elseif not run.is_small then
    head = struct.pack(run_head.OPEN_FORMAT, open - 1)
  end
  if not head then
    redis.call('SETRANGE', run.key, node.place_text, rows)
  else
    if not run.logged then head = head .. row_log.extend(run, bytes, events, log, open == 1 and 1 or 0) end
    row_log.write(run, bytes, at, head, node, rows)
  end
end

-- Ends a node of a run with others: writes its row, its result, and the rows of its successors. `log`: its event, as resolve_edge
-- returns events. Returns it with the events of the successors.
local function write_one(x, here, run, node, successors, bytes, flags, open, done, stem, result, events, log)
  if not (run.is_small and run_data.add_result(run, node.ordinal, result)) then
    redis.call('HSET', run_rows.results_key(run), node.ordinal_text, result)
  end
  local count = successors.count
  if count == 1 then
    local child, event, by = resolve_edge(x, here, run, successors, 1, stem, result)
    log = log .. event .. by
    if successors.last == node.ordinal + 1 then
      done = done .. child
    else
      redis.call('SETRANGE', run.key, successors[1].place_text, child)
    end
  elseif count > 1 then
    log = log .. resolve_edges(x, here, run, successors, stem, result)
  end
  if run.is_small and open ~= 1 and not run.logged then
    row_log.write_small(run, bytes, events, log, node, done)
  else
    write_other(x, here, run, bytes, flags, open, events, log, node, done)
  end
  if successors.joins then usual_join.follow(x, here.c, run, stem, successors[1]) end
  return log
end

-- Commits the result of a node if its end is of the usual kind. `held_as`, `packed_id`: see `lease` and `run` of ffx_work. Returns
-- the outcome; false for another end.
function usual_end.commit(x, execution_id, held_as, packed_id, result)
  local here, stem = turn.enter(x, execution_id), string.sub(execution_id, 1, -5)
  if here.in_doubt then return false end
  local run, lease_id, attempt = known.runs[stem], held_as, ''
  if #held_as > LEASE_BYTES then lease_id, attempt = string.sub(held_as, 1, LEASE_BYTES), string.sub(held_as, LEASE_BYTES + 2) end
  if not run or run.at ~= here.at then
    if string.byte(stem, -18) ~= 56 or not turn.is_of(here, execution_id) then return false end
    local rows_key = here.flow_keys .. stem .. '0000:nodes'
    local bytes = redis.call('GETRANGE', rows_key, '0', usual_one.LAST_OF_FIRST)
    if string.sub(bytes, run_head.COUNT_AT, run_head.LISTED_AT - 1) == '\1\0' and string.byte(bytes) == run_head.FORM
      and attempt == '' and not (call.held.rows and row.is_loaded(row.run_id(execution_id))) then
      local outcome = usual_one.commit(x, here, execution_id, rows_key, bytes, lease_id, packed_id, result)
      if outcome then return outcome end
    end
    run = run_rows.find_plain(here.c, stem, bytes)
    if not run then return false end
  end
  if call.held.rows and row.is_loaded(run.id) then return false end
  local ordinal = ORDINAL_OF[string.sub(execution_id, -4)] or row.ordinal(execution_id)
  local node = run.graph.nodes[ordinal] or graph_store.find_node(run.graph, ordinal)
  if not node then return false end
  if node.step ~= false and run.is_small and not run.logged and attempt == ''
    and usual_step.commit(x, here, run, node, stem, lease_id, result) then
    return 'OK'
  end
  local bytes = redis.call('GETRANGE', run.key, '0', run.read_to or node.read_to or run_rows.last_to_read(run, node))
  if #bytes < HEAD_BYTES then return false end
  local _, identity, marks, _, flags, open, events = struct.unpack(run_head.PENDING, bytes, run_head.COUNT_AT)
  if flags % (2 * PLAIN) < PLAIN or identity ~= run.identity then return false end
  local successors = node.successors
  if successors == nil then successors = graph_store.successors(run.graph, node) end
  if not successors then return false end
  local rows, at = bytes, node.place
  if at + ROW_BYTES > #bytes then
    rows, at = read_rows(run, node, successors), 0
    if #rows < ROW_BYTES then return false end
  end
  local begin, ends, since, _, _, held_by = struct.unpack(node_row.HELD, rows, at + 1)
  if held_by ~= lease_id or ends <= x.c.now then return false end
  local count, again, index = successors.count, nil, nil
  if begin ~= row_bytes.ACTIVE and begin ~= row_bytes.AHEAD then
    again, index = row_bytes.done_again(begin, attempt, lease_id, count)
    if not again or events ~= row.LOGGED then return false end
  elseif attempt ~= '' then
    return false
  end
  if count > x.budget then return false end
  local all = successors
  if all.joins then
    successors = read_with_joins(run, rows, node.place - at, all, stem)
    if not successors then return false end
  elseif count > 0 and not read_children(run, rows, node.place - at, all) then
    return false
  end
  -- When a node that ends has successors other than joins, these are open. A join may have ended before.
  if run.is_small then open = successors.count == 0 and count_open(run, bytes) or nil end
  if open == 1 and marks % 2 == run_head.JUDGED then return false end
  local sent = string.byte(result) == 0
  if sent and stored_value.is_missing(here.at.prefix, result) then return stored_value.MISSING end
  if run.fail_fast and open and item_results.add(run, run_rows.results_key(run), result, open - 1) then return false end
  if sent then result = stored_value.keep_of(here.at, run, ordinal, result) end
  local left_count = here.left_count + 1
  here.left[left_count], here.left_count = execution_id, left_count
  if here.lane == node.lane_id then
    local counts = here.counts
    counts[ACTIVE] = counts[ACTIVE] - 1
  else
    turn.count(here, run, node, -1, 0)
  end
  if all.joins then usual_join.count_all(here.c, run, stem, node, all, join_open) end
  local done, log = again or row_bytes.done(count), node.succeeded
  run.logged = events == row.LOGGED
  if run.logged then
    log = again and '\n' .. encode.logged('success', node.name, index, '') or node.line_success
      or usual_lease.line_of(node, 'success', 'line_success')
  end
  if run.count == 1 then
    write_only(x, here, run, bytes, flags, done .. since .. x.ended .. lease_id, result)
  else
    x.budget, done = x.budget - count, done .. since .. x.ended .. lease_id
    if successors.others then row_edges.postpone(here.c, execution_id) end
    log = write_one(x, here, run, node, successors, bytes, flags, open, done, stem, result, events, log)
  end
  if node.attempt_timeout then call.leave(here.c, 'ZREM', key.index_attempt_timeout(here.c), execution_id) end
  local outcome = open == 1 and close(x, here, run, bytes, node, result) or 'OK'
  if not run.logged then
    turn.touch(here, run.id)
    return outcome
  end
  if open == 1 then log = log .. '\n' .. encode.logged('flow_success', '', '', '') end
  event_log.push(here.c, run.id, run_rows.events_key(run), here.c.now_text .. log)
  return outcome
end
