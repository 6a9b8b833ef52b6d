-- Where the record, the input and the results of a run are: after the row of a run of one node, and in a string of their own for
-- runs of more nodes, whose rows change more often. Each has its length before it. A long input has its own key. Long results, and
-- all results of large runs, are in a hash.

local LENGTH, LENGTH_BYTES = '<I4', 4

-- The beginning of each result in the data of a run of several nodes: the ordinal of its node, and its length.
local RESULT, RESULT_BYTES = '<HI4', 6

-- Maximum size (bytes) of an input and of a result that are stored here. A separate key would take more
-- memory and further commands.
local MAX_BYTES = 1024
run_data.MAX_BYTES = MAX_BYTES

-- Number of bytes that are read first: most records and inputs are shorter together.
local READ_FIRST = 2048

-- The last byte of a run of one node that is read at first.
run_data.LAST_OF_ONE = row.place(1, 2) + READ_FIRST - 1

-- Lengths of texts, packed: few different ones are frequent.
local LENGTHS, MAX_LENGTHS = {}, 256

-- Returns a number of bytes as it is stored before a text.
function run_data.length(size)
  local length = LENGTHS[size]
  if length then return length end
  length = struct.pack(LENGTH, size)
  if size <= MAX_LENGTHS then LENGTHS[size] = length end
  return length
end

-- Returns the length of a text as it is stored before the text; nil when it is too long to be stored here.
function run_data.length_of(text)
  local size = #text
  return LENGTHS[size] or size <= MAX_BYTES and run_data.length(size) or nil
end

-- Returns a text as it is stored here; nil when it is too long for that.
function run_data.pack(text)
  local length = run_data.length_of(text)
  return length and length .. text
end

-- Returns how many bytes the text at the beginning of such data has, with its length.
function run_data.end_of_first(data) return LENGTH_BYTES + struct.unpack(LENGTH, data) end

-- Returns that text.
function run_data.first(data) return string.sub(data, LENGTH_BYTES + 1, run_data.end_of_first(data)) end

-- Returns the stored form of the record and the input of a new run, and whether the input is in it.
function run_data.of_new(record_text, input)
  local record_bytes = run_data.length(#record_text) .. record_text
  local packed = input ~= '' and run_data.pack(input) or nil
  return packed and record_bytes .. packed or record_bytes, packed ~= nil
end

-- Returns the text that begins after `at` bytes, and where it ends; "" where there is none. `bytes` are the beginning of the
-- string at `target`, after `from` bytes: the rest is read.
local function text_at(bytes, at, target, from)
  if #bytes < at + LENGTH_BYTES then
    bytes = redis.call('GETRANGE', target, from + at, from + at + READ_FIRST - 1)
    from, at = from + at, 0
    if #bytes < LENGTH_BYTES then return '', from end
  end
  local last = at + LENGTH_BYTES + struct.unpack(LENGTH, bytes, at + 1)
  if #bytes >= last then return string.sub(bytes, at + LENGTH_BYTES + 1, last), from + last end
  return redis.call('GETRANGE', target, from + at + LENGTH_BYTES, from + last - 1), from + last
end

-- Returns where the data of a run begin: the bytes that are known of the string with them, how many of these come before the
-- data, and its key. `run` is a run or the record of a plain one (see run_rows.plain_flow), and `bytes` the beginning of its rows,
-- if the call has read it.
local function begin(run, bytes)
  if run.count == 1 then return bytes or run.bytes or '', row.place(1, 2), run.key end
  local data_key = run.data_key
  if not data_key then
    data_key = string.sub(run.key, 1, -6) .. 'data'
    run.data_key = data_key
  end
  return '', 0, data_key
end

-- Returns the key of the data of a run of several nodes.
function run_data.key_of(run)
  begin(run)
  return run.data_key
end

-- Returns the record of a run in its stored form.
function run_data.record(run, bytes)
  local text = run.record_text
  if not text then
    local known, at, target = begin(run, bytes)
    text, run.input_at = text_at(known, at, target, 0)
    run.record_text = text
  end
  return text
end

-- Notes the record of a run that the call creates.
function run_data.note_record(run, text)
  run.record_text, run.input_at = text, (run.count == 1 and row.place(1, 2) or 0) + LENGTH_BYTES + #text
end

-- Returns the input of a run; nil when it has its own key.
function run_data.input(run, bytes)
  if not row.has_input(run.flags) then return nil end
  local at = run.input_at
  if at and bytes and run.count == 1 and #bytes >= at + LENGTH_BYTES then
    local last = at + LENGTH_BYTES + struct.unpack(LENGTH, bytes, at + 1)
    if #bytes >= last then return string.sub(bytes, at + LENGTH_BYTES + 1, last) end
  end
  run_data.record(run, bytes)
  local known, _, target = begin(run, bytes)
  return (text_at(known, run.input_at, target, 0))
end

-- Returns how many bytes come before the result of a run of one node.
function run_data.result_at(run, bytes)
  local at = run.result_at
  if not at then
    run_data.record(run, bytes)
    at = run.input_at
    if row.has_input(run.flags) then
      local _
      _, at = text_at(bytes or run.bytes or '', at, run.key, 0)
    end
    run.result_at = at
  end
  return at
end

-- Returns the bytes between the row of a plain run of one node and its result. `bytes`: the beginning of the run.
function run_data.before_result(flow, bytes)
  local at, from = run_data.result_at(flow, bytes), row.place(1, 2)
  return #bytes >= at and string.sub(bytes, from + 1, at) or redis.call('GETRANGE', flow.key, from, at - 1)
end

-- Returns the result of a run of one node; nil when it has none here.
local function read_one(run)
  local at = run_data.result_at(run)
  local text = text_at(redis.call('GETRANGE', run.key, at, at + READ_FIRST - 1), 0, run.key, at)
  return is_set(text) and text or nil
end

-- Writes the result of a run of one node, or removes it (nil). Reports whether the result is stored here; an empty result is not.
local function write_one(run, text)
  local at = run_data.result_at(run)
  local result = is_set(text) and run_data.pack(text) or nil
  if result or redis.call('STRLEN', run.key) > at then redis.call('SETRANGE', run.key, at, result or run_data.pack('')) end
  return result ~= nil
end

-- Reports whether the short results of a run of several nodes are with its data.
function run_data.has_results(run) return run.count > 1 and run.count <= row.SMALL_RUN end

-- Adds the result of a node to the data of such a run. Reports whether it is short enough.
function run_data.add_result(run, ordinal, text)
  if #text > MAX_BYTES then return false end
  local data_key, _ = run.data_key, nil
  if not data_key then _, _, data_key = begin(run) end
  redis.call('APPEND', data_key, struct.pack(RESULT, ordinal, #text) .. text)
  return true
end

-- Returns the data of a run of several nodes, how many bytes of them come before the first result, and their key.
local function read_data(run)
  local _, at, data_key = begin(run)
  local bytes = redis.call('GETRANGE', data_key, '0', '-1')
  if #bytes < LENGTH_BYTES then return '', 0, data_key end
  at = LENGTH_BYTES + struct.unpack(LENGTH, bytes)
  if row.has_input(run.flags) then at = at + LENGTH_BYTES + struct.unpack(LENGTH, bytes, at + 1) end
  return bytes, at, data_key
end

-- Returns the results in the data of a run, by the ordinals of their nodes.
function run_data.results(run)
  local texts, bytes, at = {}, read_data(run)
  while #bytes >= at + RESULT_BYTES do
    local ordinal, length = struct.unpack(RESULT, bytes, at + 1)
    at = at + RESULT_BYTES + length
    texts[ordinal] = string.sub(bytes, at - length + 1, at)
  end
  return texts
end

-- Removes the result of a node from the data of a run.
local function remove_result(run, ordinal)
  local bytes, at, data_key = read_data(run)
  local kept = { string.sub(bytes, 1, at) }
  local total = at
  while #bytes >= at + RESULT_BYTES do
    local of, length = struct.unpack(RESULT, bytes, at + 1)
    local last = at + RESULT_BYTES + length
    if of ~= ordinal then
      kept[#kept + 1] = string.sub(bytes, at + 1, last)
      total = total + last - at
    end
    at = last
  end
  if total < #bytes then redis.call('SET', data_key, table.concat(kept)) end
end

-- Writes the result of a node, or removes it (nil). Reports whether the result is stored here. `is_first`: it has no earlier
-- result.
function run_data.write_result(run, ordinal, text, is_first)
  if run.count == 1 then return write_one(run, text) end
  if not run_data.has_results(run) then return false end
  if not is_first then remove_result(run, ordinal) end
  return text ~= nil and run_data.add_result(run, ordinal, text)
end

-- Returns the result of a row's node, or false. A large one is named: see stored_value.lua.
function run_data.result(r)
  local run, text = r.run, nil
  if run.count == 1 then
    text = read_one(run)
  elseif run_data.has_results(run) then
    text = run_data.results(run)[r.ordinal]
  end
  return text or redis.call('HGET', row.results_key(run), r.ordinal)
end

-- The version of the encoding of classes and records, which clients write: a byte with it, and a MessagePack array of texts, of
-- which the last ones are left out while they are empty. See internal/runrecord.
local VERSION = 1

-- Returns the texts of a class or a record, whose name is for the error about another version.
function run_data.decode_texts(text, name)
  local version = string.byte(text) or 0
  if version ~= VERSION then
    error('the ' .. name .. ' has version ' .. version .. ', but this library reads version ' .. VERSION, 0)
  end
  local _, fields = cmsgpack.unpack_one(text, 1)
  return fields
end

-- Checks a class from a client, with at most `most` texts. Returns them, or nil and the error reply.
function run_data.check_texts(text, name, most)
  local ok, fields = pcall(run_data.decode_texts, text, name)
  if not ok then return nil, reply.err('invalid_input', tostring(fields)) end
  ok = type(fields) == 'table' and #fields <= most
  for i = 1, ok and #fields or 0 do ok = ok and type(fields[i]) == 'string' end
  if not ok then return nil, reply.err('invalid_input', 'the ' .. name .. ' must be an array of at most ' .. most .. ' texts') end
  return fields
end

-- Fields of a record by their names, in the order of internal/runrecord.
local NAMES = { 'run_id', 'input_hash', 'trace_context', 'fair_key', 'creator_identity', 'memo', 'parent_execution_id', 'fail_fast' }
run_data.NAMES = NAMES

-- Maximum size of a record (bytes), and of the beginning of the id of a run in the list of all runs.
local MAX_RECORD, MAX_NAME = 65536, 40

-- Size of the packed id of a run (bytes).
run_data.PACKED_ID = 14

-- A UUID, and the form in which the list of all runs has an id that is one in lower case: after a byte 0, with which no text
-- begins.
local UUID = '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)%-(%x%x%x%x)(%x%x%x%x%x%x%x%x)$'
local UUID_TEXT, UUID_FORMAT = 36, '>BI4I2I2I2I2I4'

-- Size of this form, and the maximum size of the beginning of another id in the list of all runs (bytes).
run_data.PACKED_UUID, run_data.MAX_NAME = 17, MAX_NAME

-- Returns the part of the id that programs know a run by which is in the list of all runs: all of a UUID, or the first bytes.
function run_data.name_of(run_id)
  if #run_id == UUID_TEXT and not string.find(run_id, '[A-F]') then
    local a, b, d, e, f, g = string.match(run_id, UUID)
    if a then
      a, b, d, e, f, g = tonumber(a, 16), tonumber(b, 16), tonumber(d, 16), tonumber(e, 16), tonumber(f, 16), tonumber(g, 16)
      return struct.pack(UUID_FORMAT, 0, a, b, d, e, f, g)
    end
  end
  return string.sub(run_id, 1, MAX_NAME)
end

-- Returns this part of the first text of a record, which is the id.
function run_data.name(text)
  local first, size = string.byte(text, 3, 4)
  if first == 217 then return run_data.name_of(string.sub(text, 5, 4 + size)) end -- MessagePack's form for 32 to 255 bytes
  if first == 218 then return string.sub(text, 6, 5 + MAX_NAME) end -- and for more
  return string.sub(text, 4, (first or 160) - 157)
end

local function digit_pair(byte) return string.format('%02x', string.byte(byte)) end

local function named(fields)
  local out = {}
  for i = 1, #fields do
    if fields[i] ~= '' then out[NAMES[i]] = fields[i] end
  end
  return out
end

-- Returns the hash of an input as digits; a record may have it as 16 bytes.
function run_data.hash_text(hash) return hash and #hash == 16 and string.gsub(hash, '.', digit_pair) or hash end

-- Returns the fields of a record by their names, empty ones left out.
function run_data.decode(text, flow_id) return named(run_data.decode_texts(text, 'record of run ' .. flow_id)) end

-- Checks the size and the version of a record that a client has sent. Returns nil, or the error reply.
function run_data.check(text)
  if #text > MAX_RECORD then
    return reply.err('invalid_input', 'a record must have at most ' .. MAX_RECORD .. ' bytes, got: ' .. #text)
  elseif string.byte(text) ~= VERSION then
    return reply.err('invalid_input', 'a record must have version ' .. VERSION .. ', got: ' .. (string.byte(text) or 0))
  end
  return nil
end

-- Returns the fields of the record of a run by their names.
function run_data.fields(run)
  local fields = run.record_fields
  if not fields then
    fields = run_data.decode(run_data.record(run), run.id)
    run.record_fields = fields
  end
  return fields
end
