-- Reconciles the indexes of a partition with its records, a bounded number of entries per call: first it enters every record into
-- its indexes, then it checks every index entry.

-- Report whether an entry of an index may stay. The arguments are the context, the member and, for executions, its record or nil.
local function not_terminal(core) return core.lifecycle_phase ~= 'terminal' end
local function is_active(core) return core.lifecycle_phase == 'active' end

local function is_unstarted(core)
  return core.lifecycle_phase == 'runnable' and not is_set(core.current_attempt_index)
end

-- Returns the indexes of executions in addition to the lane indexes: `fits` reports whether a record may be in the index.
function reconcile.timers(c)
  return {
    { name = 'lease_expiry', key = key.index_lease_expiry(c), fits = is_active },
    { name = 'attempt_timeout', key = key.index_attempt_timeout(c), fits = is_active },
    { name = 'execution_deadline', key = key.index_execution_deadline(c), fits = not_terminal },
    {
      name = 'suspension_timeout', key = key.index_suspension_timeout(c),
      fits = function(core) return core.lifecycle_phase == 'suspended' end,
    },
    {
      name = 'open_waits', key = key.ffx_open_waits(c),
      fits = function(core) return core.lifecycle_phase == 'suspended' and core.managed ~= nil end,
    },
    { name = 'start_deadlines', key = key.ffx_start_deadlines(c), fits = is_unstarted },
    {
      name = 'held', key = key.ffx_held(c),
      fits = function(core) return core.lifecycle_phase == 'runnable' and core.eligibility_state == 'blocked_by_operator' end,
    },
    { name = 'unadmitted', key = key.ffx_unadmitted(c), fits = not_terminal },
  }
end

-- Returns the indexes of flows: every entry leads to its flow, which enters itself and leaves indexes in which it does not
-- belong. The first of them has all flows that were made call by call, and the list of all runs is checked after them, so in the
-- others only entries are checked whose flow neither has.
function reconcile.of_flows(c)
  return {
    { name = 'flow_index', key = key.index_flow_index(c), is_set = true, is_first = true },
    { name = 'purge_due', key = key.ffx_purge_due(c) },
    { name = 'flow_deadlines', key = key.ffx_flow_deadlines(c) },
    { name = 'cancel_backlog', key = key.index_cancel_backlog(c) },
    { name = 'reruns', key = key.ffx_reruns(c), is_set = true },
  }
end

local LANE_INDEXES = {
  'eligible', 'delayed', 'active', 'suspended', 'blocked_dependencies', 'blocked_budget', 'blocked_quota', 'blocked_route',
  'blocked_operator', 'terminal',
}

-- Returns one page of a set or sorted set: its members and the next cursor, '0' at the end.
local function page_of(command, index_key, cursor, limit)
  local page = redis.call(command, index_key, cursor, 'COUNT', limit)
  if command == 'SSCAN' then return page[2], page[1] end
  local members = {}
  for i = 1, #page[2], 2 do members[#members + 1] = page[2][i] end
  return members, page[1]
end

local function check_timer(c, index, execution_id)
  local core = repair_index.read(c, execution_id)
  if not core or not index.fits(core) then repair_index.drop(c, index.name, 'ZREM', index.key, execution_id) end
  if core then repair_execution.execution(c, execution_id, core) end
  return 1
end

local function check_flow(c, index, flow_id)
  if not index.is_first then
    if redis.call('SISMEMBER', key.index_flow_index(c), flow_id) == 1 then return 0.1 end
    if record.exists(key.flow_core(c, flow_id)) == 1 and run_list.has(c, flow_id) then return 0.2 end
  end
  local looked = repair_flow.flow(c, flow_id)
  if looked and not (index.is_first and row.run(c, flow_id)) then return looked end
  repair_index.drop(c, index.name, index.is_set and 'SREM' or 'ZREM', index.key, flow_id)
  return looked or 1
end

-- Checks the run of an entry in the list of all runs.
local function check_run(c, flow_id)
  local looked = repair_flow.flow(c, flow_id)
  -- A submission that was interrupted may have left data.
  if not looked then redis.call('UNLINK', key.flow_input(c, flow_id), key.flow_data(c, flow_id)) end
  return looked or 1
end

-- Checks the run of an entry in the list of those that are over, if the list of all runs does not lead to it.
local function check_ended(c, flow_id)
  return not run_list.has(c, flow_id) and repair_flow.flow(c, flow_id) or 0.2
end

-- Checks entries of a list of runs from a time on, a bounded number. Returns the time of the next one, '0' at the end, and how many
-- records were checked.
local function check_run_list(c, name, limit, from, check)
  local list_key, at, checked = run_entries.key(c, name), tonumber(from) or 0, 0
  local rank = run_entries.rank(list_key, at)
  local page = redis.call('LRANGE', list_key, rank, rank + limit - 1)
  for _, entry in ipairs(page) do
    local time, flow_id = run_entries.read(entry)
    if checked >= limit then return number.digits(time or at), math.ceil(checked) end
    if not flow_id then
      repair_index.drop_entry(c, name == run_entries.OVER and name or 'runs', list_key, entry)
    else
      at = time + 1
      local _, looked = call.guarded(c, 'index_reconciliation', flow_id, function() return check(c, flow_id, entry) end)
      checked = checked + (looked or 1)
    end
  end
  if #page < limit then
    run_holes.trim(c, name)
    return '0', math.ceil(checked)
  end
  return number.digits(at), math.ceil(checked)
end

-- Checks an entry of a lane index: when it is wrong, it is removed, and the record is entered into the right index.
local function check_lane(c, lane, name, index_key, execution_id)
  if execution_id == pauses.MARK then return 0 end
  c = call.at(c, execution_id)
  local core = repair_index.read(c, execution_id)
  if core then
    local home_lane, home_name = repair_index.home(c, core)
    if (home_name or core.is_row)
      and (home_lane ~= lane or home_name ~= name or repair_index.key_of(c, core, lane, name) ~= index_key) then
      repair_index.drop(c, 'lane:' .. name, 'ZREM', index_key, execution_id)
    end
    repair_execution.execution(c, execution_id, core)
  else
    repair_index.drop(c, 'lane:' .. name, 'ZREM', index_key, execution_id)
  end
  return 1
end

local function check_reclaimable(c, lane, index_key, execution_id)
  c = call.at(c, execution_id)
  local core = repair_index.read(c, execution_id)
  if not core or core.lifecycle_phase ~= 'active' or core.ownership_state == 'leased' or record.running_lane(core) ~= lane then
    repair_index.drop(c, 'reclaimable', 'ZREM', index_key, execution_id)
  end
  return 1
end

local function check_waitpoint(c, index_key, waitpoint_id)
  local w = redis.call('HMGET', key.waitpoint_record(c, waitpoint_id), 'state', 'spent')
  if w[1] ~= 'pending' and not w[2] then
    repair_index.drop(c, 'pending_waitpoint_expiry', 'ZREM', index_key, waitpoint_id)
  end
  return 1
end

local function check_group(c, index_key, member)
  local flow_id, child_id = string.match(member, '^([^|]*)|(.*)$')
  if not flow_id
    or redis.call('HGET', key.flow_edgegroup(c, flow_id, child_id), 'cancel_siblings_pending_flag') ~= 'true' then
    repair_index.drop(c, 'pending_cancel_groups', 'SREM', index_key, member)
  end
  return 1
end

local function check_holder(c, worker, index_key, execution_id)
  local core = repair_index.read(c, execution_id)
  if not core or core.lifecycle_phase ~= 'active' or core.ownership_state == 'lease_revoked'
    or core.current_worker_instance_id ~= worker then
    repair_index.drop(c, 'worker_leases', 'SREM', index_key, execution_id)
  end
  return 1
end

-- Checks an entry of the queue of a key.
local function check_queued(c, lane, fair_key, execution_id)
  c = call.at(c, execution_id)
  local core = repair_index.read(c, execution_id)
  if core and core.eligibility_state == 'eligible_now' and core.lifecycle_phase == 'runnable' and record.lane(core) == lane
    and (core.fair_key or '') == fair_key then
    return 1
  end
  repair_index.drop(c, 'queue', 'ZREM', key.ffx_queue(call.home(c), lane, fair_key), execution_id)
  return 1
end

-- Removes a key without waiting executions from the line.
local function check_turn(c, lane, fair_key)
  if redis.call('EXISTS', key.ffx_queue(c, lane, fair_key)) == 0 then
    repair_index.drop(c, 'turns', 'ZREM', key.ffx_turns(c, lane), fair_key)
  end
end

-- Checks that a schedule has a record, and that one with a next start is due.
local function check_schedule(c, schedule_id)
  local state = redis.call('HGET', key.ffx_schedule(c, schedule_id), 'state')
  if not state then
    repair_index.drop(c, 'schedules', 'SREM', key.ffx_schedules(c), schedule_id)
    repair_index.drop(c, 'schedules_due', 'ZREM', key.ffx_schedules_due(c), schedule_id)
    redis.call('HDEL', key.ffx_schedules_taken(c), schedule_id)
    return 1
  end
  repair_index.add(c, 'schedules', key.ffx_schedules(c), schedule_id)
  local ok, s = pcall(cjson.decode, state)
  if not ok or type(s) ~= 'table' then return 1 end
  local due, waiting = tonumber(s.due) or 0, type(s.waiting) == 'table' and #s.waiting or 0
  if s.deleting == true or (tonumber(s.paused_at) or 0) == 0 and (due > 0 or waiting > 0) then
    local at = due > 0 and due or c.now
    if repair_index.place(c, 'schedules_due', key.ffx_schedules_due(c), schedule_id, at, false) then wake.due(c, at) end
  end
  return 1
end

-- Maximum number of keys whose queues are checked in a lane; with more, those whose turn it is first.
local MAX_KEYS = 64

-- Returns the steps of a reconciliation in order; flows come when all executions are known. Each has a name, an index and a
-- function for a member, which returns roughly how many records that took. A step without an index is done at once, or returns
-- its own cursor and how many records it has checked.
function reconcile.steps(c, lanes, workers)
  local steps = {}
  local function step(name, command, index_key, check)
    steps[#steps + 1] = { name = name, command = command, key = index_key, check = check }
  end
  step('executions', 'SSCAN', key.index_all_executions(c), function(id)
    if not repair_execution.execution(c, id) then repair_index.drop(c, 'all_executions', 'SREM', key.index_all_executions(c), id) end
    return 1
  end)
  for _, index in ipairs(reconcile.timers(c)) do
    step(index.name, 'ZSCAN', index.key, function(id) return check_timer(c, index, id) end)
  end
  local waitpoints, groups = key.index_pending_waitpoint_expiry(c), key.index_pending_cancel_groups(c)
  step('waitpoints', 'ZSCAN', waitpoints, function(id) return check_waitpoint(c, waitpoints, id) end)
  step('groups', 'SSCAN', groups, function(id) return check_group(c, groups, id) end)
  for _, lane in ipairs(lanes) do
    for _, name in ipairs(LANE_INDEXES) do
      local index_key = key['lane_' .. name](c, lane)
      step(name .. '/' .. lane, 'ZSCAN', index_key, function(id) return check_lane(c, lane, name, index_key, id) end)
    end
    local index_key = key.ffx_reclaimable(c, lane)
    step('reclaimable/' .. lane, 'ZSCAN', index_key, function(id) return check_reclaimable(c, lane, index_key, id) end)
    local turns_key = key.ffx_turns(c, lane)
    local _, fair_keys = call.guarded(c, 'index_reconciliation', turns_key, function()
      return redis.call('ZRANGE', turns_key, 0, MAX_KEYS - 1)
    end)
    for _, fair_key in ipairs(fair_keys or {}) do
      local queue_key = key.ffx_queue(c, lane, fair_key)
      step(queue_key, 'ZSCAN', queue_key, function(id) return check_queued(c, lane, fair_key, id) end)
      step('turn/' .. queue_key, nil, nil, function() check_turn(c, lane, fair_key) end)
    end
    step('mark/' .. lane, nil, nil, function()
      if pauses.repair_mark(c, lane) then repair_index.note(c, 'pauses') end
    end)
  end
  local function run_lists(name, check)
    step(name, nil, nil, function(limit, from) return check_run_list(c, name, limit, from, check) end)
  end
  for _, index in ipairs(reconcile.of_flows(c)) do
    step(index.name, index.is_set and 'SSCAN' or 'ZSCAN', index.key, function(id) return check_flow(c, index, id) end)
  end
  run_lists(run_entries.ALL, check_run)
  run_lists(run_entries.OVER, check_ended)
  step('run_counts', nil, nil, function(limit) return run_recount.step(c, limit) end)
  step('unused_graphs', 'ZSCAN', key.ffx_unused_graphs(c), function(graph_hash)
    graph_upkeep.repair(c, graph_hash)
    return 1
  end)
  step('schedules', 'SSCAN', key.ffx_schedules(c), function(id) return check_schedule(c, id) end)
  step('schedules_due', 'ZSCAN', key.ffx_schedules_due(c), function(id) return check_schedule(c, id) end)
  step('children', 'ZSCAN', key.ffx_children(c), function(id)
    if not record.value(key.flow_core(c, id), 'parent_execution_id') then
      repair_index.drop(c, 'children', 'ZREM', key.ffx_children(c), id)
    end
    child_run.look_soon(c, key.ffx_children(c), id)
    return 1
  end)
  step('owed to runs', 'ZSCAN', key.ffx_unwanted(c), function(owed)
    child_run.look_soon(c, key.ffx_unwanted(c), owed)
    return 1
  end)
  step('workers', nil, nil, function() worker_registry.forget_gone(c, run_list.span(c)) end)
  for _, worker in ipairs(workers) do
    local index_key = key.index_worker_leases(c, worker)
    step('worker/' .. worker, 'SSCAN', index_key, function(id) return check_holder(c, worker, index_key, id) end)
  end
  return steps
end

-- Continues from a cursor, "<scan cursor> <step>", until about `limit` records were checked. Returns how many were, and the next
-- cursor, "" at the end. When the step of a lane no longer exists, it begins again. An index that cannot be read, and a member
-- that raises an error, are faults of the task, and passed over.
local function go_on(c, task, steps, cursor, limit)
  local from, name = string.match(cursor, '^(%d+) (.*)$')
  local at, checked = 1, 0
  for i, step in ipairs(steps) do
    if step.name == name then at = i end
  end
  if steps[at].name ~= name then from = '0' end
  while steps[at] do
    local step = steps[at]
    local next_scan = '0'
    if not step.command then
      local _, rest, looked = call.guarded(c, task, step.name, function() return step.check(math.max(1, limit - checked), from) end)
      next_scan, checked = rest or '0', checked + (looked or 0)
    else
      local _, members, rest = call.guarded(c, task, step.key, function(index_key)
        return page_of(step.command, index_key, from, math.max(1, limit - checked))
      end)
      next_scan = rest or '0'
      for _, member in ipairs(members or {}) do
        local _, looked = call.guarded(c, task, member, step.check)
        checked = checked + (looked or 1)
      end
      checked = math.ceil(checked)
    end
    from = next_scan
    if from == '0' then at = at + 1 end
    if checked >= limit and steps[at] then return checked, from .. ' ' .. steps[at].name end
  end
  return checked, ''
end

local MAX_CHECKED = 1000

-- @function ffx_reconcile
-- @summary  Enters executions and flows of a partition in the indexes that they are missing from, and removes entries that do not
--           belong, by their records. Checks about `limit` records per call: continue with next_cursor until it is empty.
--           `repaired` counts the corrections by index. `lanes` are checked in addition to the lanes of flows, and `workers` are
--           those whose sets of leases are checked.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      limit              int
-- @arg      cursor             text optional
-- @group    lanes              lane_id:lane_id
-- @group    workers            worker_instance_id:worker_instance_id
-- @reply    OK next_cursor:text checked:int repaired:list(repaired_index) faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_reconcile(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  if not A.lanes or not A.workers then
    return reply.err('invalid_input', 'the counts of lanes and workers do not fit the arguments')
  end
  local c = call.open_guarded(K.partition)
  local lanes, workers = {}, {}
  for i, entry in ipairs(A.lanes) do lanes[i] = entry.lane_id end
  for i, entry in ipairs(A.workers) do workers[i] = entry.worker_instance_id end
  local checked, cursor = 0, ''
  if not is_set(A.cursor) then recovery.pass_begins(c) end
  if #workers > 0 or #lanes > 0
    or redis.call('EXISTS', key.index_all_executions(c), key.index_flow_index(c), key.ffx_all_runs(c), key.ffx_lanes(c), key.ffx_schedules(c),
      key.ffx_run_counts(c)) > 0 then
    checked, cursor = go_on(c, 'index_reconciliation', reconcile.steps(c, timers.lanes(c, lanes), workers), A.cursor or '',
      math.max(1, math.min(limit, MAX_CHECKED)))
  end
  if c.holes then purge.settle(c, {}) end
  settle.run(c)
  if cursor == '' then
    recovery.pass_ends(c)
    run_holes.recheck(c)
  end
  return reply.ok(cursor, number.text(checked), repair_index.report(c), c.faults)
end

-- Maximum number of edges of one execution that are resolved per call.
local EDGES_AT_A_TIME = 64

-- @function ffx_reconcile_edges
-- @summary  Resolves open edges whose upstream has ended, of executions that are blocked by dependencies. Checks about `limit` of
--           those per call: continue with next_cursor until it is empty.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      limit              int
-- @arg      cursor             text optional
-- @args     lanes              lane_id
-- @reply    OK next_cursor:text checked:int resolved:int faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_reconcile_edges(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local c = call.open_guarded(K.partition)
  local steps, resolved = {}, 0
  for i, lane in ipairs(timers.lanes(c, A.lanes)) do
    steps[i] = {
      name = lane, command = 'ZSCAN', key = key.lane_blocked_dependencies(c, lane),
      check = function(id)
        resolved = resolved + repair_edges.resolve(c, id, EDGES_AT_A_TIME)
        return 1
      end,
    }
  end
  local checked, cursor = 0, ''
  if #steps > 0 then checked, cursor = go_on(c, 'dependency_reconciliation', steps, A.cursor or '', math.max(1, math.min(limit, MAX_CHECKED))) end
  settle.run(c)
  return reply.ok(cursor, number.text(checked), number.text(resolved), c.faults)
end

-- Checks of objects that may be found among all keys without an index. Each check returns roughly how many records it took and,
-- for a list, where to continue.
local ORPHAN_CHECKS = {}

function ORPHAN_CHECKS.execution(c, execution_id)
  if store.row(key.exec_core(c, execution_id)) then return 1 end
  if redis.call('SISMEMBER', key.index_all_executions(c), execution_id) == 0 then repair_execution.execution(c, execution_id) end
  return 1
end

function ORPHAN_CHECKS.flow(c, flow_id)
  if redis.call('SISMEMBER', key.index_flow_index(c), flow_id) == 1 or run_list.has(c, flow_id) then return 1 end
  return repair_flow.flow(c, flow_id) or 1
end

function ORPHAN_CHECKS.schedule(c, schedule_id)
  if redis.call('SISMEMBER', key.ffx_schedules(c), schedule_id) == 0 then return check_schedule(c, schedule_id) end
  return 1
end

function ORPHAN_CHECKS.worker(c, worker, cursor, limit)
  local index_key = key.index_worker_leases(c, worker)
  local found, rest = page_of('SSCAN', index_key, cursor, limit)
  for _, execution_id in ipairs(found) do
    call.guarded(c, 'key_reconciliation', execution_id, function() check_holder(c, worker, index_key, execution_id) end)
  end
  return #found, rest
end

function ORPHAN_CHECKS.graph(c, graph_hash)
  graph_upkeep.repair(c, graph_hash)
  return 1
end

-- Reads a run that may be in lists; nil for one that may not.
local function read_listed(c, flow_id)
  local flow = record.read(key.flow_core(c, flow_id), { 'flow_kind', 'managed', 'purging' })
  return flow and flow.managed and not flow.purging and flow or nil
end

local function check_tagged(c, set_key, flow_id)
  local belongs = read_listed(c, flow_id) and run_list.belongs(c, set_key, flow_id)
  if not belongs then repair_index.drop(c, 'runs', 'ZREM', set_key, flow_id) end
end

-- Checks a set of the runs with a tag, or the list of the runs of a flow. An entry without a run is a hole.
function ORPHAN_CHECKS.list(c, name, cursor, limit)
  local flow_name = string.match(name, '^' .. run_entries.OF_FLOW .. '(.*)$')
  if flow_name then
    local list_key = run_entries.key(c, name)
    local rest, looked = check_run_list(c, name, limit, cursor, function(_, flow_id, entry)
      local flow = read_listed(c, flow_id)
      if flow and flow.flow_kind ~= flow_name and not run_entries.is_hole(c, name, entry) then
        repair_index.drop_entry(c, 'runs', list_key, entry)
      end
      return 1
    end)
    run_holes.settle(c)
    return looked, rest
  end
  local list_key = key.ffx_partition(c) .. ':' .. name
  local found, rest = page_of('ZSCAN', list_key, cursor, limit)
  for _, flow_id in ipairs(found) do
    call.guarded(c, 'key_reconciliation', flow_id, function() check_tagged(c, list_key, flow_id) end)
  end
  return #found, rest
end

-- @record orphan kind:text name:text cursor:text

-- @function ffx_check_keys
-- @summary  Checks records and lists that were found among the keys of a partition. An execution, flow or schedule that is
--           missing from the list of all of them is entered into its indexes, as is a graph that no run uses. Wrong entries are
--           removed from a list of runs ("runs:<flow>" or "tagged_runs:<tag, escaped>:<value>") and from the set of a worker's
--           leases. `left` are entries beyond `limit`, for the next call. `repaired` counts the corrections by index.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      limit              int
-- @group    found              kind:text name:text cursor:text
-- @reply    OK repaired:list(repaired_index) left:list(orphan) faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_check_keys(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  if not A.found then return reply.err('invalid_input', 'the count of what was found does not fit the arguments') end
  for _, entry in ipairs(A.found) do
    if not ORPHAN_CHECKS[entry.kind] then return reply.err('invalid_input', 'kind is unknown: ' .. entry.kind) end
  end
  local c = call.open_guarded(K.partition)
  limit = math.max(1, math.min(limit, MAX_CHECKED))
  local checked, left = 0, {}
  for _, entry in ipairs(A.found) do
    local rest = entry.cursor
    if checked < limit then
      local _, looked, next_from = call.guarded(c, 'key_reconciliation', entry.name, function(name)
        return ORPHAN_CHECKS[entry.kind](c, name, is_set(entry.cursor) and entry.cursor or '0', limit - checked)
      end)
      checked, rest = checked + (looked or 1), next_from
      if rest == '0' then rest = nil end
    end
    if rest then left[#left + 1] = { entry.kind, entry.name, rest } end
  end
  settle.run(c)
  return reply.ok(repair_index.report(c), left, c.faults)
end
