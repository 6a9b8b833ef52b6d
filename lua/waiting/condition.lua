-- Conditions that end a suspension. A condition is a list of matchers, each for one signal of a name or, with the empty name, of
-- any name. With `distinct`, one signal of each source counts. With `collect`, the order in which signals were taken is kept. A
-- decisive matcher ends the wait when it takes its signal, regardless of the others.

-- Maximum number of matchers of one condition.
local MAX_MATCHERS = 1330

local function as_text(value)
  if type(value) == 'number' then return number.text(value) end
  return type(value) == 'string' and value or nil
end

local function invalid(what)
  return nil, reply.err('invalid_input', 'resume condition: ' .. what)
end

-- Returns a field that lists names, or nil and the error reply. A missing field is an empty list.
local function list_of_names(spec, field)
  local names = spec[field]
  if names == nil then names = {} end
  if type(names) ~= 'table' then return invalid(field .. ' must be an array') end
  local list = {}
  for i, name in ipairs(names) do
    list[i] = as_text(name)
    if not list[i] then return invalid('signal names must be texts') end
  end
  return list
end

-- Returns the names of the matchers, or nil and the error reply. Without names there is one matcher for each required signal,
-- which accepts any name.
local function matcher_names(spec, mode, minimum)
  local list, err = list_of_names(spec, 'required_signal_names')
  if err then return nil, err end
  if #list == 0 then
    local wanted = mode == 'all' and 1 or math.max(1, math.min(math.ceil(minimum), MAX_MATCHERS + 1))
    for i = 1, wanted do list[i] = '' end
  end
  if #list > MAX_MATCHERS then return invalid('too many signals') end
  return list
end

-- Maximum size (bytes, in JSON) of the information for the people who answer.
local MAX_ABOUT = 98304

-- Returns a condition's optional information for the people who answer; nil without it, and the error reply.
local function about_of(spec)
  if spec.about == nil then return nil end
  if type(spec.about) ~= 'string' or #spec.about > MAX_ABOUT then
    return invalid('about must be a text of at most ' .. MAX_ABOUT .. ' bytes')
  end
  local ok, about = pcall(cjson.decode, spec.about)
  if not ok or type(about) ~= 'table' then return invalid('about is no JSON object') end
  return spec.about
end

-- Returns a fresh condition from its JSON form, or nil and the error reply.
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
  local decisive
  decisive, err = list_of_names(spec, 'decisive_signal_names')
  if err then return nil, err end
  if #names + #decisive > MAX_MATCHERS then return invalid('too many signals') end
  local about
  about, err = about_of(spec)
  if err then return nil, err end
  local matchers = {}
  for i, name in ipairs(names) do matchers[i] = { name = name } end
  for _, name in ipairs(decisive) do matchers[#matchers + 1] = { name = name, decisive = true } end
  return {
    kind = kind, mode = mode, minimum = minimum, matchers = matchers, satisfied = 0,
    distinct = spec.distinct_sources == true, decisive = #decisive, about = about,
  }
end

-- Returns the place of the open decisive matcher of a name, or nil.
local function decisive_place(state, signal_name)
  for i = #state.matchers - state.decisive + 1, #state.matchers do
    local matcher = state.matchers[i]
    if matcher.name == signal_name and not matcher.signal_id then return i end
  end
  return nil
end

-- Returns the place of the open matcher that a signal fits; nil when none fits, or when a signal of its source was already taken
-- and a second one does not count. A source whose signal was taken may still decide.
local function place_for(state, signal_name, source)
  local place = decisive_place(state, signal_name)
  if place then return place end
  for i, matcher in ipairs(state.matchers) do
    if matcher.signal_id then
      if state.distinct and matcher.source == source then return nil end
    elseif not place and not matcher.decisive and (matcher.name == '' or matcher.name == signal_name) then
      place = i
      if not state.distinct then return place end
    end
  end
  return place
end

-- Returns why no matcher takes a signal: `name` when none is for its name, `source` when the sender was counted before, `enough`
-- when all of its name have theirs.
function condition.refusal(state, signal_name, source)
  local is_named, is_counted = false, false
  for _, matcher in ipairs(state.matchers) do
    is_named = is_named or matcher.name == signal_name or matcher.name == '' and not matcher.decisive
    is_counted = is_counted or matcher.signal_id ~= nil and matcher.source == source
  end
  if not is_named then return 'name' end
  return state.distinct and is_counted and 'source' or 'enough'
end

-- Returns the names that count, each once, or only the decisive ones. None: every name does.
function condition.names(state, decisive)
  local names, seen = {}, {}
  for _, matcher in ipairs(state.matchers) do
    if matcher.name ~= '' and not seen[matcher.name] and (matcher.decisive or not decisive) then
      seen[matcher.name] = true
      names[#names + 1] = matcher.name
    end
  end
  return names
end

-- Gives a signal to the first open matcher that it fits. Returns its place, or nil when none takes the signal.
function condition.match(state, signal_name, signal_id, source)
  local place = place_for(state, signal_name, source)
  if not place then return nil end
  state.satisfied = state.satisfied + 1
  local matcher = state.matchers[place]
  matcher.signal_id, matcher.source, matcher.order = signal_id, source, state.satisfied
  state.decided = state.decided or matcher.decisive
  return place
end

function condition.is_met(state)
  if state.decided then return true end
  if state.mode == 'all' then return state.satisfied >= #state.matchers - state.decisive end
  return state.satisfied >= state.minimum
end

local function append(list, more)
  for _, value in ipairs(more) do list[#list + 1] = value end
end

-- Returns the fields that record which signal the i-th matcher took, as a flat list.
local function taken(state, i)
  local matcher, prefix = state.matchers[i], 'matcher:' .. (i - 1) .. ':'
  local fields = {
    prefix .. 'satisfied', matcher.signal_id and '1' or '0', prefix .. 'signal_id', matcher.signal_id or '',
  }
  if matcher.signal_id and state.distinct then append(fields, { prefix .. 'source', matcher.source or '' }) end
  if matcher.signal_id and state.collect then append(fields, { prefix .. 'order', number.text(matcher.order) }) end
  return fields
end

-- Prepares a condition before any signal for copies of it.
function condition.prepare(state) state.values = condition.values(state) end

-- Returns a copy of a condition before any signal.
function condition.fresh(state)
  local matchers, copy = {}, {}
  for name, value in next, state, nil do copy[name] = value end
  for i, matcher in ipairs(state.matchers) do matchers[i] = { name = matcher.name, decisive = matcher.decisive } end
  copy.matchers = matchers
  return copy
end

-- Stores the condition of a new suspension.
function condition.write(c, condition_key, state)
  local values = state.satisfied == 0 and state.values or condition.values(state)
  call.chunked('HSET', condition_key, values)
  redis.call('HSET', condition_key, 'updated_at', c.now_text)
end

-- Returns the fields of a stored condition and their values, except for the time of its last change, as a flat list.
function condition.values(state)
  local values = {
    'condition_type', state.kind,
    'match_mode', state.mode,
    'minimum_signal_count', number.text(state.minimum),
    'total_matchers', number.text(#state.matchers),
    'satisfied_count', number.text(state.satisfied),
    'closed', '0',
  }
  append(values, state.distinct and { 'distinct', '1' } or {})
  append(values, state.collect and { 'collect', '1' } or {})
  append(values, state.decisive > 0 and { 'decisive', number.text(state.decisive) } or {})
  for i, matcher in ipairs(state.matchers) do
    append(values, { 'matcher:' .. (i - 1) .. ':name', matcher.name })
    append(values, taken(state, i))
  end
  return values
end

-- Returns a stored condition, or nil. Unknown minimum and counts read as 1 and 0.
function condition.read(condition_key)
  local stored = redis.call('HGETALL', condition_key)
  if #stored == 0 then return nil end
  local field = {}
  for i = 1, #stored, 2 do field[stored[i]] = stored[i + 1] end
  local state = {
    mode = field.match_mode, minimum = tonumber(field.minimum_signal_count) or 1, matchers = {},
    satisfied = tonumber(field.satisfied_count) or 0, closed = field.closed == '1',
    distinct = field.distinct == '1', collect = field.collect == '1', decisive = tonumber(field.decisive) or 0,
  }
  local total = tonumber(field.total_matchers) or 0
  for i = 1, total do
    local prefix = 'matcher:' .. (i - 1) .. ':'
    state.matchers[i] = {
      name = field[prefix .. 'name'] or '', source = field[prefix .. 'source'],
      order = tonumber(field[prefix .. 'order']),
      signal_id = field[prefix .. 'satisfied'] == '1' and (field[prefix .. 'signal_id'] or '') or nil,
      decisive = i > total - state.decisive or nil,
    }
    state.decided = state.decided or state.matchers[i].decisive and state.matchers[i].signal_id ~= nil
  end
  return state
end

-- Stores that the i-th matcher took a signal.
function condition.write_match(condition_key, state, i)
  redis.call('HSET', condition_key, 'satisfied_count', number.text(state.satisfied), unpack(taken(state, i)))
end

-- Returns the ids of the signals that matchers took, in the order in which they did.
function condition.taken_signals(state)
  local matchers = {}
  for _, matcher in ipairs(state.matchers) do
    if matcher.signal_id then matchers[#matchers + 1] = matcher end
  end
  table.sort(matchers, function(a, b) return (a.order or 0) < (b.order or 0) end)
  local ids = {}
  for i, matcher in ipairs(matchers) do ids[i] = matcher.signal_id end
  return ids
end

-- Returns the signal that a decisive matcher took, or nil.
function condition.decisive_signal(state)
  for _, matcher in ipairs(state and state.matchers or {}) do
    if matcher.decisive and matcher.signal_id then return matcher.signal_id end
  end
  return nil
end

-- Returns how many signals end the wait.
function condition.needed(state)
  if state.mode == 'all' then return #state.matchers - state.decisive end
  return math.max(1, math.ceil(state.minimum))
end
