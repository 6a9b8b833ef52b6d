-- Leases and ends the node of a run that has only one, the usual case of a task: with the bytes of the run, which contain its row and
-- its data, and with the data of its class. Runs in other states return nil, and the general functions handle them.

local HEAD_BYTES, ROW_BYTES, PLAIN, INPUT = run_head.BYTES, node_row.BYTES, run_head.PLAIN, run_head.INPUT
local SINGLE, COUNT_AT, CLOSED_AT, HELD = run_head.SINGLE, run_head.COUNT_AT, run_head.CLOSED_AT, node_row.HELD
local ORIGIN_AT, WATCHED_AT, STATE, EVENTS = run_head.ORIGIN_AT, run_head.WATCHED_AT, run_head.STATE_AT - 1, run_head.EVENTS_AT - 1
-- Bytes of the header that describe a leased node: when its run was created, and its deadline.
local TIMES_AT, TIMES_TO = run_head.LISTED_AT, run_head.MARKS_AT - 1

-- Bytes before the data of the run, and before the last transition of its node.
local DATA, CHANGED = HEAD_BYTES + ROW_BYTES, HEAD_BYTES + node_row.CHANGED_AT - 1

-- The number of the events of a run whose node runs, packed: 2. Before its start, it is 1.
local started_events

-- The bytes of a run that are read first, and their last one.
local FIRST_BYTES, LAST_OF_FIRST = 1024, '1023'
usual_one.LAST_OF_FIRST = LAST_OF_FIRST

-- Maximum number of classes that the interpreter knows in a partition.
local MAX_CLASSES = 64

-- Returns the data that runs of one node of a class have in common, which the interpreter keeps; nil when its graph is missing.
local function of_class(here, class_id)
  local c, at = here.c, here.at
  local class = run_class.of_call(c, class_id)
  local g = graph_store.of_call(c, class.graph)
  local node, head = graph_store.find_node(g, 1), graph_store.head(g)
  if not node or not head then return nil end
  if not at.singles or at.single_count >= MAX_CLASSES then at.singles, at.single_count = {}, 0 end
  local known = {
    class = class, node = node, is_result = head.result == 1, budgets = head.budgets or nil,
    budget_ids = head.budgets and is_set(head.blocking) and head.blocking or nil, kept_for = run_class.due_at(class.retention, 'success', 0),
    about = (node.limits and 'a' or '-') .. (head.budgets and 'g' or '-') .. class.graph .. ' ' .. number.text(#class.flow_kind) .. ' '
      .. class.flow_kind,
  }
  at.singles[class_id], at.single_count = known, at.single_count + 1
  return known
end

-- Returns all bytes of a run of which the first ones have been read.
local function all_of(rows_key, bytes)
  if #bytes < FIRST_BYTES then return bytes end
  return bytes .. redis.call('GETRANGE', rows_key, FIRST_BYTES, '-1')
end

-- Leases the node of a run to the worker, if it can run the node, no budget is used up, and limits have room. Returns the id of the
-- lease and the row; nil otherwise.
local function lease_node(x, here, known, execution_id)
  local node, c = known.node, here.c
  local limits = node.limits
  if node.lane_id ~= x.lane or node.known_to ~= x.kinds and not turn.knows(x, node) or known.budget_ids and budget_gate.closed(c, known)
    or limits and not limit_admission.take_room(x.request, limits) then
    return nil
  end
  if not here.leased then turn.lease(x, here) end
  if node.attempt_timeout then leasing.arm_timeout(c, execution_id, node) end
  local lease_id, entered, n = turn.lease_id(x, #x.leased), here.entered, here.entered_count
  entered[n + 1], entered[n + 2], here.entered_count = x.expires, execution_id, n + 2
  return lease_id, (limits and row_bytes.AHEAD or row_bytes.ACTIVE) .. here.leased .. lease_id
end

-- Adds the description of the leased node to the leases of the call. The worker reads it in internal/enginerpc/claimed_text.go:
-- the digit 1, the execution, the lease and its end; the times of the run as its header has them; the properties of the class; and
-- its record and its input, each after its length. `times`: also with the bytes of the class.
local function describe(x, known, execution_id, lease_id, times, data)
  local leased = x.leased
  leased[#leased + 1] = '1' .. execution_id .. ' ' .. lease_id .. ' ' .. x.expires_text .. ' ' .. times .. known.about .. data
end

-- Returns the data of a run as the worker receives them: with the input if the node uses it. `input`: one that is not in the data;
-- nil or empty for none.
local function data_for(known, data, has_input, input)
  if not known.node.uses_flow_input then return has_input and string.sub(data, 1, run_data.end_of_first(data)) or data end
  return is_set(input) and data .. run_data.length(#input) .. input or data
end

-- Leases the node of a run that the call creates to its worker: see usual_start. `times` are the bytes of its header from the
-- entry in the list to the class, `data` its data, which contain the input if `has_input`. Returns the row; nil when it is to enter
-- its lane.
function usual_one.begin(x, here, class_id, execution_id, times, data, has_input, input)
  local singles = here.at.singles
  local known = singles and singles[class_id] or of_class(here, class_id)
  if not known or not known.node.plain then return nil end
  local lease_id, leased = lease_node(x, here, known, execution_id)
  if not lease_id then return nil end
  describe(x, known, execution_id, lease_id, times, data_for(known, data, has_input, not has_input and input))
  turn.count_one(here, nil, known.node, 1)
  return leased
end

-- Leases the node of a run that waits in the lane for its first attempt: see usual_lease.take. `bytes` are the first bytes of the run.
function usual_one.take(x, here, execution_id, rows_key, bytes)
  local _, _, _, class_id, _, _, flags, _, events = struct.unpack(SINGLE, bytes, COUNT_AT)
  local singles = here.at.singles
  local known = singles and singles[class_id] or of_class(here, class_id)
  if not known or events ~= 1 or flags % 16 < PLAIN or flags >= run_head.OVERLAY or not known.node.may_take
    or string.sub(bytes, HEAD_BYTES + 1, CHANGED) ~= row_bytes.READY then
    return nil
  end
  local lease_id, leased = lease_node(x, here, known, execution_id)
  if not lease_id then return nil end
  if known.node.start_timeout then call.leave(here.c, 'ZREM', key.ffx_start_deadlines(here.c), execution_id) end
  if not started_events then started_events = struct.pack(run_head.EVENTS_FORMAT, 2) end
  redis.call('SETRANGE', rows_key, EVENTS, started_events .. leased)
  local data, has_input = string.sub(all_of(rows_key, bytes), DATA + 1), flags >= INPUT
  if not has_input or not known.node.uses_flow_input then
    data = data_for(known, data, has_input, not has_input and redis.call('GET', string.sub(rows_key, 1, -6) .. 'input'))
  end
  describe(x, known, execution_id, lease_id, string.sub(bytes, TIMES_AT, TIMES_TO), data)
  turn.touch(here, string.sub(execution_id, -36, -5) .. '0000')
  turn.count_one(here, bytes, known.node, 1)
  return true
end

-- Gathers the writes for the end of a run with success. `data`: of the run.
local function close(x, here, known, flow_id, deadline, waiters, data, result)
  local ends, due_at, c = here.ends, known.kept_for, here.c
  ends[known] = (ends[known] or 0) + 1
  if due_at then
    local due, n = here.due, here.due_count
    due[n + 1], due[n + 2], here.due_count = x.c.now + due_at, flow_id, n + 2
  end
  if deadline > 0 then call.leave(c, 'ZREM', key.ffx_flow_deadlines(c), flow_id) end
  if run_feed.is_open(c) then
    local class, fields = known.class, run_data.decode(run_data.first(data), flow_id)
    local flow = { flow_kind = class.flow_kind, namespace = class.namespace, run_id = fields.run_id or '' }
    run_feed.ended(c, flow_id, flow, 'success')
  end
  if waiters ~= run_watch.NOT_AWAITED then run_watch.ended(c, flow_id, 'success', result, waiters) end
end

-- Commits the result of a node that runs: see usual_end.commit. `bytes` are the first bytes of the run. Returns nil for another end.
function usual_one.commit(x, here, execution_id, rows_key, bytes, lease_id, packed_id, result)
  local _, _, deadline, class_id, marks, _, flags, _, events = struct.unpack(SINGLE, bytes, COUNT_AT)
  local begin, ends, since, _, _, held_by = struct.unpack(HELD, bytes, HEAD_BYTES + 1)
  if held_by ~= lease_id or ends <= x.c.now or marks > 0 or flags % 16 ~= PLAIN or flags >= run_head.OVERLAY or events ~= 2
    or begin ~= row_bytes.ACTIVE and begin ~= row_bytes.AHEAD then
    return nil
  end
  local singles, length = here.at.singles, run_data.length_of(result)
  local known = singles and singles[class_id] or of_class(here, class_id)
  if not known or not length or result == '' or string.byte(result) == 0 then return nil end -- a large one is named
  local node, n, outcome, waiters = known.node, here.left_count + 1, 'OK', string.sub(bytes, ORIGIN_AT, WATCHED_AT)
  here.left[n], here.left_count = execution_id, n
  local data, flow_id = string.sub(all_of(rows_key, bytes), DATA + 1), string.sub(execution_id, -36, -5) .. '0000'
  redis.call('SET', rows_key, string.sub(bytes, 1, STATE) .. row_bytes.over(x) .. string.sub(bytes, COUNT_AT, CLOSED_AT - 1)
    .. struct.pack(run_head.STANDING, run_list.ended(here.c, packed_id), flags - PLAIN, 0, row_log.EVENTS_OF_ONE)
    .. row_bytes.done(0) .. since .. x.ended .. lease_id .. data .. length .. result)
  if node.attempt_timeout then call.leave(here.c, 'ZREM', key.index_attempt_timeout(here.c), execution_id) end
  if not known.is_result then
    result = nil
  elseif waiters == x.alone then
    waiters, outcome = run_watch.NOT_AWAITED, 'ended'
  end
  turn.touch(here, flow_id)
  turn.count_one(here, bytes, node, -1)
  close(x, here, known, flow_id, deadline, waiters, data, result)
  return outcome
end
