-- Reads a run: its state and nodes, its result, its failures, the inputs of a node, its events.

-- Maximum numbers of nodes and of inputs of one page.
local MAX = { page = 500, inputs = 100 }

-- @record described_node execution_id:execution_id node:text kind:text lane_id:lane_id state:text lifecycle_phase:text eligibility:text blocking_reason:text blocking_detail:text attempts:int retry_count:int reclaim_count:int created_at:unix_ms started_at:unix_ms completed_at:unix_ms delay_until:unix_ms worker_instance_id:worker_instance_id lease_expires_at:unix_ms progress_percent:text progress_message:text failure_reason:text failure_category:text cancellation_reason:text lease_acquired_at:unix_ms replay_count:int? child_flow_id:flow_id? child_outcome:text? changed_at:unix_ms? limits:text? generation:int? child_kept:text? live:list(live_value)?

local NODE_FIELDS = {
  'execution_id', 'node', 'execution_kind', 'lane_id', 'public_state', 'lifecycle_phase', 'eligibility_state',
  'blocking_reason', 'blocking_detail', 'total_attempt_count', 'retry_count', 'lease_reclaim_count', 'created_at',
  'started_at', 'completed_at', 'delay_until', 'current_worker_instance_id', 'lease_expires_at', 'progress_pct',
  'progress_message', 'failure_reason', 'failure_category', 'cancellation_reason', 'lease_acquired_at', 'replay_count',
  'child_flow_id', 'child_outcome', 'last_transition_at', 'generation', 'child_kept', 'live_values',
}
-- The place of the limits in a described node: before its generation.
local LIMITS = #NODE_FIELDS - 2
local PHASE, ELIGIBILITY, RECLAIMS, DELAY_UNTIL = 6, 7, 12, 16

-- Fields that show that the worker of a node was lost.
local LOST_FIELDS = { 'managed', 'ownership_state', 'lease_expires_at' }

local FLOW_FIELDS_SHOWN = {
  'flow_kind', 'run_id', 'namespace', 'public_flow_state', 'outcome', 'created_at', 'closed_at', 'deadline_at',
  'node_count', 'edge_count', 'open_nodes', 'failed_node', 'failure_reason', 'failure_category', 'cancel_reason',
  'cancelled_by',
}
local AT = { deadline = 8, edge_count = 10 }

-- Returns the values of the named fields in order, "" for missing ones; nil when the record does not exist.
local function fields_of(hash, fields)
  local found = record.read(hash, fields, true)
  if not found then return nil end
  local values = {}
  for i, field in ipairs(fields) do values[i] = found[field] or '' end
  return values
end

-- Returns when an active node whose workers were lost is tried next; nil for others, and once that is over. The keeper need not
-- have marked the last lease as expired.
local function tried_next(c, execution_id)
  local core = record.read(key.exec_core(c, execution_id), LOST_FIELDS)
  local owner = core.ownership_state
  if owner ~= 'lease_expired_reclaimable' and not (owner == 'leased' and fence.lapsed(c, core)) then return nil end
  local due = lost_worker.due(c, execution_id, core)
  return due > c.now and number.time(due) or nil
end

local function time_or_none(at) return at > 0 and number.time(at) or '' end

-- Returns the description of a node that has only the least fields and waits for no time, in few steps; nil for another one.
local function described_row(r, execution_id)
  local flags, phase = r.flags, r.phase
  if flags ~= 0 and flags ~= node_row.LEASED or phase == 3 or r.elig == 2 or r.elig == 5 or r.reclaims > 0 then return nil end
  local node, run = graph_store.of_row(r), r.run
  if node.delay or node.wait then return nil end
  local instance = r.worker > 0 and r.owner ~= 1 and worker_registry.instance(run, r.worker) or ''
  return {
    execution_id, node.name or '', node.kind or '', node.lane_id or '', node_row.PUBLIC[r.public], node_row.PHASE[phase], node_row.ELIG[r.elig],
    node_row.WHY[r.why], '', number.text(r.total), number.text(r.retries), '0', run.created_text or row.created_text(run),
    time_or_none(r.started), time_or_none(r.ended), '', instance, time_or_none(r.expires), '', '', '', '', '', time_or_none(r.acquired), '0',
    '', '', time_or_none(r.changed), '', '1', '', live_values.list(''),
  }
end

-- Returns the description of a node. Its limits are shown while it waits for them.
local function described(c, execution_id)
  local r = row.of(c, execution_id)
  local short = r and described_row(r, execution_id)
  if short then return short end
  local core_key = key.exec_core(c, execution_id)
  local node = fields_of(core_key, NODE_FIELDS)
  if node then
    local live = table.remove(node)
    table.insert(node, LIMITS, node[ELIGIBILITY] == 'blocked_by_quota' and fields_of(core_key, { 'limits' })[1] or '')
    if node[PHASE] == 'active' and (tonumber(node[RECLAIMS]) or 0) > 0 then
      node[DELAY_UNTIL] = tried_next(c, execution_id) or node[DELAY_UNTIL]
    end
    if node[LIMITS + 1] == '' then node[LIMITS + 1] = '1' end
    node[#node + 1] = live_values.list(live)
  end
  return node
end

-- @function ffx_describe_flow
-- @summary  Returns a flow with its nodes, in pages. Nodes come in no particular order. `deadline_at` is its own deadline, also
--           while nodes run that run however it ended: `finally_until` is theirs (Unix ms), 0 without one, empty before.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      cursor             text optional
-- @arg      limit              int
-- @reply    OK flow_name:text run_id:text namespace:text state:text outcome:text created_at:unix_ms closed_at:unix_ms deadline_at:unix_ms node_count:int edge_count:int open_nodes:int failed_node:text failure_reason:text failure_category:text cancel_reason:text cancelled_by:text definition:bytes<plain> next_cursor:text nodes:list(described_node) paused:text rerun_count:int? rerun_at:unix_ms? rerun_by:text? rerun_mode:text? rerun_nodes:int? budgets:text? schedule:text? fire_at:unix_ms? parent_execution_id:text? nodes_failed:int? nodes_expired:int? nodes_cancelled:int? nodes_skipped:int? now:unix_ms? fair_key:text? priority:text? start_at:unix_ms? started_by:text? memo:bytes<plain>? run_key:text? queued:int? queued_behind:text? forked_from:text? kept_nodes:int? finally_until:text?
-- @error    invalid_input message:text
-- @error    flow_not_found
function F.ffx_describe_flow(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local c = call.open(K.partition)
  local flow = fields_of(key.flow_core(c, A.flow_id), FLOW_FIELDS_SHOWN)
  if not flow then return reply.err('flow_not_found') end
  local first = not is_set(A.cursor)
  if flow[AT.edge_count] == '' then flow[AT.edge_count] = '0' end
  local page, cursor = member_list.page(c, A.flow_id, first and '0' or A.cursor, math.max(1, math.min(limit, MAX.page)))
  run_rows.load(c, page)
  local nodes = {}
  for _, execution_id in ipairs(page) do
    nodes[#nodes + 1] = described(c, execution_id)
  end
  local out = reply.ok(unpack(flow))
  out[#out + 1] = first and run_rows.definition(c, A.flow_id) or ''
  out[#out + 1] = cursor == '0' and '' or cursor
  out[#out + 1] = nodes
  local more = record.values(key.flow_core(c, A.flow_id), 'paused', 'rerun_count', 'rerun_at', 'rerun_by',
    'rerun_mode', 'rerun_nodes', 'budgets', 'schedule', 'fire_at', 'parent_execution_id',
    'nodes_failed', 'nodes_expired', 'nodes_cancelled', 'nodes_skipped', 'fair_key', 'priority', 'start_at', 'creator_identity',
    'memo', 'run_key', 'queued', 'run_key_id', 'forked_from', 'kept_nodes',
    'finally_until', 'main_deadline_at')
  more[2], more[6], more[7] = more[2] or '0', more[6] or '0', budget_gate.of(c, A.flow_id, more[7])
  if more[25] then out[AT.deadline + 2] = more[26] or '' end
  for i = 11, 14 do more[i] = more[i] or '0' end
  for i = 1, 14 do out[#out + 1] = more[i] or '' end
  out[#out + 1] = c.now_text
  for i = 15, 20 do out[#out + 1] = more[i] or '' end
  out[#out + 1] = number.text(more[21] and run_key.place(c, A.flow_id, more[22]) or 0)
  out[#out + 1] = more[21] and run_key.running(c, more[22]) or ''
  out[#out + 1] = more[23] or ''
  out[#out + 1] = more[24] or '0'
  out[#out + 1] = more[25] or ''
  return out
end

-- @record read_flow flow_id:flow_id values:pairs

-- @function ffx_read_flows
-- @summary  Returns fields of the records of flows of one partition. Missing flows are left out.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      fields             csv
-- @args     flows              flow_id
-- @reply    OK flows:list(read_flow)
function F.ffx_read_flows(K, A)
  local c, fields, found = call.open(K.partition), {}, {}
  for field in string.gmatch(A.fields, '[^,]+') do fields[#fields + 1] = field end
  for _, flow_id in ipairs(A.flows) do
    local flow = record.read(key.flow_core(c, flow_id), fields)
    if flow then
      local values = {}
      for _, field in ipairs(fields) do
        if flow[field] then
          values[#values + 1] = field
          values[#values + 1] = flow[field]
        end
      end
      found[#found + 1] = { flow_id, values }
    end
  end
  return reply.ok(found)
end

local OUTCOME, REASONS = { 'terminal_outcome' }, { 'node', 'failure_reason', 'cancellation_reason' }

-- Returns the result of a flow that has succeeded, and its node. Without one, returns nil, the node that should have provided it,
-- and the reason, or nil when its graph returns none. A result may be empty, so it exists when its node has succeeded.
local function result_of(c, flow_id)
  local result_id = graph.result_execution(c, flow_id)
  if not result_id then return nil end
  local core_key = key.exec_core(c, result_id)
  local core = record.read(core_key, OUTCOME)
  if core and core.terminal_outcome == 'success' then return results.named(c, result_id) or '', row.ordinal(result_id) end
  core = core and record.read(core_key, REASONS) or {}
  return nil, core.node or '', is_set(core.failure_reason) and core.failure_reason or core.cancellation_reason
end

local RESULT_FIELDS = { 'public_flow_state', 'outcome', 'closed_at', 'failed_node', 'failure_reason', 'failure_category', 'cancel_reason' }

-- Returns the reply about the state and the result of a flow. `flow`: its RESULT_FIELDS.
local function result_reply(c, flow_id, flow)
  local result, node, reason
  if flow[2] == 'success' and flow[3] ~= '' then result, node, reason = result_of(c, flow_id) end
  if result then
    return reply.ok(flow[1], flow[2], flow[3], '1', result, flow[4], flow[5], flow[6], flow[7], '0', number.text(node))
  end
  return reply.ok(flow[1], flow[2], flow[3], '0', '', node or flow[4], node and reason or flow[5], flow[6], flow[7], node and '1' or '0')
end

-- @function ffx_flow_result
-- @summary  Returns the state of a flow and, once all nodes have ended (closed_at is set), its result. A flow that has succeeded
--           has none if its graph returns none, or if it was skipped: the node that should have provided it did not run, or a
--           join has made up for its failure. That node is then the failed node, and why is the failure reason.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @reply    OK state:text outcome:text closed_at:unix_ms has_result:bool result:value<result> failed_node:text failure_reason:text failure_category:text cancel_reason:text result_skipped:bool? result_node:int?
-- @error    flow_not_found
function F.ffx_flow_result(K, A)
  local c = call.open(K.partition)
  local flow = fields_of(key.flow_core(c, A.flow_id), RESULT_FIELDS)
  return flow and result_reply(c, A.flow_id, flow) or reply.err('flow_not_found')
end

-- @function ffx_watch_run
-- @summary  Does the same as ffx_flow_result for a process that waits for the end of the run. While the run is open, it is marked
--           with the origin of the process for `duration`, so that the process receives the end. Without a duration, its mark is
--           taken back.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      origin             text
-- @arg      duration           ms optional
-- @reply    OK state:text outcome:text closed_at:unix_ms has_result:bool result:value<result> failed_node:text failure_reason:text failure_category:text cancel_reason:text result_skipped:bool? result_node:int?
-- @error    flow_not_found
-- @error    invalid_input message:text
function F.ffx_watch_run(K, A)
  local origin, err = run_watch.parse_origin(A.origin)
  if err then return err end
  local duration
  duration, err = number.optional('duration', A.duration, 0)
  if err then return err end
  local c = call.open(K.partition)
  local flow = fields_of(key.flow_core(c, A.flow_id), RESULT_FIELDS)
  if not flow then return reply.err('flow_not_found') end
  if flow[3] == '' and origin ~= row.NO_ORIGIN then
    if duration > 0 then run_watch.mark(c, A.flow_id, origin, duration) else run_watch.unmark(c, A.flow_id, origin) end
  end
  return result_reply(c, A.flow_id, flow)
end

-- @record read_value state:text has:bool size:int part:value<result>

local MAX_VALUES_PER_CALL = 256
local MAX_VALUE_BYTES = 4194304

-- Returns a value as it is read: whether there is one, its size, and the requested part of its beginning. The size of one that
-- can be read only as a whole is -1.
local function part_of(c, value, max)
  if not value then return '0', '0', '' end
  local part, is_whole = stored_value.part(c.at.prefix, value, max)
  return '1', is_whole and '-1' or number.text(stored_value.size(value)), part
end

-- @function ffx_read_values
-- @summary  Returns the input of a flow, and the states and results of executions of its partition, in the requested order: for
--           each value its size and its first `max_bytes` bytes, or -1 and all of it: for a list, and for a value that a program
--           has sealed or compressed. Reads values of four mebibytes together, but at least one execution: call again for the
--           rest.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      max_bytes          int
-- @args     executions         execution_id
-- @reply    OK has_input:bool input_size:int input:value<input> executions:list(read_value)
-- @error    invalid_input message:text
function F.ffx_read_values(K, A)
  local max, err = number.whole('max_bytes', A.max_bytes)
  if err then return err end
  if #A.executions > MAX_VALUES_PER_CALL then
    return reply.err('invalid_input', 'at most ' .. MAX_VALUES_PER_CALL .. ' executions in one call, got: ' .. #A.executions)
  end
  local c = call.open(K.partition)
  run_rows.load(c, A.executions)
  local out, bytes = {}, 0
  for i, execution_id in ipairs(A.executions) do
    local core = record.read(key.exec_core(c, execution_id), { 'public_state', 'terminal_outcome' }) or {}
    local result = core.terminal_outcome == 'success' and (results.named(c, execution_id) or '') or nil
    out[i] = { core.public_state or '', part_of(c, result, max) }
    bytes = bytes + (result and stored_value.size(result) or 0)
    if bytes > MAX_VALUE_BYTES then break end
  end
  local input = row_inputs.of_flow(c, A.flow_id)
  local has, size, part = part_of(c, is_set(input) and input or nil, max)
  return reply.ok(has, size, part, out)
end

-- @record flow_failure execution_id:execution_id node:text outcome:text ended_at:unix_ms attempts:int reason:text category:text tolerated:bool details:bytes<details>? unreleased:bool?

local FAILURE_FIELDS = {
  'terminal_outcome', 'execution_id', 'node', 'completed_at', 'total_attempt_count', 'failure_reason', 'failure_category',
  'cancellation_reason', 'absorbed', 'failure_details', 'unreleased', 'stopped_at',
}

-- Reports whether the end of a member is its own failure: it did not end with its flow, and no join cancelled it.
local function failed_itself(outcome, core, stopped)
  if outcome == 'failed' then return true end
  if outcome == 'expired' then return core.failure_reason ~= 'flow_deadline' end
  return outcome == 'cancelled' and not stopped and core.absorbed ~= 'cancelled_siblings'
end

-- Reports whether a member ended without success, by itself or with its flow, and no join cancelled it.
local function did_not_succeed(outcome, core)
  return outcome == 'failed' or outcome == 'expired' or outcome == 'cancelled' and core.absorbed ~= 'cancelled_siblings'
end

-- @function ffx_flow_failures
-- @summary  Returns the members of a flow that failed, expired or were cancelled by themselves, in pages and in no particular
--           order: not those that ended because the whole flow did, or that a join cancelled. `tolerated` are those that a join
--           has made up for. A page may have none. With `stopped`, those that ended because the whole flow did are among them.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      cursor             text optional
-- @arg      limit              int
-- @arg      stopped            bool optional
-- @reply    OK next_cursor:text failures:list(flow_failure)
-- @error    invalid_input message:text
-- @error    flow_not_found
function F.ffx_flow_failures(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local c = call.open(K.partition)
  local flow = record.read(key.flow_core(c, A.flow_id), { 'created_at', 'outcome', 'cancelled_at', 'cancel_reason', 'joins_impossible' })
  if not flow then return reply.err('flow_not_found') end
  local stopped = is_set(flow.cancelled_at) or is_set(flow.cancel_reason) or flow.outcome == 'expired'
  local all = A.stopped == '1'
  local page, cursor = member_list.page(c, A.flow_id, is_set(A.cursor) and A.cursor or '0', math.max(1, math.min(limit, MAX.page)))
  run_rows.load(c, page)
  local failures = {}
  for _, execution_id in ipairs(page) do
    local core = record.read(key.exec_core(c, execution_id), FAILURE_FIELDS)
    local outcome = core and core.terminal_outcome
    if outcome and (failed_itself(outcome, core, stopped) or all and did_not_succeed(outcome, core)) then
      local cancelled = outcome == 'cancelled'
      failures[#failures + 1] = {
        execution_id, core.node or execution_id, outcome, core.stopped_at or core.completed_at or '', core.total_attempt_count or '0',
        (cancelled and core.cancellation_reason or core.failure_reason) or '', not cancelled and core.failure_category or '',
        is_set(core.absorbed) and not flow.joins_impossible and '1' or '0', not cancelled and core.failure_details or '',
        core.unreleased and '1' or '0',
      }
    end
  end
  return reply.ok(cursor == '0' and '' or cursor, failures)
end

-- @function ffx_read_inputs
-- @summary  Returns results of the upstreams that feed an execution, in pages. For a join, these are the results that existed
--           when it was satisfied.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text inputs:list(node_input)
-- @error    execution_not_found
function F.ffx_read_inputs(K, A)
  local c = call.open(K.partition)
  local core = record.read(key.exec_core(c, A.execution_id), { 'flow_id' })
  if not core then return reply.err('execution_not_found') end
  local g = edge_group.of(c, core.flow_id, A.execution_id)
  local from = tonumber(string.match(A.cursor or '', '^n(%d+)$') or nil) or not is_set(A.cursor) and 1
  if from then
    local inputs, rest = row_inputs.page(c, A.execution_id, g, from, MAX.inputs)
    if rest then return reply.ok('n' .. rest, inputs) end
    if inputs and redis.call('EXISTS', key.flow_in(c, core.flow_id, A.execution_id)) == 0 then return reply.ok('', inputs) end
    if inputs then return reply.ok('0', inputs) end
  end
  local page = redis.call('SSCAN', key.flow_in(c, core.flow_id or '', A.execution_id),
    is_set(A.cursor) and A.cursor or '0', 'COUNT', MAX.inputs)
  local names, result_keys, upstreams = claim_reply.feeders(c, A.execution_id, core.flow_id, g, page[2])
  local inputs = #names > 0 and redis.call('MGET', unpack(result_keys)) or {}
  for i, name in ipairs(names) do inputs[i] = { name, inputs[i] or '', upstreams[i] } end
  return reply.ok(page[1] == '0' and '' or page[1], inputs)
end

-- @record gone_events node:text events:int
-- @record flow_event id:text at:unix_ms event:text node:text attempt:text detail:text

-- @function ffx_read_events
-- @summary  Returns events of a flow's log after the one with the given id, oldest first. It begins with the first event when the
--           id is that event's of another flow, which had this id before and is removed. lost means that events after the given
--           one are gone, and the remaining ones follow. `gone` counts the events that the log had no room for, by node, "" for
--           the flow itself, of up to 100 nodes; it is also returned with the last events before that gap, after which others
--           follow.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      after              text optional
-- @arg      limit              int
-- @reply    OK lost:bool events:list(flow_event) gone:list(gone_events)?
-- @error    invalid_input message:text
function F.ffx_read_events(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local c = call.open(K.partition)
  local events, lost, gone = event_log.read(c, A.flow_id, A.after, math.max(1, math.min(limit, MAX.page)))
  if not events then return reply.err('invalid_input', 'after must be the id of an event, got: ' .. A.after) end
  return reply.ok(lost and '1' or '0', events, gone or {})
end

-- @function ffx_read_node_events
-- @summary  Returns events of one node in a flow's log, the latest first: about `limit` of them, or fewer, as a call reads a
--           bounded number. Continue with next_cursor until it is empty.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      node               text
-- @arg      limit              int
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text events:list(flow_event)
-- @error    invalid_input message:text
function F.ffx_read_node_events(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local c = call.open(K.partition)
  local events, cursor = event_log.read_node(c, A.flow_id, A.node, A.cursor or '', math.max(1, math.min(limit, MAX.page)))
  return reply.ok(cursor, events)
end
