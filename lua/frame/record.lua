-- Reads and writes records by their keys: records of executions and flows, which may be rows (see store.lua), and others. A caller reads
-- only the fields that its rule needs.

function record.read(hash, fields, telling)
  local s, at = store.of(hash)
  return s.read(at, fields, telling)
end

function record.values(hash, ...)
  local s, at = store.of(hash)
  return s.values(at, ...)
end

function record.value(hash, field)
  local s, at = store.of(hash)
  return s.value(at, field)
end

function record.all(hash)
  local s, at = store.of(hash)
  return s.all(at)
end

function record.exists(hash)
  local s, at = store.of(hash)
  return s.exists(at)
end

function record.set(hash, ...)
  local s, at = store.of(hash)
  s.set(at, ...)
end

function record.clear(hash, ...)
  local s, at = store.of(hash)
  s.clear(at, ...)
end

function record.add(hash, field, by)
  local s, at = store.of(hash)
  return s.add(at, field, by)
end

-- Sets a field that is not set. Reports whether it did.
function record.set_once(hash, field, value)
  if record.value(hash, field) then return false end
  record.set(hash, field, value)
  return true
end

-- Writes `values` (flat list of names and values) and unsets the `blank` fields. A missing field means unset; the contract's own
-- functions store "" instead, which is kept for records that they created.
function record.write(hash, compact, values, blank)
  record.set(hash, unpack(record.with_blanks(compact, values, blank)))
  record.unset(hash, compact, blank)
end

-- Does the two steps of record.write for a caller that names most of the values itself. It appends the values for the `blank`
-- fields to `values`, and returns the fields to delete as well.
function record.with_blanks(compact, values, blank)
  if compact then return values end
  local n = #values
  for i = 1, #blank do
    values[n + 1] = blank[i]
    values[n + 2] = ''
    n = n + 2
  end
  return values
end

function record.unset(hash, compact, blank)
  if compact and #blank > 0 then record.clear(hash, unpack(blank)) end
end

-- A refusal that any client can cause stores its time at most once in this time (ms), so that it does not cost a write each time.
local NOTE_EVERY_MS = 10000

function record.note_refusal(c, core_key, field)
  local last = tonumber(record.value(core_key, field) or nil)
  if last and last <= c.now and c.now - last < NOTE_EVERY_MS then return end
  record.set(core_key, field, c.now_text)
end

-- Returns the tags of a JSON object: each of its members, nested values as JSON text.
function record.tags_of(tags_json)
  if not is_set(tags_json) or tags_json == '{}' then return {} end
  local ok, tags = pcall(cjson.decode, tags_json)
  if not ok or type(tags) ~= 'table' then return {} end
  local pairs_list = {}
  for name, value in pairs(tags) do
    pairs_list[#pairs_list + 1] = tostring(name)
    pairs_list[#pairs_list + 1] = type(value) == 'table' and cjson.encode(value) or tostring(value)
  end
  return pairs_list
end

-- Step of the priority in the score of the eligible set: a lower score runs earlier.
record.PRIORITY_STEP = 1e12

function record.eligible_score(core)
  return (tonumber(core.created_at) or 0) - (tonumber(core.priority) or 0) * record.PRIORITY_STEP
end

function record.lane(core)
  local lane = core.lane_id
  if lane and lane ~= '' then return lane end
  return record.running_lane(core)
end

-- Returns the lane under which the execution is indexed while it runs.
function record.running_lane(core)
  if is_set(core.current_lane) then return core.current_lane end
  if is_set(core.lane_id) then return core.lane_id end
  return 'default'
end

-- Appends a field and its value to the others of a record unless it has no value.
function record.append(values, field, value)
  if is_set(value) and value ~= 0 then
    values[#values + 1] = field
    values[#values + 1] = value
  end
end
