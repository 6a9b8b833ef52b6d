-- Numbers of workers: a row names the worker that has its lease by a number of its partition. The hash `workers` has
-- `<number>` → `<instance> <worker>`, `<instance>` → number, and `last`.

-- What the interpreter has read: by the key of the hash, numbers by instance and texts by number. It is read anew after some
-- time, for the hash may be gone meanwhile.
local known, known_count = {}, 0
local MAX_KNOWN = 4096
local READ_ANEW_MS = 60000

local function registry_key(run) return run.prefix .. ':ffx:' .. run.tag .. ':workers' end

local function known_in(workers_key)
  local entry = known[workers_key]
  local now = call.clock()
  if not entry or now - entry.since > READ_ANEW_MS or now < entry.since then
    entry = { since = now, numbers = {}, texts = {} }
    known[workers_key] = entry
  end
  return entry
end

local function count()
  known_count = known_count + 1
  if known_count > MAX_KNOWN then known, known_count = {}, 0 end
end

-- The number of a worker's instance, a new one when it has none.
function worker_registry.number(run, instance, worker)
  local workers_key = registry_key(run)
  local entry = known_in(workers_key)
  local n = entry.numbers[instance]
  if n then return n end
  n = tonumber(redis.call('HGET', workers_key, instance) or nil)
  if not n then
    n = redis.call('HINCRBY', workers_key, 'last', 1)
    redis.call('HSET', workers_key, instance, n, number.text(n), instance .. ' ' .. worker)
  end
  entry.numbers[instance] = n
  count()
  return n
end

local function text_of(run, n)
  local workers_key = registry_key(run)
  local entry = known_in(workers_key)
  local text = entry.texts[n]
  if not text then
    text = redis.call('HGET', workers_key, number.text(n)) or ''
    entry.texts[n] = text
    count()
  end
  return text
end

function worker_registry.instance(run, n) return string.match(text_of(run, n), '^([^ ]*)') end

function worker_registry.worker(run, n) return string.match(text_of(run, n), '^[^ ]* (.*)$') or '' end
