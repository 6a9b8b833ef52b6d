-- Runs an ended execution again.

local MAX_REPLAYS = 10

replay.FIELDS = {
  'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome', 'replay_count',
  'flow_id', 'managed', 'node', 'created_at', 'priority', 'delay_until', 'lane_id', 'current_lane',
  'current_attempt_index', 'start_timeout', 'wait', 'journal', 'failure_reason', 'failure_category', 'failure_details', 'cancellation_reason',
  'cancelled_by', 'fair_key', 'prior_eligibility_state', 'prior_blocking_reason', 'prior_blocking_detail',
}

-- Fields that describe how the execution ended or why it waited before; a replay removes them.
local OUTCOME_DETAILS = {
  'failure_reason', 'failure_category', 'failure_details', 'cancellation_reason', 'cancelled_by', 'delay_until',
  'prior_eligibility_state', 'prior_blocking_reason', 'prior_blocking_detail',
}

-- Returns how often an execution may be replayed.
function replay.limit(c, execution_id)
  return number.finite(policies.of(c, execution_id).max_replay_count) or MAX_REPLAYS
end

local EDGE_FIELDS = { 'state', 'outcome', 'upstream_execution_id', 'dependency_kind', 'data_passing_ref' }

-- Returns how the upstream of an edge has ended; false while it has not, nil when there is none.
local function outcome_of(c, dep)
  local upstream = is_set(dep.upstream_execution_id)
    and record.read(key.exec_core(c, dep.upstream_execution_id), { 'lifecycle_phase', 'terminal_outcome' })
  if not upstream then return nil end
  return upstream.lifecycle_phase == 'terminal' and upstream.terminal_outcome
end

-- Copies an upstream's result to a replayed child, as a resolution of the edge would have done while the child waited.
local function hand_result(c, execution_id, dep)
  if is_set(dep.data_passing_ref) then
    dependency.copy_result(key.exec_result(c, dep.upstream_execution_id), key.exec_payload(c, execution_id))
  end
end

-- Opens an edge of a replayed child again, unless its upstream has ended with an outcome that satisfies the edge.
local function reopen_edge(c, execution_id, dep_key, unresolved_key, edge_id, managed)
  local dep = record.read(dep_key, EDGE_FIELDS)
  if not dep or dep.state == 'satisfied' then return false end
  local outcome = outcome_of(c, dep)
  if outcome and managed then outcome = decision.verdict(c, dep.dependency_kind, outcome, dep.upstream_execution_id) end
  if outcome == 'success' then
    redis.call('HSET', dep_key, 'state', 'satisfied', 'last_resolved_at', c.now_text)
    redis.call('SREM', unresolved_key, edge_id)
    if not managed then hand_result(c, execution_id, dep) end
    return false
  end
  redis.call('HSET', dep_key, 'state', 'unsatisfied', 'last_resolved_at', '')
  redis.call('SADD', unresolved_key, edge_id)
  return true
end

-- Opens the edges of a skipped child again. Returns the number of edges that it has to wait for.
local function reopen_edges(c, execution_id, edge_ids, dep_keys, managed)
  local unresolved_key = key.exec_deps_unresolved(c, execution_id)
  local open = 0
  for i, edge_id in ipairs(edge_ids) do
    if reopen_edge(c, execution_id, dep_keys[i] or key.exec_dep(c, execution_id, edge_id), unresolved_key, edge_id,
      managed) then
      open = open + 1
    end
  end
  local s, at = store.of(key.exec_core(c, execution_id))
  return s.reopen_edges(at, c, execution_id, open)
end

-- Resolves those open edges of a child, itself ended by another cause, whose upstreams have ended; they no longer count, whatever
-- the outcome. Returns the number of edges that it has to wait for.
local function wait_for_unended(c, execution_id, core, g)
  if core.managed or edge_group.has_fired(g) then return dependency.open_edges(c, core, execution_id) end
  local edge_ids, open = redis.call('SMEMBERS', key.exec_deps_all_edges(c, execution_id)), 0
  if #edge_ids == 0 then return 0 end
  for _, edge_id in ipairs(edge_ids) do
    local k = dependency.child_keys(c, execution_id, edge_id)
    local dep = record.read(k.dep, EDGE_FIELDS) or {}
    if dep.state == 'unsatisfied' then
      local outcome = outcome_of(c, dep)
      if outcome == false then
        open = open + 1
      else
        if outcome == 'success' then hand_result(c, execution_id, dep) end
        join.resolve(c, k, g, {
          edge_id = edge_id, flow_id = core.flow_id or '', child_id = execution_id, upstream_id = dep.upstream_execution_id,
        }, dep, outcome or 'skipped')
      end
    end
  end
  local meta_key = key.exec_deps_meta(c, execution_id)
  redis.call('HSET', meta_key, 'unsatisfied_required_count', number.text(open))
  if redis.call('HEXISTS', meta_key, 'impossible_required_count') == 1 then
    redis.call('HSET', meta_key, 'impossible_required_count', '0')
  end
  return edge_group.has_fired(g) and 0 or open
end

-- Returns the core fields of a replay as a flat list, and the fields to unset.
function replay.fields(core)
  local values = {
    'pending_replay_attempt', '1',
    'replay_count', number.text((tonumber(core.replay_count) or 0) + 1),
    'retry_count', '0',
    'lease_reclaim_count', '0',
  }
  if is_set(core.current_attempt_index) then
    values[#values + 1] = 'pending_previous_attempt_index'
    values[#values + 1] = core.current_attempt_index
  end
  local blank = { 'completed_at' }
  for _, field in ipairs(OUTCOME_DETAILS) do
    -- The delay of a node of a run comes from the run's definition, and counts as long as its time is in the future.
    if is_set(core[field]) and not (field == 'delay_until' and core.managed) then blank[#blank + 1] = field end
  end
  return values, blank
end

-- @function ff_replay_execution
-- @summary  Runs an ended execution again. It waits for upstreams that have not ended. A member of a flow that was skipped waits
--           for its upstreams once more. Its failed upstreams must be replayed as well, and so must the failed upstreams of any
--           member of a flow that was submitted as a whole.
-- @flags    derives operator intake
-- @key      core            exec.core
-- @key      terminal        lane.terminal
-- @key      eligible        lane.eligible
-- @key      lease_history   exec.lease_history
-- @key      blocked_dependencies lane.blocked_dependencies optional
-- @key      meta            exec.deps_meta optional
-- @key      unresolved      exec.deps_unresolved optional
-- @keys     deps            exec.dep(edge_id=edges)
-- @arg      execution_id    execution_id
-- @arg      now_ms          unix_ms optional
-- @args     edges           edge_id
-- @reply    OK waiting_for:int
-- @error    execution_not_found
-- @error    execution_not_terminal
-- @error    max_replays_exhausted
function F.ff_replay_execution(K, A)
  local c = call.open(K.core)
  local core = record.read(K.core, replay.FIELDS)
  if not core then return reply.err('execution_not_found') end
  local flow = core.managed and record.read(key.flow_core(c, core.flow_id or ''), { 'purging' }) or {}
  if flow.purging then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'terminal' then return reply.err('execution_not_terminal') end
  if (tonumber(core.replay_count) or 0) >= replay.limit(c, A.execution_id) then
    return reply.err('max_replays_exhausted')
  end

  local s, at = store.of(K.core)
  s.note_replay(at)
  hidden.forget(K.core)
  local waiting_for, kind = 0, 'normal'
  local g = is_set(core.flow_id) and edge_group.find(c, key.flow_edgegroup(c, core.flow_id, A.execution_id)) or nil
  local skipped = is_set(core.flow_id) and (core.terminal_outcome == 'skipped' or edge_group.is_unsatisfied(g))
  -- A managed child that was ended before its upstreams may never have received their outcomes.
  if skipped or (core.managed and not edge_group.has_fired(g)) then
    if skipped then kind = 'skipped_flow_member' end
    local edges = A.edges
    if #edges == 0 or g then edges = redis.call('SMEMBERS', key.exec_deps_all_edges(c, A.execution_id)) end
    waiting_for = reopen_edges(c, A.execution_id, edges, g and {} or K.deps, core.managed)
    if g and join.reset(c, g, core, A.execution_id) then waiting_for = 0 end
  else
    waiting_for = wait_for_unended(c, A.execution_id, core, g)
  end
  terminal.reopen(c, A.execution_id, core, K.terminal)
  local values, blank = replay.fields(core)
  if waiting_for > 0 then
    dependency.hold(c, A.execution_id, K.core, core, {
      detail = number.text(waiting_for) .. ' dep(s) unsatisfied after replay',
      attempt_state = 'pending_replay_attempt', values = values, blank = blank,
    })
  else
    values[#values + 1] = 'attempt_state'
    values[#values + 1] = 'pending_replay_attempt'
    requeue.ready(c, A.execution_id, K.core, core, { values = values, blank = blank, eligible = K.eligible })
  end
  lease.history(c, A.execution_id, 'event', 'replay_initiated',
    'replay_count', number.text((tonumber(core.replay_count) or 0) + 1), 'replay_type', kind, 'ts', c.now_text)
  settle.run(c)
  return reply.ok(number.text(waiting_for))
end
