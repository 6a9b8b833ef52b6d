-- Where a large value is: an input of a run, or the result of a node. The interpreter processes all bytes of each text that it gets,
-- so the bytes of large values do not go through functions. A client writes them to a key of their own that expires, and the
-- call contains a short text in their place, which names that key. The function renames the key when it accepts the value; a call
-- that is refused or repeated leaves it to expire. Where a value is stored, in a reply or in an argument, there is one of
--
--   * the value,
--   * `sent`: a value that a client has written, as {"\0sent "}<place> <size>, with the part of its key after `ffx:`,
--   * `kept`: a value of the run, as {"\0kept "}<place> <size> <name>, with the part of its key after `flow:`, its size (bytes), and a
--     name that no other value has.
--
-- internal/enginerpc/values.go is the other side.

local SENT, KEPT = '\0sent ', '\0kept '
local MARK_BYTES = #SENT

-- Size (bytes) from which on clients write values to keys.
local LARGE = 4096

-- The code with which a call is refused when a value that it names is gone, or was not written completely.
stored_value.MISSING = 'value_missing'

local function begins(text, mark) return string.byte(text) == 0 and string.sub(text, 1, MARK_BYTES) == mark end

-- Reports whether a text names a value that a client has written.
function stored_value.is_sent(text) return begins(text, SENT) end

-- Reports whether a text names a value of a run.
function stored_value.is_kept(text) return begins(text, KEPT) end

-- Returns the place and the size of the value that a text names, and its name.
local function parse(text) return string.match(string.sub(text, MARK_BYTES + 1), '^(%S+) (%d+) ?(%S*)$') end

local function sent_key(prefix, place) return prefix .. ':ffx:' .. place end

local function kept_key(prefix, place) return prefix .. ':flow:' .. place end

-- Returns the key of the value that a text names; nil for a value.
local function key_of(prefix, text)
  if string.byte(text) ~= 0 then return nil end
  local mark, place = string.sub(text, 1, MARK_BYTES), parse(text)
  if not place then return nil end
  return mark == SENT and sent_key(prefix, place) or mark == KEPT and kept_key(prefix, place) or nil
end

-- Returns the size (bytes) of a value.
function stored_value.size(text)
  if not key_of('', text) then return #text end
  local _, size = parse(text)
  return tonumber(size)
end

-- Returns the bytes of a value: few callers need them. They are empty when it is gone.
function stored_value.bytes(prefix, text)
  local from = key_of(prefix, text)
  if not from then return text end
  return redis.call('GET', from) or ''
end

-- Returns the first bytes of a value; all of one that can be read only as a whole, and true.
function stored_value.part(prefix, text, max)
  local from = key_of(prefix, text)
  if results.is_whole(from and redis.call('GETRANGE', from, '0', #results.LIST - 1) or text) then return text, true end
  if not from then return #text <= max and text or string.sub(text, 1, max) end
  if max < 1 then return '' end
  return stored_value.size(text) <= max and text or redis.call('GETRANGE', from, '0', number.text(max - 1))
end

-- Reports whether a value that a client has written is gone.
function stored_value.is_missing(prefix, text)
  if not stored_value.is_sent(text) then return false end
  local from = key_of(prefix, text)
  return not from or redis.call('STRLEN', from) ~= stored_value.size(text)
end

-- Returns the error reply when one of the values of a list is gone. `field`: the field of an element with the value; nil when the
-- elements are values.
function stored_value.refuse(c, list, field)
  for i = 1, #list do
    local text = list[i]
    if field then text = text[field] end
    if string.byte(text) == 0 and stored_value.is_missing(c.at.prefix, text) then return reply.err(stored_value.MISSING) end
  end
  return nil
end

local function rename(from, target)
  redis.call('RENAME', from, target)
  redis.call('PERSIST', target)
end

-- Gives a value to a run. `part`: the rest of its key. Returns the text to be stored in its place: for a value that a client has
-- written, or that looks like the name of one, the name of its key.
local function keep(prefix, tag, flow_id, part, text)
  local is_sent = begins(text, SENT)
  if not is_sent and not begins(text, KEPT) then return text end
  local place = tag .. ':' .. flow_id .. ':' .. part
  if is_sent and not stored_value.is_missing(prefix, text) then
    local from = key_of(prefix, text)
    rename(from, kept_key(prefix, place))
    return KEPT .. place .. ' ' .. number.text(stored_value.size(text)) .. ' ' .. string.match(from, '[^:]*$')
  end
  redis.call('SET', kept_key(prefix, place), text)
  return KEPT .. place .. ' ' .. number.text(#text) .. ' '
end

local INPUT, RESULT = 'input', 'result:'

-- Gives its input to a run. Returns the text to be stored.
function stored_value.keep_input(c, flow_id, text)
  return string.byte(text) == 0 and keep(c.at.prefix, c.at.tag, flow_id, INPUT, text) or text
end

-- Gives the result of a node to its run. Returns the text to be stored.
function stored_value.keep_result(run, ordinal, text)
  return string.byte(text) == 0 and keep(run.prefix, run.tag, run.id, RESULT .. number.text(ordinal), text) or text
end

-- Does the same for the record of a plain run, in the partition with a place.
function stored_value.keep_of(at, run, ordinal, text)
  return keep(at.prefix, at.tag, run.id, RESULT .. number.text(ordinal), text)
end

-- Returns the input of a flow that is in its own key: a large one by its name; nil without one.
function stored_value.own_input(c, flow_id)
  local input_key = key.flow_input(c, flow_id)
  local text = redis.call('GETRANGE', input_key, '0', LARGE - 1)
  if #text == LARGE then
    return KEPT .. c.at.tag .. ':' .. flow_id .. ':' .. INPUT .. ' ' .. number.text(redis.call('STRLEN', input_key)) .. ' '
  end
  return text ~= '' and text or nil
end

-- Writes a value to a key.
function stored_value.write(prefix, target, text)
  local from = key_of(prefix, text)
  if from then rename(from, target) else redis.call('SET', target, text) end
end

-- Copies a value to a key.
function stored_value.copy(prefix, text, target)
  local from = key_of(prefix, text)
  if from then redis.call('COPY', from, target, 'REPLACE') else redis.call('SET', target, text) end
end

-- Removes the key of a node's result.
function stored_value.drop_result(run, ordinal)
  redis.call('UNLINK', kept_key(run.prefix, run.tag .. ':' .. run.id .. ':' .. RESULT .. number.text(ordinal)))
end

-- Removes the keys of the results of a run's nodes.
function stored_value.drop_results(run, from, to)
  local stem, names = kept_key(run.prefix, run.tag .. ':' .. run.id .. ':' .. RESULT), {}
  for ordinal = from, to do names[#names + 1] = stem .. number.text(ordinal) end
  if #names > 0 then redis.call('UNLINK', unpack(names)) end
end
