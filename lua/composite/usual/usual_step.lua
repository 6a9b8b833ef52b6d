-- Ends a node of a small run whose only successor is the next node, waits for nothing else, and goes to the same worker: the usual
-- step of a chain, which is several times as frequent as any other end of a node. usual_end handles the others, with the same effect.

local HEAD_BYTES, ROW_BYTES, PLAIN = run_head.BYTES, node_row.BYTES, run_head.PLAIN
local PENDING, COUNT_AT, HELD = run_head.PENDING, run_head.COUNT_AT, node_row.HELD
local EVENTS, MAX_RESULT = run_head.EVENTS_AT - 1, run_data.MAX_BYTES
local COUNTED_ACTIVE, COUNTED_WAITING = row.COUNTED_ACTIVE, row.COUNTED_WAITING

-- The beginning of the row of a node that waits for one upstream, up to the resolved edges.
local waiting_for_one

-- Maximum number of bytes between two changes that are written again unchanged: that takes less time than another command.
local MAX_GAP = 256

-- Returns the data of the graph for the step of a node of a small run, which is kept with the node; false for a node with other
-- successors.
local function step_of(run, node)
  local successors, step = graph_store.successors(run.graph, node), false
  local child = successors and successors.count == 1 and successors[1]
  if child and child.ordinal == node.ordinal + 1 and child.plain and not child.join and not successors.others
    and not node.attempt_timeout and child.input_count == '1' and successors.names[1] and not child.uses_flow_input then
    step = {
      child = child, place = node.place, last = number.text(child.place + ROW_BYTES - 1), noted = node.succeeded .. child.started,
      done = row_bytes.done(1), suffix = child.suffix, limits = child.limits, begin = (child.limits and row_bytes.AHEAD or row_bytes.ACTIVE),
      result = struct.pack('<H', node.ordinal), mark = turn.mark_of(child),
    }
  end
  node.step = step
  return step
end

-- Numbers of events, packed.
local events_of = {}
local function packed_events(events)
  local text = struct.pack(run_head.EVENTS_FORMAT, events)
  events_of[events] = text
  return text
end

-- Ends a node of a run that the interpreter knows: see usual_end.commit. Reports whether it did.
function usual_step.commit(x, here, run, node, stem, lease_id, result)
  local step, length = node.step, #result
  if step == nil then step = step_of(run, node) end
  if not step or length > MAX_RESULT or string.byte(result) == 0 or x.request.repeated or x.budget < 1 then return false end
  local child, rows_key = step.child, run.key
  if not step.limits and not usual_lease.may_hand_on(x, here, run, child) then return false end
  local bytes = redis.call('GETRANGE', rows_key, '0', step.last)
  local place = step.place
  if #bytes < place + 2 * ROW_BYTES then return false end
  local _, identity, _, _, flags, _, events = struct.unpack(PENDING, bytes, COUNT_AT)
  local begin, ends, since, _, _, held_by = struct.unpack(HELD, bytes, place + 1)
  if not waiting_for_one then waiting_for_one = string.sub(row.initial(1), 1, node_row.TOLD_AT - 1) end
  if held_by ~= lease_id or ends <= x.c.now or identity ~= run.identity or flags % (2 * PLAIN) < PLAIN or events == row.LOGGED
    or begin ~= row_bytes.ACTIVE and begin ~= row_bytes.AHEAD
    or string.sub(bytes, place + ROW_BYTES + 1, place + ROW_BYTES + node_row.TOLD_AT - 1) ~= waiting_for_one
    or step.limits and not usual_lease.may_hand_on(x, here, run, child) then
    return false
  end
  local left, entered, n, e = here.left, here.entered, here.left_count + 1, here.entered_count
  local lane, next_id, leased = node.lane_id, stem .. step.suffix, x.leased
  if not here.leased then turn.lease(x, here) end
  if here.lane == lane and child.lane_id == lane then
    local counts = here.counts
    counts[COUNTED_WAITING] = counts[COUNTED_WAITING] - 1
  else
    turn.count(here, run, node, -1, 0)
    turn.count(here, run, child, 1, -1)
  end
  local lease_number = #leased
  local next_lease = turn.lease_id(x, lease_number)
  left[n], here.left_count = stem .. node.suffix, n
  entered[e + 1], entered[e + 2], here.entered_count = x.expires, next_id, e + 2
  if child.attempt_timeout then leasing.arm_timeout(here.c, next_id, child) end
  leased[lease_number + 1] = '>' .. x.completion .. step.mark .. x.expires_text
  x.budget = x.budget - 1
  redis.call('APPEND', run.data_key or run_data.key_of(run), step.result .. run_data.length(length) .. result)
  local course, upto = HEAD_BYTES + 2 * events - 2, HEAD_BYTES + 2 * events + 2
  local head = (events_of[events + 2] or packed_events(events + 2)) .. string.sub(bytes, HEAD_BYTES + 1, course) .. step.noted
  local rows = step.done .. since .. x.ended .. lease_id .. step.begin .. here.leased .. next_lease
  if place - upto <= MAX_GAP then
    redis.call('SETRANGE', rows_key, EVENTS, head .. string.sub(bytes, upto + 1, place) .. rows)
  else
    redis.call('SETRANGE', rows_key, EVENTS, head)
    redis.call('SETRANGE', rows_key, node.place_text, rows)
  end
  turn.touch(here, run.id)
  return true
end
