-- Removes holes from lists of runs (see run_entries), so that they take neither time nor memory. Most runs are purged in the order
-- in which they started and ended, so their entries are at the head of a list. Holes after a run that stays are counted. When
-- they outnumber the other entries, a keeper copies these in bounded steps to another list, which then takes the place of the
-- first.

-- Number of entries that are read at once at the head of a list, and the maximum number that one call removes there.
local HEADS_AT_A_TIME, MAX_HEADS = 64, 1024

-- Minimum number of holes for which a list is copied, and number of entries of one step.
local MIN_HOLES, ENTRIES_PER_STEP = 256, 256

-- Notes a new hole in a list.
function run_holes.note(c, name)
  local holes = call.list_in(c, 'holes')
  holes[name] = (holes[name] or 0) + 1
end

-- Removes holes at the head of a list. Returns how many.
local function trim_heads(c, name, list_key)
  local trimmed = 0
  while true do
    local page, holes = redis.call('LRANGE', list_key, 0, HEADS_AT_A_TIME - 1), 0
    while page[holes + 1] and run_entries.is_hole(c, name, page[holes + 1]) do holes = holes + 1 end
    if holes > 0 then redis.call('LTRIM', list_key, holes, -1) end
    trimmed = trimmed + holes
    if holes < HEADS_AT_A_TIME or trimmed >= MAX_HEADS then return trimmed end
  end
end

-- Counts new holes of a list, less those that can be removed at once. After a start of the server, holes may be left from
-- submissions that were interrupted, so they stay until the keeper has seen them.
local function count_holes(c, name, count)
  local list_key, noted = run_entries.key(c, name), key.ffx_run_lists(c)
  if not call.in_doubt(c) then count = count - trim_heads(c, name, list_key) end
  if count == 0 then return end
  local left = redis.call('HINCRBY', noted, 'holes ' .. name, count)
  if left <= 0 then
    redis.call('HDEL', noted, 'holes ' .. name)
  elseif left >= MIN_HOLES and 2 * left > redis.call('LLEN', list_key) then
    redis.call('HSETNX', key.ffx_hollow_lists(c), name, '0')
    wake.due(c, c.now)
  end
end

-- Forgets the counts of a partition without runs.
local function forget(c)
  if redis.call('EXISTS', key.ffx_all_runs(c), key.ffx_closed_flows(c)) > 0 then return end
  redis.call('UNLINK', key.ffx_run_lists(c), key.ffx_hollow_lists(c), key.ffx_compacted_list(c))
end

-- Removes or counts the holes that the call has noted.
function run_holes.settle(c)
  local holes = c.holes
  if not holes then return end
  c.holes = nil
  for name, count in pairs(holes) do count_holes(c, name, count) end
  forget(c)
end

-- Removes the holes at the head of a list that a keeper has checked. Returns how many.
function run_holes.trim(c, name)
  if call.in_doubt(c) then return 0 end
  local trimmed = trim_heads(c, name, run_entries.key(c, name))
  if trimmed == 0 then return 0 end
  call.list_in(c, 'holes')[name] = -trimmed + (c.holes[name] or 0)
  run_holes.settle(c)
  return trimmed
end

-- Removes holes at the heads of all lists that have some, for a keeper.
function run_holes.recheck(c)
  local noted = redis.call('HKEYS', key.ffx_run_lists(c))
  for _, field in ipairs(noted) do
    local name = string.match(field, '^holes (.*)$')
    if name then run_holes.trim(c, name) end
  end
end

-- Drops the copies of a partition, as one of its lists has changed in places that may be copied already.
function run_holes.drop_copies(c) redis.call('UNLINK', key.ffx_hollow_lists(c), key.ffx_compacted_list(c)) end

-- Returns the list that is being copied, or is to be next, and the time of the last entry that was.
local function next_list(c)
  local lists = redis.call('HGETALL', key.ffx_hollow_lists(c))
  for i = 2, #lists, 2 do
    if lists[i] ~= '0' then return lists[i - 1], tonumber(lists[i]) end
  end
  return lists[1], 0
end

-- Copies more entries of a list. A step that was logged in part is repeated: entries that the copy has already are not copied again.
local function copy(c, name, at)
  local hollow, copy_key, list_key = key.ffx_hollow_lists(c), key.ffx_compacted_list(c), run_entries.key(c, name)
  if at == 0 then
    redis.call('UNLINK', copy_key)
    redis.call('HDEL', key.ffx_run_lists(c), 'holes ' .. name)
  end
  local rank, copied, kept = run_entries.rank(list_key, at + 1), run_entries.last_time(copy_key), {}
  local page = redis.call('LRANGE', list_key, rank, rank + ENTRIES_PER_STEP - 1)
  for _, entry in ipairs(page) do
    if run_entries.time(entry) > copied and not run_entries.is_hole(c, name, entry) then kept[#kept + 1] = entry end
  end
  call.chunked('RPUSH', copy_key, kept)
  if #page == ENTRIES_PER_STEP then
    redis.call('HSET', hollow, name, number.digits(run_entries.time(page[#page])))
    return
  end
  redis.call('HDEL', hollow, name)
  if redis.call('EXISTS', copy_key) == 1 then redis.call('RENAME', copy_key, list_key) else redis.call('UNLINK', list_key) end
  forget(c)
end

-- Performs one step of copying a list.
function run_holes.compact(c)
  if call.in_doubt(c) then return end
  local name, at = next_list(c)
  if not name then return end
  copy(c, name, at)
  if redis.call('EXISTS', key.ffx_hollow_lists(c)) == 1 then c.more = true end
end
