-- Classes of runs: the values that the runs share which a program starts of one flow. The record of a class is stored once in a
-- partition, under the beginning of its hash, and counts its runs. It is removed with the last of them: see graph_store.

-- Classes that the interpreter knows, by their ids and by their texts. Bounded: when it is full, it is emptied.
local by_id, by_text, known_count = {}, {}, 0
local MAX_KNOWN = 4096

-- Number of digits of the hash that are the id of a class, and number of its bytes, as the header of a run has it.
local DIGITS = 16

local FIELDS = 6

local function byte_of(digits) return string.char(tonumber(digits, 16)) end

local function digit_pair(byte) return string.format('%02x', string.byte(byte)) end

local function keep(text, f)
  if known_count >= MAX_KNOWN then by_id, by_text, known_count = {}, {}, 0 end
  local digits = string.sub(redis.sha1hex(text), 1, DIGITS)
  local name = f[3] or ''
  local class = {
    id = string.gsub(digits, '%x%x', byte_of), digits = digits, text = text, graph = f[1] or '', graph_hash = f[2] or '', flow_kind = name,
    namespace = f[4] or '', retention = is_set(f[5]) and f[5] or nil, priority = is_set(f[6]) and f[6] or nil,
    is_valid = false,
  }
  by_id[class.id], by_text[text], known_count = class, class, known_count + 1
  return class
end

-- Returns the class that a client has sent; nil and the error reply for a malformed one. `is_valid` is set once its retention and
-- its priority have been checked.
function run_class.given(text)
  local class = by_text[text]
  if class then return class end
  local fields, err = run_data.check_texts(text, 'class', FIELDS)
  if err then return nil, err end
  return keep(text, fields)
end

-- Returns the class with an id, which runs in a partition have. `partition_key`: the key of the partition.
local function find(partition_key, id)
  local class = by_id[id]
  if class then return class end
  local class_key = partition_key .. ':run_class:' .. string.gsub(id, '.', digit_pair)
  local text = redis.call('HGET', class_key, 'text')
  if not text then error('the class of runs is gone: ' .. class_key, 0) end
  return keep(text, run_data.decode_texts(text, 'class of runs ' .. class_key))
end

-- Returns the class with an id, which runs in the call's partition have.
function run_class.of_call(c, id) return by_id[id] or find(key.ffx_partition(c), id) end

-- Returns the class of a run.
function run_class.of_run(run)
  return by_id[run.class] or find(run.prefix .. ':ffx:' .. run.tag, run.class)
end

local PLACE = { success = 1, failed = 2, cancelled = 3, expired = 4 }

-- Checks the retention of a class. Returns nil, or the error reply.
function run_class.check_retention(kept)
  local count = 0
  for text in string.gmatch(kept or '', '[^,]+') do
    local _, err = number.whole('retention', text)
    if err then return err end
    count = count + 1
  end
  if count ~= 0 and count ~= 1 and count ~= 4 then
    return reply.err('invalid_input', 'retention must have one time or four, got: ' .. kept)
  end
  return nil
end

-- Returns when (ms) a flow that closed at a given time may be removed, or nil. `kept` is one time (ms) for all outcomes, or
-- four, for success, failed, cancelled and expired; a negative or missing one is for ever.
function run_class.due_at(kept, outcome, closed_at)
  local keep = tonumber(kept)
  if not keep then
    local times = {}
    for text in string.gmatch(kept or '', '[^,]+') do times[#times + 1] = tonumber(text) end
    keep = times[PLACE[outcome]] or times[1]
  end
  if not keep or keep < 0 then return nil end
  return closed_at + keep
end
