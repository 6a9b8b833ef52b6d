-- The event log of a flow: a list of its events, in order. All events that one call logs for a flow are one element, which is
-- written when the call ends. The feed of the partition names the flows for which a call has logged events, for clients that wait
-- for them. It leaves out flows that the call has created, because no client waits for those.
--
-- A run with rows has no list while all of its events follow from the rows: see composite/rows/row_log.lua. The first other event
-- has them written into the list, one event in an element.
--
-- An element is the time of the call (Unix ms), and a line for each event. Line feeds and backslashes in a detail are escaped. An
-- empty element is a report of progress that a later one has replaced.
--
-- The list keeps the last elements. When older elements no longer fit, the first events of each node move to a second list, so
-- that a node that repeats something thousands of times displaces its own events, not those from other nodes. A hash counts the
-- events that are gone, by node.

-- @text logged {event:word} {node:word} {attempt:word} {detail}

-- Elements kept of a flow's event log, and the length beyond which the surplus is removed at once.
local MAX_ENTRIES, MAX_LENGTH = 20000, 20256

-- Maximum numbers of events of one element, and of empty elements that are removed at a time when a log is too long. `feed`: minimum
-- number of entries kept of the feed, more than a reader takes at once (feedPage in internal/engine/feeds/events.go); a reader that gets
-- this many checks all flows that it follows, because others may be gone. `feed_flows`: maximum number of flows that an entry of the
-- feed names.
local MAX = { events = 64, empty = 1024, feed = '500', feed_flows = 32 }

-- Events of a node that are kept when the list has no room for them: the first `of_node`, or in a large run fewer, so that all
-- nodes together keep `of_all`, but at least `at_least`.
local KEPT = { of_node = 32, of_all = 32768, at_least = 4 }

-- Events that the call has logged and not written yet, by flow: the time and the lines in turn, with the context of the call. The
-- table lives from call to call, as the frame of each call writes it in the end.
local unwritten = {}

-- `is_used`: whether the call has logged events.
local state = { is_used = false }
event_log.state = state

-- The flows whose logs the call has written, by the place of the partition, with a context of the call there.
local touched = {}

function event_log.escaped(detail)
  if not string.find(detail, '[\\\n]') then return detail end
  return (string.gsub(string.gsub(detail, '\\', '\\\\'), '\n', '\\n'))
end

function event_log.unescaped(detail)
  if not string.find(detail, '\\', 1, true) then return detail end
  return (string.gsub(detail, '\\(.)', { n = '\n', ['\\'] = '\\' }))
end

-- Calls a function with the node of each line of an element, "" for events of the flow.
local function each_node(text, visit)
  for node in string.gmatch(text, '\n[^ \n]* ([^ \n]*)') do visit(node) end
end

-- Returns the counts for the nodes of some elements, from the hash about displaced events: how many of their events are kept.
local function kept_counts(counts_key, texts)
  local fields, nodes, counts = {}, {}, {}
  for _, text in ipairs(texts) do
    each_node(text, function(node)
      if not counts[node] then
        counts[node], nodes[#nodes + 1], fields[#fields + 1] = 0, node, 'kept ' .. node
      end
    end)
  end
  for from = 1, #fields, 500 do
    local found = redis.call('HMGET', counts_key, unpack(fields, from, math.min(from + 499, #fields)))
    for i = 1, #found do counts[nodes[from + i - 1]] = tonumber(found[i] or nil) or 0 end
  end
  return counts
end

-- Keeps the oldest elements that contain one of the first events of a node, and counts the events of the others as gone. The
-- first of the elements has the position `at`.
local function keep_first(c, flow_id, texts, at)
  local counts_key, nodes = key.flow_events_gone(c, flow_id), tonumber(record.value(key.flow_core(c, flow_id), 'node_count') or nil)
  local most = math.max(KEPT.at_least, math.min(KEPT.of_node, math.floor(KEPT.of_all / math.max(1, nodes or 1))))
  local counts, kept, changes = kept_counts(counts_key, texts), {}, {}
  local function count(field) changes[field] = (changes[field] or 0) + 1 end
  for i, text in ipairs(texts) do
    local wanted = false
    each_node(text, function(node) wanted = wanted or counts[node] < most end)
    if wanted then kept[#kept + 1] = number.text(at + i - 1) .. ' ' .. text end
    each_node(text, function(node)
      counts[node] = counts[node] + (wanted and 1 or 0)
      count((wanted and 'kept ' or 'gone ') .. node)
    end)
  end
  for from = 1, #kept, 500 do
    redis.call('RPUSH', key.flow_events_kept(c, flow_id), unpack(kept, from, math.min(from + 499, #kept)))
  end
  for field, by in pairs(changes) do redis.call('HINCRBY', counts_key, field, by) end
end

-- Returns the number of elements of a flow's log that are no longer in the list.
local function base_of(c, flow_id)
  return tonumber(record.value(key.flow_core(c, flow_id), 'events_base') or '0')
end

-- Removes the oldest elements of a list that is too long: first the empty ones. The positions of the remaining elements are
-- counted from the last one, so the positions at the end do not change.
local function shorten(c, flow_id, list, length)
  local gone = redis.call('LREM', list, MAX.empty, '')
  local over = length - gone - MAX_ENTRIES
  if over > 0 then
    keep_first(c, flow_id, redis.call('LRANGE', list, 0, over - 1), base_of(c, flow_id) + gone)
    redis.call('LTRIM', list, over, -1)
    gone = gone + over
  end
  record.add(key.flow_core(c, flow_id), 'events_base', gone)
end

-- Returns the list of the flows that the call names in the feed of its partition.
function event_log.flows(c)
  local flows = touched[c.at]
  if not flows then
    flows = { nil, nil, nil, nil, c = c }
    touched[c.at], state.is_used = flows, true
  end
  return flows
end

-- Names a flow in the feed of its partition.
function event_log.touch(c, flow_id)
  local flows = touched[c.at] or event_log.flows(c)
  local n = #flows
  if flows[n] ~= flow_id then flows[n + 1] = flow_id end
end

-- Writes an element of the log of a flow, whose key is `list`: the time of the call and a line for each event. Returns the number
-- of elements. `is_new`: the call has created the flow.
function event_log.push(c, flow_id, list, text, is_new)
  local length = redis.call('RPUSH', list, text)
  if length > MAX_LENGTH then shorten(c, flow_id, list, length) end
  if not is_new then event_log.touch(c, flow_id) end
  return length
end

-- Events of note in addition to the start and the end of a run: see run_feed.
local NOTED = {
  suspended = true, signalled = true, escalated = true, wait_timed_out = true, resumed_by_operator = true, flow_paused = true,
  flow_resumed = true, flow_rerun = true, flow_cancel_requested = true, budget_soft = true, budget_hard = true,
}

-- @hook Runs when an event of note has happened to a flow, or to a node of it.
function event_log.on_note(c, flow_id, event, node, detail) end

-- Logs an event of a flow.
function event_log.add(c, flow_id, event, node, attempt, detail)
  if NOTED[event] then event_log.on_note(c, flow_id, event, node, detail) end
  local line = encode.logged(event, node or '', attempt or '', is_set(detail) and event_log.escaped(detail) or '')
  local entry = unwritten[flow_id]
  if not entry then
    local s, at = flow_store.of(c, flow_id)
    local is_new = s.write_out(at, c)
    unwritten[flow_id], state.is_used = { c.now_text, line, c = c, is_new = is_new }, true
    return
  end
  local n = #entry + 1
  entry[n] = line
  if n > MAX.events then event_log.write_flow(flow_id) end
end

-- Returns the attempt of a failure event with the category of the failure, as a word: "2:timeout", "0:rate%20limit". Categories
-- of activity.Category have up to 128 bytes; longer ones are left out.
function event_log.failed_attempt(attempt, category)
  if not is_set(category) or #category > 128 then return attempt end
  local word = string.gsub(category, '[^%w_.-]', function(char) return string.format('%%%02X', string.byte(char)) end)
  return (attempt or '') .. ':' .. word
end

-- Logs an event of a member of a flow.
function event_log.add_for(c, core, event, attempt, detail)
  event_log.add(c, core.flow_id, event, core.node or core.execution_id, attempt, detail)
end

-- @hook Records the start or the success of a node, so that it follows from the rows of its run. Returns false when it does not.
function event_log.in_row(c, r, event, attempt) return false end

-- Logs the start of a node, with its worker as the detail, or its success, unless it follows from the rows of its run.
function event_log.note(c, execution_id, core, event, attempt, detail)
  local r = core.row or store.row(key.exec_core(c, execution_id))
  if not r or event == 'success' and is_set(detail) or not event_log.in_row(c, r, event, attempt) then
    event_log.add_for(c, core, event, attempt, detail)
  end
end

-- Does the same for the success of a flow.
function event_log.note_success(c, flow_id)
  local s, at = flow_store.of(c, flow_id)
  if not s.note_success(at, c) then event_log.add(c, flow_id, 'flow_success') end
end

-- Writes the events that the call has logged for a flow so far, for callers that change the list itself. Returns the number of
-- elements.
function event_log.write_flow(flow_id)
  local entry = unwritten[flow_id]
  if not entry then return end
  unwritten[flow_id] = nil
  return event_log.push(entry.c, flow_id, key.flow_events(entry.c, flow_id), table.concat(entry, '\n'), entry.is_new)
end

-- Writes the events that the call has logged. The frame of every call that may write ends with it. The next call gets another
-- table: in some interpreters a table keeps every key that it has ever had, and iterates over all of them.
function event_log.write()
  if next(unwritten) then
    for flow_id, entry in next, unwritten, nil do
      event_log.push(entry.c, flow_id, key.flow_events(entry.c, flow_id), table.concat(entry, '\n'), entry.is_new)
    end
    unwritten = {}
  end
  for at, flows in next, touched, nil do
    touched[at] = nil
    local text = #flows > MAX.feed_flows and '*' or table.concat(flows, ' ')
    redis.call('XADD', key.ffx_feed(flows.c), 'MAXLEN', '~', MAX.feed, '*', 'flows', text)
  end
  state.is_used = false
end

-- Discards the unwritten events of a flow that is removed with its log.
function event_log.drop_flow(flow_id)
  unwritten[flow_id] = nil
end

-- Discards the feed of a partition that no longer has flows, so that no client waits for it.
function event_log.drop_feed(c)
  touched[c.at] = nil
  redis.call('UNLINK', key.ffx_feed(c))
end

-- Discards the events that a call left when an error interrupted it. They may belong to keys that this call must not write.
function event_log.drop() unwritten, touched, state.is_used = {}, {}, false end

-- Returns a number that grows with each call that logs events of a flow.
function event_log.count(c, flow_id)
  local s, at = flow_store.of(c, flow_id)
  return s.count_noted(at) or base_of(c, flow_id) + redis.call('LLEN', key.flow_events(c, flow_id))
end

-- Logs a report of progress of a member and removes the previous report. The caller passes the returned text as `before` next
-- time.
function event_log.replace_progress(c, core, before, detail)
  local flow_id = core.flow_id
  event_log.write_flow(flow_id)
  local list, base = key.flow_events(c, flow_id), base_of(c, flow_id)
  local node = core.node or core.execution_id
  local position, base_then = string.match(before or '', '^(%d+) (%d+)$')
  local index = position and tonumber(position) - base or -1
  if index >= 0 then
    -- Since the log was trimmed, another element may be in that place.
    local there = tonumber(base_then) == base
    if not there then
      local text = redis.call('LINDEX', list, index)
      there = text and string.find(text, '\nprogress ' .. node .. ' ', 1, true)
    end
    if there then redis.pcall('LSET', list, index, '') end
  end
  event_log.add_for(c, core, 'progress', core.current_attempt_index, detail)
  local length = event_log.write_flow(flow_id)
  return number.text(base + length - 1) .. ' ' .. number.text(base)
end

-- Number of elements that are read at a time.
local READ_ENTRIES = 100

-- Appends the events of an element to a list until that has `limit`, except the first `skip`. The id of each event but the last
-- one of the element also contains its place there, so that a read can continue after every event.
local function split_entry(events, limit, position, text, skip)
  local at, from = string.match(text, '^(%d+)\n()')
  if not at then return end
  local id, place = position .. '-' .. at, 0
  while from do
    local line_end = string.find(text, '\n', from, true)
    place = place + 1
    if place > skip then
      if #events == limit then return end
      local event, node, attempt, detail = decode.logged(string.sub(text, from, line_end and line_end - 1 or -1))
      events[#events + 1] = { line_end and id .. '.' .. place or id, at, event, node, attempt, event_log.unescaped(detail) }
    end
    from = line_end and line_end + 1
  end
end

-- Returns the parts of an event's id: the creation of its flow, the position and the time of its element, and its place there,
-- unless it is the last one. Nil for another text.
local function parse_id(id)
  local created, position, at, place = string.match(id, '^(%d+)%-(%d+)%-(%d+)%.(%d+)$')
  if created then return created, tonumber(position), at, tonumber(place) end
  created, position, at = string.match(id, '^(%d+)%-(%d+)%-(%d+)$')
  return created, tonumber(position), at, math.huge
end

-- Returns the index of the element at a position and with a time; nil when the list does not have it. An element's position grows
-- when empty elements before it are removed.
local function find_entry(list, index, at)
  if index < 0 then return nil end
  for i, text in ipairs(redis.call('LRANGE', list, index, index + MAX.empty)) do
    if i == 1 and text == '' or string.match(text, '^%d+') == at then return index + i - 1 end
  end
  return nil
end

-- Returns the index in a list of kept elements from which a read continues after an event, and the number of events of that
-- element to leave out. An element's position grows when empty elements before it are taken out, so its time identifies it. Times
-- may go back with the clock of the server: they are compared with each element and never searched.
local function start_of_kept(kept_key, position, at, place)
  local from, length, later = 0, redis.call('LLEN', kept_key), nil
  local to = length
  while from < to do
    local middle = math.floor((from + to) / 2)
    if tonumber(string.match(redis.call('LINDEX', kept_key, middle), '^%d+')) < position then from = middle + 1 else to = middle end
  end
  while from < length do
    local elements = redis.call('LRANGE', kept_key, from, from + READ_ENTRIES - 1)
    for i, element in ipairs(elements) do
      local there, time = string.match(element, '^(%d+) (%d+)')
      if tonumber(time) == at then return from + i - 1, tonumber(there) == position and place or 0 end
      if tonumber(time) > at then later = later or from + i - 1 end
    end
    from = from + #elements
  end
  return later or length, 0
end

-- Returns the place from which a read continues after an event, or the beginning without one: the index of an element, the number
-- of its events to leave out, and whether events in between are missing from the list. If so, it also returns the place in the
-- list of kept elements. Nil when the text is not the id of an event.
local function start_of(c, flow_id, list, created, base, after)
  local flow_created, position, at, place
  if is_set(after) then
    flow_created, position, at, place = parse_id(after)
    if not flow_created then return nil end
  end
  if flow_created ~= created then
    if base == 0 then return 0, 0, false end
    return 0, 0, true, 0, 0
  end
  local index = position - base
  local text = index >= 0 and redis.call('LINDEX', list, index)
  if text and (text == '' or string.match(text, '^%d+') == at) then return index, place, false end
  index = find_entry(list, index + 1, at)
  if index then return index, place, false end
  if position >= base then return 0, 0, true end -- the server has lost it
  return 0, 0, true, start_of_kept(key.flow_events_kept(c, flow_id), position, tonumber(at), place)
end

-- Reads the kept elements from an index on.
local function read_kept(c, flow_id, created, from, skip, limit)
  local events = {}
  for _, element in ipairs(redis.call('LRANGE', key.flow_events_kept(c, flow_id), from, from + limit)) do
    local position, text = string.match(element, '^(%d+) (.*)$')
    split_entry(events, limit, created .. '-' .. position, text, skip)
    if #events == limit then break end
    skip = 0
  end
  return events
end

-- Maximum number of nodes whose lost events a reply counts.
local MAX_GONE = 100

-- Returns how many events of a flow are gone, by node, as a list; nil when none are.
local function gone_of(c, flow_id)
  local list, fields = {}, redis.call('HGETALL', key.flow_events_gone(c, flow_id))
  for i = 1, #fields, 2 do
    local node = string.match(fields[i], '^gone (.*)$')
    if node and #list < MAX_GONE then list[#list + 1] = { node, fields[i + 1] } end
  end
  return list[1] and list or nil
end

-- Returns up to `limit` of the events that follow from the rows of a run after the one with the id `after`, and whether that is not
-- the id of such an event. Nil when it is the id of none. `count` is how many there are.
local function read_noted(c, s, at, count, after, limit)
  if not is_set(after) then return s.read_noted(at, c, 0, limit), false end
  local created, position = parse_id(after)
  if not created then return nil end
  local events = position < count and s.read_noted(at, c, position, limit + 1) or {}
  if events[1] and events[1][1] == after then
    table.remove(events, 1)
    return events, false
  end
  local first = s.read_noted(at, c, 0, limit)
  return first, string.match(first[1][1], '^%d+') == created
end

-- Returns up to `limit` events of a flow after the one with the id `after`; from the first on when that is not set, or belongs to
-- another flow that had this id before. It also returns whether events before the first of them are lost, and the counts of lost
-- events by node, also when a gap precedes the next events. Nil when `after` is not the id of an event.
function event_log.read(c, flow_id, after, limit)
  local s, at = flow_store.of(c, flow_id)
  local count = s.count_noted(at)
  if count then return read_noted(c, s, at, count, after, limit) end
  local list, events = key.flow_events(c, flow_id), {}
  local core = record.values(key.flow_core(c, flow_id), 'created_at', 'events_base')
  local created, base = core[1] or '0', tonumber(core[2] or '0')
  local from, skip, is_gap, kept_from, kept_skip = start_of(c, flow_id, list, created, base, after)
  if not from then return nil end
  local lost, gone = is_gap, nil
  if kept_from then
    events, gone = read_kept(c, flow_id, created, kept_from, kept_skip, limit), gone_of(c, flow_id)
    if #events == limit then return events, false end
    if events[1] and gone then return events, false, gone end -- up to the gap
    lost = gone ~= nil
  end
  count = math.min(limit + 1, READ_ENTRIES)
  repeat
    local entries = redis.call('LRANGE', list, from, from + count - 1)
    for i, text in ipairs(entries) do
      -- Thousands of elements in a row can be empty.
      if text ~= '' then
        split_entry(events, limit, created .. '-' .. number.text(base + from + i - 1), text, skip)
        if #events == limit then return events, lost, gone end
      end
      skip = 0
    end
    from = from + #entries
    local full = #entries == count
    count = READ_ENTRIES * 10
  until not full
  return events, lost, gone
end

-- Maximum number of elements that a search for the events of a node reads in a call.
local MAX_SEARCHED = 1000

-- Appends the events of a node that an element contains, the last first.
local function add_of_node(events, node, id, text)
  if not string.find(text, ' ' .. node .. ' ', 1, true) then return end
  local all = {}
  split_entry(all, math.huge, id, text, 0)
  for i = #all, 1, -1 do
    if all[i][4] == node then events[#events + 1] = all[i] end
  end
end

-- Returns events of one node, the latest first, from a cursor on, "" to begin with: `limit` of them or some more, among a bounded
-- number of elements. Also returns the next cursor, "" at the end.
function event_log.read_node(c, flow_id, node, cursor, limit)
  local s, place = flow_store.of(c, flow_id)
  if s.count_noted(place) then return s.read_noted_of(place, c, node), '' end
  local core = record.values(key.flow_core(c, flow_id), 'created_at', 'events_base')
  local created, base, events = core[1] or '0', tonumber(core[2] or '0'), {}
  local of, at = string.match(cursor, '^([lk])(%d+)$')
  local list, is_kept = key.flow_events(c, flow_id), of == 'k'
  -- The index after the last element to read.
  local to = is_kept and tonumber(at) or of and tonumber(at) - base or redis.call('LLEN', list)
  if not is_kept and to <= 0 then
    if base == 0 then return events, '' end
    is_kept = true
  end
  if is_kept then
    list = key.flow_events_kept(c, flow_id)
    to = of == 'k' and to or redis.call('LLEN', list)
  end
  local from = math.max(0, to - MAX_SEARCHED)
  local found = to > 0 and redis.call('LRANGE', list, from, to - 1) or {}
  local index = #found
  while index > 0 and #events < limit do
    local position, text = base + from + index - 1, found[index]
    if is_kept then position, text = string.match(text, '^(%d+) (.*)$') end
    add_of_node(events, node, created .. '-' .. (is_kept and position or number.text(position)), text)
    index = index - 1
  end
  local rest = from + index
  if is_kept then return events, rest > 0 and 'k' .. number.text(rest) or '' end
  if rest > 0 or base > 0 then return events, 'l' .. number.text(base + rest) end
  return events, ''
end
