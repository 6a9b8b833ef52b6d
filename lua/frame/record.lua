-- Reading and writing hashes. Only the fields that a rule needs are read.

-- Table of the named fields (absent fields are nil, empty ones ""), or nil when the hash does not exist. `telling`: a
-- hash with none of the fields is none of those that are looked for.
function record.read(hash, fields, telling)
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

-- Writes `values` (flat list of names and values) and unsets the `blank` fields. A missing field means unset; the
-- contract's own functions store "" instead, which is kept for records that they created.
function record.write(hash, compact, values, blank)
  redis.call('HSET', hash, unpack(record.with_blanks(compact, values, blank)))
  record.unset(hash, compact, blank)
end

-- The two steps of record.write, for a caller that names most of the values in its own HSET: first what to write for
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
  if compact and #blank > 0 then redis.call('HDEL', hash, unpack(blank)) end
end

-- A refusal that anybody can provoke stores its time at most once in this time (ms), so it costs no write each.
local NOTE_EVERY_MS = 10000

function record.note_refusal(c, core_key, field)
  local last = tonumber(redis.call('HGET', core_key, field) or nil)
  if last and last <= c.now and c.now - last < NOTE_EVERY_MS then return end
  redis.call('HSET', core_key, field, c.now_text)
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

-- Decoded policy document, or an empty table when there is none or it is no JSON object.
function record.policy(policy_key)
  local text = redis.call('GET', policy_key)
  if not text then return {} end
  local ok, policy = pcall(cjson.decode, text)
  if not ok or type(policy) ~= 'table' then return {} end
  return policy
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
