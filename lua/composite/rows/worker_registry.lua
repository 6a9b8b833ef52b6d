-- Numbers of workers: a row names the worker that has its lease by a number of its partition. The hash `workers` has `<number>` →
-- the instance and the worker as one text (see text_of_both), `@<that text>` → number, and `last`.

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

-- Removes the numbers of workers that no row names and that have not been assigned or read here for a while. Such a worker gets
-- another number if it comes back. Returns how many were removed.
function worker_registry.forget_gone(c)
  local workers_key = key.ffx_workers(c)
  if redis.call('HLEN', workers_key) == 0 then return 0 end
  local used = in_use(c)
  if not used then return 0 end
  local entry, gone = known_of(c.at, c.now), {}
  for _, known_as in next, entry.numbers, nil do used[known_as.n] = true end
  local values = redis.call('HGETALL', workers_key)
  for i = 1, #values, 2 do
    local n = tonumber(values[i])
    if n and not used[n] and #gone < 2 * MAX_REMOVED then
      gone[#gone + 1] = values[i]
      gone[#gone + 1] = '@' .. values[i + 1]
      entry.texts[n] = nil
    end
  end
  call.chunked('HDEL', workers_key, gone)
  return #gone / 2
end
