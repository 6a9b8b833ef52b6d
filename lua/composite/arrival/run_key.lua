-- Runs that share a key of their flow: how many of them are open at a time, with a queue for the others, and which was the first
-- within a time. All runs of a key are in one partition, so that one call judges, starts and ends them.

-- Maximum number of runs in the queue of a key; of runs that one call cancels for another one, promotes, or checks; and of the
-- roots of a run whose start is moved within a call.
local MAX_QUEUED = 10000
local RUNS_PER_CALL = 64
run_key.MAX_ROOTS = 256

-- Start time of a run in a queue (ms from now): it never comes, so the run waits like one with a later start.
local NEVER_MS = 3155760000000

-- A key with a queue is checked after this time (ms), in case a part of a call was lost.
local CHECK_MS = 60000
local KEYS_PER_TICK = 8

-- Reports whether one more run of a key has to wait: `at_once` is how many may be open.
local function is_taken(c, id, at_once)
  return redis.call('ZCARD', key.ffx_run_key_open(c, id)) >= at_once or redis.call('EXISTS', key.ffx_run_key_queue(c, id)) == 1
end

local function run_id_of(c, flow_id) return record.value(key.flow_core(c, flow_id), 'run_id') or '' end

-- Returns the run that was opened last, or the next one that will be.
local function running(c, id)
  return redis.call('ZRANGE', key.ffx_run_key_open(c, id), -1, -1)[1] or redis.call('ZRANGE', key.ffx_run_key_queue(c, id), 0, 0)[1]
end

-- Returns the last run that was the first within the time of its policy: its flow id and run id, when it was started, and the
-- longest time of a policy that counts such runs. Returns nil without one, and when that run was purged.
local function first(c, id)
  local at, longest, flow_id, run_id = string.match(redis.call('GET', key.ffx_run_key_first(c, id)) or '', '^(%d+) (%d+) (%S+) (.*)$')
  at, longest = tonumber(at), tonumber(longest)
  if not at or at + longest <= c.now then return nil end
  local flow = record.read(key.flow_core(c, flow_id), { 'run_id', 'purging' })
  if not flow or flow.purging then return nil end
  return flow_id, run_id, at, longest
end

-- Returns the score of a run that enters a queue at its end: later than all others, also of the same millisecond.
local function score_at_end(c, id)
  local last = redis.call('ZRANGE', key.ffx_run_key_queue(c, id), -1, -1, 'WITHSCORES')
  return number.digits(math.max(c.now, (tonumber(last[2] or nil) or 0) + 1))
end

-- Judges a new run by its key. Returns the outcome of a run that is not created, or nil. A run that has to wait gets `queued`,
-- its score in the queue, and a run that replaces others gets `cancels`. Nothing is written.
function run_key.judge(c, n, run, a)
  if a.unique_for > 0 then
    local flow_id, run_id, at = first(c, a.key_id)
    if flow_id and c.now < at + a.unique_for then return { 'joined', run_id, flow_id, 'unique' } end
  end
  if a.at_once == 0 or not is_taken(c, a.key_id, a.at_once) then return nil end
  if a.when_taken == 'reject' or a.when_taken == 'join' then
    local flow_id = running(c, a.key_id)
    return { a.when_taken == 'join' and 'joined' or 'run_key_taken', run_id_of(c, flow_id), flow_id, 'running' }
  end
  if redis.call('ZCARD', key.ffx_run_key_queue(c, a.key_id)) >= MAX_QUEUED then
    return { 'run_key_full', '', number.text(MAX_QUEUED), '' }
  end
  run.queued, run.cancels = score_at_end(c, a.key_id), a.when_taken == 'cancel'
  n.start_at = c.now + NEVER_MS
  return nil
end

-- Starts a run of a queue now.
local function start(c, id, flow_id, flow)
  redis.call('ZREM', key.ffx_run_key_queue(c, id), flow_id)
  redis.call('ZADD', key.ffx_run_key_open(c, id), c.now_text, flow_id)
  record.clear(key.flow_core(c, flow_id), 'queued')
  run_start.move_all(c, row.run(c, flow_id), flow, c.now)
end

local QUEUE_FIELDS = { 'at_once', 'queued', 'public_flow_state', 'start_at', 'deadline_at' }

-- Starts the next runs of a queue as far as there are places.
local function promote(c, id)
  local queue_key = key.ffx_run_key_queue(c, id)
  local function start_next(flow_id)
    local flow = record.read(key.flow_core(c, flow_id), QUEUE_FIELDS)
    if not flow or not flow.queued or flow_record.is_over(flow) then
      redis.call('ZREM', queue_key, flow_id)
    elseif redis.call('ZCARD', key.ffx_run_key_open(c, id)) >= (tonumber(flow.at_once) or 1) then
      return true
    else
      start(c, id, flow_id, flow)
    end
  end
  for _ = 1, RUNS_PER_CALL do
    local flow_id = redis.call('ZRANGE', queue_key, 0, 0)[1]
    if not flow_id then return end
    local ok, is_full = call.guarded(c, 'run_key', flow_id, start_next)
    if is_full then return end
    -- A run that raises an error does not delay others. When it can be read again, the index reconciliation enters it again.
    if not ok then redis.call('ZREM', queue_key, flow_id) end
  end
  redis.call('ZADD', key.ffx_run_keys_due(c), c.now, id)
  wake.due(c, c.now)
end

-- Adds a run to the queue of its key, with the score that its record keeps.
local function enqueue(c, id, flow_id, score)
  redis.call('ZADD', key.ffx_run_key_queue(c, id), score, flow_id)
  redis.call('ZADD', key.ffx_run_keys_due(c), 'NX', c.now + CHECK_MS, id)
  wake.due(c, c.now + CHECK_MS)
end

-- Cancels the oldest runs of a key, so that another one has a place.
local function cancel_others(c, run, a, actor)
  local ids = redis.call('ZRANGE', key.ffx_run_key_open(c, a.key_id), 0, RUNS_PER_CALL - 1)
  for _, flow_id in ipairs(redis.call('ZRANGE', key.ffx_run_key_queue(c, a.key_id), 0, RUNS_PER_CALL - 1)) do
    if flow_id ~= run.flow_id then ids[#ids + 1] = flow_id end
  end
  for i = 1, math.min(#ids - a.at_once + 1, RUNS_PER_CALL) do
    local flow = record.read(key.flow_core(c, ids[i]), { 'public_flow_state' })
    if flow and not flow_record.is_over(flow) then
      run_stop.cancel(c, ids[i], 'run ' .. run.run_id .. ' of the same key has been started', is_set(actor) and actor or 'client')
    end
  end
end

-- Applies the key of a run whose record and rows were created: enters it, and cancels the runs that it replaces.
function run_key.created(c, run, a, actor)
  local id = a.key_id
  if a.unique_for > 0 then
    local _, _, _, longest = first(c, id)
    local kept = number.digits(math.max(a.unique_for, longest or 0))
    redis.call('SET', key.ffx_run_key_first(c, id), c.now_text .. ' ' .. kept .. ' ' .. run.flow_id .. ' ' .. run.run_id, 'PX', kept)
  end
  if run.queued then
    enqueue(c, id, run.flow_id, run.queued)
  elseif a.at_once > 0 then
    redis.call('ZADD', key.ffx_run_key_open(c, id), c.now_text, run.flow_id)
  end
  if run.cancels then
    cancel_others(c, run, a, actor)
    promote(c, id)
  end
end

-- Frees the place of a run that has ended.
function run_key.ended(c, flow_id, id)
  redis.call('ZREM', key.ffx_run_key_open(c, id), flow_id)
  if redis.call('ZREM', key.ffx_run_key_queue(c, id), flow_id) == 1 then
    record.clear(key.flow_core(c, flow_id), 'queued')
  end
  promote(c, id)
end

-- Checks whether a run that has ended may be open again. Returns the error reply, or nil. `flow` has its run_key_id and at_once.
function run_key.refuse_reopen(c, flow)
  local at_once = tonumber(flow.at_once)
  if not flow.run_key_id or not at_once or not is_taken(c, flow.run_key_id, at_once) then return nil end
  return reply.err('run_key_taken', run_id_of(c, running(c, flow.run_key_id)))
end

-- Enters a run again that had ended and is open again.
function run_key.reopened(c, flow_id, flow_key)
  local flow = record.read(flow_key, { 'run_key_id', 'at_once' })
  if flow and flow.run_key_id and flow.at_once then
    redis.call('ZADD', key.ffx_run_key_open(c, flow.run_key_id), c.now_text, flow_id)
  end
end

-- Removes runs that are over or purged from the indexes of their key, and starts those whose turn it is.
local function check(c, id)
  for _, set_key in ipairs({ key.ffx_run_key_open(c, id), key.ffx_run_key_queue(c, id) }) do
    local function look_at(flow_id)
      local flow = record.read(key.flow_core(c, flow_id), { 'closed_at', 'run_key_id' })
      if not flow or flow.closed_at or flow.run_key_id ~= id then redis.call('ZREM', set_key, flow_id) end
    end
    for _, flow_id in ipairs(redis.call('ZRANGE', set_key, 0, RUNS_PER_CALL - 1)) do
      call.guarded(c, 'run_key', flow_id, look_at)
    end
  end
  promote(c, id)
  if redis.call('EXISTS', key.ffx_run_key_queue(c, id)) == 0 then
    redis.call('ZREM', key.ffx_run_keys_due(c), id)
  elseif not c.more then
    redis.call('ZADD', key.ffx_run_keys_due(c), scan.again(c, CHECK_MS), id)
  end
end

-- Checks keys with a queue. Returns how many it has checked.
function run_key.check_due(c)
  local count = scan.each_due(c, 'run_key', key.ffx_run_keys_due(c), KEYS_PER_TICK, function(id) check(c, id) end)
  if count == KEYS_PER_TICK then c.more = true end
  return count
end

-- Enters a run into the indexes that its record names. `flow` has its run_key_id, at_once, queued, created_at, and closed_at.
-- Reports whether an entry was wrong or missing.
function run_key.repair(c, flow_id, flow)
  local id = flow.run_key_id
  if not id or not flow.at_once then return false end
  local open_key, queue_key = key.ffx_run_key_open(c, id), key.ffx_run_key_queue(c, id)
  local changed
  if is_set(flow.closed_at) then
    changed = redis.call('ZREM', open_key, flow_id) + redis.call('ZREM', queue_key, flow_id)
  elseif flow.queued then
    changed = redis.call('ZREM', open_key, flow_id) + redis.call('ZADD', queue_key, 'NX', flow.queued, flow_id)
      + redis.call('ZADD', key.ffx_run_keys_due(c), 'NX', c.now + CHECK_MS, id)
  else
    changed = redis.call('ZREM', queue_key, flow_id) + redis.call('ZADD', open_key, 'NX', flow.created_at or c.now_text, flow_id)
  end
  if changed == 0 then return false end
  redis.call('ZADD', key.ffx_run_keys_due(c), c.now + CHECK_MS, id)
  wake.due(c, c.now + CHECK_MS)
  return true
end

-- Returns the place of a run in the queue of its key, from 1 on; nil when it is in none.
function run_key.place(c, flow_id, id)
  local rank = redis.call('ZRANK', key.ffx_run_key_queue(c, id), flow_id)
  return rank and rank + 1 or nil
end

-- Returns the run id of the run that a queue waits for.
function run_key.running(c, id)
  local flow_id = redis.call('ZRANGE', key.ffx_run_key_open(c, id), 0, 0)[1]
  return flow_id and run_id_of(c, flow_id) or ''
end

local MAX_LISTED = 200

-- @record keyed_run flow_id:flow_id run_id:text at:unix_ms
-- @record counted_start at:unix_ms

local function listed(c, set_key, field)
  local list = {}
  for _, flow_id in ipairs(redis.call('ZRANGE', set_key, 0, MAX_LISTED - 1)) do
    local flow = record.read(key.flow_core(c, flow_id), { 'run_id', field })
    if flow then list[#list + 1] = { flow_id, flow.run_id or '', flow[field] or '' } end
  end
  return list
end

-- @function ffx_read_run_key
-- @summary  Returns the runs of a key: the open ones and those in its queue, in their order, the first 200 of each, and the total
--           of both; the first run within the time of its policy; the run that gathers calls, and when it starts; and the times
--           of the last starts that are counted.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      run_key_id         run_key_id
-- @reply    OK now:unix_ms open:list(keyed_run) open_count:int queued:list(keyed_run) queued_count:int first:list(keyed_run) pending:list(keyed_run) starts:list(counted_start)
function F.ffx_read_run_key(K, A)
  local c, id = call.open(K.partition), A.run_key_id
  local open_key, queue_key = key.ffx_run_key_open(c, id), key.ffx_run_key_queue(c, id)
  local flow_id, run_id = first(c, id)
  local starts = {}
  for i, at in ipairs(redis.call('LRANGE', key.ffx_run_key_starts(c, id), 0, MAX_LISTED - 1)) do starts[i] = { at } end
  return reply.ok(c.now_text, listed(c, open_key, 'start_at'), number.text(redis.call('ZCARD', open_key)),
    listed(c, queue_key, 'created_at'), number.text(redis.call('ZCARD', queue_key)),
    flow_id and { { flow_id, run_id, record.value(key.flow_core(c, flow_id), 'created_at') or '' } } or {},
    debounce.pending(c, id), starts)
end
