-- The frame of a call: its context, which carries prefix, hash tag and clock from one rule to the next, and what it gathers.

-- @hook Reports whether what a partition counts may be wrong, because its records have not been checked since the server started.
function call.in_doubt(c) return false end

-- The time at which the call, or the last one that had a context, was opened: whole milliseconds, and the microseconds beyond.
local opened_at, opened_micros

-- The time of the call in whole milliseconds, for whom has no context.
function call.time() return opened_at or call.clock() end

-- The microseconds beyond the time of a call that has a context.
function call.micros() return opened_micros end

-- Server clock in whole milliseconds, and the microseconds beyond.
local function read_clock()
  local t = redis.call('TIME')
  local micros = tonumber(t[2])
  local ms = math.floor(micros / 1000)
  return tonumber(t[1]) * 1000 + ms, micros - ms * 1000
end

-- Server clock in whole milliseconds.
function call.clock() return (read_clock()) end

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

-- The place of a partition.
function call.place(prefix, tag) return place_of(prefix .. ':ffx:' .. tag) end

-- Context of a call. A first key without a hash tag is refused before anything is written.
function call.open(first_key)
  local at = place_of(first_key)
  if not at then error('key carries no hash tag: ' .. first_key) end
  local now
  now, opened_micros = read_clock()
  opened_at = now
  -- Tables that grow cost more than all else, so there is room for what most calls add.
  return {
    at = at,
    tag = at.tag,
    now = now,
    now_text = number.time(now),
    more = false,
    budget = call.WORK_BUDGET,
    next_up = nil,
    commits = nil,
    order = nil,
  }
end

-- Context of a call of a keeper, in which call.guarded keeps the error of one item from the others.
function call.open_guarded(first_key)
  local c = call.open(first_key)
  c.faults, c.fault_count, c.faulty = {}, 0, {}
  return c
end

-- Errors that say something about the server or the call, and not about the item that is worked on.
local OF_SERVER = {
  OOM = true, READONLY = true, MISCONF = true, NOREPLICAS = true, NOPERM = true, LOADING = true, BUSY = true,
  TRYAGAIN = true, ASK = true, MOVED = true, CLUSTERDOWN = true, CROSSSLOT = true, MASTERDOWN = true,
}

-- Faults that one reply names; further ones are counted only.
local MAX_FAULTS = 100

-- Calls work(item, more). In a call of a keeper, an error, such as that of a damaged record, ends the work on this item
-- and no other: it is noted in `faults` of the context, once for each item of a task. In any other call it is raised. Gives
-- whether there was none, and up to two values that `work` gives.
function call.guarded(c, task, item, work, more)
  local root = c.root or c
  if not root.faults then return true, work(item, more) end
  local kept, reserved = c.budget, c.reserved
  local ok, first, second = pcall(work, item, more)
  if ok then return true, first, second end
  c.budget, c.reserved = kept, reserved
  local text = type(first) == 'table' and first.err or tostring(first)
  if OF_SERVER[string.match(text, '^%u+')] then error(first, 0) end
  root.fault_count = root.fault_count + 1
  local name = task .. ' ' .. item
  if not root.faulty[name] and #root.faults < MAX_FAULTS then
    root.faulty[name] = true
    root.faults[#root.faults + 1] = { task, item, text }
  end
  return false
end

-- Number of the partition that a context works in, as text.
function call.partition(c)
  return c.at.partition
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

-- A call on a server that has all partitions may work in several of them: each has a context of its own, and what the call
-- gathers for all of them is kept in the context that it was opened with, the root.

local HOME_TAG = '{fp:0}'

-- The context of a call in the partition of an execution, which is that of the call but for calls that lease executions of
-- other partitions. On a server of a cluster, an execution of another partition is none that the call finds.
function call.at(c, execution_id)
  local tag = c.tag
  if string.sub(execution_id, 1, #tag) == tag or call.is_clustered() then return c end
  tag = string.match(execution_id, '^{fp:%d+}')
  if not tag then return c end
  local root = c.root or c
  if tag == root.tag then return root end
  local contexts = call.list_in(root, 'contexts')
  local found = contexts[tag]
  if not found then
    found = {
      at = call.place(root.at.prefix, tag), tag = tag, now = root.now, now_text = root.now_text, more = false, budget = call.WORK_BUDGET,
      root = root,
    }
    contexts[tag], contexts[#contexts + 1] = found, found
  end
  return found
end

-- Where the partitions of a server keep what they share, for the builders of keys: in partition 0. In a cluster, each partition
-- has its own. It is kept from call to call, so nothing of a call may be noted there.
function call.home(c)
  local at = c.at
  local home = at.home
  if home == nil then
    home = not call.is_clustered() and at.tag ~= HOME_TAG and { at = call.place(at.prefix, HOME_TAG), tag = HOME_TAG }
    at.home = home
  end
  return home or c
end

-- @hook A call begins: what an earlier one that was broken off has left in memory is forgotten.
function call.on_begin() end

-- @hook A call ends: what it has changed in memory is written.
function call.on_finish() end

-- A server has its interpreter begin a collection after every 50 calls, however little they have left. Each goes through all that the
-- library itself keeps, some 5 MB, which takes an eighth of the time of calls that leave a few KB. So the interpreter collects
-- when so much has come since the last time (KB), in steps of 2 KB of which a call takes so many.
local HEAP_ROOM, HEAP_STEPS = 8192, 64

-- The size of the heap from which on a collection begins (KB), and whether one is going on.
local heap_limit, is_collecting = 0, false

-- Nil before the first call; false where the server has no such function, or one without effect, as the embedded engine.
local collect

local function collect_some()
  if collect == nil then collect = collectgarbage and collectgarbage('count') > 0 and collectgarbage end
  if not collect then return end
  if is_collecting then
    if collect('step', HEAP_STEPS) then
      is_collecting = false
      heap_limit = collect('count') + HEAP_ROOM
    end
  elseif collect('count') > heap_limit then
    is_collecting = true
  end
  collect('stop')
end

-- The frame of every call that may write, as the generated registrations have it: call.begin comes before anything else,
-- with the first key of a call that derives others from it, and call.finish behind all that the function does.
function call.begin(first_key)
  collect_some()
  call.on_begin()
  event_log.drop()
  if first_key then call.probe(first_key) end
end

function call.finish(answer)
  call.on_finish()
  event_log.write()
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
  c = c.root or c
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
  c = c.root or c
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
  c = c.root or c
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
  c = c.root or c
  if not c.gathered then return end
  for _, command in ipairs(GATHERED) do
    local lists = c.gathered[command]
    if next(lists) then
      for index, list in pairs(lists) do call.chunked(command, index, list) end
      c.gathered[command] = {}
    end
  end
end

-- An empty list with room for a few elements.
function call.short_list() return { nil, nil, nil, nil } end

-- Commands with a variable number of arguments stay below the interpreter's argument limit.
local UNPACK_CHUNK = 1000

function call.chunked(command, target, list)
  local count = #list
  if count <= UNPACK_CHUNK then
    if count > 0 then redis.call(command, target, unpack(list, 1, count)) end
    return
  end
  for from = 1, count, UNPACK_CHUNK do
    redis.call(command, target, unpack(list, from, math.min(from + UNPACK_CHUNK - 1, count)))
  end
end

-- A server keeps a sorted set of up to 128 short members as a list, in which every command that names a member or a score goes through
-- all before it: that takes longer than the rest of the command. A set that has had a long member is kept as a tree until it is empty.
local LONG_MEMBER = '-----------------------------------------------------------------'

-- How often that is done for an index that is seldom empty.
call.CALLS_PER_TREE = 256

local function make_tree(c, index)
  redis.call('ZADD', index, c.now, LONG_MEMBER)
  redis.call('ZREM', index, LONG_MEMBER)
end

-- Has an index kept as a tree that every run of a partition enters: it gets a long member, which it loses at once, with one of `every`
-- calls, as it may have been empty since, or loaded from a file. `other` is one that the same call has entered, and goes by its count.
function call.keep_as_tree(c, index, every, other)
  local calls = call.list_in(c.at, 'tree_calls')
  local count = calls[index] or every - 2 -- at the first call it may be empty yet
  calls[index] = (count + 1) % every
  if count ~= every - 1 then return end
  make_tree(c, index)
  if other then make_tree(c, other) end
end

-- Edges (or members) worked per call; the rest waits in the partition's backlog.
call.WORK_BUDGET = 256
