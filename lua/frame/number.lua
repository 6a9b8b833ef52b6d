-- Numbers: their texts, and numeric arguments.

-- Texts of small whole numbers, which are the most frequent ones. 0 is left out, because it may be -0.
local SMALL, MAX_SMALL = {}, 255

-- Returns the text of a number as the contract shows it: 14 significant digits.
function number.text(n)
  local text = SMALL[n]
  if text then return text end
  text = tostring(n)
  if n > 0 and n <= MAX_SMALL and n % 1 == 0 then SMALL[n] = text end
  return text
end

-- Texts of seconds and of milliseconds within one: formatting a large number is slow, and points in time are close to each other.
local SECONDS, MILLISECONDS, MAX_SECONDS = {}, {}, 64
local second_count = 0

local function text_of_second(second)
  if second_count >= MAX_SECONDS then SECONDS, second_count = {}, 0 end
  local text = number.text(second)
  SECONDS[second] = text
  second_count = second_count + 1
  return text
end

local function text_of_millisecond(millisecond)
  local text = string.format('%03d', millisecond)
  MILLISECONDS[millisecond] = text
  return text
end

-- From this second on, a time has more than the 14 digits that number.text shows.
local LONG_SECOND = 1e11

-- Returns the text of a point in time in whole milliseconds, as number.text does.
function number.time(at)
  local millisecond = at % 1000
  local second = (at - millisecond) / 1000
  if second < 1 or second >= LONG_SECOND then return number.text(at) end
  return (SECONDS[second] or text_of_second(second)) .. (MILLISECONDS[millisecond] or text_of_millisecond(millisecond))
end

-- The largest number up to which all whole numbers are exact.
number.MAX_EXACT = 9007199254740991

local MAX_UNSIGNED = '18446744073709551615'

-- Returns the shortest text from which a number is read again exactly, as the contract shows numbers that it passes to the server
-- without a change.
function number.exact(n)
  local text = number.text(n)
  if tonumber(text) == n then return text end
  text = string.format('%.15g', n)
  if tonumber(text) ~= n then text = string.format('%.16g', n) end
  return tonumber(text) == n and text or string.format('%.17g', n)
end

-- Returns the digits of a number of 64 bits without leading zeros ("" has none), or nil when it does not fit.
function number.unsigned(digits)
  local short = string.match(digits, '^0*(%d+)$') or ''
  if #short < #MAX_UNSIGNED or #short == #MAX_UNSIGNED and short <= MAX_UNSIGNED then return short end
  return nil
end

-- Returns the text of a whole number with all its digits.
function number.digits(n) return string.format('%.0f', n) end

-- Returns a finite number, or nil.
function number.finite(raw)
  local n = tonumber(raw)
  if n == nil or n ~= n or n == math.huge or n == -math.huge then return nil end
  return n
end

-- Returns the position that a cursor names, a whole number that is not negative; nil for any other text.
function number.place(cursor) return tonumber(string.match(cursor or '', '^%d+$') or nil) end

function number.refuse(name, raw)
  return reply.err('invalid_input', name .. ' must be a number, got: ' .. tostring(raw))
end

-- Small whole numbers, which are the most frequent ones, by their texts.
local SMALL_OF = {}
for n = 0, 99 do SMALL_OF['' .. n] = n end
number.SMALL_OF = SMALL_OF

-- Reads a required numeric argument, floored and cut to the exact range. Returns the value, or nil and the error reply.
function number.whole(name, raw)
  local n = SMALL_OF[raw]
  if n then return n end
  n = number.finite(raw)
  if not n then return nil, number.refuse(name, raw) end
  if n % 1 == 0 and n >= 0 and n <= number.MAX_EXACT then return n end
  return math.max(-number.MAX_EXACT, math.min(number.MAX_EXACT, math.floor(n)))
end

-- Reads an optional numeric argument: `fallback` when it is missing or empty.
function number.optional(name, raw, fallback)
  if not is_set(raw) then return fallback end
  return number.whole(name, raw)
end

-- Reads an optional argument that may not be negative.
function number.count(name, raw, fallback)
  local n, err = number.optional(name, raw, fallback)
  if err then return nil, err end
  if n < 0 then return nil, reply.err('invalid_input', name .. ' must not be negative, got: ' .. raw) end
  return n
end

-- Returns the numbers of several optional arguments by name, or nil and the first error reply. `rules` holds {name, fallback}
-- pairs.
function number.counts(A, rules)
  local n = {}
  for _, rule in ipairs(rules) do
    local value, err = number.count(rule[1], A[rule[1]], rule[2])
    if err then return nil, err end
    n[rule[1]] = value
  end
  return n
end

local MIN_PRIORITY, MAX_PRIORITY = 0, 9000

-- Reads a priority and limits it to its bounds. Infinities are cut; a text that is not a number is refused.
function number.priority(name, raw)
  local n = tonumber(raw)
  if n == nil or n ~= n then return nil, number.refuse(name, raw) end
  return math.max(MIN_PRIORITY, math.min(MAX_PRIORITY, n))
end

-- Maximum time for which a single call may hold an execution (ms).
number.MAX_LEASE_MS = 7 * 24 * 3600 * 1000

function number.lease_ttl(raw)
  local ttl, err = number.whole('lease_ttl_ms', raw)
  if err then return nil, err end
  return math.min(ttl, number.MAX_LEASE_MS)
end
