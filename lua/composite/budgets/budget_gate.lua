-- The budget gates of a partition of flows: which budgets are used up, and which executions wait for one of them to reopen. The
-- flow field `budget_ids` names the budgets that block. The hash `budget_gates` maps each budget that was ever closed to "<gate>
-- <words>"; an empty text after the gate means open.

-- Maximum number of executions that one call releases.
local RELEASED_PER_CALL = 200

-- Maximum time (ms) until a run is checked again, and time after its due purge until the next check.
local RUN_AGAIN_MS = 86400000
local PURGE_GRACE_MS = 60000

-- Value of the field `budgets` for a run whose budgets come from its graph.
local OF_GRAPH = 'graph'
budget_gate.OF_GRAPH = OF_GRAPH

-- Returns the budgets of a run, "" for none. `mark` is the field `budgets` of its record. Budgets that were submitted with the
-- run have their own key, since a hash with a long text in it takes several times the memory and the time to copy.
function budget_gate.of(c, flow_id, mark)
  if not is_set(mark) then return '' end
  if mark ~= OF_GRAPH then return redis.call('GET', key.flow_budgets(c, flow_id)) or '' end
  local run = row.run(c, flow_id)
  return run and graph_store.budgets(graph_store.of_run(run)) or ''
end

-- Returns why a flow's budgets keep its executions from starting, and the id of the budget; nil when they do not.
function budget_gate.closed(c, flow)
  if not is_set(flow.budget_ids) then return nil end
  c.gates = c.gates or {}
  for id in string.gmatch(flow.budget_ids, '[^,]+') do
    if c.gates[id] == nil then
      c.gates[id] = string.match(redis.call('HGET', key.ffx_budget_gates(c), id) or '', '^%d+ (.+)$') or false
    end
    if c.gates[id] then return c.gates[id], id end
  end
  return nil
end

-- Blocks an execution until the gate opens, when a budget keeps it from starting. Reports whether it does.
function budget_gate.hold(c, execution_id, core)
  local words, budget_id = budget_gate.closed(c, flow_record.read(c, core.flow_id))
  if not words then return false end
  local lane = record.lane(core)
  record.write(key.exec_core(c, execution_id), core.managed, {
    'eligibility_state', 'blocked_by_budget',
    'blocking_reason', 'waiting_for_budget',
    'blocking_detail', words,
    'public_state', 'rate_limited',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }, {})
  if core.eligibility_state == 'blocked_by_route' then
    redis.call('ZREM', key.lane_blocked_route(c, lane), execution_id)
  else
    order.leave(c, lane, execution_id, core)
  end
  redis.call('ZADD', key.lane_blocked_budget(c, lane), c.now, execution_id)
  redis.call('ZADD', key.ffx_budget_waiting(c, budget_id), record.eligible_score(core), execution_id)
  return true
end

-- Releases one execution that waits for a budget.
function budget_gate.release(c, execution_id)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, claim.FIELDS)
  if not core or core.lifecycle_phase ~= 'runnable' or core.eligibility_state ~= 'blocked_by_budget' then return end
  redis.call('ZREM', key.lane_blocked_budget(c, record.lane(core)), execution_id)
  requeue.ready(c, execution_id, core_key, core, {
    own_delay = true, values = { 'attempt_state', core.attempt_state or 'pending_first_attempt' },
  })
end

-- Releases the executions that wait for a budget, in the order in which they would have started.
local function release_waiting(c, budget_id, left)
  local waiting_key = key.ffx_budget_waiting(c, budget_id)
  if left <= 0 then
    if redis.call('EXISTS', waiting_key) == 1 then c.more = true end
    return left
  end
  local first = redis.call('ZPOPMIN', waiting_key, left)
  for i = 1, #first, 2 do budget_gate.release(c, first[i]) end
  left = left - #first / 2
  if left <= 0 and redis.call('EXISTS', waiting_key) == 1 then c.more = true end
  return left
end

-- @function ffx_set_budget_gates
-- @summary  Notifies a partition which budgets are used up (`closed` contains the reason), and which are not: their executions
--           are released, a bounded number per call; call again while `more`. A notice that is older than the stored one has no
--           effect. `forget`: the budget is removed, and no further notice will come.
-- @flags    derives repeatable
-- @key      partition       ffx.partition
-- @group    gates           budget_id:budget_id gate:int closed:text forget:bool
-- @reply    OK more:bool
-- @error    invalid_input message:text
function F.ffx_set_budget_gates(K, A)
  if not A.gates then return reply.err('invalid_input', 'the count of gates does not fit the arguments') end
  local c = call.open(K.partition)
  local gates_key = key.ffx_budget_gates(c)
  local left = RELEASED_PER_CALL
  for _, entry in ipairs(A.gates) do
    local known = redis.call('HGET', gates_key, entry.budget_id)
    local gate = tonumber((string.match(known or '', '^(%d+) '))) or 0
    if entry.forget == '1' then left = release_waiting(c, entry.budget_id, left) end
    if entry.forget == '1' and not c.more then
      redis.call('HDEL', gates_key, entry.budget_id)
    elseif (tonumber(entry.gate) or 0) >= gate then
      redis.call('HSET', gates_key, entry.budget_id, entry.gate .. ' ' .. entry.closed)
      if entry.closed == '' then left = release_waiting(c, entry.budget_id, left) end
    end
  end
  settle.run(c)
  return reply.ok(c.more and '1' or '0')
end

-- @function ffx_note_breach
-- @summary  Writes into the log of a run that it has exceeded a limit of a budget, once for each budget and id.
-- @flags    derives repeatable
-- @key      partition       ffx.partition
-- @arg      flow_id         flow_id
-- @arg      budget_id       budget_id
-- @arg      id              text
-- @arg      kind            text
-- @arg      node            text
-- @arg      attempt         int
-- @arg      words           text
-- @reply    OK
-- @reply    ALREADY_SATISFIED
function F.ffx_note_breach(K, A)
  local c = call.open(K.partition)
  local flow_key = key.flow_core(c, A.flow_id)
  if record.exists(flow_key) == 0 then return reply.already() end
  if not record.set_once(flow_key, 'breach ' .. A.budget_id .. ' ' .. A.id, c.now_text) then return reply.already() end
  event_log.add(c, A.flow_id, 'budget_' .. A.kind, A.node, A.attempt, A.words)
  return reply.ok()
end

-- Returns until when (Unix ms) an execution is leased under an epoch; 0 when it is not.
local function held_until(c, entry)
  local core = record.read(key.exec_core(c, entry.execution_id), { 'lifecycle_phase', 'ownership_state', 'current_lease_epoch',
    'lease_expires_at' })
  local at = core and core.lifecycle_phase == 'active' and core.ownership_state == 'leased'
    and core.current_lease_epoch == entry.epoch and tonumber(core.lease_expires_at) or 0
  return at > c.now and core.lease_expires_at or '0'
end

-- Returns when a run is to be checked again; 0 when it is gone.
local function look_again(c, flow_id)
  if record.exists(key.flow_core(c, flow_id)) == 0 then return '0' end
  local purge_at = tonumber(redis.call('ZSCORE', key.ffx_purge_due(c), flow_id) or nil)
  local at = math.max(purge_at or math.huge, c.now) + PURGE_GRACE_MS
  return number.text(math.min(at, c.now + RUN_AGAIN_MS))
end

-- @function ffx_verify_budget_use
-- @summary  Returns to keepers of budgets the ends of leases, and when to check runs again: 0 for those that are gone.
-- @flags    derives readonly
-- @key      partition       ffx.partition
-- @group    leases          execution_id:execution_id epoch:int
-- @group    runs            flow_id:flow_id
-- @reply    OK live_until:list(int) again_at:list(int) faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_verify_budget_use(K, A)
  if not A.leases or not A.runs then return reply.err('invalid_input', 'the counts do not fit the arguments') end
  local c = call.open_guarded(K.partition)
  local live, again = {}, {}
  -- A lease or run that raises an error counts as live until its next check.
  for i, entry in ipairs(A.leases) do
    local _, at = call.guarded(c, 'budget', entry.execution_id, function() return held_until(c, entry) end)
    live[i] = at or scan.put_off_until(c)
  end
  for i, entry in ipairs(A.runs) do
    local _, at = call.guarded(c, 'budget', entry.flow_id, function(flow_id) return look_again(c, flow_id) end)
    again[i] = at or scan.put_off_until(c)
  end
  return reply.ok(live, again, c.faults)
end

-- Removes this partition's data about the budgets of a purged flow. No further notice comes for budgets that belong to the run
-- alone.
function budget_gate.forget(c, flow_id, text)
  local ok, list = pcall(cjson.decode, text)
  if not ok or type(list) ~= 'table' then return end
  for _, entry in ipairs(list) do
    if entry.scope == 'run' and entry.of == flow_id then
      redis.call('HDEL', key.ffx_budget_gates(c), entry.id)
      redis.call('UNLINK', key.ffx_budget_waiting(c, entry.id))
    end
  end
end

-- Removes a member of a purged flow from the lists of waiting executions.
function budget_gate.forget_member(c, flow, execution_id)
  for id in string.gmatch(flow.budget_ids, '[^,]+') do redis.call('ZREM', key.ffx_budget_waiting(c, id), execution_id) end
end
