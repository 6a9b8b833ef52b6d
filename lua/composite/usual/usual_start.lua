-- Starts runs in the usual case, in few steps: new runs of one class that begin at once. It writes the bytes of their rows, with
-- the leases of roots that the call gives to its worker. ffx_submit starts all other runs, with the same effect.

local FIRST, FORM, IDENTITY, BEGUN, HEAD_BYTES = run_head.FIRST, run_head.FORM, run_head.IDENTITY, run_head.BEGUN, run_head.BYTES
local PLAIN, FAIR, SPECIAL, INPUT = run_head.PLAIN, run_head.FAIR, run_head.SPECIAL, run_head.INPUT
local MAX_BYTES, COUNTED_ACTIVE, ROW_BYTES = run_data.MAX_BYTES, row.COUNTED_ACTIVE, node_row.BYTES
local NAME_AT, NAME_TO = run_data.PACKED_ID + 1, run_data.PACKED_ID + run_data.MAX_NAME

-- Creates the data of a call that starts `count` runs of a class. Lists have an element for each run.
function usual_start.new(class, origin, count)
  return {
    class = class, origin = origin, count = count, x = nil, deadline_at = nil, tags = nil, own_tags = nil, shared = nil, first_bytes = nil,
    has_keys = false, may_lease = false,
    roots = call.short_list(), packed = call.short_list(), records = call.short_list(), inputs = call.short_list(),
    fair_keys = call.short_list(), ids = call.short_list(), keys = call.short_list(), groups = call.short_list(),
    lane = nil, entrants = nil, entered = 0, texts = call.short_list(), text_count = 0, bytes = 0,
  }
end

-- Returns the roots of a graph; false when they wait for anything, or runs of the graph have other data than rows.
local function find_roots(g)
  if g.head.waits or graph_store.has_joins(g) or not graph_store.initial_rows(g) then return false end
  local roots = graph_store.roots(g)
  for i = 1, #roots do
    roots[i] = graph_store.node(g, roots[i])
    if roots[i].wait or roots[i].delay then return false end
  end
  return roots
end

-- Returns the data about a class that starts in a partition need, which the interpreter keeps for the last class of each; nil when
-- the partition does not have the graph, or runs of the graph start otherwise.
local function of_class(c, class)
  local known = c.at.starts
  if known and known.class == class then return known end
  local g = graph_store.find(c, class.graph)
  if not g then return nil end
  if g.usual_roots == nil then g.usual_roots = find_roots(g) end
  if not g.usual_roots then return nil end
  known = {
    class = class, graph = g, roots = g.usual_roots, class_key = key.ffx_run_class(c, class.digits), has_lanes = false,
    own_key = key.ffx_runs(c, class.flow_kind), field = run_counts.field('started', class.flow_kind, class.namespace),
    hour = nil, hour_key = nil,
  }
  c.at.starts = known
  return known
end

-- The bytes of the header of a new run after its identity, by its flags and the number of its events, and by the number of its nodes.
local begun = {}

local function pack_begun(count, flags, events)
  local of_count = begun[count]
  if not of_count then
    of_count = {}
    begun[count] = of_count
  end
  local text = struct.pack(BEGUN, 0, 0, flags, count, events)
  of_count[events * 256 + flags] = text
  return text
end

-- Enters a root into its lane. `fair_key`: nil for none.
local function enter(s, c, fair_key, execution_id, node)
  local lane = node.lane_id
  if s.has_keys then
    order.enter(c, lane, execution_id, {
      created_at = c.now_text, priority = node.priority, managed = '1', fair_key = fair_key or '',
    })
  else
    if s.lane ~= lane then s.lane, s.entrants = lane, order.entrants(c, lane) end
    local entrants = s.entrants
    if entrants then
      local n = #entrants
      entrants[n + 1], entrants[n + 2] = c.now - node.priority_number * record.PRIORITY_STEP, execution_id
    else
      order.enter(c, lane, execution_id, { created_at = c.now_text, priority = node.priority, managed = '1', fair_key = '' })
    end
  end
  s.entered = s.entered + 1
  wake.eligible(c, lane, node.priority)
  if node.start_timeout then order.limit_start(c, execution_id, tonumber(node.start_timeout)) end
end

-- Returns a text with other bytes after the first `at`.
local function replaced(text, at, bytes) return string.sub(text, 1, at) .. bytes .. string.sub(text, at + #bytes + 1) end

-- Leases the roots of a run, or enters them into their lanes. `rows`: the initial course and rows. Returns them with the leases,
-- and the number of the events of the run.
local function release(s, here, flow, root, roots, rows, input)
  local x, events = s.x, 1
  for i = 1, #roots do
    local node = roots[i]
    local execution_id = node.ordinal == 1 and root or string.sub(root, 1, -5) .. node.suffix
    local leased = s.may_lease and not flow.fair_key and usual_lease.begin(x, here, flow, execution_id, node, input)
    if leased then
      rows = replaced(replaced(rows, 2 * events - 2, node.started), node.place - HEAD_BYTES, leased)
      events = events + 1
      if here.lane == node.lane_id then
        here.counts[COUNTED_ACTIVE] = here.counts[COUNTED_ACTIVE] + 1
      else
        turn.count(here, flow, node, 1, 0)
      end
    else
      enter(s, here.c, flow.fair_key, execution_id, node)
    end
  end
  return rows, events
end

-- Writes the further data of the runs of a partition: their tags and their deadlines.
local function write_further(s, c, group)
  local batch = batch_writes.new()
  for n = 1, #group do
    local i = group[n]
    local tags = s.own_tags and s.own_tags[i] or s.tags
    if tags then run_record.enter_tags(c, batch, s.ids[i], tags) end
    if s.deadline_at then batch_writes.gather(batch, 'ZADD', key.ffx_flow_deadlines(c), s.deadline_at, s.ids[i]) end
  end
  batch_writes.finish(batch)
  if s.deadline_at then wake.due(c, s.deadline_at) end
end

-- Adds the rows and the data of a run to the texts that the call writes, its data before its rows.
local function add_texts(s, flow, head, rows, record_text, input, has_input)
  local texts, n = s.texts, s.text_count
  local record_length = run_data.length(#record_text)
  if input ~= '' and not has_input then
    texts[n + 1], texts[n + 2], n = run_rows.key_of(flow, 'input'), input, n + 2
    s.bytes = s.bytes + #input
  end
  local data = has_input and record_length .. record_text .. run_data.length(#input) .. input or record_length .. record_text
  texts[n + 1], texts[n + 2], texts[n + 3], texts[n + 4] = run_rows.key_of(flow, 'data'), data, flow.key, head .. rows
  s.text_count, s.bytes = n + 4, s.bytes + #data + #rows
end

-- Returns the data of the i-th run of a call, which has one node. An input that is not among them is added to the texts that the
-- call writes.
local function data_of_one(s, i, input, has_input)
  local record_text = s.records[i]
  local data = run_data.length(#record_text) .. record_text
  if has_input then return data .. run_data.length(#input) .. input end
  if input ~= '' then
    local texts, n = s.texts, s.text_count
    texts[n + 1], texts[n + 2], s.text_count = string.sub(s.keys[i], 1, -6) .. 'input', input, n + 2
    s.bytes = s.bytes + #input
  end
  return data
end

-- Prepares the new runs of a partition, and enters them into the lists. Reports whether it did: not where the partition does not
-- have the graph, or runs of the graph start otherwise.
local function prepare(s, here, group)
  local c, class, count = here.c, s.class, #group
  local known = of_class(c, class)
  if not known then return false end
  local g = known.graph
  local exists, is_first = graph_store.use(c, class, g, count, known.class_key)
  if not exists then
    c.at.starts = nil
    return false
  end
  -- A lane stays in the list of the partition while it has runs, so it is not noted for each call.
  if is_first or not known.has_lanes then
    row_edges.note_lanes(c, g)
    known.has_lanes = true
  end
  if s.deadline_at or s.tags or s.own_tags then write_further(s, c, group) end
  local roots, nodes, rows, deadline = known.roots, g.head.nodes, graph_store.initial_rows(g), s.deadline_at or 0
  local all_key, own_key, named, entries = key.ffx_all_runs(c), known.own_key, call.short_list(), call.short_list()
  local before, pack_entry = run_entries.next_time(c, all_key, own_key) - 1, run_entries.pack
  if not s.shared then
    s.shared = nodes == 1 and class or run_rows.shared(c, class, g, deadline)
    s.first_bytes = struct.pack(FIRST, FORM, s.origin, 0, 0, 0, 1, 1, 0, nodes)
  end
  local base, first_bytes, of_count = g.head.budgets and PLAIN + SPECIAL or PLAIN, s.first_bytes, begun[nodes] or {}
  for n = 1, count do
    local i = group[n]
    local listed, stem, record_text, input, fair_key = before + n, string.sub(s.roots[i], 1, -5), s.records[i], s.inputs[i], s.fair_keys[i]
    if string.byte(input) == 0 then input = stored_value.keep_input(c, s.ids[i], input) end
    local has_input, flags = input ~= '' and #input <= MAX_BYTES, base
    if has_input then flags = flags + INPUT end
    if fair_key ~= '' then flags = flags + FAIR else fair_key = nil end
    local identity, packed = struct.pack(IDENTITY, listed, c.now, deadline, class.id), s.packed[i]
    local entry = pack_entry(listed, packed)
    entries[n], named[n] = entry, entry .. string.sub(packed, NAME_AT, NAME_TO)
    if nodes == 1 then
      local data, own_rows, events = data_of_one(s, i, input, has_input), rows, 1
      local leased = s.may_lease and not fair_key and usual_lease.may_begin(s.x)
        and usual_one.begin(s.x, here, class.id, s.roots[i], identity, data, has_input, input)
      if leased then own_rows, events = leased, 2 else enter(s, c, fair_key, s.roots[i], roots[1]) end
      local texts, at = s.texts, s.text_count
      texts[at + 1], texts[at + 2], s.text_count = s.keys[i],
        first_bytes .. identity .. (of_count[events * 256 + flags] or pack_begun(1, flags, events)) .. own_rows .. data, at + 2
      s.bytes = s.bytes + ROW_BYTES + #data
    else
      local flow = run_rows.begin(s.shared, c.at, g, stem, s.ids[i], identity, packed, listed, flags, s.keys[i], fair_key, record_text)
      local own_rows, events = release(s, here, flow, s.roots[i], roots, rows, input)
      add_texts(s, flow, first_bytes .. identity .. (of_count[events * 256 + flags] or pack_begun(nodes, flags, events)), own_rows,
        record_text, input, has_input)
    end
  end
  redis.call('RPUSH', all_key, unpack(named, 1, count))
  redis.call('RPUSH', own_key, unpack(entries, 1, count))
  run_entries.note_lead(c, run_entries.ALL, before + count)
  if nodes > 1 then lane_counts.created(c, { listed = before + count }, g, count) end
  group.known = known
  return true
end

-- Counts the starts of a partition, and adds them to the feed of their namespace.
local function count_starts(s, c, group)
  run_counts.add_started(c, group.known, #group)
  if not run_feed.is_open(c) then return end
  for n = 1, #group do run_feed.started(c, s.ids[group[n]], s.class, { record = s.records[group[n]] }) end
end

-- Creates the new runs of a call. They are in the lists before they have rows: should the server come back with a part of the
-- call, each run with rows is complete or is found by the lists. Returns the runs that it did not create, by their places; nil when it
-- created all.
function usual_start.create(s)
  local others, c, groups = nil, s.x.c, s.groups
  order.gather(c)
  for n = 1, #groups do
    local group = groups[n]
    if #group > 0 and not prepare(s, group.here, group) then
      others = others or {}
      for m = 1, #group do others[group[m]] = true end
    end
  end
  if s.bytes <= batch_writes.TEXT_BYTES then
    if s.text_count > 0 then redis.call('MSET', unpack(s.texts, 1, s.text_count)) end
  else
    batch_writes.write_texts(s.texts, s.text_count)
  end
  order.write_gathered(c)
  for n = 1, #groups do
    if groups[n].known then count_starts(s, groups[n].here.c, groups[n]) end
  end
  return others
end
