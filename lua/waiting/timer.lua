-- Timers: waits that no signal ends, only their time. A timer node sleeps for a duration, or until a time in its input.

-- Maximum distance of a timer's time from now (ms): about 100 years, so that due times stay exact.
local MAX_AHEAD = 100 * 366 * 24 * 3600 * 1000

-- Type of the condition of a timer, and reason of its suspension.
timer.CONDITION, timer.REASON = 'timer', 'sleeping'

-- Returns the detail text in the record of a sleeping execution.
function timer.detail(due) return 'sleeps until ' .. number.text(due) end

local RFC3339 = '^(%d%d%d%d)%-(%d%d)%-(%d%d)[Tt](%d%d):(%d%d):(%d%d)(%.?%d*)([Zz+-])(.*)$'

local DAYS_IN_MONTH = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 }

local function days_in(year, month)
  if month == 2 and (year % 4 == 0 and year % 100 ~= 0 or year % 400 == 0) then return 29 end
  return DAYS_IN_MONTH[month]
end

-- Returns the days from 1970-01-01 to a day of the Gregorian calendar.
local function days_since_epoch(year, month, day)
  local y = month <= 2 and year - 1 or year
  local era = math.floor(y / 400)
  local of_era = y - era * 400
  local of_year = math.floor((153 * (month + (month > 2 and -3 or 9)) + 2) / 5) + day - 1
  return era * 146097 + of_era * 365 + math.floor(of_era / 4) - math.floor(of_era / 100) + of_year - 719468
end

-- Returns the offset from UTC (minutes), or nil.
local function offset_of(sign, rest)
  if sign == 'Z' or sign == 'z' then return rest == '' and 0 or nil end
  local hours, minutes = string.match(rest, '^(%d%d):(%d%d)$')
  if not hours or tonumber(hours) > 23 or tonumber(minutes) > 59 then return nil end
  return (sign == '-' and -1 or 1) * (tonumber(hours) * 60 + tonumber(minutes))
end

-- Returns a time in the form of RFC 3339 as Unix ms, fractions of a millisecond rounded up; nil for another text.
function timer.parse_time(text)
  if type(text) ~= 'string' then return nil end
  local year, month, day, hour, minute, second, fraction, sign, rest = string.match(text, RFC3339)
  if not year or fraction == '.' or fraction ~= '' and string.sub(fraction, 1, 1) ~= '.' then return nil end
  year, month, day, hour, minute, second = tonumber(year), tonumber(month), tonumber(day), tonumber(hour), tonumber(minute), tonumber(second)
  local offset = offset_of(sign, rest)
  if not offset or month < 1 or month > 12 or day < 1 or day > days_in(year, month) or hour > 23 or minute > 59 or second > 60 then
    return nil
  end
  local minutes = (days_since_epoch(year, month, day) * 24 + hour) * 60 + minute - offset
  return (minutes * 60 + second) * 1000 + (fraction ~= '' and math.ceil(tonumber('0' .. fraction) * 1000 - 1e-9) or 0)
end

-- Returns a JSON value as words of an error.
local function shown(value)
  if type(value) == 'table' then return 'a JSON object or list' end
  local text = tostring(value)
  if value == cjson.null then text = 'null' end
  return #text > 100 and string.sub(text, 1, 100) .. '…' or text
end

-- Returns the place after a JSON string that begins at a place, or nil.
local function behind_string(json, at)
  at = at + 1
  while true do
    at = string.find(json, '["\\]', at)
    if not at then return nil end
    if string.sub(json, at, at) == '"' then return at + 1 end
    at = at + 2
  end
end

-- Returns the place after a JSON value of any depth that begins at a place or after blanks there, or nil.
local function behind_value(json, at)
  local depth = 0
  repeat
    at = string.find(json, '%S', at)
    local first = at and string.sub(json, at, at)
    if not first then
      return nil
    elseif first == '"' then
      at = behind_string(json, at)
      if not at then return nil end
    elseif string.find(first, '[%[{%]},:]') then
      depth = depth + (string.find(first, '[%[{]') and 1 or string.find(first, '[%]}]') and -1 or 0)
      at = at + 1
    else
      local _, last = string.find(json, '^[%w%.%+%-]+', at)
      if not last then return nil end
      at = last + 1
    end
  until depth <= 0
  return depth == 0 and at or nil
end

-- Returns the text of a field of a JSON object, given as text, or nil. For two fields with one name, returns the last.
local function field_text(json, name)
  local at, found = string.match(json, '^%s*{()'), nil
  while at do
    local from = string.match(json, '^%s*()"', at)
    local behind = from and behind_string(json, from)
    local value = behind and string.match(json, '^%s*:()', behind)
    local last = value and behind_value(json, value)
    if not last then return found end
    if cjson.decode('[' .. string.sub(json, from, behind - 1) .. ']')[1] == name then found = string.sub(json, value, last - 1) end
    at = string.match(json, '^%s*,()', last)
  end
  return found
end

-- Returns a JSON text as a value, which need not be an object or a list; not ok when the decoder does not accept it.
local function decoded(json)
  local ok, value = pcall(cjson.decode, json)
  -- On some servers the decoder accepts texts only within objects or lists.
  if not ok then ok, value = pcall(function() return cjson.decode('[' .. json .. ']')[1] end) end
  return ok, value
end

-- Returns the value at a path of field names in a JSON text that is nested deeper than the decoder accepts, or nil and the error.
local function deep_value_at(json, path)
  local last = behind_value(json, 1)
  if not last or string.find(json, '%S', last) then return nil, 'the input is not JSON' end
  for i, name in ipairs(path or {}) do
    json = field_text(json, name)
    if not json then return nil, 'the input has no field ' .. table.concat(path, '.', 1, i) end
  end
  local ok, value = decoded(json)
  if ok then return value end
  if string.find(json, '^%s*[%[{]') then return {} end
  return nil, 'the input is not JSON'
end

-- Returns the value at a path of field names in a JSON text, or nil and the error.
local function value_at(json, path)
  local ok, value = decoded(json)
  if not ok then return deep_value_at(json, path) end
  for i, name in ipairs(path or {}) do
    if type(value) ~= 'table' or value[name] == nil then
      return nil, 'the input has no field ' .. table.concat(path, '.', 1, i)
    end
    value = value[name]
  end
  return value
end

-- Returns the time that a timer waits for, from a JSON text, as Unix ms; or nil and the error.
function timer.read(c, json, path)
  local value, fault = value_at(json, path)
  if fault then return nil, fault end
  local at = timer.parse_time(value)
  local named = path and #path > 0 and 'field ' .. table.concat(path, '.') or 'the input'
  if not at then return nil, named .. ' is no time in the form of RFC 3339: ' .. shown(value) end
  if at > c.now + MAX_AHEAD then return nil, named .. ' is more than 100 years ahead: ' .. value end
  return at
end

-- Returns when a timer node that opens is due (Unix ms), or nil and the error. `spec` is the result of wait.parse_node.
function timer.due(c, execution_id, core, spec)
  local of = spec.timer
  if not of.until_time then return c.now + spec.timeout end
  local s, at = store.of(key.exec_core(c, execution_id))
  return timer.read(c, of.at or s.timer_input(at, c, core, of), of.path)
end
