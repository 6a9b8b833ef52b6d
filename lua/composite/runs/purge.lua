-- Purges runs: by a call, or when their retention is over.

-- Approximate number of keys that one call removes: a member is 16 keys, an edge or an attempt a few more.
local KEYS_PER_CALL = 1000
local KEYS_OF_MEMBER = 16

-- Numbers of members, and of edges, attempts and signals, that are taken at a time.
local MEMBERS_AT_A_TIME = 64
local PARTS_AT_A_TIME = 128

-- Time (ms) after which the keeper finishes a purge by hand that was not continued.
local LEFT_BEHIND_MS = 10000

-- Maximum number of flows per tick.
local FLOWS_PER_TICK = 64

-- Records when a closed flow may be removed.
function purge.retain(c, flow_id, kept, outcome)
  local at = run_class.due_at(kept, outcome, c.now)
  if not at then return end
  call.enter(c, key.ffx_purge_due(c), flow_id, at)
  call.keep_as_tree(c, key.ffx_purge_due(c), call.CALLS_PER_TREE)
  wake.due(c, at)
end

-- Removes keys and counts them.
local function remove(work, names)
  work.left = work.left - #names
  for from = 1, #names, 1000 do redis.call('UNLINK', unpack(names, from, math.min(from + 999, #names))) end
end

-- Removes members from a set, some at a time, until it is empty or the call has done enough. `keys_of` returns the keys that
-- belong to one. Returns whether the set is empty.
local function empty_set(work, command, set_key, step, keys_of)
  while work.left > 0 do
    local taken = redis.call(command, set_key, PARTS_AT_A_TIME)
    if #taken == 0 then return true end
    local names = {}
    for i = 1, #taken, step do
      for _, name in ipairs(keys_of(taken[i])) do names[#names + 1] = name end
    end
    remove(work, names)
    if #taken < PARTS_AT_A_TIME * step then return true end
  end
  return redis.call('EXISTS', set_key) == 0
end

local function remove_edges(c, work, flow_id, id)
  local function keys_of(edge_id)
    return { key.flow_edge(c, flow_id, edge_id), key.flow_grant(c, flow_id, edge_id), key.exec_dep(c, id, edge_id) }
  end
  return empty_set(work, 'SPOP', key.exec_deps_all_edges(c, id), 1, keys_of)
    and empty_set(work, 'SPOP', key.flow_in(c, flow_id, id), 1, keys_of)
end

-- Removes attempts from the last to the first; the record keeps how many are left.
local function remove_attempts(c, work, id, core_key, core)
  local in_row = core.in_row and 1 or 0
  local count = math.max(0, (tonumber(core.total_attempt_count) or 0) - in_row)
  local names = {}
  while count > 0 and #names < work.left do
    count = count - 1
    local index = number.text(count)
    for _, name in ipairs({ key.attempt_record(c, id, index), key.attempt_usage(c, id, index),
      key.attempt_policy(c, id, index), key.stream_frames(c, id, index), key.stream_meta(c, id, index) }) do
      names[#names + 1] = name
    end
  end
  remove(work, names)
  if count > 0 then record.set(core_key, 'total_attempt_count', number.text(count + in_row)) end
  return count == 0
end

local function remove_waitpoints(c, work, id)
  return empty_set(work, 'SPOP', key.exec_waitpoints(c, id), 1, function(waitpoint_id)
    redis.call('ZREM', key.index_pending_waitpoint_expiry(c), waitpoint_id)
    return { key.waitpoint_record(c, waitpoint_id), key.waitpoint_condition(c, waitpoint_id),
      key.waitpoint_signals(c, waitpoint_id) }
  end)
end

local function remove_signals(c, work, id)
  return empty_set(work, 'ZPOPMIN', key.exec_signals(c, id), 2, function(signal_id)
    local record_key = key.signal_record(c, signal_id)
    local of = redis.call('HMGET', record_key, 'target_waitpoint_id', 'idempotency_key')
    local names = { record_key, key.signal_payload(c, signal_id) }
    if is_set(of[2]) then names[3] = key.signal_dedup(c, of[1] or '', of[2]) end
    return names
  end)
end

-- Removes one member. Returns whether it is removed completely; otherwise a later call continues.
local function remove_member(c, work, flow_id, id)
  local core_key = key.exec_core(c, id)
  local core = record.read(core_key, { 'lane_id', 'current_lane', 'total_attempt_count', 'child_flow_id', 'child_kept', 'in_row' }) or {}
  if not remove_edges(c, work, flow_id, id) or not remove_attempts(c, work, id, core_key, core)
    or not remove_waitpoints(c, work, id) or not remove_signals(c, work, id) then
    return false
  end
  if core.child_flow_id then child_run.discard(c, core, work.children) end
  remove(work, {
    core_key, key.exec_payload(c, id), key.exec_policy(c, id), key.exec_tags(c, id), key.exec_result(c, id),
    key.exec_lease_current(c, id), key.exec_lease_history(c, id), key.exec_claim_grant(c, id),
    key.exec_attempts(c, id), key.exec_suspension(c, id), key.exec_wait(c, id), key.exec_journal(c, id),
    key.exec_past(c, id), key.exec_past_before(c, id), key.exec_deps_meta(c, id), key.exec_deps_unresolved(c, id),
    key.flow_out(c, flow_id, id), key.flow_edgegroup(c, flow_id, id), key.flow_siblings(c, flow_id, id),
    key.ffx_unresolved_edges(c, id),
  })
  if work.flow.budget_ids then budget_gate.forget_member(c, work.flow, id) end
  local lane = record.lane(core)
  work.lanes[lane] = true
  redis.call('ZREM', key.lane_terminal(c, lane), id)
  redis.call('ZREM', key.index_execution_deadline(c), id)
  redis.call('SREM', key.index_all_executions(c), id)
  if work.joins then redis.call('SREM', key.index_pending_cancel_groups(c), flow_id .. '|' .. id) end
  return true
end
purge.remove_member = remove_member

-- Removes members until none is left or the call has done enough. Returns how many are gone, and whether that is all.
local function remove_members(c, work, flow_id)
  local run = row.run(c, flow_id)
  if run and not purge_rows.remove(c, work, run, remove_member) then return 0, false end
  local members_key = key.flow_members(c, flow_id)
  local gone = run and run.count or 0
  while work.left > 0 do
    local ids = redis.call('SRANDMEMBER', members_key, math.max(1, math.min(MEMBERS_AT_A_TIME,
      math.floor(work.left / KEYS_OF_MEMBER))))
    if #ids == 0 then return gone, true end
    local done = {}
    for _, id in ipairs(ids) do
      if work.left <= 0 or not remove_member(c, work, flow_id, id) then break end
      done[#done + 1] = id
    end
    if #done > 0 then redis.call('SREM', members_key, unpack(done)) end
    gone = gone + #done
  end
  return gone, redis.call('EXISTS', members_key) == 0
end

-- Removes an empty lane from the list of a partition, and reports whether it did. It stays where other partitions use it.
local function forget_lane(c, lane)
  if redis.call('EXISTS', key.lane_eligible(c, lane), key.lane_delayed(c, lane), key.lane_active(c, lane),
    key.lane_terminal(c, lane), key.lane_suspended(c, lane), key.lane_blocked_dependencies(c, lane),
    key.lane_blocked_budget(c, lane), key.lane_blocked_quota(c, lane), key.lane_blocked_route(c, lane),
    key.lane_blocked_operator(c, lane), key.ffx_reclaimable(c, lane), key.ffx_lane_partitions(c, lane)) > 0 then
    return false
  end
  redis.call('SREM', key.ffx_lanes(c), lane)
  claim_order.forget(c, lane)
  return true
end

-- Removes empty lanes from the lists, so that they are not checked. Nodes of runs that wait for others, or run, are in no index
-- of a lane, so this is for partitions without runs. `lanes` belong to the removed members.
function purge.forget_lanes(c, lanes)
  if not next(lanes) or redis.call('EXISTS', key.ffx_all_runs(c)) == 1 then return end
  local home = call.home(c)
  for _, lane in ipairs(redis.call('SMEMBERS', key.ffx_lanes(c))) do
    if forget_lane(c, lane) and home ~= c then
      redis.call('SREM', key.ffx_lane_partitions(home, lane), call.partition(c))
      if redis.call('EXISTS', key.ffx_all_runs(home)) == 0 then forget_lane(home, lane) end
    end
  end
end

-- Removes a run from all lists, so that no part of it can be started again.
local function withdraw(c, flow_id, flow_key, flow)
  record.set(flow_key, 'purging', c.now_text)
  run_list.withdraw(c, flow_id, flow.failure_words)
  run_recount.purged(c, flow_id)
end

-- Removes the record of a flow whose members are gone. `flow_name` is known of a run.
function purge.remove_record(c, flow_id, flow_key, flow_name)
  event_log.drop_flow(flow_id)
  local run = purge_rows.finish(c, flow_id)
  if run then run_list.removed(c, run, flow_name) end
  redis.call('UNLINK', flow_key, key.flow_members(c, flow_id), key.flow_tags(c, flow_id),
    key.flow_pending_cancels(c, flow_id), key.flow_input(c, flow_id), key.flow_data(c, flow_id),
    key.flow_events(c, flow_id), key.flow_events_kept(c, flow_id), key.flow_events_gone(c, flow_id), key.flow_budgets(c, flow_id), key.flow_summary(c, flow_id))
  redis.call('UNLINK', unpack(rerun.keys(c, flow_id)))
  redis.call('SREM', key.ffx_reruns(c), flow_id)
  redis.call('ZREM', key.ffx_children(c), flow_id)
  redis.call('ZREM', key.ffx_purge_due(c), flow_id)
  redis.call('ZREM', key.ffx_flow_deadlines(c), flow_id)
  redis.call('ZREM', key.index_cancel_backlog(c), flow_id)
  if not flow_name then redis.call('SREM', key.index_flow_index(c), flow_id) end
end

-- Removes the entries of removed runs from the lists, and the data that a partition without flows does not need. `lanes` belong to removed
-- members.
function purge.settle(c, lanes)
  run_holes.settle(c)
  if redis.call('EXISTS', key.index_flow_index(c), key.ffx_all_runs(c)) == 0 then
    event_log.drop_feed(c)
    lane_counts.forget(c)
  end
  purge.forget_lanes(c, lanes)
end

-- Removes a part of a closed run, or all of it. Returns how many members are gone, and whether that is all.
local function remove_run(c, flow_id, flow_key, flow, work)
  if not flow.purging then withdraw(c, flow_id, flow_key, flow) end
  work.joins, work.flow, work.budgets = flow.joins, flow, budget_gate.of(c, flow_id, flow.budgets)
  row.begin_removal()
  local gone, all = remove_members(c, work, flow_id)
  if all then
    if flow.budgets then budget_gate.forget(c, flow_id, work.budgets) end
    purge.remove_record(c, flow_id, flow_key, flow.flow_kind or '')
  end
  return gone, all
end

local FIELDS = { 'flow_kind', 'closed_at', 'purging', 'joins', 'budgets', 'budget_ids', 'retention', 'outcome', 'failure_words' }

-- Reports whether a flow that is listed as due may be removed, by its record. Another one is listed with its due time, or not at
-- all.
local function may_go(c, flow_id, flow)
  if flow and flow.purging and flow.closed_at then return true end
  local at = flow and flow.closed_at
    and run_class.due_at(flow.retention, flow.outcome, number.finite(flow.closed_at) or c.now)
  if not at then
    redis.call('ZREM', key.ffx_purge_due(c), flow_id)
  elseif at <= c.now then
    return true
  else
    redis.call('ZADD', key.ffx_purge_due(c), at, flow_id)
  end
  return false
end

-- Removes runs that have been kept long enough. Returns how many it removed.
function purge.run_due(c)
  local work = { left = KEYS_PER_CALL, lanes = {} }
  local purged = 0
  local count = scan.each_due(c, 'retention', key.ffx_purge_due(c), FLOWS_PER_TICK, function(flow_id)
    if work.left <= 0 then return end
    local flow_key = key.flow_core(c, flow_id)
    local flow = record.read(flow_key, FIELDS)
    if may_go(c, flow_id, flow) and select(2, remove_run(c, flow_id, flow_key, flow, work)) then
      purged = purged + 1
    end
  end)
  if purged > 0 then purge.settle(c, work.lanes) end
  if count == FLOWS_PER_TICK or work.left <= 0 then c.more = true end
  return purged
end

-- @function ffx_purge_flow
-- @summary  Removes a run that is over with all its data, a bounded number of members per call. From the first call on it is in
--           no list, and cannot be run again. Call again while `more`, or leave the rest to the keeper. A missing run is purged
--           already. Its budgets are in other partitions: `budgets` names them to the caller, and their own keepers remove them
--           in the end. With `closed_at`, only a run with exactly that end is removed; the reply names it for the following
--           calls, which meet another run if a keeper has removed the rest. `children` are the ids of its child runs, which
--           keepers purge as well.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      closed_at          unix_ms optional
-- @reply    OK members:int more:bool budgets:text? closed_at:unix_ms? children:text?
-- @reply    ALREADY_SATISFIED members:int more:bool budgets:text? closed_at:unix_ms? children:text?
-- @error    invalid_input message:text
-- @error    flow_not_terminal state:text
-- @error    changed_meanwhile
function F.ffx_purge_flow(K, A)
  local closed_at, err = number.optional('closed_at', A.closed_at, nil)
  if err then return err end
  local c = call.open(K.partition)
  local flow_key = key.flow_core(c, A.flow_id)
  local flow = record.read(flow_key, { 'public_flow_state', unpack(FIELDS) })
  if not flow then return reply.already('0', '0') end
  if not flow.closed_at then return reply.err('flow_not_terminal', flow.public_flow_state or '') end
  if closed_at and closed_at ~= number.finite(flow.closed_at) then return reply.err('changed_meanwhile') end
  local work = { left = KEYS_PER_CALL, lanes = {}, children = {} }
  local gone, all = remove_run(c, A.flow_id, flow_key, flow, work)
  if all then purge.settle(c, work.lanes) end
  if not all then
    redis.call('ZADD', key.ffx_purge_due(c), c.now + LEFT_BEHIND_MS, A.flow_id)
    wake.due(c, c.now + LEFT_BEHIND_MS)
  end
  wake.flush(c)
  return reply.ok(number.text(gone), all and '0' or '1', work.budgets or '', flow.closed_at,
    table.concat(work.children, ' '))
end
