-- The frame of a call: its context, which carries prefix, hash tag and clock from one rule to the next, and the writes that the
-- call gathers.

-- @hook Reports whether the counters of a partition may be wrong, because its records have not been checked since the server
-- started.
function call.in_doubt(c) return false end

-- The time at which the call, or the last one that had a context, was opened: whole milliseconds, their text, and the microseconds
-- beyond.
local opened_at, opened_text, opened_micros

-- Returns the time of the call in whole milliseconds, for code that has no context.
function call.time() return opened_at or call.clock() end

-- Returns the microseconds beyond the time of a call that has a context.
function call.micros() return opened_micros end

-- Returns the server clock in whole milliseconds.
function call.clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Maximum number of places that are kept from call to call. Each collection of the interpreter visits all memory that is kept.
local MAX_PLACES = 256
local places, place_count = {}, 0

-- Returns the place of a call: the prefix and the partition in which it works, with the keys that builders keep there. It is read
-- from the first key; nil when that key has no hash tag.
local function place_of(first_key)
  local found = places[first_key]
  if found then return found end
  local prefix, tag = string.match(first_key, '^([^:]*):[^{]*({[^}]*})')
  if not tag then return nil end
  -- All composite calls of a partition have the same first key.
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

-- Returns the place of a partition.
function call.place(prefix, tag) return place_of(prefix .. ':ffx:' .. tag) end

-- Creates the context of a call. A first key without a hash tag is refused before anything is written.
function call.open(first_key)
  local at = places[first_key] or place_of(first_key)
  if not at then error('key carries no hash tag: ' .. first_key) end
  local t = redis.call('TIME')
  local micros = t[2] % 1000
  local now = t[1] * 1000 + (t[2] - micros) / 1000
  opened_micros = micros
  if now ~= opened_at then opened_at, opened_text = now, number.time(now) end
  -- Growing a table costs more than all other work here, so this one has room for the fields that most calls add.
  return {
    at = at,
    tag = at.tag,
    now = now,
    now_text = opened_text,
    more = false,
    budget = call.WORK_BUDGET,
    next_up = nil,
    commits = nil,
    order = nil,
  }
end

-- Creates the context of a keeper's call, in which an error of one item does not affect the others: see call.guarded.
function call.open_guarded(first_key)
  local c = call.open(first_key)
  c.faults, c.fault_count, c.faulty = {}, 0, {}
  return c
end

-- Errors of the server or of the call, and not of the item that is worked on.
local OF_SERVER = {
  OOM = true, READONLY = true, MISCONF = true, NOREPLICAS = true, NOPERM = true, LOADING = true, BUSY = true,
  TRYAGAIN = true, ASK = true, MOVED = true, CLUSTERDOWN = true, CROSSSLOT = true, MASTERDOWN = true,
}

-- Maximum number of faults that one reply names; further faults are only counted.
local MAX_FAULTS = 100

-- Calls work(item, more). In a call of a keeper, an error, such as a damaged record, ends the work on this item and on no other:
-- it is recorded in `faults` of the context, once for each item of a task. In any other call the error is raised. Returns whether
-- it succeeded, and up to two values that `work` returns.
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

-- Returns the number of the partition in which a context works, as text.
function call.partition(c)
  return c.at.partition
end

-- Whether the server is, or may be, part of a cluster; nil before the first query.
local clustered

function call.is_clustered()
  if clustered == nil then
    local info = redis.pcall('CLUSTER', 'INFO')
    clustered = type(info) ~= 'table' or not string.find(info.err or '', 'cluster support disabled', 1, true)
  end
  return clustered
end

-- A call on a server that has all partitions may work in several of them. Each has its own context; writes that the call gathers
-- for all of them are kept in the context that it was opened with, the root.

local HOME_TAG = '{fp:0}'

-- Returns the context of a call in the partition of an execution. It is the call's own context, except in calls that lease
-- executions of other partitions. On a server of a cluster, the call does not find an execution of another partition.
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

-- Returns the context that builders of keys use for data which the partitions of a server share: the one of partition 0. In a
-- cluster, each partition has its own. The value is kept from call to call, so no data of a call may be stored in it.
function call.home(c)
  local at = c.at
  local home = at.home
  if home == nil then
    home = not call.is_clustered() and at.tag ~= HOME_TAG and { at = call.place(at.prefix, HOME_TAG), tag = HOME_TAG }
    at.home = home
  end
  return home or c
end

-- The modules that hold data of the call in memory. A module sets its name here when it begins to.
call.held = {}

-- Whether a call has begun and not finished: the present one, or one that was interrupted, or only read.
local is_open = false

-- @hook Runs at the beginning of a call after one that has not finished: discards data that it has left in memory.
function call.on_begin() end

-- @hook Runs at the end of a call: writes its changes that are still in memory.
function call.on_finish() end

-- A server has its interpreter begin a collection after every 50 calls, however little they have allocated. Each collection
-- visits the memory of the library itself, some 5 MB, which takes an eighth of the time of calls that allocate a few KB. So the
-- library collects only after HEAP_ROOM (KB) were allocated since the last time; each call then takes HEAP_STEPS steps of 2 KB.
local HEAP_ROOM, HEAP_STEPS = 8192, 64

-- The size of the heap from which on a collection begins (KB), and whether one is running.
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

-- The frame of every call that may write, as the generated registrations use it: call.begin runs before anything else, with the
-- first key of a call that derives others from it, and call.finish runs after the function.
function call.begin(first_key)
  collect_some()
  if is_open then
    call.on_begin()
    event_log.drop()
  end
  is_open = true
  if first_key and clustered ~= false then call.probe(first_key) end
end

function call.finish(answer)
  call.on_finish()
  if event_log.state.is_used then
    event_log.write()
    if call.held.rows then call.on_finish() end -- shortening a log has loaded its run
  end
  is_open = false
  return answer
end

-- In a cluster, two servers have a slot while it is moved. On the server that gives the slot away, a call that uses an absent key
-- fails half-way. On the server that takes it in, a redirected call sees every key that has not arrived as absent: only commands
-- with several keys are refused. Reading two keys that never exist fails on both servers, before the first write.
function call.probe(first_key)
  if not call.is_clustered() then return end
  local at = place_of(first_key)
  if at then redis.call('EXISTS', at.probe, at.beside) end
end

-- Refuses a call with fewer keys or arguments than it needs. After the counts come names and positions of the arguments that must
-- be numbers.
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

-- A call that works on several executions gathers the members that enter and leave the indexes that it does not read, and writes
-- them with one command for each index; another call writes at once. Removals are written before additions, so a member that
-- leaves an index which it has entered in the same call must also be removed from the additions.
local GATHERED = { 'ZREM', 'SREM', 'ZADD', 'SADD' }
local ENTERS_WITH = { ZREM = 'ZADD', SREM = 'SADD' }

function call.gather(c)
  c = c.root or c
  c.gathered = c.gathered or { ZREM = {}, SREM = {}, ZADD = {}, SADD = {} }
end

-- Returns the list that `lists` has under a name; a new one when it has none.
function call.list_in(lists, name)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  return list
end

-- Removes a member from those that enter an index: `width` is the number of values for each.
local function take_back(c, command, index, member, width)
  local list = c.gathered[command][index]
  if not list then return end
  for i = #list, width, -width do
    if list[i] == member then
      for _ = 1, width do table.remove(list, i - width + 1) end
    end
  end
end

-- Removes a member from an index: `command` is ZREM or SREM.
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

-- Adds a member to an index: a sorted set with a score, otherwise a set.
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

-- Writes the additions and removals that the call has gathered so far.
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

-- Returns an empty list with room for a few elements.
function call.short_list() return { nil, nil, nil, nil } end

-- Commands with a variable number of arguments stay below the interpreter's argument limit.
local UNPACK_CHUNK = 1000

-- `count`: how many elements of the list; nil is all.
function call.chunked(command, target, list, count)
  count = count or #list
  if count <= UNPACK_CHUNK then
    if count > 0 then redis.call(command, target, unpack(list, 1, count)) end
    return
  end
  for from = 1, count, UNPACK_CHUNK do
    redis.call(command, target, unpack(list, from, math.min(from + UNPACK_CHUNK - 1, count)))
  end
end

-- A server keeps a sorted set of up to 128 short members as a list. Every command that names a member or a score then scans the
-- list from its beginning, which takes longer than the rest of the command. A set that has had a long member is kept as a tree
-- until it is empty.
local LONG_MEMBER = '-----------------------------------------------------------------'

-- How often a call makes a tree of an index that is seldom empty: once in this number of calls.
call.CALLS_PER_TREE = 256

local function make_tree(c, index)
  redis.call('ZADD', index, c.now, LONG_MEMBER)
  redis.call('ZREM', index, LONG_MEMBER)
end

-- Makes the server keep an index as a tree that every run of a partition enters. One of `every` calls adds a long member and
-- removes it at once, because the index may have been empty since, or loaded from a file. `other` is an index that the same call
-- has entered, and shares the count.
function call.keep_as_tree(c, index, every, other)
  local calls = call.list_in(c.at, 'tree_calls')
  local count = calls[index] or every - 2 -- it may be empty at the first call
  calls[index] = (count + 1) % every
  if count ~= every - 1 then return end
  make_tree(c, index)
  if other then make_tree(c, other) end
end

-- Edges (or members) worked per call; the rest waits in the partition's backlog.
call.WORK_BUDGET = 256
