-- Numbers of workers: a row names the worker that has its lease by a number of its partition. The hash `workers` has
-- `<number>` → the instance and the worker as one text (see text_of_both), `@<that text>` → number, and `last`.

-- What the interpreter has read: by prefix and partition, the last number of each instance, and who has a number. It is read anew
-- after some time, for the hash may be gone meanwhile.
local known, known_count = {}, 0
local MAX_KNOWN = 4096
local READ_ANEW_MS = 60000

-- What is known of the partition of a run. `now`: the time, when the caller has it.
local function known_of(run, now)
  local partitions = call.list_in(known, run.prefix)
  local entry = partitions[run.tag]
  now = now or call.clock()
  if not entry or now - entry.since > READ_ANEW_MS or now < entry.since then
    entry = { key = run.prefix .. ':ffx:' .. run.tag .. ':workers', since = now, numbers = {}, texts = {} }
    partitions[run.tag] = entry
  end
  return entry
end

local function count()
  known_count = known_count + 1
  if known_count > MAX_KNOWN then known, known_count = {}, 0 end
end

-- A worker and its instance as one text: any two texts that are not empty.
local function text_of_both(instance, worker) return #instance .. ' ' .. instance .. worker end

-- The number of a worker's instance, a new one when it has none. `now`: the time, when the caller has it.
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
