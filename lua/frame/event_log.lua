-- The event log of a flow: a stream with what happened, in order. What one call logs of a flow goes into one entry,
-- which is written when the call ends; its time is that of the entry's id.
--
-- Each field of an entry is an event: its name is the kind, its value `node attempt detail`, cut behind the last that
-- there is. Entries of earlier builds hold one event in four fields, the first of which is `event`.

-- Entries kept of a flow's event log, roughly.
local MAX_ENTRIES = '20000'

-- Events of one entry.
local MAX_EVENTS = 64

-- What the call has logged and not written yet: for each stream, kinds and values in turn. It lives from call to call,
-- as the frame of each call writes it in the end.
local unwritten = {}

local function write_entry(stream, entry)
  return redis.call('XADD', stream, 'MAXLEN', '~', MAX_ENTRIES, '*', unpack(entry))
end

local function value_of(node, attempt, detail)
  if is_set(detail) then return (node or '') .. ' ' .. (attempt or '') .. ' ' .. detail end
  if is_set(attempt) then return (node or '') .. ' ' .. attempt end
  return node or ''
end

-- An event of a flow.
function event_log.add(c, flow_id, event, node, attempt, detail)
  local stream = key.flow_events(c, flow_id)
  local entry = unwritten[stream]
  if not entry then
    unwritten[stream] = { event, value_of(node, attempt, detail) }
    return
  end
  local n = #entry
  entry[n + 1] = event
  entry[n + 2] = value_of(node, attempt, detail)
  if n + 2 == 2 * MAX_EVENTS then event_log.write_flow(c, flow_id) end
end

-- An event of a member of a flow.
function event_log.add_for(c, core, event, attempt, detail)
  event_log.add(c, core.flow_id, event, core.node or core.execution_id, attempt, detail)
end

-- Writes what the call has logged of a flow so far, for those who work on the stream itself.
function event_log.write_flow(c, flow_id)
  local stream = key.flow_events(c, flow_id)
  local entry = unwritten[stream]
  if not entry then return end
  unwritten[stream] = nil
  return write_entry(stream, entry)
end

-- The same at once, as an entry of its own, of which it gives the id.
function event_log.add_alone(c, flow_id, event, node, attempt, detail)
  event_log.write_flow(c, flow_id)
  event_log.add(c, flow_id, event, node, attempt, detail)
  return event_log.write_flow(c, flow_id)
end

-- Writes what the call has logged. The frame of every call that may write ends with it.
function event_log.write()
  for stream, entry in next, unwritten do
    unwritten[stream] = nil
    write_entry(stream, entry)
  end
end

-- A flow is removed with its log.
function event_log.drop_flow(c, flow_id)
  unwritten[key.flow_events(c, flow_id)] = nil
end

-- A call that was broken off by an error has left events behind, which may belong to keys that this one must not touch.
function event_log.drop()
  if next(unwritten) then unwritten = {} end
end

-- Entries that are read at a time.
local READ_ENTRIES = 100

-- Appends the events of an entry to a list until that has `limit`, but for the first `skip`. All but the last one of an
-- entry carry their place in it behind the entry's id, so that reading goes on right behind every one of them.
local function split_entry(events, limit, id, fields, skip)
  if fields[1] == 'event' then
    local by_name = {}
    for i = 1, #fields, 2 do by_name[fields[i]] = fields[i + 1] end
    events[#events + 1] = { id, by_name.event, by_name.node or '', by_name.attempt or '', by_name.detail or '' }
    return
  end
  local count = #fields / 2
  for i = skip + 1, math.min(count, skip + limit - #events) do
    local node, attempt, detail = string.match(fields[2 * i], '^([^ ]*) ?([^ ]*) ?(.*)$')
    events[#events + 1] = { i < count and id .. '.' .. i or id, fields[2 * i - 1], node, attempt, detail }
  end
end

-- Where reading goes on behind an event: what XRANGE begins with, the entry that it is in unless it is the last one
-- there, and its place in it. Nil when the text is the id of no event.
local function position_of(after)
  if not is_set(after) then return '-' end
  if string.match(after, '^%d+%-%d+$') then return '(' .. after end
  local entry, place = string.match(after, '^(%d+%-%d+)%.(%d+)$')
  return entry, entry, tonumber(place)
end

-- Up to `limit` events of a flow behind the one with the id `after`, from the first on when that is not set. Nil when
-- it is the id of no event.
function event_log.read(c, flow_id, after, limit)
  local stream, events = key.flow_events(c, flow_id), {}
  local from, begun, place = position_of(after)
  if not from then return nil end
  local count = math.min(limit + 1, READ_ENTRIES)
  repeat
    local entries = redis.call('XRANGE', stream, from, '+', 'COUNT', count)
    for _, entry in ipairs(entries) do
      local id = entry[1]
      split_entry(events, limit, id, entry[2], id == begun and place or 0)
      if #events == limit then return events end
      from = '(' .. id
    end
  until #entries < count
  return events
end

-- A stream keeps room for 4 KB; a copy takes what it needs.
function event_log.shrink(c, stream_key)
  local copy = key.ffx_compacting(c)
  if redis.call('COPY', stream_key, copy, 'REPLACE') == 1 then redis.call('RENAME', copy, stream_key) end
end
