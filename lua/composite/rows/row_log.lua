-- The log of a run in its usual course, in which each node starts once and succeeds: the events follow from the header, the
-- course and the rows of the run, so that no call writes them. An event has the position that its element in the event log would
-- have: 0 is the submission, the events of the course follow, and then the success of the run. The first event of another kind
-- writes all of them into the event log, with the same ids, and from then on each event is logged there.

local HEAD_BYTES, ROW_BYTES, HAPPENED, EVENTS = run_head.BYTES, node_row.BYTES, node_row.HAPPENED, run_head.EVENTS_AT - 1
-- Bytes of a row before its start, worker and end, and the number of their bytes.
local STARTED, HAPPENED_BYTES = node_row.STARTED_AT - 1, node_row.CHANGED_AT - node_row.STARTED_AT

-- The number of events of a run of one node that has succeeded.
row_log.EVENTS_OF_ONE = 4

-- Records the start or the success of a node in the course of its run. Returns whether it does: see event_log.in_row.
function row_log.note(c, r, event, attempt)
  local run = r.run
  local events = run.events
  if events == row.LOGGED or attempt ~= '0' or r.started == 0 or r.total ~= 1 then return false end
  local noted = run.noted
  if not noted then
    noted = { from = events, workers = {} }
    run.noted = noted
  end
  local n, node = #noted + 1, graph_store.of_row(r)
  noted[n], noted.workers[n] = event == 'started' and node.started or node.succeeded, r.worker
  run.events, run.head_dirty = events + 1, true
  if not run.is_new then event_log.touch(c, run.id) end
  return true
end

-- Records the success of a run: see store.lua. Its time is the time of the last success.
function row_log.note_success(run, c)
  if run.events ~= 2 * run.count + 1 or not run.noted then return false end
  run.events, run.head_dirty = run.events + 1, true
  if not run.is_new then event_log.touch(c, run.id) end
  return true
end

-- Returns the number of the events that follow from the rows of a run; nil when they are in the event log.
function row_log.count(run) return run.events ~= row.LOGGED and run.events or nil end

-- Returns the stored course of a run between two positions. `bytes`: the beginning of the run.
local function course_of(run, bytes, from, to)
  if run.count == 1 then return string.sub(row.started(1) .. row.succeeded(1), 2 * from - 1, 2 * to) end
  local first, last = HEAD_BYTES + 2 * (from - 1), HEAD_BYTES + 2 * to
  return last <= #bytes and string.sub(bytes, first + 1, last) or redis.call('GETRANGE', run.key, first, last - 1)
end

-- Returns the start, the worker and the end of a node, as they are stored.
local function stored_times(run, bytes, ordinal)
  local at = row.place(run.count, ordinal) + STARTED
  if at + HAPPENED_BYTES <= #bytes then return struct.unpack(HAPPENED, bytes, at + 1) end
  return struct.unpack(HAPPENED, redis.call('GETRANGE', run.key, at, at + HAPPENED_BYTES - 1))
end

-- Returns the name of a node; its id where the graph is missing.
local function name_of(run, ordinal)
  local node = graph_store.find_node(graph_store.of_run(run), ordinal)
  return node and node.name or row.execution_id(run, ordinal)
end

-- Numbers of events, packed.
local COUNTS, MAX_COUNTS = {}, 64

local function packed(events)
  local text = struct.pack(run_head.EVENTS_FORMAT, events)
  if events <= MAX_COUNTS then COUNTS[events] = text end
  return text
end

-- Returns the last bytes of the header of a plain run, from the number of its events on, with further events: `noted`, as the
-- course contains them, and `others` that it does not contain. In a small run, of which `bytes` are the beginning, the course up to
-- the last of them follows; in a large one it is written at once.
function row_log.extend(flow, bytes, events, noted, others)
  local at, head = HEAD_BYTES + 2 * events - 2, packed(events + #noted / 2 + others)
  if flow.is_small then return head .. string.sub(bytes, HEAD_BYTES + 1, at) .. noted end
  redis.call('SETRANGE', flow.key, at, noted)
  return head
end

-- Maximum number of bytes between two changes that are written again unchanged: that takes less time than another command.
local MAX_GAP = 256

-- Writes adjacent rows, beginning with the row of `node`, and `head` after `at` bytes. `bytes`: the beginning of the run, with an old
-- course where the run is large.
function row_log.write(flow, bytes, at, head, node, rows)
  local behind, place = at + #head, node.place
  if flow.is_small and place - behind <= MAX_GAP then
    redis.call('SETRANGE', flow.key, at, head .. string.sub(bytes, behind + 1, place) .. rows)
  else
    redis.call('SETRANGE', flow.key, at, head)
    redis.call('SETRANGE', flow.key, node.place_text, rows)
  end
end

-- Writes adjacent rows of a small run with further events of its course, `noted`, and nothing else in the header.
function row_log.write_small(flow, bytes, events, noted, node, rows)
  local at, place, count = HEAD_BYTES + 2 * events - 2, node.place, events + #noted / 2
  local head = COUNTS[count] or packed(count)
  if flow.count == 1 then
    redis.call('SETRANGE', flow.key, EVENTS, head .. rows)
    return
  end
  head = head .. string.sub(bytes, HEAD_BYTES + 1, at) .. noted
  at = at + #noted
  if place - at <= MAX_GAP then
    redis.call('SETRANGE', flow.key, EVENTS, head .. string.sub(bytes, at + 1, place) .. rows)
  else
    redis.call('SETRANGE', flow.key, EVENTS, head)
    redis.call('SETRANGE', flow.key, node.place_text, rows)
  end
end

-- Writes the row of a node of a small run whose events are in the event log from now on. `bytes`: the beginning of the run.
function row_log.write_logged(flow, bytes, node, rows)
  local place = node.place
  if place - HEAD_BYTES <= MAX_GAP then
    redis.call('SETRANGE', flow.key, EVENTS, packed(row.LOGGED) .. string.sub(bytes, HEAD_BYTES + 1, place) .. rows)
  else
    redis.call('SETRANGE', flow.key, EVENTS, packed(row.LOGGED))
    redis.call('SETRANGE', flow.key, node.place_text, rows)
  end
end

-- Calls a function for an event of the course: with its position, time, kind, node, attempt, and detail.
local function visit_course(run, position, event, started, worker, ended, visit)
  local ordinal = math.floor(event / 2)
  if event % 2 == 1 then
    visit(position, number.time(ended), 'success', name_of(run, ordinal), '0', '')
  else
    visit(position, number.time(started), 'started', name_of(run, ordinal), '0', worker > 0 and worker_registry.instance(run, worker) or '')
  end
end

-- Calls a function for the stored events of a run between two positions.
local function each_stored(run, bytes, from, to, visit)
  local last = 2 * run.count
  if from == 0 and to >= 0 then visit(0, number.time(run.created), 'flow_submitted', '', '', '') end
  local first = math.max(1, from)
  local upto = math.min(to, last)
  local course = first <= upto and course_of(run, bytes, first, upto) or ''
  for position = first, upto do
    local event = struct.unpack('<H', course, 2 * (position - first) + 1)
    local started, worker, ended = stored_times(run, bytes, math.floor(event / 2))
    visit_course(run, position, event, started, worker, ended, visit)
  end
  if from <= last + 1 and to > last then
    local final = struct.unpack('<H', course_of(run, bytes, last, last))
    local _, _, ended = stored_times(run, bytes, math.floor(final / 2))
    visit(last + 1, number.time(ended), 'flow_success', '', '', '')
  end
end

-- Writes the events that follow from the rows into the event log: see store.lua. Rows may have changed in memory since these
-- events, so the events of earlier calls come from the stored bytes.
function row_log.write_out(run, c)
  local noted = run.noted
  if run.events == row.LOGGED then return run.is_new end
  local elements = {}
  local function append(_, at, event, node, attempt, detail)
    elements[#elements + 1] = at .. '\n' .. encode.logged(event, node, attempt, event_log.escaped(detail))
  end
  local stored = noted and noted.from or run.events
  local bytes, size = run.bytes, row.place(run.count, run.count + 1)
  if #bytes < size and stored > 1 then bytes = redis.call('GETRANGE', run.key, 0, size - 1) end
  each_stored(run, bytes, 0, stored - 1, append)
  if noted then
    for i = 1, #noted do visit_course(run, nil, struct.unpack('<H', noted[i]), c.now, noted.workers[i], c.now, append) end
    if stored + #noted < run.events then append(nil, c.now_text, 'flow_success', '', '', '') end
  end
  local list = key.flow_events(c, run.id)
  redis.call('DEL', list) -- an interrupted call may have left it
  call.chunked('RPUSH', list, elements)
  run.events, run.noted = row.LOGGED, nil
  row.touch_run(run)
  return run.is_new
end

-- Writes the events of a small plain run into its event log, with the line of a further one, which does not follow from the rows.
-- `bytes`: the beginning of the run, with `events` events.
function row_log.open(c, flow, bytes, events, line)
  local elements, course = { flow.created_text .. '\n' .. encode.logged('flow_submitted', '', '', '') }, course_of(flow, bytes, 1, events - 1)
  for position = 1, events - 1 do
    local event = struct.unpack('<H', course, 2 * position - 1)
    local is_end = event % 2 == 1
    local ordinal = (event - event % 2) / 2
    local node, started, worker, ended = graph_store.node(flow.graph, ordinal), stored_times(flow, bytes, ordinal)
    local detail = is_end and '' or event_log.escaped(worker_registry.instance(flow.at, worker))
    elements[position + 1] = number.time(is_end and ended or started) .. '\n'
      .. encode.logged(is_end and 'success' or 'started', node.name, '0', detail)
  end
  elements[events + 1] = c.now_text .. '\n' .. line
  local list = run_rows.events_key(flow)
  redis.call('DEL', list) -- an interrupted call may have left it
  redis.call('RPUSH', list, unpack(elements))
  event_log.touch(c, flow.id)
end

-- Returns a function that appends events with their ids to a list.
local function appender(run, events)
  local created = number.time(run.created)
  return function(position, at, event, node, attempt, detail)
    events[#events + 1] = { created .. '-' .. number.text(position) .. '-' .. at, at, event, node, attempt, detail }
  end
end

-- Returns the events of a run from a position on, at most `limit`.
function row_log.read(run, _, from, limit)
  local events = {}
  each_stored(run, run.bytes, from, math.min(run.events - 1, from + limit - 1), appender(run, events))
  return events
end

-- Returns the events of a node, the latest first; for "", the events of the run itself.
function row_log.read_node(run, _, node)
  local events, last, in_order = {}, 2 * run.count, {}
  local append = appender(run, in_order)
  local function visit(position) each_stored(run, run.bytes, position, position, append) end
  if node == '' then
    visit(0)
    if run.events > last + 1 then visit(last + 1) end
  else
    local ordinal, noted = graph_store.ordinal(run, node), math.min(run.events - 1, last)
    local course = ordinal and noted > 0 and course_of(run, run.bytes, 1, noted) or ''
    for position = 1, #course / 2 do
      if math.floor(struct.unpack('<H', course, 2 * position - 1) / 2) == ordinal then visit(position) end
    end
  end
  for i = #in_order, 1, -1 do events[#events + 1] = in_order[i] end
  return events
end
