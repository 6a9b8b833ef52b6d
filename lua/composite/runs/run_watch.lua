-- The processes that wait for the end of a run. Each has a random name, its origin, and receives messages on the channel of that
-- name. The header of a run names the process that has started it. Other processes mark the run while they wait.

local ORIGIN_BYTES = #row.NO_ORIGIN

-- The waiters in the header of a run that only the process with an origin waits for, and of one that no process waits for.
function run_watch.alone(origin) return origin .. '\0' end

run_watch.NOT_AWAITED = run_watch.alone(row.NO_ORIGIN)

-- Bytes of the header before the mark that there are watchers.
local BEFORE_WATCHED = run_head.WATCHED_AT - 1

-- Maximum number of processes that mark a run. The waits of further ones read its state from time to time.
local MAX_WATCHERS = 1024

-- Returns the origin that a call contains, or the origin that names no process. Returns nil and the error reply when it is invalid.
function run_watch.parse_origin(origin)
  if not is_set(origin) then return row.NO_ORIGIN end
  if #origin == ORIGIN_BYTES then return origin end
  return nil, reply.err('invalid_input', 'origin must have ' .. ORIGIN_BYTES .. ' bytes, got: ' .. #origin)
end

-- Marks an open run for a time (ms), so that the process receives its end. A process that receives it anyway makes no mark, nor
-- one whose mark holds for half that time. Flows without rows cannot be marked.
function run_watch.mark(c, flow_id, origin, duration)
  local nodes_key, watchers_key = key.flow_nodes(c, flow_id), key.flow_watchers(c, flow_id)
  local waiters = redis.call('GETRANGE', nodes_key, run_head.ORIGIN_AT - 1, BEFORE_WATCHED)
  if #waiters <= ORIGIN_BYTES or string.sub(waiters, 1, ORIGIN_BYTES) == origin then return end
  local held = tonumber(redis.call('ZSCORE', watchers_key, origin) or nil) or 0
  if held >= c.now + duration / 2 then return end
  redis.call('ZREMRANGEBYSCORE', watchers_key, '-inf', c.now_text)
  if held <= c.now and redis.call('ZCARD', watchers_key) >= MAX_WATCHERS then return end
  redis.call('ZADD', watchers_key, number.text(c.now + duration), origin)
  if redis.call('PTTL', watchers_key) < duration then redis.call('PEXPIRE', watchers_key, number.text(duration)) end
  if string.byte(waiters, -1) == 0 then redis.call('SETRANGE', nodes_key, BEFORE_WATCHED, '\1') end
end

-- Takes back the mark of a process.
function run_watch.unmark(c, flow_id, origin)
  redis.call('ZREM', key.flow_watchers(c, flow_id), origin)
end

-- Announces the end of a run to the processes that wait for it. `waiters`: that part of its header, nil for a run that the call
-- has loaded.
function run_watch.ended(c, flow_id, outcome, result, waiters)
  local origin, watched
  if waiters then
    origin, watched = struct.unpack(run_head.WAITERS, waiters)
  else
    local run = row.run(c, flow_id)
    if not run then return end
    origin, watched = run.origin, run.watched
  end
  if result and stored_value.is_kept(result) then result = nil end -- it is too large for a message
  if origin ~= row.NO_ORIGIN then wake.done(c, origin, flow_id, outcome, result) end
  if watched == 0 then return end
  local watchers_key = key.flow_watchers(c, flow_id)
  for _, watcher in ipairs(redis.call('ZRANGEBYSCORE', watchers_key, c.now_text, '+inf')) do
    wake.done(c, watcher, flow_id, outcome, result)
  end
  redis.call('UNLINK', watchers_key)
end

-- Announces that a run is open again, to the process that has started it and to the one that runs it again.
function run_watch.reopened(c, flow_id, origin)
  local run = row.run(c, flow_id)
  local starter = run and run.origin or row.NO_ORIGIN
  if starter ~= row.NO_ORIGIN then wake.reopened(c, starter, flow_id) end
  if origin ~= starter and origin ~= row.NO_ORIGIN then wake.reopened(c, origin, flow_id) end
end
