-- Which signals end a suspension. A condition is a list of matchers, each for one signal of a name or, with the
-- empty name, of any name.

-- Matchers of one condition.
local MAX_MATCHERS = 1330

local function as_text(value)
  if type(value) == 'number' then return number.text(value) end
  return type(value) == 'string' and value or nil
end

local function invalid(what)
  return nil, reply.err('invalid_input', 'resume condition: ' .. what)
end

-- Names of the matchers, or nil and the error reply. Without names there is one matcher per signal that is asked
-- for, whatever the signal's name.
local function matcher_names(spec, mode, minimum)
  local names = spec.required_signal_names
  if names == nil then names = {} end
  if type(names) ~= 'table' then return invalid('required_signal_names must be an array') end
  local list = {}
  for i, name in ipairs(names) do
    list[i] = as_text(name)
    if not list[i] then return invalid('signal names must be texts') end
  end
  if #list == 0 then
    local wanted = mode == 'all' and 1 or math.max(1, math.min(math.ceil(minimum), MAX_MATCHERS + 1))
    for i = 1, wanted do list[i] = '' end
  end
  if #list > MAX_MATCHERS then return invalid('too many signals') end
  return list
end

-- A fresh condition from its JSON form, or nil and the error reply.
function condition.parse(json)
  local ok, spec = pcall(cjson.decode, json)
  if not ok or type(spec) ~= 'table' then return invalid('malformed JSON') end
  local kind, mode = spec.condition_type, spec.signal_match_mode
  if kind == nil then kind = 'signal_set' end
  if mode == nil then mode = 'any' end
  kind, mode = as_text(kind), as_text(mode)
  if not kind or not mode then return invalid('condition_type and signal_match_mode must be texts') end
  local minimum = 1
  if spec.minimum_signal_count ~= nil then minimum = number.finite(spec.minimum_signal_count) end
  if not minimum then return invalid('minimum_signal_count must be a number') end
  local names, err = matcher_names(spec, mode, minimum)
  if err then return nil, err end
  local matchers = {}
  for i, name in ipairs(names) do matchers[i] = { name = name } end
  return { kind = kind, mode = mode, minimum = minimum, matchers = matchers, satisfied = 0 }
end

-- The first open matcher takes the signal. Gives its place, or nil when none takes it.
function condition.match(state, signal_name, signal_id)
  for i, matcher in ipairs(state.matchers) do
    if not matcher.signal_id and (matcher.name == '' or matcher.name == signal_name) then
      matcher.signal_id = signal_id
      state.satisfied = state.satisfied + 1
      return i
    end
  end
  return nil
end

function condition.is_met(state)
  if state.mode == 'all' then return state.satisfied >= #state.matchers end
  return state.satisfied >= state.minimum
end

-- Stores a condition that a suspension begins with.
function condition.write(c, condition_key, state)
  local values = {
    'condition_type', state.kind,
    'match_mode', state.mode,
    'minimum_signal_count', number.text(state.minimum),
    'total_matchers', number.text(#state.matchers),
    'satisfied_count', number.text(state.satisfied),
    'closed', '0',
    'updated_at', c.now_text,
  }
  for i, matcher in ipairs(state.matchers) do
    local prefix = 'matcher:' .. (i - 1) .. ':'
    for _, value in ipairs({ prefix .. 'name', matcher.name, prefix .. 'satisfied', matcher.signal_id and '1' or '0',
      prefix .. 'signal_id', matcher.signal_id or '' }) do
      values[#values + 1] = value
    end
  end
  call.chunked('HSET', condition_key, values)
end

-- A stored condition, or nil. Unknown minimum and counts read as 1 and 0.
function condition.read(condition_key)
  local head = record.read(condition_key,
    { 'match_mode', 'minimum_signal_count', 'total_matchers', 'satisfied_count', 'closed' })
  if not head then return nil end
  local state = {
    mode = head.match_mode, minimum = tonumber(head.minimum_signal_count) or 1, matchers = {},
    satisfied = tonumber(head.satisfied_count) or 0, closed = head.closed == '1',
  }
  for i = 1, tonumber(head.total_matchers) or 0 do
    local prefix = 'matcher:' .. (i - 1) .. ':'
    local matcher = redis.call('HMGET', condition_key, prefix .. 'name', prefix .. 'satisfied', prefix .. 'signal_id')
    state.matchers[i] = { name = matcher[1] or '', signal_id = matcher[2] == '1' and (matcher[3] or '') or nil }
  end
  return state
end

-- Stores that the i-th matcher took a signal.
function condition.write_match(condition_key, state, i)
  local prefix = 'matcher:' .. (i - 1) .. ':'
  redis.call('HSET', condition_key, prefix .. 'satisfied', '1', prefix .. 'signal_id', state.matchers[i].signal_id,
    'satisfied_count', number.text(state.satisfied))
end
