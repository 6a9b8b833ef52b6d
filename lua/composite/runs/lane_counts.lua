-- Counts how many nodes of runs are active in each lane, and how many wait there for upstreams: they are in no index of their
-- lane. The counts change with the rows of the nodes, so that no runs have to be read.
--
-- A hash of the partition holds the counts. Changes are gathered in the memory of the server, from call to call, and added to the
-- hash after MAX_CHANGES, since nearly every call changes a count. A server that stops loses the changes of its last calls. So
-- the pass that counts runs (see run_recount) counts these nodes again, and replaces the counts.

-- Number of changes that are gathered in memory before they are written.
local MAX_CHANGES = 64

-- Number of rows that take as long to read as a run, and number that one step of a pass reads.
local ROWS_PER_RUN, ROWS_PER_STEP = 16, 1024

-- The states of rows that are counted, and their names in the hash.
local ACTIVE, WAITING = row.COUNTED_ACTIVE, row.COUNTED_WAITING
local NAMES = { 'active', 'waiting' }

-- Gathered changes, by partition: `changes` counts them, and `lanes` has the change of each state by lane. `pass` is the pass
-- that counts again. Partitions are few; those without gathered changes and pass are dropped when there are too many. The place
-- of a partition (see call.open) has its entry as `gathered`, so that no search is needed.
local gathered, gathered_count = {}, 0
local MAX_GATHERED = 65536

-- Partitions with so many changes that they are to be written.
local full = {}

local function forget_quiet()
  local kept, count = {}, 0
  for probe, entry in pairs(gathered) do
    if entry.changes > 0 or entry.pass then kept[probe], count = entry, count + 1 else entry.at.gathered = nil end
  end
  gathered, gathered_count = kept, count
end

-- Returns the gathered changes of the partition of a place.
local function of_place(at)
  local entry = gathered[at.probe]
  if not entry then
    if gathered_count >= MAX_GATHERED then forget_quiet() end
    entry = { key = key.ffx_lane_counts({ at = at }), changes = 0, lanes = {}, pass = nil }
    gathered[at.probe], gathered_count = entry, gathered_count + 1
  end
  at.gathered, entry.at = entry, at
  return entry
end

local function add(lanes, lane, active, waiting)
  local counts = lanes[lane]
  if not counts then
    lanes[lane] = { active, waiting }
    return
  end
  counts[ACTIVE], counts[WAITING] = counts[ACTIVE] + active, counts[WAITING] + waiting
end

-- Reports whether a pass has counted a node, or does not reach it as its run is younger.
local function is_behind(pass, listed, ordinal)
  if listed ~= pass.at then return listed > pass.last_start or listed < pass.at end
  return ordinal < pass.row
end

-- Counts more nodes of a lane as active, or as waiting for upstreams: the one with an ordinal, in a run (its `listed`).
-- Returns the counts of the lane, to which the call may add further nodes; nil during a pass, when each node is counted by
-- itself.
function lane_counts.add(at, run, ordinal, lane, active, waiting)
  local entry = at.gathered or of_place(at)
  local counts, pass, changes = entry.lanes[lane], entry.pass, entry.changes + 1
  entry.changes = changes
  if changes == MAX_CHANGES then full[#full + 1], call.held.lane_counts = entry, true end
  if counts then
    counts[ACTIVE], counts[WAITING] = counts[ACTIVE] + active, counts[WAITING] + waiting
  else
    counts = { active, waiting }
    entry.lanes[lane] = counts
  end
  if not pass then return counts end
  if is_behind(pass, run.listed, ordinal) then add(pass.lanes, lane, active, waiting) end
  return nil
end

-- Change of the counts by a row that moves from one counted state to another: by the former state, which counts three times, and
-- the latter.
local ADDS_ACTIVE, ADDS_WAITING = { 1, 0, -1, 0, -1, 0, 1 }, { 0, 1, 0, 0, 1, -1, -1 }

-- Counts changed rows of a run: see row.on_counted.
function lane_counts.moved(run, changed)
  local at, counted, last, counts = run.at or call.place(run.prefix, run.tag), row.COUNTED, nil, nil
  for i = 1, #changed do
    local r = changed[i]
    local was, is = r.was, r.phase * 16 + r.elig
    r.was = is
    was, is = counted[was], counted[is]
    if was ~= is then
      local node, move = r.node, was * 3 + is
      local lane = node and node.lane_id or graph_store.lane_of_row(r)
      if lane and lane == last then
        counts[ACTIVE], counts[WAITING] = counts[ACTIVE] + ADDS_ACTIVE[move], counts[WAITING] + ADDS_WAITING[move]
      elseif lane then
        counts = lane_counts.add(at, run, r.ordinal, lane, ADDS_ACTIVE[move], ADDS_WAITING[move])
        last = counts and lane
      end
    end
  end
end

-- Counts `count` new runs of a graph, none of whose nodes has changed yet; `run` is the last of them.
function lane_counts.created(c, run, g, count)
  local _, waiting = graph_store.lanes(g)
  for lane, nodes in pairs(waiting) do lane_counts.add(c.at, run, 0, lane, 0, nodes * count) end
end

-- Adds to a count in the hash. A count of 0 is removed.
local function add_stored(hash, state, lane, by)
  if by == 0 then return end
  local field = NAMES[state] .. ' ' .. lane
  if redis.call('HINCRBY', hash, field, by) == 0 then redis.call('HDEL', hash, field) end
end

local function write_entry(entry)
  local lanes = entry.lanes
  entry.changes, entry.lanes = 0, {}
  for lane, counts in pairs(lanes) do
    add_stored(entry.key, ACTIVE, lane, counts[ACTIVE])
    add_stored(entry.key, WAITING, lane, counts[WAITING])
  end
end

-- Writes the gathered changes of the partitions that have enough.
function lane_counts.write()
  local entries = full
  full = {}
  for i = 1, #entries do write_entry(entries[i]) end
end

-- Drops the list of an interrupted call, with partitions that this call must not write. Their changes are written after further
-- ones.
function lane_counts.drop()
  for i = 1, #full do full[i].changes = 0 end
  full = {}
end

-- Writes the gathered changes of a partition, for a keeper that reads it.
function lane_counts.write_all(c)
  local entry = gathered[c.at.probe]
  if entry and entry.changes > 0 then write_entry(entry) end
end

-- Returns the counts of a partition by lane, each with the number of active and of waiting nodes.
function lane_counts.of(c)
  local lanes, fields = {}, redis.call('HGETALL', key.ffx_lane_counts(c))
  for i = 1, #fields, 2 do
    local name, lane = string.match(fields[i], '^(%a+) (.*)$')
    local count = tonumber(fields[i + 1])
    if name == 'active' then add(lanes, lane, count, 0) elseif name == 'waiting' then add(lanes, lane, 0, count) end
  end
  local entry = gathered[c.at.probe]
  for lane, counts in pairs(entry and entry.lanes or {}) do add(lanes, lane, counts[ACTIVE], counts[WAITING]) end
  -- Changes that a server has lost may leave less than 0, until the nodes are counted again.
  for _, counts in pairs(lanes) do
    counts[ACTIVE], counts[WAITING] = math.max(0, counts[ACTIVE]), math.max(0, counts[WAITING])
  end
  return lanes
end

-- Drops the changes of a partition that no longer has runs.
function lane_counts.forget(c)
  local entry = gathered[c.at.probe]
  if entry then entry.changes, entry.lanes, entry.pass = 0, {}, nil end
  redis.call('UNLINK', key.ffx_lane_counts(c))
end

-- Begins a pass over the runs up to the one that was entered in the lists at a time, the oldest first. It has counted the nodes
-- before `row` of the run that was entered `at` a time, and all earlier runs.
function lane_counts.pass_begins(c, last_start)
  of_place(c.at).pass = { last_start = last_start, at = 0, row = 1, lanes = {} }
end

-- Counts nodes of the next run of the pass. Returns roughly how many records that took, and whether the run is done.
function lane_counts.count_run(c, run)
  local entry = gathered[c.at.probe]
  local pass = entry and entry.pass
  if not pass or run.listed > pass.last_start then return 0, true end
  local from = run.listed == pass.at and pass.row or 1
  pass.at, pass.row = run.listed, math.huge
  if row.open(run) == 0 or row.is_purging(run) or from > run.count then return 0, true end
  local to, g = math.min(run.count, from + ROWS_PER_STEP - 1), graph_store.of_run(run)
  row.each_state(run, from, to, function(ordinal, phase, eligibility)
    local state = row.COUNTED[phase * 16 + eligibility]
    if state == 0 then return end
    add(pass.lanes, graph_store.node(g, ordinal).lane_id, state == ACTIVE and 1 or 0, state == WAITING and 1 or 0)
  end)
  if to < run.count then pass.row = to + 1 end
  return math.floor((to - from + 1) / ROWS_PER_RUN), to == run.count
end

-- Ends the pass: its counts replace the stored ones.
function lane_counts.pass_ends(c)
  local entry = gathered[c.at.probe]
  local pass = entry and entry.pass
  if not pass then return end
  entry.pass, entry.changes, entry.lanes = nil, 0, {}
  local values = {}
  for lane, counts in pairs(pass.lanes) do
    for state = ACTIVE, WAITING do
      if counts[state] ~= 0 then
        values[#values + 1] = NAMES[state] .. ' ' .. lane
        values[#values + 1] = number.text(counts[state])
      end
    end
  end
  redis.call('UNLINK', entry.key)
  call.chunked('HSET', entry.key, values)
end
