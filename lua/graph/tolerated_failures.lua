-- Failures in managed flows: those that fail the flow, and those that its joins tolerate.

-- An execution from which more edges than this have to be followed is not searched: its failure is the flow's.
local MAX_CONSUMERS = 256

-- Reports whether every path from an execution leads to a join, so that its failure need not fail the flow. Returns false when
-- more than MAX_CONSUMERS edges have to be followed.
local function leads_to_joins(c, flow_id, execution_id)
  local queue, seen, head, looked = { execution_id }, { [execution_id] = true }, 1, 0
  while queue[head] do
    local edges = adjacency.count_downstream(c, flow_id, queue[head])
    looked = looked + edges
    if edges == 0 or looked > MAX_CONSUMERS then return false end
    local ways = 0
    for _, consumer in ipairs(adjacency.downstream(c, flow_id, queue[head])) do
      local variant = edge_group.variant(c, flow_id, consumer)
      -- A node that runs however the flow ends does not use the failed result, so it does not count as a path.
      if variant ~= 'finally' then
        ways = ways + 1
        if not seen[consumer] and not edge_group.tolerates(variant) then queue[#queue + 1] = consumer end
      end
      seen[consumer] = true
    end
    if ways == 0 then return false end
    head = head + 1
  end
  return true
end

-- Counts a member of a managed flow that ended without success apart from the flow's own failures, when every path from it leads
-- to a join, or a join no longer needed it. Reports whether the failure is currently not the flow's own; with a join that cannot
-- be satisfied, it is.
function tolerated_failures.tolerate(c, flow_key, execution_id, core, t)
  local flow = record.values(flow_key, 'joins', 'joins_impossible', 'public_flow_state')
  if t.outcome == 'skipped' or not flow[1] or flow[3] ~= 'open' then return false end
  local counter
  if t.tolerated then
    counter = 'cancelled_siblings'
  elseif leads_to_joins(c, core.flow_id, execution_id) then
    counter = t.outcome == 'cancelled' and 'absorbed_cancels' or 'absorbed_failures'
    if t.outcome ~= 'cancelled' then record.set_once(flow_key, 'absorbed_node', execution_id) end
  else
    return false
  end
  record.add(flow_key, counter, 1)
  record.set(key.exec_core(c, execution_id), 'absorbed', counter)
  if is_set(t.words) then record.set(key.exec_core(c, execution_id), 'failure_words', t.words) end
  return not flow[2]
end

-- Reverts tolerated_failures.tolerate when a member runs again.
function tolerated_failures.untolerate(c, flow_key, execution_id)
  local core_key = key.exec_core(c, execution_id)
  local counter = record.value(core_key, 'absorbed')
  if not counter then return end
  record.clear(core_key, 'absorbed', 'failure_words')
  if record.add(flow_key, counter, -1) <= 0 then record.clear(flow_key, counter) end
  if record.value(flow_key, 'absorbed_node') == execution_id then record.clear(flow_key, 'absorbed_node') end
end

local FAILURE_FIELDS = { 'execution_id', 'node', 'terminal_outcome', 'failure_reason', 'failure_category', 'failure_words' }

-- Records in the flow the failure of an upstream. Reports whether the upstream had failed.
local function note_failure_of(c, flow_id, flow_key, upstream_id)
  local upstream = record.read(key.exec_core(c, upstream_id), FAILURE_FIELDS)
  if not upstream or (upstream.terminal_outcome ~= 'failed' and upstream.terminal_outcome ~= 'expired') then
    return false
  end
  tolerated_failures.note_first(c, flow_id, flow_key, upstream, {
    outcome = upstream.terminal_outcome, reason = upstream.failure_reason, category = upstream.failure_category,
    words = upstream.failure_words,
  })
  return true
end

-- Records that a join of a managed flow can no longer be satisfied, so that every failure for which joins were to make up is the
-- flow's own. It notes the first of these or, if that node runs again, one of the join's upstreams.
function tolerated_failures.note_impossible(c, e)
  local flow_key = key.flow_core(c, e.flow_id)
  record.add(flow_key, 'joins_impossible', 1)
  local first_id = record.value(flow_key, 'absorbed_node')
  if first_id and note_failure_of(c, e.flow_id, flow_key, first_id) then return end
  if e.upstream_id and note_failure_of(c, e.flow_id, flow_key, e.upstream_id) then return end
  if adjacency.count_upstream(c, e.flow_id, e.child_id) > call.WORK_BUDGET then return end
  for _, upstream_id in ipairs(adjacency.upstream(c, e.flow_id, e.child_id)) do
    if note_failure_of(c, e.flow_id, flow_key, upstream_id) then return end
  end
end

-- Returns how many of the failures and cancels of a managed flow's members are not the flow's own.
function tolerated_failures.counts(flow)
  local siblings = tonumber(flow.cancelled_siblings) or 0
  if flow.joins_impossible then return 0, siblings end
  return tonumber(flow.absorbed_failures) or 0, siblings + (tonumber(flow.absorbed_cancels) or 0)
end

-- @hook Runs when the failure of a flow is recorded. `words` are the words of its text as the program sends them; nil without them.
function tolerated_failures.on_first(c, flow_id, flow_key, category, words) end

-- @hook Runs when the failure of a flow is forgotten, since its node runs again or was not needed.
function tolerated_failures.on_forgotten(c, flow_id, flow_key) end

-- Records the first failure in the flow.
function tolerated_failures.note_first(c, flow_id, flow_key, core, t)
  if record.set_once(flow_key, 'failed_node', core.node or core.execution_id) then
    record.set(flow_key, 'failure_reason', t.reason or '', 'failure_category', t.category or t.outcome)
    tolerated_failures.on_first(c, flow_id, flow_key, t.category or t.outcome, t.words)
  end
end

local FIRST = { 'failed_node', 'failure_reason', 'failure_category' }

-- Forgets the first failure in the flow, or the given fields of it.
function tolerated_failures.forget_first(c, flow_id, flow_key, fields)
  record.clear(flow_key, unpack(fields or FIRST))
  tolerated_failures.on_forgotten(c, flow_id, flow_key)
end
