-- Numbers of workers: a row names the worker that has its lease, or has completed it, by a number of its partition. The hash
-- `workers` has `<number>` → the instance and the worker as one text (see text_of_both), `@<that text>` → number, and `last`; and
-- for a worker that has no leases, `since <number>` → a time from which on it has started no node (see forget_gone).

-- Data that the interpreter has read: by prefix and partition, the last number of each instance, and which worker has a number.
-- It is read again after some time, because the hash may have been removed.
local known, known_count = {}, 0
local MAX_KNOWN = 4096
local READ_ANEW_MS = 60000

-- Returns the interpreter's data about the partition of a run or of a call. `now`: the time, when the caller has it.
local function known_of(place, now)
  local partitions = call.list_in(known, place.prefix)
  local entry = partitions[place.tag]
  now = now or call.time()
  if not entry or now - entry.since > READ_ANEW_MS or now < entry.since then
    entry = { key = place.prefix .. ':ffx:' .. place.tag .. ':workers', since = now, numbers = {}, texts = {} }
    partitions[place.tag] = entry
  end
  return entry
end

local function count()
  known_count = known_count + 1
  if known_count > MAX_KNOWN then known, known_count = {}, 0 end
end

-- Returns a worker and its instance as one text: any two texts that are not empty.
local function text_of_both(instance, worker) return #instance .. ' ' .. instance .. worker end

-- Returns the number of a worker's instance, a new one when it has none. `now`: the time, when the caller has it.
function worker_registry.number(run, instance, worker, now)
  local entry = known_of(run, now)
  local latest = entry.numbers[instance]
  if latest and latest.worker == worker then return latest.n end
  local workers_key, both = entry.key, text_of_both(instance, worker)
  local n = tonumber(redis.call('HGET', workers_key, '@' .. both) or nil)
  if not n then
    n = redis.call('HINCRBY', workers_key, 'last', 1)
    redis.call('HSET', workers_key, '@' .. both, n, number.text(n), both)
  end
  entry.numbers[instance] = { worker = worker, n = n }
  count()
  return n
end

local NOBODY = { instance = '', worker = '' }

local function who(run, n)
  local entry = known_of(run)
  local known_as = entry.texts[n]
  if not known_as then
    local both = redis.call('HGET', entry.key, number.text(n))
    if not both then return NOBODY end
    local at = string.find(both, ' ', 1, true)
    local last = at + tonumber(string.sub(both, 1, at - 1))
    known_as = { instance = string.sub(both, at + 1, last), worker = string.sub(both, last + 1) }
    entry.texts[n] = known_as
    count()
  end
  return known_as
end

function worker_registry.instance(run, n) return who(run, n).instance end

function worker_registry.worker(run, n) return who(run, n).worker end

-- Maximum number of rows that one call reads to find the numbers in use, and of numbers that it removes.
local MAX_ROWS, MAX_REMOVED = 2000, 1000

-- Returns the numbers of workers that rows of the partition name: those that have a lease. Nil when there are too many to read in
-- one call.
local function in_use(c)
  local expiry_key = key.index_lease_expiry(c)
  if redis.call('ZCARD', expiry_key) > MAX_ROWS then return nil end
  local used = {}
  local function note(execution_id)
    local r = row.of(c, execution_id)
    if r then used[r.worker] = true end
  end
  for _, execution_id in ipairs(redis.call('ZRANGE', expiry_key, 0, -1)) do
    call.guarded(c, 'index_reconciliation', execution_id, note)
  end
  return used
end

-- Removes the numbers of workers that no row names: those without leases that have not been assigned or read here for a while, and
-- after whose last start all runs of the partition were created. For a worker that began to have no leases, it records that time, or
-- the creation of the latest run when the clock of the server has gone back. Such a worker gets another number if it comes back.
-- `oldest`, `latest`: when these runs were created; nil without runs. Returns how many were removed.
function worker_registry.forget_gone(c, oldest, latest)
  local workers_key = key.ffx_workers(c)
  if redis.call('HLEN', workers_key) == 0 then return 0 end
  local used = in_use(c)
  if not used then return 0 end
  local entry, gone, set, removed = known_of(c.at, c.now), {}, {}, 0
  for _, known_as in next, entry.numbers, nil do used[known_as.n] = true end
  local values, by_field = redis.call('HGETALL', workers_key), {}
  for i = 1, #values, 2 do by_field[values[i]] = values[i + 1] end
  for field, both in next, by_field, nil do
    local n = tonumber(field)
    local since = n and by_field['since ' .. field]
    if n and used[n] then
      if since then gone[#gone + 1] = 'since ' .. field end
    elseif n and oldest and not since then
      set[#set + 1], set[#set + 2] = 'since ' .. field, number.time(math.max(c.now, latest))
    elseif n and (not oldest or tonumber(since) < oldest) and removed < MAX_REMOVED then
      gone[#gone + 1], gone[#gone + 2] = field, '@' .. both
      if since then gone[#gone + 1] = 'since ' .. field end
      removed, entry.texts[n] = removed + 1, nil
    end
  end
  call.chunked('HSET', workers_key, set)
  call.chunked('HDEL', workers_key, gone)
  return removed
end
