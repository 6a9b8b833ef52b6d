-- The lists in which runs are searched: all runs and the runs of a flow, by their start, the runs that are over, by their end (see
-- run_entries), and the runs of a tag, in sorted sets by time of creation. A run is in its lists from its submission until its
-- purge. Claims and completions do not write them.

-- Tags are a flat list of names and values.
local function each_tag(c, command, tags, ...)
  for i = 1, #tags, 2 do redis.call(command, key.ffx_tagged_runs(c, tags[i], tags[i + 1]), ...) end
end

-- Returns the sets that a run with these tags is in; the score is the time of its creation.
function run_list.of_tags(c, tags)
  local sets = call.short_list()
  for i = 1, #tags, 2 do sets[#sets + 1] = key.ffx_tagged_runs(c, tags[i], tags[i + 1]) end
  return sets
end

-- Makes the entries of runs that are to be created, and enters them in the lists. Each run gets its time as `listed`, and its packed
-- id.
function run_list.enter(c, flow_name, runs)
  local all_key, own_key, entries = key.ffx_all_runs(c), key.ffx_runs(c, flow_name or ''), call.short_list()
  local at = run_entries.next_time(c, all_key, own_key) - 1
  for i = 1, #runs do
    local run = runs[i]
    local id = run_entries.pack_id(run.flow_id)
    run.listed, run.packed_id, entries[i] = at + i, id, run_entries.pack(at + i, id)
  end
  call.chunked('RPUSH', all_key, entries)
  call.chunked('RPUSH', own_key, entries)
  run_entries.note_lead(c, run_entries.ALL, at + #runs)
end

-- The entries of runs that end in the call, by the place of the partition. The table lives from call to call, as the frame of each
-- call writes it in the end.
local ends = {}

-- Enters a run in the list of those that are over, as it ends. `id`: packed. Returns the time of the entry, which is to be in its
-- header.
function run_list.ended(c, id)
  local list = ends[c.at]
  if not list then
    local list_key = key.ffx_closed_flows(c)
    local first = run_entries.next_time(c, list_key)
    list = { c = c, key = list_key, first = first, next_at = first, entries = call.short_list() }
    ends[c.at], call.held.ends = list, true
  end
  local at, entries = list.next_at, list.entries
  list.next_at = at + 1
  entries[#entries + 1] = run_entries.pack(at, id)
  return at
end

-- Returns when the oldest and the latest run of the partition were entered in its lists (ms); nil without runs.
function run_list.span(c)
  local list_key = key.ffx_all_runs(c)
  local oldest = redis.call('LINDEX', list_key, '0')
  if not oldest then return nil end
  return math.floor(run_entries.time(oldest) / 1000), math.floor(run_entries.last_time(list_key) / 1000)
end

-- Writes the entries of the runs that have ended in the call.
function run_list.write()
  local ended = ends
  ends = {}
  for _, list in next, ended, nil do
    call.chunked('RPUSH', list.key, list.entries)
    run_entries.note_lead(list.c, run_entries.OVER, list.next_at - 1)
  end
end

-- Drops the entries that an interrupted call has left.
function run_list.drop() ends = {} end

-- Records the end of a run in its header.
function run_list.close(c, flow_id)
  local run = row.run(c, flow_id)
  if not run then return end
  run.closed = run_list.ended(c, run_entries.pack_id(flow_id))
  row.touch_run(run)
end

-- Records that a run is open again, which leaves a hole in the list of runs that are over.
function run_list.reopen(c, flow_id)
  local run = row.run(c, flow_id)
  if not run or run.closed == 0 then return end
  run.closed = 0
  row.touch_run(run)
  run_holes.note(c, run_entries.OVER)
end

-- Removes a run that is being purged from the lists of its tags. Its rows are the sign for the other lists.
function run_list.withdraw(c, flow_id)
  each_tag(c, 'ZREM', redis.call('HGETALL', key.flow_tags(c, flow_id)), flow_id)
end

-- Notes that the rows of a run are removed, which leaves holes. The name of its flow is nil if it is unknown.
function run_list.removed(c, run, flow_name)
  run_holes.note(c, run_entries.ALL)
  if flow_name then run_holes.note(c, run_entries.OF_FLOW .. flow_name) end
  if run.closed > 0 then run_holes.note(c, run_entries.OVER) end
end

-- Reports whether the list of all runs has a run.
function run_list.has(c, flow_id)
  local run = row.run(c, flow_id)
  return run ~= nil and run_entries.has(c, key.ffx_all_runs(c), run_entries.of_run(run))
end

local function repair_entry(c, index, list_key, entry)
  if run_entries.has(c, list_key, entry) then return end
  run_holes.drop_copies(c)
  run_entries.insert(c, list_key, entry)
  repair_index.note(c, index)
end

-- Enters a run in the lists that it is missing from. One that is being purged has left the sets of its tags.
function run_list.repair(c, run, flow_name, created_at, is_purged)
  local entry = run_entries.of_run(run)
  repair_entry(c, 'runs', key.ffx_all_runs(c), entry)
  repair_entry(c, 'runs', key.ffx_runs(c, flow_name), entry)
  if is_purged then return end
  for _, set in ipairs(run_list.of_tags(c, redis.call('HGETALL', key.flow_tags(c, run.id)))) do
    repair_index.place(c, 'runs', set, run.id, created_at, true)
  end
end

-- Enters a run that is over in the list of those, or makes one that is open leave it.
function run_list.repair_end(c, run, is_over)
  if is_over and ends[c.at] and run.closed >= ends[c.at].first then return end -- it has ended in this call
  if is_over and run.closed > 0 then
    repair_entry(c, 'closed_flows', key.ffx_closed_flows(c), run_entries.pack(run.closed, run_entries.pack_id(run.id)))
  elseif is_over ~= (run.closed > 0) then
    if is_over then run_list.close(c, run.id) else run_list.reopen(c, run.id) end
    repair_index.note(c, 'closed_flows')
  end
end

-- Updates the lists for further or changed tags of a submitted run: called before the tags are written.
function run_list.retag(c, flow_id, created_at, tags_key, tags)
  for i = 1, #tags, 2 do
    local old = redis.call('HGET', tags_key, tags[i])
    if old then redis.call('ZREM', key.ffx_tagged_runs(c, tags[i], old), flow_id) end
  end
  local last = {}
  for i = 1, #tags, 2 do last[tags[i]] = tags[i + 1] end
  for name, value in pairs(last) do
    redis.call('ZADD', key.ffx_tagged_runs(c, name, value), created_at, flow_id)
  end
end

-- Returns the rank after a run in a sorted set, from the newest on, or from the oldest on with `oldest_first`. The run itself may be
-- gone. Without an id: of the first one that is not newer than `at`, or not older.
function run_list.rank_behind(list_key, at, flow_id, oldest_first)
  if not at then return 0 end
  local text = number.digits(at)
  local low
  if oldest_first then
    low = redis.call('ZCOUNT', list_key, '-inf', '(' .. text)
  else
    low = redis.call('ZCOUNT', list_key, '(' .. text, '+inf')
  end
  if not is_set(flow_id) then return low end
  local high = low + redis.call('ZCOUNT', list_key, text, text)
  -- Runs of one time are ordered by their ids: the greatest first, or the least.
  while low < high do
    local middle = math.floor((low + high) / 2)
    local there
    if oldest_first then
      there = redis.call('ZRANGE', list_key, middle, middle)[1] <= flow_id
    else
      there = redis.call('ZRANGE', list_key, middle, middle, 'REV')[1] >= flow_id
    end
    if there then low = middle + 1 else high = middle end
  end
  return low
end
