-- The eligible executions of a lane: the eligible set and, while executions with a fair key wait there (core field `fair_key`), a
-- queue for each key; executions without a key share the queue of the empty one. Only order.enter and order.leave add executions
-- to an eligible set and remove them. claim_order.chooser decides which one a claim takes.
--
-- A server that has all partitions keeps one order for each lane, in the keys of partition 0 (call.home): members are ids of
-- executions, which contain their partitions. In a cluster, each partition keeps its own order. Everywhere, each partition also
-- keeps its own order for executions outside of managed flows, whose eligible sets the contract names.

-- Returns a call's data about a lane: whether keys wait (fair), the last place in the line of keys (last), and the keys that it
-- has lined up.
local function memo(c, lane)
  c = c.root or c
  local all = c.order
  if not all then
    all = {}
    c.order = all
  end
  local known = all[lane]
  if not known then
    known = { lined_up = {} }
    all[lane] = known
  end
  return known
end

-- Reports whether the keys of a lane take turns.
function order.is_fair(c, lane)
  local known = memo(c, lane)
  if known.fair == nil then known.fair = redis.call('EXISTS', key.ffx_turns(call.home(c), lane)) == 1 end
  return known.fair
end

-- Returns the place after all keys that wait.
function order.last_place(c, lane)
  local known = memo(c, lane)
  if not known.last then
    local last = redis.call('ZRANGE', key.ffx_turns(call.home(c), lane), -1, -1, 'WITHSCORES')
    known.last = tonumber(last[2] or nil) or 0
  end
  known.last = known.last + 1
  return known.last
end

-- From here to order.write_gathered, executions that enter an eligible set are gathered, and enter it together. Until then, other
-- code may neither read those sets nor remove executions that have entered them.
function order.gather(c)
  c = c.root or c
  c.entering = {}
end

local function write_entering(c)
  for eligible_key, members in pairs(c.entering) do call.chunked('ZADD', eligible_key, members) end
end

function order.write_gathered(c)
  c = c.root or c
  if not c.entering then return end
  write_entering(c)
  c.entering = nil
end

-- Enters a key with a waiting execution into the line of keys.
local function line_up(c, lane, fair_key)
  local known = memo(c, lane)
  if known.lined_up[fair_key] then return end
  known.lined_up[fair_key] = true
  if not order.is_fair(c, lane) then
    known.fair = true
    local root = c.root or c
    if root.entering then
      write_entering(root)
      root.entering = {}
    end
    if redis.call('EXISTS', key.lane_eligible(call.home(c), lane)) == 1 then
      redis.call('HSET', key.ffx_order(call.home(c), lane), 'adopted_to', '0')
    end
  end
  redis.call('ZADD', key.ffx_turns(call.home(c), lane), 'NX', order.last_place(c, lane), fair_key)
end

-- Returns the queue for an execution of the eligible set, and enters its key into the line: nil when the lane has none. `core`
-- needs only its fair_key. A record without one shares the empty key, which is stored with the record, but not with a row.
function order.queue_for(c, lane, execution_id, core)
  local fair_key = core.fair_key
  if not is_set(fair_key) then
    if not order.is_fair(c, lane) then return nil end
    if not fair_key then record.set(key.exec_core(c, execution_id), 'fair_key', '') end
    fair_key = ''
  end
  line_up(c, lane, fair_key)
  return key.ffx_queue(call.home(c), lane, fair_key)
end

-- Returns the eligible set for an execution. `named` is the set that a call of the contract names.
function order.index(c, lane, core, named)
  local home = call.home(c)
  if home ~= c and core.managed then return key.lane_eligible(home, lane) end
  return named or key.lane_eligible(c, lane)
end

-- Reports whether an execution has its place in the order of the lane, whose keys may take turns.
function order.is_ordered(c, core)
  return core.managed or call.home(c) == c
end

-- Adds an execution to the eligible set of its lane, or updates its place there.
function order.enter(c, lane, execution_id, core, eligible_key)
  local score = record.eligible_score(core)
  local queue_key = order.is_ordered(c, core) and order.queue_for(c, lane, execution_id, core)
  eligible_key = order.index(c, lane, core, eligible_key)
  local entering = (c.root or c).entering
  if entering then
    local members = call.list_in(entering, eligible_key)
    local n = #members
    members[n + 1], members[n + 2] = score, execution_id
  else
    redis.call('ZADD', eligible_key, score, execution_id)
  end
  if queue_key then redis.call('ZADD', queue_key, score, execution_id) end
end

-- Returns the list in which executions of runs are gathered (see order.gather) that enter a lane: scores and ids in turn. Nil for a
-- lane whose keys take turns.
function order.entrants(c, lane)
  if order.is_fair(c, lane) then return nil end
  return call.list_in((c.root or c).entering, key.lane_eligible(call.home(c), lane))
end

-- Removes a key without waiting executions from the line.
function order.step_out(c, lane, fair_key)
  redis.call('ZREM', key.ffx_turns(call.home(c), lane), fair_key)
  redis.call('HDEL', key.ffx_order(call.home(c), lane), 'claims ' .. fair_key, 'seen ' .. fair_key)
  local known = memo(c, lane)
  known.fair, known.lined_up[fair_key] = nil, nil
end

-- From here to order.write_leaving, executions that leave an eligible set are gathered, and leave it together. Code that reads
-- those sets, or adds executions again that have left them, ends this first.
function order.leave_together(c)
  c = c.root or c
  c.leaving = {}
end

function order.write_leaving(c)
  c = c.root or c
  if not c.leaving then return end
  for eligible_key, members in pairs(c.leaving) do call.chunked('ZREM', eligible_key, members) end
  c.leaving = nil
end

-- Removes an execution from an eligible set, and from the queue of its key if that is given.
function order.leave_index(c, lane, execution_id, eligible_key, fair_key)
  local leaving = (c.root or c).leaving
  if leaving then
    local members = call.list_in(leaving, eligible_key)
    members[#members + 1] = execution_id
  else
    redis.call('ZREM', eligible_key, execution_id)
  end
  if not fair_key then return end
  local queue_key = key.ffx_queue(call.home(c), lane, fair_key)
  if redis.call('ZREM', queue_key, execution_id) == 0 or redis.call('EXISTS', queue_key) == 1 then return end
  order.step_out(c, lane, fair_key)
end

-- Returns the key whose queue contains an execution if it is eligible; nil when no queue does.
function order.key_of(c, lane, execution_id, core)
  local fair_key = core.fair_key
  -- A node of a run without a key does not store the empty key.
  if not fair_key and order.is_fair(c, lane) and store.row(key.exec_core(c, execution_id)) then return '' end
  return fair_key
end

-- Removes an execution from the eligible set of its lane, if it is there.
function order.leave(c, lane, execution_id, core, eligible_key)
  local fair_key = order.key_of(c, lane, execution_id, core)
  order.leave_index(c, lane, execution_id, order.index(c, lane, core, eligible_key), fair_key)
end

-- Moves a waiting execution to the order of managed flows, because it has become a member of one.
function order.adopt(c, core_key, execution_id)
  local core = record.read(core_key, { 'lane_id', 'current_lane', 'managed', 'created_at', 'priority', 'fair_key' })
  local lane = record.lane(core)
  local former, index = key.lane_eligible(c, lane), order.index(c, lane, core)
  if former == index or redis.call('ZREM', former, execution_id) == 0 then return end
  order.enter(c, lane, execution_id, core)
  wake.entered(c, lane, core)
end

-- Limits the time (ms) within which an execution has to start.
function order.limit_start(c, execution_id, start_timeout)
  redis.call('ZADD', key.ffx_start_deadlines(c), c.now + start_timeout, execution_id)
  wake.due(c, c.now + start_timeout)
end

-- Announces that an execution has entered the eligible set of its lane.
function order.announce(c, execution_id, core, lane)
  wake.entered(c, lane, core)
  local start_timeout = core.managed and not is_set(core.current_attempt_index) and tonumber(core.start_timeout)
  if start_timeout then order.limit_start(c, execution_id, start_timeout) end
end
