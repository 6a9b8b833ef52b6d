-- Lists of runs whose times only grow: all runs and the runs of a flow, in the order of their starts, and the runs that are over,
-- in the order of their ends. An entry is a time (µs) and the id of a run. The next time is later than the last one of the list,
-- whatever the clock says, so each is used once, and an entry is found by its time. The header of the run's rows has the same
-- time, in `listed` or `closed`. An entry without such a header is a hole: the run was purged, or opened again, or the call that
-- submitted it was interrupted. Readers pass over holes, and run_holes removes them. In the list of all runs, an entry also has the
-- beginning of the id that programs know the run by, or all of a UUID, so that a search for an id reads this list alone.

-- The format of an entry: the time as in the header, and the id without its last four digits, which are zeros. In the list of all
-- runs, the other id follows in the form of run_data.name_of.
local ENTRY, ENTRY_BYTES, TIME, TIME_BYTES = '<I7c14', 21, run_head.LISTED_FORMAT, 7
local NAME_AT = ENTRY_BYTES + 1
local ID, ID_TEXT = '>I4I2I2I2I4', '%08x-%04x-%04x-%04x-%08x0000'
local ID_PARTS = '^(%x+)-(%x+)-(%x+)-(%x+)-(%x%x%x%x%x%x%x%x)'

-- Places of the times in the header.
local LISTED_AT, LISTED_TO = '' .. run_head.LISTED_AT - 1, '' .. run_head.LISTED_AT + TIME_BYTES - 2
local CLOSED_AT, CLOSED_TO = '' .. run_head.CLOSED_AT - 1, '' .. run_head.CLOSED_AT + TIME_BYTES - 2

-- The names of the list of all runs and of the list of runs that are over, and the beginning of the name of a flow's list.
local ALL, OVER, OF_FLOW = 'all_runs', 'closed_flows', 'runs:'
run_entries.ALL, run_entries.OVER, run_entries.OF_FLOW = ALL, OVER, OF_FLOW

-- Returns the key of a list.
function run_entries.key(c, name)
  if name == ALL then return key.ffx_all_runs(c) elseif name == OVER then return key.ffx_closed_flows(c) end
  return key.ffx_runs(c, string.sub(name, #OF_FLOW + 1))
end

-- Returns the id of a run as in entries.
function run_entries.pack_id(flow_id)
  local a, b, d, e, f = string.match(flow_id, ID_PARTS)
  return struct.pack(ID, tonumber(a, 16), tonumber(b, 16), tonumber(d, 16), tonumber(e, 16), tonumber(f, 16))
end

-- Returns an entry. `id`: packed.
function run_entries.pack(at, id) return struct.pack(ENTRY, at, id) end

-- Returns the entry of a run in the list of its flow, with which its entry in the list of all runs begins.
function run_entries.of_run(run) return run_entries.pack(run.listed, run_entries.pack_id(run.id)) end

local function time_of(entry) return #entry >= TIME_BYTES and struct.unpack(TIME, entry) or 0 end
run_entries.time = time_of

-- Returns the time of an entry and the id of its run; nil for a text that is not an entry.
function run_entries.read(entry)
  if #entry < ENTRY_BYTES then return nil end
  local a, b, d, e, f = struct.unpack(ID, entry, TIME_BYTES + 1)
  return time_of(entry), string.format(ID_TEXT, a, b, d, e, f)
end

-- Returns the id of the run of an entry and the time, as searches have them: '' and 0 for a text that is not an entry.
function run_entries.pair(entry)
  local at, flow_id = run_entries.read(entry)
  return { flow_id or '', at or 0 }
end

-- Reports whether an entry of the list with a name is a hole. One whose rows cannot be read stays.
function run_entries.is_hole(c, name, entry)
  local _, flow_id = run_entries.read(entry)
  if not flow_id then return true end
  local from, to = LISTED_AT, LISTED_TO
  if name == OVER then from, to = CLOSED_AT, CLOSED_TO end
  local stored = redis.pcall('GETRANGE', key.flow_nodes(c, flow_id), from, to)
  return type(stored) == 'string' and stored ~= string.sub(entry, 1, TIME_BYTES)
end

-- Returns the time of the last entry of a list; 0 when it is empty.
function run_entries.last_time(list_key)
  local last = redis.call('LINDEX', list_key, '-1')
  return last and time_of(last) or 0
end

-- Returns the time of the next entry of a list, and of another one that gets the same entry.
function run_entries.next_time(c, list_key, other_key)
  local at, last = c.now * 1000 + call.micros(), run_entries.last_time(list_key)
  if last >= at then at = last + 1 end
  last = other_key and run_entries.last_time(other_key) or 0
  return last >= at and last + 1 or at
end

-- Time (µs) by which an entry may be later than the start or the end of its run in the usual case: times of entries are apart,
-- even of those that are entered in one moment.
local USUAL_LEAD = 2000

-- Notes that entries, the last of them at a time (µs), were entered in a list by the clock of the call. After a clock went back,
-- they are later than the starts or ends of their runs: `lead` keeps by how much at most, and up to which time.
function run_entries.note_lead(c, name, last)
  local lead = last - c.now * 1000
  if lead <= USUAL_LEAD then return end
  local noted, known = key.ffx_run_lists(c), nil
  known = string.match(redis.call('HGET', noted, 'lead ' .. name) or '', '^%d+')
  redis.call('HSET', noted, 'lead ' .. name, number.digits(math.max(lead, tonumber(known) or 0)) .. ' ' .. number.digits(last))
end

-- Returns the time (µs) from which on a list has only runs that started, or ended, after a time (whole ms).
function run_entries.none_from(c, name, ms)
  local from = (ms + 1) * 1000 + USUAL_LEAD
  local lead, upto = string.match(redis.call('HGET', key.ffx_run_lists(c), 'lead ' .. name) or '', '^(%d+) (%d+)$')
  if not lead or tonumber(upto) < from then return from end
  return math.min(from + tonumber(lead), tonumber(upto) + 1)
end

-- Number of entries that are read at once when a search has come that close.
local NEAR = 48

-- Returns the first place from `low` on, below `high`, whose entry is at a time or later.
local function rank_near(list_key, low, high, at)
  local page = redis.call('LRANGE', list_key, low, high - 1)
  for i = 1, #page do
    if time_of(page[i]) >= at then return low + i - 1 end
  end
  return high
end

-- Returns how many entries of a list are before a time. It estimates the place by the times around it, as runs are spread over
-- time, and halves the rest at every other step, as they are not spread evenly.
function run_entries.rank(list_key, at)
  local low, high = 0, redis.call('LLEN', list_key)
  if high <= NEAR then return high == 0 and 0 or rank_near(list_key, 0, high, at) end
  local low_at, high_at = time_of(redis.call('LINDEX', list_key, 0)), time_of(redis.call('LINDEX', list_key, -1))
  if at <= low_at then return 0 elseif at > high_at then return high end
  -- The entry at `low` is before the time, the one at `last` is not.
  local last, halve = high - 1, false
  while last - low > NEAR do
    local part = halve and 0.5 or (at - low_at) / (high_at - low_at)
    local middle = math.max(low + 1, math.min(last - 1, low + math.floor((last - low) * part)))
    local middle_at = time_of(redis.call('LINDEX', list_key, middle))
    if middle_at < at then low, low_at = middle, middle_at else last, high_at = middle, middle_at end
    halve = not halve
  end
  return rank_near(list_key, low + 1, last, at)
end

-- Returns how many entries come before a time in an order: those that are older, or, from the newest on, those at this time or
-- later.
function run_entries.rank_in(list_key, at, oldest_first)
  local rank = run_entries.rank(list_key, at)
  return oldest_first and rank or redis.call('LLEN', list_key) - rank
end

-- Returns `count` entries from a rank on, in an order.
function run_entries.page(list_key, rank, count, oldest_first)
  if oldest_first then return redis.call('LRANGE', list_key, rank, rank + count - 1) end
  local page = redis.call('LRANGE', list_key, -(rank + count), -(rank + 1))
  local size = #page
  for i = 1, math.floor(size / 2) do page[i], page[size + 1 - i] = page[size + 1 - i], page[i] end
  return page
end

-- Number of entries that a check reads at once: the next ones are usually close.
local WINDOW = 128

-- Returns the entry of a list that begins with a time and an id; nil without one. Entries that were read for earlier checks of the
-- call are kept.
function run_entries.find(c, list_key, entry)
  local windows, at = call.list_in(c, 'windows'), time_of(entry)
  local window = windows[list_key]
  if not window or at < window.from or at > window.to then
    local rank = run_entries.rank(list_key, at)
    local page = redis.call('LRANGE', list_key, rank, rank + WINDOW - 1)
    window = { from = at, to = #page < WINDOW and math.huge or time_of(page[WINDOW]), entries = {} }
    for i = 1, #page do window.entries[string.sub(page[i], 1, ENTRY_BYTES)] = page[i] end
    windows[list_key] = window
  end
  return window.entries[entry]
end

-- Returns a text with the letters A to Z in lower case; others do not change, as interpreters do not agree on them.
function run_entries.folded(text) return (string.gsub(text, '[A-Z]+', string.lower)) end

-- Size of an entry whose run has a UUID.
local WITH_UUID = ENTRY_BYTES + run_data.PACKED_UUID

local function byte_of(digits) return string.char(tonumber(digits, 16)) end

-- Returns the whole bytes of hexadecimal digits from a place on.
local function bytes_of(digits, from)
  local whole = math.floor((#digits - from + 1) / 2) * 2
  return (string.gsub(string.sub(digits, from, from + whole - 1), '..', byte_of))
end

-- Returns the bytes with which an entry continues whose run has a UUID that begins with a text; nil when none does.
local function bytes_of_beginning(text)
  local name = run_data.name_of(text .. string.sub('00000000-0000-0000-0000-000000000000', #text + 1))
  if #name ~= run_data.PACKED_UUID or string.byte(name) ~= 0 then return nil end
  return string.sub(name, 1, 1 + math.floor(#string.gsub(text, '%-', '') / 2))
end

-- Returns the bytes of a text that is in a UUID from an odd digit on, and from an even one on; nil when it is in none. The first
-- and the last digit may be missing.
local function bytes_of_part(text)
  local digits = string.gsub(text, '%-', '')
  if string.find(digits, '[^0-9a-f]') then return nil end
  return bytes_of(digits, 1), bytes_of(digits, 2)
end

local function may_contain(entry, text, odd, even)
  if #entry == WITH_UUID and string.byte(entry, NAME_AT) == 0 then
    return odd and (string.find(entry, odd, NAME_AT + 1, true) or string.find(entry, even, NAME_AT + 1, true))
  end
  if #entry >= ENTRY_BYTES + run_data.MAX_NAME or string.find(entry, text, NAME_AT, true) then return true end
  if not string.find(entry, '[A-Z]', NAME_AT) then return false end
  return string.find(run_entries.folded(string.sub(entry, NAME_AT)), text, 1, true) ~= nil
end

-- Returns the entries of a page of the list of all runs whose run may have an id that begins with `begins` and contains `text`, which
-- is folded; nil means any. An entry may have a part of the id only, so the caller checks the id.
function run_entries.may_be_named(page, begins, text)
  local kept, find, name, of_uuid, odd, even = call.short_list(), string.find, nil, nil, nil, nil
  if begins then name, of_uuid = string.sub(begins, 1, run_data.MAX_NAME), bytes_of_beginning(begins) end
  if text then odd, even = bytes_of_part(text) end
  for i = 1, #page do
    local entry = page[i]
    if (not name or find(entry, name, NAME_AT, true) == NAME_AT or of_uuid and find(entry, of_uuid, NAME_AT, true) == NAME_AT)
      and (not text or may_contain(entry, text, odd, even)) then
      kept[#kept + 1] = entry
    end
  end
  return kept
end

-- Maximum number of entries that are taken from the end of a list and put back.
local NEAR_END = 512

-- Enters a missing entry in its place. Most are near the end, where a damaged log ends.
function run_entries.insert(c, list_key, entry)
  call.list_in(c, 'windows')[list_key] = nil
  local rank = run_entries.rank(list_key, time_of(entry))
  local later = redis.call('LLEN', list_key) - rank
  if later > NEAR_END then
    redis.call('LINSERT', list_key, 'BEFORE', redis.call('LINDEX', list_key, rank), entry)
    return
  end
  local taken = later > 0 and redis.call('RPOP', list_key, later) or {}
  local entries = { entry }
  for i = #taken, 1, -1 do entries[#entries + 1] = taken[i] end
  redis.call('RPUSH', list_key, unpack(entries))
end
