-- Throttles starts of a key: at most a number of starts within a time, or several such windows. The key has a list of the times
-- of its last starts, the latest first. All runs of the key share it, whatever their own numbers and times are. A start that
-- would exceed one of its windows is deferred until it does not.

-- Maximum time (ms) by which a start is deferred: ten years.
local MAX_AHEAD_MS = 316224000000

-- Maximum number of starts that are kept for a key, equal to the largest window; number of starts that are always kept, for
-- lists; and number of starts outside of all windows that one call drops.
local MAX_KEPT, MIN_KEPT, DROPPED_PER_CALL = 10000, 200, 8

-- Maximum number of starts that are searched for a free time, when some of them are still to come. With more, a start comes after
-- all of them.
local MAX_LOOKED = 2048

local MAX_WINDOWS = 8

-- Reads the windows of a throttle, "<starts>/<ms>", separated by commas. Returns nil when they are invalid, or too many.
function throttle.windows(text, most, longest)
  local windows = {}
  for part in string.gmatch(text .. ',', '([^,]*),') do
    local starts, per = string.match(part, '^(%d+)/(%d+)$')
    starts, per = tonumber(starts), tonumber(per)
    if not starts or starts < 1 or starts > most or per < 1 or per > longest or #windows == MAX_WINDOWS then return nil end
    windows[#windows + 1] = { starts = starts, per = per }
  end
  return windows
end

-- Returns the earliest time from `at` on at which the n-th latest start has left each window, where n is the number of starts
-- that the window allows.
local function behind_all(c, starts_key, windows, at)
  for _, w in ipairs(windows) do
    local start = number.finite(redis.call('LINDEX', starts_key, w.starts - 1))
    if start then at = math.max(at, start + w.per) end
  end
  return at
end

-- Returns the earliest time from `at` on at which a window has room in addition to the starts of a list, the latest first: no
-- span of its length may contain more starts than it allows. A group of that many starts close to each other excludes the time
-- from `per` before its last start to `per` after its first.
local function with_room(list, w, at)
  for first = #list, w.starts, -1 do
    local from, to = list[first - w.starts + 1] - w.per, list[first] + w.per
    if from >= at then return at end
    if at < to then at = to end
  end
  return at
end

-- Returns the earliest time from `at` on at which all windows have room, where some starts are still to come.
local function between(c, starts_key, windows, at)
  local list = redis.call('LRANGE', starts_key, 0, -1)
  for i = 1, #list do list[i] = tonumber(list[i]) end
  for _ = 1, MAX_WINDOWS do
    local before = at
    for _, w in ipairs(windows) do at = with_room(list, w, at) end
    if at == before then return at end
  end
  return behind_all(c, starts_key, windows, at)
end

-- Judges a new run. Returns the outcome of a run that is not created, or nil; a deferred run starts at n.start_at. Nothing is
-- written.
function throttle.judge(c, n, run, a)
  local starts_key = key.ffx_run_key_starts(c, a.key_id)
  local latest = number.finite(redis.call('LINDEX', starts_key, 0))
  local ahead = latest and latest > c.now and redis.call('LLEN', starts_key) <= MAX_LOOKED
  local at = (ahead and between or behind_all)(c, starts_key, a.windows, c.now)
  run.counted_at = at
  if at <= c.now then return nil end
  if a.when_many == 'reject' or at - c.now > MAX_AHEAD_MS then return { 'throttled', '', number.digits(at), '' } end
  n.start_at = at
  return nil
end

-- Adds a start to a list and keeps the list in order.
local function insert(starts_key, at)
  local text = number.digits(at)
  local latest = number.finite(redis.call('LINDEX', starts_key, 0))
  if not latest or latest <= at then
    redis.call('LPUSH', starts_key, text)
    return
  end
  -- Later starts are removed, and added again after it.
  local later, list = { text }, redis.call('LRANGE', starts_key, 0, -1)
  local count = 0
  while list[count + 1] and tonumber(list[count + 1]) > at do count = count + 1 end
  for i = count, 1, -1 do later[#later + 1] = list[i] end
  redis.call('LTRIM', starts_key, count, -1)
  call.chunked('LPUSH', starts_key, later)
end

-- Drops starts that are older than the longest window.
local function drop_old(c, starts_key, longest)
  for _ = 1, DROPPED_PER_CALL do
    if redis.call('LLEN', starts_key) <= MIN_KEPT then return end
    local oldest = number.finite(redis.call('LINDEX', starts_key, -1))
    if oldest and oldest > c.now - longest then break end
    redis.call('LTRIM', starts_key, 0, -2)
  end
  redis.call('LTRIM', starts_key, 0, MAX_KEPT - 1)
end

-- Counts the start of a run that was created. The list is kept until its latest start is outside of all windows. Its remaining
-- time to live therefore shows the longest window that has throttled the key.
function throttle.created(c, run, a)
  local starts_key = key.ffx_run_key_starts(c, a.key_id)
  local latest, left, longest = number.finite(redis.call('LINDEX', starts_key, 0)), redis.call('PTTL', starts_key), 1
  if latest and left > 0 then longest = math.max(longest, left + c.now - latest) end
  for _, w in ipairs(a.windows) do longest = math.max(longest, w.per) end
  insert(starts_key, run.counted_at)
  drop_old(c, starts_key, longest)
  redis.call('PEXPIRE', starts_key, number.digits(math.max(run.counted_at, latest or 0) - c.now + longest))
end
