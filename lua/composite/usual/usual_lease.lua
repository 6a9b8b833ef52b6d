-- Leases a node for its first attempt with its graph and the record of its run alone: one that a completion makes ready, to the
-- completing worker, or one that waits in the lane.

local known, NOTHING = run_rows.known, {}

local held = call.held

-- Marks an execution as a node of a run.
local OF_RUN = { managed = '1' }

-- Returns the line of a node in the event log, without the part after the attempt. It is kept with the node under a name.
function usual_lease.line_of(node, event, name)
  local line = '\n' .. encode.logged(event, node.name, '0', '')
  node[name] = line
  return line
end

-- Returns the results that are inputs of a node, and whether that is all of them: the one that the call has at hand, or the
-- stored ones.
local function inputs_of(c, run, node, name, result)
  local count = node.input_count
  if count == '0' then return NOTHING, true end
  if count == '1' and name then
    if #result > claim_reply.MAX_INLINE_BYTES then return NOTHING, false end
    return { { name, result, row_inputs.only_feeder(run, node) } }, true
  end
  if not claim_reply.may_hand_out(c, tonumber(count)) then return NOTHING, false end
  return row_inputs.of_node(run, node, claim_reply.MAX_INLINE_BYTES)
end

-- Reads the first executions of the lane, with their scores: one more than can be leased in addition to the nodes that the rest of
-- the completions are expected to make ready.
local function look(x)
  local more = x.room - x.ending
  if more < 0 then more = 0 end
  local heads = redis.call('ZRANGE', key.lane_eligible(call.home(x.c), x.lane), '0', more, 'WITHSCORES')
  local found = #heads / 2
  x.looked, x.heads, x.request.drained = true, heads, found == 0
  if found <= more then x.waiting = found end
  if found > 0 then
    -- After the mark of a pause, no execution is leased directly.
    if heads[1] == pauses.MARK then x.urgent, x.waiting = -turn.MANY, turn.MANY else x.urgent = tonumber(heads[2]) end
  end
end

-- Reports whether a node may be leased although others wait in its lane, the first with the score `urgent`. An older execution
-- that is at least as urgent comes first, and so do all where keys take turns.
local function may_pass(x, run, node, urgent)
  if node.priority_number == 0 and (urgent < run.created or x.fair) then return false end
  if node.priority_number == 0 and x.fair == false then return true end
  x.fair = order.is_fair(x.c, x.lane)
  return claim_order.may_pass(x.c, x.request, { created_at = run.created, priority = node.priority_number }, urgent)
end

-- Reports whether a node that no longer waits for upstreams is leased to the worker that completed the last of them: otherwise it
-- is to enter its lane.
function usual_lease.may_hand_on(x, here, run, node)
  local taken = #x.leased + #x
  if taken >= x.room or node.lane_id ~= x.lane or node.join then return false end
  if node.known_to ~= x.kinds and not turn.knows(x, node) then return false end
  if not x.looked then look(x) end
  local urgent, limits = x.urgent, node.limits
  -- Where the call has room for all that wait, in addition to this node, the order does not matter.
  if urgent and (limits or taken + x.waiting >= x.room) and not may_pass(x, run, node, urgent) then return false end
  if run.budget_ids and budget_gate.closed(here.c, run) then return false end
  return not limits or limit_admission.take_room(x.request, limits)
end

-- Begins the lease of a node. Returns its id, and its place in the leases of the call. The caller adds its description there.
local function begin_lease(x, here, execution_id, node)
  if not here.leased then turn.lease(x, here) end
  local n, entered, e = #x.leased, here.entered, here.entered_count
  entered[e + 1], entered[e + 2], here.entered_count = x.expires, execution_id, e + 2
  if node.attempt_timeout then leasing.arm_timeout(here.c, execution_id, node) end
  return turn.lease_id(x, n), n + 1
end

local function mark_of(node)
  node.mark = turn.mark_of(node)
  return node.mark
end

-- Leases such a node to the worker. `result` is the result of the completion, with a name if it is an input of this node. Returns
-- the id of the lease.
function usual_lease.hand_on(x, here, run, execution_id, node, name, result)
  local lease_id, n = begin_lease(x, here, execution_id, node)
  if node.input_count == '1' and name and not node.uses_flow_input and not x.request.repeated then
    x.leased[n] = '>' .. x.completion .. (node.mark or mark_of(node)) .. x.expires_text
    return lease_id
  end
  local inputs, complete = inputs_of(here.c, run, node, name, result)
  x.leased[n] = row_claimed.describe(here.c, run, execution_id, lease_id, x.expires_text,
    node.uses_flow_input and row_inputs.of_plain(here.c, run), inputs, complete, node.limits)
  return lease_id
end

-- Reports whether the call may lease a run that it creates: the worker has room, and nothing waits in the lane.
function usual_lease.may_begin(x)
  if #x.leased >= x.room then return false end
  if not x.looked then look(x) end
  return not x.urgent
end

-- Leases a root of a run that the call creates, if its lane is empty. `input`: the input of the run. Returns its row; nil when it is to
-- enter its lane.
function usual_lease.begin(x, here, run, execution_id, node, input)
  if node.lane_id ~= x.lane or not node.plain then return nil end
  if node.known_to ~= x.kinds and not turn.knows(x, node) or not usual_lease.may_begin(x) then return nil end
  local c, limits = here.c, node.limits
  if run.budget_ids and budget_gate.closed(c, run) or limits and not limit_admission.take_room(x.request, limits) then
    return nil
  end
  local lease_id, n = begin_lease(x, here, execution_id, node)
  x.leased[n] = row_claimed.describe(c, run, execution_id, lease_id, x.expires_text, node.uses_flow_input and input, NOTHING, true, limits)
  return row_bytes.leased(here.leased, lease_id, limits)
end

-- Leases an execution of a plain run that waits in the lane for its first attempt. The worker knows its activity, no budget is
-- used up, and limits have room. Reports whether it did: the general functions handle any other execution, and nodes of a large
-- run, because a claim may take so many of them that it is better to write them together.
function usual_lease.take(x, execution_id)
  local here, stem = turn.enter(x, execution_id), string.sub(execution_id, 1, -5)
  local run = known.runs[stem]
  if not run or run.at ~= here.at then
    if string.byte(stem, -18) ~= 56 or not turn.is_of(here, execution_id)
      or held.rows and row.is_loaded(row.run_id(execution_id)) then
      return false
    end
    local rows_key = here.flow_keys .. stem .. '0000:nodes'
    local bytes = redis.call('GETRANGE', rows_key, '0', usual_one.LAST_OF_FIRST)
    if string.sub(bytes, run_head.COUNT_AT, run_head.LISTED_AT - 1) == '\1\0' and string.byte(bytes) == run_head.FORM then
      return usual_one.take(x, here, execution_id, rows_key, bytes)
    end
    run = run_rows.find_plain(here.c, stem, bytes)
  end
  if not run or not run.is_small or held.rows and row.is_loaded(run.id) then return false end
  local ordinal = row.ORDINAL_OF[string.sub(execution_id, -4)] or row.ordinal(execution_id)
  local node = run.graph.nodes[ordinal] or graph_store.find_node(run.graph, ordinal)
  if not node or not node.may_take or node.lane_id ~= x.lane or node.known_to ~= x.kinds and not turn.knows(x, node) then return false end
  local bytes = redis.call('GETRANGE', run.key, '0', run.read_to or node.read_to or run_rows.last_to_read(run, node))
  local c, limits = here.c, node.limits
  local events = run_rows.events_of(run, bytes)
  if not events or not row_bytes.is_ready(bytes, node.place) or run.budget_ids and budget_gate.closed(c, run)
    or limits and not limit_admission.take_room(x.request, limits) then
    return false
  end
  if node.start_timeout then call.leave(c, 'ZREM', key.ffx_start_deadlines(c), execution_id) end
  local lease_id, n = begin_lease(x, here, execution_id, node)
  local inputs, complete = inputs_of(c, run, node)
  x.leased[n] = row_claimed.describe(c, run, execution_id, lease_id, x.expires_text,
    node.uses_flow_input and row_inputs.of_plain(c, run, bytes), inputs, complete, limits)
  local leased = row_bytes.leased(here.leased, lease_id, limits)
  if events == row.LOGGED then
    redis.call('SETRANGE', run.key, node.place_text, leased)
    event_log.push(c, run.id, run_rows.events_key(run),
      c.now_text .. (node.line_started or usual_lease.line_of(node, 'started', 'line_started')) .. x.logged_instance)
  else
    row_log.write_small(run, bytes, events, node.started, node, leased)
    turn.touch(here, run.id)
  end
  if here.lane == node.lane_id then
    local counts = here.counts
    counts[row.COUNTED_ACTIVE] = counts[row.COUNTED_ACTIVE] + 1
  else
    turn.count(here, run, node, 1, 0)
  end
  return true
end

-- Leases executions from the head of the lane, in its order, until the call has as many as the worker requests. It stops before
-- the first one that needs the general functions, and where the order of the lane is not the order of its index: keys take turns,
-- priorities differ, or a pause stops the lane. The index is `eligible_key`.
function usual_lease.take_from_lane(x, eligible_key)
  local request, wanted, heads, found = x.request, x.room - #x.leased, x.heads, nil
  if wanted <= 0 or x.c.pauses then return end
  -- One more entry shows whether there are more, and so whether the order matters.
  found = heads and not x.is_mixed and not x.c.lanes and #heads / 2
  if not found or found <= wanted and found ~= x.waiting then
    heads = redis.call('ZRANGE', eligible_key, '0', wanted, 'WITHSCORES')
    found = #heads / 2
  end
  if found == 0 then
    request.drained = true
    return
  end
  if heads[1] == pauses.MARK or order.is_fair(x.c, x.lane) or found > wanted and claim_order.is_prioritized(x.c, tonumber(heads[2])) then return end
  local taken, count = { nil, nil, nil, nil }, 0
  while count < found and count < wanted
    and (usual_lease.take(x, heads[2 * count + 1]) or usual_retry.take(x, heads[2 * count + 1], begin_lease, inputs_of)) do
    count = count + 1
    taken[count] = heads[2 * count - 1]
  end
  if count > 0 then
    call.chunked('ZREM', eligible_key, taken)
    for _ = 1, x.c.lanes and count or 0 do wake.taken(x.c, x.lane, OF_RUN) end
  end
  if count == wanted or count == found then request.drained = found <= wanted end
end
