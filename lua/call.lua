-- The frame of a call: module tables, reply shapes, numbers, and the context that carries prefix, hash
-- tag and clock from one rule to the next.
--
-- While the library loads only redis.register_function exists, so nothing at file scope may touch another
-- global. Modules are declared here so that rules can call each other whatever the order of the files.

local F = {}
local reply, number, call, key, record = {}, {}, {}, {}, {}
local capability, fence, lease, lifecycle, create, claim, retry, park = {}, {}, {}, {}, {}, {}, {}, {}
local dependency, graph, joins, flows, wake, work = {}, {}, {}, {}, {}, {}
local admission, replay, tags, stream, budget, quota = {}, {}, {}, {}, {}, {}
local suspension, waitpoint, condition, token, signal = {}, {}, {}, {}, {}
local pauses, limits, waits, journal, duties, order = {}, {}, {}, {}, {}, {}
local budgets, schedules, children, mend, quotas, walk, attempts = {}, {}, {}, {}, {}, {}, {}

-- Whether what a partition counts may be wrong: see mend.in_doubt, which the library of the contract alone does not have.
function call.in_doubt(c) return mend.in_doubt ~= nil and mend.in_doubt(c) end

-- A value is set when it is there and not empty. "0" is set.
local function is_set(value)
  return value ~= nil and value ~= false and value ~= ''
end

function reply.ok(...) return { 1, 'OK', ... } end
function reply.already(...) return { 1, 'ALREADY_SATISFIED', ... } end
function reply.duplicate(id) return { 1, 'DUPLICATE', id } end
function reply.err(code, ...) return { 0, code, ... } end

-- The four details let a caller recognise its own lost reply.
function reply.not_active(core)
  return reply.err('execution_not_active', core.terminal_outcome or '', core.current_lease_epoch or '',
    core.lifecycle_phase or '', core.current_attempt_id or '')
end

-- Texts of small whole numbers, which are the most frequent ones; not that of 0, which may be -0.
local SMALL, MAX_SMALL = {}, 255

-- Text of a number as the contract shows it: 14 significant digits.
function number.text(n)
  local text = SMALL[n]
  if text then return text end
  text = tostring(n)
  if n > 0 and n <= MAX_SMALL and n % 1 == 0 then SMALL[n] = text end
  return text
end

-- Texts of seconds and of milliseconds within one: formatting a large number is slow, and points in time lie close to
-- each other.
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

-- Text of a point in time in whole milliseconds, as number.text gives it.
function number.time(at)
  local millisecond = at % 1000
  local second = (at - millisecond) / 1000
  if second < 1 or second >= LONG_SECOND then return number.text(at) end
  return (SECONDS[second] or text_of_second(second)) .. (MILLISECONDS[millisecond] or text_of_millisecond(millisecond))
end

-- Up to here whole numbers are exact.
number.MAX_EXACT = 9007199254740991

local MAX_UNSIGNED = '18446744073709551615'

-- Shortest text from which a number is read again exactly, as the contract shows numbers that go straight to the server.
function number.exact(n)
  local text = number.text(n)
  if tonumber(text) == n then return text end
  text = string.format('%.15g', n)
  if tonumber(text) ~= n then text = string.format('%.16g', n) end
  return tonumber(text) == n and text or string.format('%.17g', n)
end

-- Digits of a number of 64 bits without leading zeros ("" has none), or nil when it does not fit.
function number.unsigned(digits)
  local short = string.match(digits, '^0*(%d+)$') or ''
  if #short < #MAX_UNSIGNED or #short == #MAX_UNSIGNED and short <= MAX_UNSIGNED then return short end
  return nil
end

-- Text of a whole number with all its digits.
function number.digits(n) return string.format('%.0f', n) end

-- Finite number or nil.
function number.finite(raw)
  local n = tonumber(raw)
  if n == nil or n ~= n or n == math.huge or n == -math.huge then return nil end
  return n
end

function number.refuse(name, raw)
  return reply.err('invalid_input', name .. ' must be a number, got: ' .. tostring(raw))
end

-- Numbers of one digit, which are the most frequent ones, by their text.
local DIGITS = {}
for n = 0, 9 do DIGITS['' .. n] = n end

-- Required numeric argument, floored and cut to what is exact: the value, or nil and the error reply.
function number.whole(name, raw)
  local n = DIGITS[raw]
  if n then return n end
  n = number.finite(raw)
  if not n then return nil, number.refuse(name, raw) end
  if n % 1 == 0 and n >= 0 and n <= number.MAX_EXACT then return n end
  return math.max(-number.MAX_EXACT, math.min(number.MAX_EXACT, math.floor(n)))
end

-- Optional numeric argument: `fallback` when it is missing or empty.
function number.optional(name, raw, fallback)
  if not is_set(raw) then return fallback end
  return number.whole(name, raw)
end

-- Optional argument that may not be negative.
function number.count(name, raw, fallback)
  local n, err = number.optional(name, raw, fallback)
  if err then return nil, err end
  if n < 0 then return nil, reply.err('invalid_input', name .. ' must not be negative, got: ' .. raw) end
  return n
end

-- Numbers of several optional arguments by name, or nil and the first error reply. `rules` holds
-- {name, fallback} pairs.
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

-- Priority within its bounds; infinities are cut, anything that is no number is refused.
function number.priority(name, raw)
  local n = tonumber(raw)
  if n == nil or n ~= n then return nil, number.refuse(name, raw) end
  return math.max(MIN_PRIORITY, math.min(MAX_PRIORITY, n))
end

-- No single call may hold an execution for longer than this (ms).
local MAX_LEASE_MS = 7 * 24 * 3600 * 1000

function number.lease_ttl(raw)
  local ttl, err = number.whole('lease_ttl_ms', raw)
  if err then return nil, err end
  return math.min(ttl, MAX_LEASE_MS)
end

-- Server clock in whole milliseconds.
function call.clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- Places are kept from call to call, at most so many: the interpreter goes through all that is kept again and again.
local MAX_PLACES = 256
local places, place_count = {}, 0

-- The place of a call: the prefix and the partition that it works in, with the keys that builders keep there. Read from
-- the first key; nil when that carries no hash tag.
local function place_of(first_key)
  local found = places[first_key]
  if found then return found end
  local prefix, tag = string.match(first_key, '^([^:]*):[^{]*({[^}]*})')
  if not tag then return nil end
  -- The first key of composite calls is the same for all of a partition.
  local name = prefix .. ':ffx:' .. tag
  found = places[name]
  if not found then
    if place_count >= MAX_PLACES then places, place_count = {}, 0 end
    found = {
      prefix = prefix, tag = tag, partition = string.match(tag, ':(%d+)}') or '', probe = prefix .. ':probe:' .. tag,
      beside = prefix .. ':probe:' .. tag .. ':beside',
    }
    places[name] = found
    place_count = place_count + 1
  end
  return found
end

-- Context of a call. A first key without a hash tag is refused before anything is written.
function call.open(first_key)
  local at = place_of(first_key)
  if not at then error('key carries no hash tag: ' .. first_key) end
  local now = call.clock()
  return {
    at = at,
    tag = at.tag,
    now = now,
    now_text = number.time(now),
    more = false,
  }
end

-- Number of the partition that a context works in, as text.
function call.partition(c)
  return c.at.partition
end

-- Context of a call in another partition than that of its first key. Only where one server has them all.
function call.beside(first_key, partition)
  local at = place_of(first_key)
  return call.open(at.prefix .. ':ffx:{fp:' .. number.text(partition) .. '}')
end

-- Whether the server is, or may be, one of a cluster; nil before that was asked.
local clustered

function call.is_clustered()
  if clustered == nil then
    local info = redis.pcall('CLUSTER', 'INFO')
    clustered = type(info) ~= 'table' or not string.find(info.err or '', 'cluster support disabled', 1, true)
  end
  return clustered
end

-- The frame of every call that may write, as the generated registrations have it: call.begin comes before anything else,
-- with the first key of a call that derives others from it, and call.finish behind all that the function does.
function call.begin(first_key)
  graph.drop_log()
  if first_key then call.probe(first_key) end
end

function call.finish(answer)
  graph.write_log()
  return answer
end

-- In a cluster, a slot on the move is on two servers. On the one that gives it away, a call that touches an absent key fails
-- half-way. On the one that takes it in, a call that was asked for there finds every key that has not arrived absent: only
-- commands with several keys are refused. Reading two keys that never exist fails on both, before the first write.
function call.probe(first_key)
  if not call.is_clustered() then return end
  local at = place_of(first_key)
  if at then redis.call('EXISTS', at.probe, at.beside) end
end

-- Refusal of a call that brings fewer keys or arguments than it needs. After the counts come names and positions of the
-- arguments that must be numbers.
function call.refuse(keys, key_count, args, arg_count, ...)
  local numbers = { ... }
  for i = 1, #numbers, 2 do
    local raw = args[numbers[i + 1]]
    if tonumber(raw) == nil then return number.refuse(numbers[i], raw) end
  end
  if #keys < key_count then
    return reply.err('invalid_input', key_count .. ' keys are needed, got: ' .. #keys)
  end
  return reply.err('invalid_input', arg_count .. ' arguments are needed, got: ' .. #args)
end

-- A call that works on several executions gathers what enters and leaves the indexes that it does not read, and writes it
-- with one command for each index; another call writes at once. What leaves goes before what enters, so a member that
-- leaves an index which it has entered in the same call must not be among those that enter any more.
local GATHERED = { 'ZREM', 'SREM', 'ZADD', 'SADD' }
local ENTERS_WITH = { ZREM = 'ZADD', SREM = 'SADD' }

function call.gather(c)
  c.gathered = c.gathered or { ZREM = {}, SREM = {}, ZADD = {}, SADD = {} }
end

-- The list that `lists` has under a name; a new one when it has none.
function call.list_in(lists, name)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  return list
end

-- Takes a member off those that enter an index: `width` is how many values there are for each.
local function take_back(c, command, index, member, width)
  local list = c.gathered[command][index]
  if not list then return end
  for i = #list, width, -width do
    if list[i] == member then
      for _ = 1, width do table.remove(list, i - width + 1) end
    end
  end
end

-- A member leaves an index: `command` is ZREM or SREM.
function call.leave(c, command, index, member)
  if not c.gathered then
    redis.call(command, index, member)
    return
  end
  take_back(c, ENTERS_WITH[command], index, member, command == 'ZREM' and 2 or 1)
  local list = call.list_in(c.gathered[command], index)
  list[#list + 1] = member
end

-- A member enters an index: a sorted set with its score, else a set.
function call.enter(c, index, member, score)
  if not c.gathered then
    if score then redis.call('ZADD', index, score, member) else redis.call('SADD', index, member) end
    return
  end
  local list = call.list_in(c.gathered[score and 'ZADD' or 'SADD'], index)
  if score then list[#list + 1] = score end
  list[#list + 1] = member
end

-- Writes what the call has gathered so far.
function call.write_gathered(c)
  if not c.gathered then return end
  for _, command in ipairs(GATHERED) do
    local lists = c.gathered[command]
    if next(lists) then
      for index, list in pairs(lists) do call.chunked(command, index, list) end
      c.gathered[command] = {}
    end
  end
end

-- Commands with a variable number of arguments stay below the interpreter's argument limit.
local UNPACK_CHUNK = 1000

function call.chunked(command, target, list)
  if #list <= UNPACK_CHUNK then
    if #list > 0 then redis.call(command, target, unpack(list)) end
    return
  end
  for from = 1, #list, UNPACK_CHUNK do
    redis.call(command, target, unpack(list, from, math.min(from + UNPACK_CHUNK - 1, #list)))
  end
end
