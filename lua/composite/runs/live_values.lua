-- Live values: values that functions publish under keys while they run. The last value of a key is kept with the execution.

-- Maximum number of an execution's keys, of the bytes of a value, and of all values of an execution.
local MAX_KEYS, MAX_VALUE, MAX_VALUES = 16, 16384, 65536

local MAX_KEY = 128

-- @record live_value key:text at:unix_ms attempt:int size:int

-- Reads the field `live_values` of an execution, which lists its values without their contents: the key, the time (Unix ms), the
-- attempt, counted from 0, and the size (bytes) of each, and a line feed. The contents are in fields `live:<key>`.
function live_values.list(text)
  local list = {}
  for name, at, attempt, size in string.gmatch(text or '', '(%S+) (%d+) (%d+) (%d+)\n') do
    list[#list + 1] = { name, at, attempt, size }
  end
  return list
end

local function encode_list(list)
  local lines = {}
  for i, entry in ipairs(list) do lines[i] = table.concat(entry, ' ') .. '\n' end
  return table.concat(lines)
end

local function check(A)
  if #A.value_key > MAX_KEY or not string.find(A.value_key, '^[%w._-]+$') then
    return reply.err('invalid_input', 'value_key must have 1 to 128 characters out of A-Z a-z 0-9 . _ -, got: ' .. A.value_key)
  elseif #A.value > MAX_VALUE then
    return reply.err('invalid_input', 'a live value must have at most ' .. MAX_VALUE .. ' bytes, got: ' .. #A.value)
  end
  return nil
end

-- Replaces the entry with the same key. Returns nil and the error reply when there is not enough room.
local function with_entry(list, entry)
  local bytes, at = tonumber(entry[4]), #list + 1
  for i, other in ipairs(list) do
    if other[1] == entry[1] then at = i else bytes = bytes + tonumber(other[4]) end
  end
  if at > MAX_KEYS then return nil, reply.err('invalid_input', 'an execution has at most ' .. MAX_KEYS .. ' live values') end
  if bytes > MAX_VALUES then
    return nil, reply.err('invalid_input', 'live values of an execution must have at most ' .. MAX_VALUES .. ' bytes together, got: ' .. bytes)
  end
  list[at] = entry
  return list
end

-- @function ffx_put_live_value
-- @summary  Publishes a value of the lease holder's function under a key, in place of the former one. It is kept with the
--           execution.
-- @flags    derives repeatable fence
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      lease_id           lease_id
-- @arg      lease_epoch        lease_epoch
-- @arg      attempt_id         attempt_id
-- @arg      value_key          text
-- @arg      value              bytes<live>
-- @reply    OK
-- @error    execution_not_found
-- @error    set:lease_fence
-- @error    invalid_input message:text
-- @writes_on lease_expired exec.core lease_history stream.meta flow.events ffx.feed
function F.ffx_put_live_value(K, A)
  local err = check(A)
  if err then return err end
  local c = call.open(K.partition)
  local core_key = key.exec_core(c, A.execution_id)
  local core = record.read(core_key, fence.FIELDS)
  if not core then return reply.err('execution_not_found') end
  local f
  f, err = lease.check_write(c, core_key, core, A)
  if not f then return err end
  local list
  list, err = with_entry(live_values.list(record.value(core_key, 'live_values')),
    { A.value_key, c.now_text, core.current_attempt_index or '0', number.text(#A.value) })
  if not list then return err end
  record.set(core_key, 'live_values', encode_list(list), 'live:' .. A.value_key, A.value)
  return reply.ok()
end

-- @function ffx_read_live_value
-- @summary  Returns a value that a function of an execution has published, with its time and the attempt, counted from 0.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      value_key          text
-- @reply    OK has:bool value:bytes<live> at:unix_ms attempt:int
-- @error    execution_not_found
function F.ffx_read_live_value(K, A)
  local c = call.open(K.partition)
  local field = 'live:' .. A.value_key
  local core = record.read(key.exec_core(c, A.execution_id), { 'lifecycle_phase', 'live_values', field })
  if not core then return reply.err('execution_not_found') end
  for _, entry in ipairs(live_values.list(core.live_values)) do
    if entry[1] == A.value_key then return reply.ok('1', core[field] or '', entry[2], entry[3]) end
  end
  return reply.ok('0', '', '', '0')
end
