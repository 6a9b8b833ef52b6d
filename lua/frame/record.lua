-- Reading and writing hashes. Only the fields that a rule needs are read.

-- Executions of runs that were submitted whole have no hash of their own but a row of their run: see row.lua. Whoever reads or
-- writes the record of an execution does so with the functions of this file, which know both.

-- @hook The row behind the key of a record; nil when the record is a hash.
function record.node(hash) return nil end

-- @hook The named fields of a row, as record.read gives them.
function record.read_node(node, fields) return {} end

-- @hook Writes fields of a row: names and values in turn.
function record.set_node(node, ...) end

-- @hook Unsets fields of a row.
function record.clear_node(node, ...) end

-- Table of the named fields (absent fields are nil, empty ones ""), or nil when the record does not exist. `telling`: a
-- hash with none of the fields is none of those that are looked for.
function record.read(hash, fields, telling)
  local node = record.node(hash)
  if node then return record.read_node(node, fields) end
  local values = redis.call('HMGET', hash, unpack(fields))
  local found = false
  local out = {}
  for i = 1, #fields do
    local value = values[i]
    if value then
      out[fields[i]] = value
      found = true
    end
  end
  if found or not telling and redis.call('EXISTS', hash) == 1 then return out end
  return nil
end

-- Values of the named fields in order, false for those that are absent.
function record.values(hash, ...)
  local node = record.node(hash)
  if not node then return redis.call('HMGET', hash, ...) end
  local fields, values = { ... }, {}
  local by_name = record.read_node(node, fields)
  for i, field in ipairs(fields) do values[i] = by_name[field] or false end
  return values
end

-- One field, false when it is absent.
function record.value(hash, field)
  local node = record.node(hash)
  if not node then return redis.call('HGET', hash, field) end
  return record.read_node(node, { field })[field] or false
end

-- All fields of a hash, as HGETALL gives them; none of a row.
function record.all(hash)
  if record.node(hash) then return {} end
  return redis.call('HGETALL', hash)
end

function record.exists(hash)
  return record.node(hash) and 1 or redis.call('EXISTS', hash)
end

-- Sets fields: names and values in turn.
function record.set(hash, ...)
  local node = record.node(hash)
  if node then record.set_node(node, ...) else redis.call('HSET', hash, ...) end
end

-- Unsets fields.
function record.clear(hash, ...)
  local node = record.node(hash)
  if node then record.clear_node(node, ...) else redis.call('HDEL', hash, ...) end
end

-- Adds to a field and gives its new value.
function record.add(hash, field, by)
  local node = record.node(hash)
  if not node then return redis.call('HINCRBY', hash, field, by) end
  local sum = (tonumber(record.value(hash, field) or nil) or 0) + by
  record.set_node(node, field, number.text(sum))
  return sum
end

-- Writes `values` (flat list of names and values) and unsets the `blank` fields. A missing field means unset; the
-- contract's own functions store "" instead, which is kept for records that they created.
function record.write(hash, compact, values, blank)
  record.set(hash, unpack(record.with_blanks(compact, values, blank)))
  record.unset(hash, compact, blank)
end

-- The two steps of record.write, for a caller that names most of the values itself: first what to write for
-- the `blank` fields, appended to `values`, then what to delete.
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

-- A refusal that anybody can provoke stores its time at most once in this time (ms), so it costs no write each.
local NOTE_EVERY_MS = 10000

function record.note_refusal(c, core_key, field)
  local last = tonumber(record.value(core_key, field) or nil)
  if last and last <= c.now and c.now - last < NOTE_EVERY_MS then return end
  record.set(core_key, field, c.now_text)
end

-- Tags: every member of a JSON object, nested values as JSON text.
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

-- Priority score of the eligible set: lower runs earlier.
record.PRIORITY_STEP = 1e12

function record.eligible_score(core)
  return (tonumber(core.created_at) or 0) - (tonumber(core.priority) or 0) * record.PRIORITY_STEP
end

function record.lane(core)
  local lane = core.lane_id
  if lane and lane ~= '' then return lane end
  return record.running_lane(core)
end

-- Lane under which the execution is indexed while it runs.
function record.running_lane(core)
  if is_set(core.current_lane) then return core.current_lane end
  if is_set(core.lane_id) then return core.lane_id end
  return 'default'
end

-- A field goes with the others of a record unless it has no value.
function record.append(values, field, value)
  if is_set(value) and value ~= 0 then
    values[#values + 1] = field
    values[#values + 1] = value
  end
end
