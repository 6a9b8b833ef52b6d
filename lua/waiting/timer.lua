-- Timers: waits that no signal ends, only their time. A timer node sleeps for a duration, or until a time in its input.

-- How far ahead the time of a timer may be (ms): about 100 years, so that due times stay exact.
local MAX_AHEAD = 100 * 366 * 24 * 3600 * 1000

-- Type of the condition of a timer, and reason of its suspension.
timer.CONDITION, timer.REASON = 'timer', 'sleeping'

-- What the record of an execution that sleeps says.
function timer.detail(due) return 'sleeps until ' .. number.text(due) end

local RFC3339 = '^(%d%d%d%d)%-(%d%d)%-(%d%d)[Tt](%d%d):(%d%d):(%d%d)(%.?%d*)([Zz+-])(.*)$'

local DAYS_IN_MONTH = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 }

local function days_in(year, month)
  if month == 2 and (year % 4 == 0 and year % 100 ~= 0 or year % 400 == 0) then return 29 end
  return DAYS_IN_MONTH[month]
end

-- Days from 1970-01-01 to a day of the Gregorian calendar.
local function days_since_epoch(year, month, day)
  local y = month <= 2 and year - 1 or year
  local era = math.floor(y / 400)
  local of_era = y - era * 400
  local of_year = math.floor((153 * (month + (month > 2 and -3 or 9)) + 2) / 5) + day - 1
  return era * 146097 + of_era * 365 + math.floor(of_era / 4) - math.floor(of_era / 100) + of_year - 719468
end

-- Offset from UTC (minutes), or nil.
local function offset_of(sign, rest)
  if sign == 'Z' or sign == 'z' then return rest == '' and 0 or nil end
  local hours, minutes = string.match(rest, '^(%d%d):(%d%d)$')
  if not hours or tonumber(hours) > 23 or tonumber(minutes) > 59 then return nil end
  return (sign == '-' and -1 or 1) * (tonumber(hours) * 60 + tonumber(minutes))
end

-- A time in the form of RFC 3339 as Unix ms, fractions of a millisecond rounded up; nil for another text.
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

-- A JSON value as words of an error.
local function shown(value)
  if type(value) == 'table' then return 'a JSON object or list' end
  local text = tostring(value)
  if value == cjson.null then text = 'null' end
  return #text > 100 and string.sub(text, 1, 100) .. '…' or text
end

-- The value at a path of field names in a JSON text, or nil and what is wrong.
local function value_at(json, path)
  local ok, value = pcall(cjson.decode, json)
  -- The decoder takes texts only within objects or lists on some servers.
  if not ok then ok, value = pcall(function() return cjson.decode('[' .. json .. ']')[1] end) end
  if not ok then return nil, 'the input is not JSON' end
  for i, name in ipairs(path or {}) do
    if type(value) ~= 'table' or value[name] == nil then
      return nil, 'the input has no field ' .. table.concat(path, '.', 1, i)
    end
    value = value[name]
  end
  return value
end

-- The time that a timer waits for, in a JSON text, as Unix ms; nil and what is wrong.
function timer.read(c, json, path)
  local value, fault = value_at(json, path)
  if fault then return nil, fault end
  local at = timer.parse_time(value)
  local named = path and #path > 0 and 'field ' .. table.concat(path, '.') or 'the input'
  if not at then return nil, named .. ' is no time in the form of RFC 3339: ' .. shown(value) end
  if at > c.now + MAX_AHEAD then return nil, named .. ' is more than 100 years ahead: ' .. value end
  return at
end

-- @hook The input of a timer node as JSON: that of its run, or the result of the upstream that brings it.
function timer.input(c, execution_id, core, spec) return '' end

-- When a timer node that opens is due (Unix ms), or nil and what is wrong. `spec` is that of wait.parse_node.
function timer.due(c, execution_id, core, spec)
  local of = spec.timer
  if not of.until_time then return c.now + spec.timeout end
  return timer.read(c, of.at or timer.input(c, execution_id, core, of), of.path)
end
