-- Repairs the index entries of managed flows, and their counters of members.

-- Maximum number of a flow's members that are checked in one call; ffx_count_members counts the members of larger flows.
local MAX_MEMBERS = 2000

local FIELDS = {
  'managed', 'flow_kind', 'created_at', 'public_flow_state', 'closed_at', 'outcome', 'deadline_at', 'retention', 'purging',
  'rerun_state', 'joins', 'open_nodes', 'node_count', 'cancellation_policy', 'nodes_failed', 'nodes_expired',
  'nodes_cancelled', 'nodes_skipped', 'graph_revision', 'edge_count',
  'parent_execution_id', 'children', 'ends', 'told', 'owed_from', 'run_key_id', 'at_once', 'queued',
}

-- Returns the record of a flow.
function repair_flow.read(c, flow_id) return record.read(key.flow_core(c, flow_id), FIELDS) end

local OUTCOMES = { 'failed', 'expired', 'cancelled', 'skipped' }

-- Corrects the counters of a flow by its members, once all of them are known. A flow all of whose members have ended is closed.
local function correct(c, flow_id, flow, counts)
  local nodes = (tonumber(flow.graph_revision) or 0) - (tonumber(flow.edge_count) or 0)
  if (counts.unread or 0) > 0 or counts.all == 0 or counts.all ~= nodes and counts.all ~= tonumber(flow.node_count) then return end
  local flow_key = key.flow_core(c, flow_id)
  local function set(field, want)
    if (tonumber(flow[field]) or 0) == want then return end
    record.set(flow_key, field, number.text(want))
    repair_index.note(c, 'flow_counts')
  end
  set('node_count', counts.all)
  for _, outcome in ipairs(OUTCOMES) do
    set('nodes_' .. outcome, counts[outcome] or 0)
    if counts[outcome] then flow_record.note_judged(flow_key) end
  end
  local open = tonumber(flow.open_nodes) or 0
  if open ~= counts.open then
    graph.add_open(c, flow_id, counts.open - open)
    repair_index.note(c, 'flow_counts')
  end
  if counts.open == 0 and not is_set(flow.closed_at) then
    graph.close(c, flow_id, flow_key)
    repair_index.note(c, 'flow_counts')
  end
end
repair_flow.correct_counts = correct

-- Enters a member into its indexes, and counts it. Executions that are not members leave the flow.
local function repair_member(c, flow_id, flow, execution_id, counts)
  local core = repair_execution.execution(c, execution_id)
  if not core or core.flow_id ~= flow_id then
    repair_index.drop(c, 'members', 'SREM', key.flow_members(c, flow_id), execution_id)
    return
  end
  local state = core.lifecycle_phase == 'terminal' and (core.terminal_outcome or '') or 'open'
  counts.all = counts.all + 1
  counts[state] = (counts[state] or 0) + 1
  if flow.joins then repair_execution.group(c, flow_id, execution_id) end
end

-- Does so for one of several members. One that raises an error is a fault of the task: the counters of the flow are then unknown.
function repair_flow.member(c, task, flow_id, flow, execution_id, counts)
  local ok = call.guarded(c, task, execution_id, function() repair_member(c, flow_id, flow, execution_id, counts) end)
  if not ok then counts.unread = (counts.unread or 0) + 1 end
end

-- Checks the members of a flow. Returns how many it has checked.
local function repair_members(c, flow_id, flow)
  local size = member_list.count(c, flow_id)
  -- Members of a flow that is over no longer change. One that still counts open nodes came back from a damaged log.
  local over = is_set(flow.closed_at) and flow.open_nodes == '0'
  if over and size == (tonumber(flow.node_count) or 0) or size > MAX_MEMBERS then return 1 end
  local counts = { all = 0, open = 0 }
  for _, execution_id in ipairs(member_list.all(c, flow_id)) do
    repair_flow.member(c, 'index_reconciliation', flow_id, flow, execution_id, counts)
  end
  -- The check of a member may have changed the flow.
  local now = repair_flow.read(c, flow_id)
  if now and now.open_nodes == flow.open_nodes and not c.queue then correct(c, flow_id, now, counts) end
  return size
end

-- Lists a flow whose members are owed their end, so that a keeper ends them.
local function repair_owed_ends(c, flow_id, flow)
  local pending_key, backlog_key = key.flow_pending_cancels(c, flow_id), key.index_cancel_backlog(c)
  local owes = is_set(flow.owed_from) or redis.call('EXISTS', pending_key) == 1
  local listed = redis.call('ZSCORE', backlog_key, flow_id)
  if is_set(flow.closed_at) or not flow_record.is_over(flow) then
    if owes then
      redis.call('UNLINK', pending_key)
      record.clear(key.flow_core(c, flow_id), 'owed_from')
    end
    if listed then redis.call('ZREM', backlog_key, flow_id) end
    if owes or listed then repair_index.note(c, 'cancel_backlog') end
    return
  end
  if owes and not listed then
    redis.call('ZADD', backlog_key, c.now, flow_id)
  elseif not owes and flow.joins ~= finally.JOINS and not flow.children and flow.cancellation_policy ~= 'cancel_pending' then
    run_stop.owe_all(c, flow_id)
  elseif not owes and listed then
    redis.call('ZREM', backlog_key, flow_id)
  else
    return
  end
  repair_index.note(c, 'cancel_backlog')
  wake.due(c, c.now)
end

local function repair_ended(c, flow_id, flow)
  local closed_at = number.finite(flow.closed_at) or c.now
  repair_index.drop(c, 'flow_deadlines', 'ZREM', key.ffx_flow_deadlines(c), flow_id)
  -- Its parent node must receive each of its ends.
  if flow.parent_execution_id and flow.told ~= flow.ends
    and repair_index.place(c, 'children', key.ffx_children(c), flow_id, c.now, false) then
    wake.due(c, c.now)
  end
  local purge_at = run_class.due_at(flow.retention, flow.outcome, closed_at)
  if not purge_at then
    repair_index.drop(c, 'purge_due', 'ZREM', key.ffx_purge_due(c), flow_id)
  elseif repair_index.place(c, 'purge_due', key.ffx_purge_due(c), flow_id, purge_at, true) then
    wake.due(c, purge_at)
  end
end

local function repair_open(c, flow_id, flow)
  repair_index.drop(c, 'purge_due', 'ZREM', key.ffx_purge_due(c), flow_id)
  if flow.parent_execution_id then repair_index.place(c, 'children', key.ffx_children(c), flow_id, c.now, false) end
  local deadline = number.finite(flow.deadline_at)
  if deadline and not flow_record.is_over(flow)
    and repair_index.place(c, 'flow_deadlines', key.ffx_flow_deadlines(c), flow_id, deadline, true) then
    wake.due(c, deadline)
  end
  if (flow.rerun_state == 'resetting' or flow.rerun_state == 'resolving')
    and repair_index.add(c, 'reruns', key.ffx_reruns(c), flow_id) then
    wake.due(c, c.now)
  end
end

-- Enters a flow into all indexes that its record names. Returns roughly how many records were checked; nil when the flow does not
-- exist.
function repair_flow.flow(c, flow_id)
  local flow = repair_flow.read(c, flow_id)
  if not flow then return nil end
  if not flow.managed then return 1 end
  local run = row.run(c, flow_id)
  if run then run_list.repair(c, run, flow.flow_kind, number.finite(flow.created_at) or c.now, flow.purging) end
  if flow.purging then
    repair_index.place(c, 'purge_due', key.ffx_purge_due(c), flow_id, c.now, false)
    return 1
  end
  if run then run_list.repair_end(c, run, is_set(flow.closed_at)) end
  if is_set(flow.closed_at) then repair_ended(c, flow_id, flow) else repair_open(c, flow_id, flow) end
  if run_key.repair(c, flow_id, flow) then repair_index.note(c, 'run_keys') end
  repair_owed_ends(c, flow_id, flow)
  if is_set(flow.rerun_state) then return 1 end
  return repair_members(c, flow_id, flow)
end
