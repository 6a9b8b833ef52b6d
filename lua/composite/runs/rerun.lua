-- Runs a part of a closed run again, in bounded steps: its nodes are collected; all are reset, while none may start; then the
-- edges that they do not wait for are resolved, and the nodes start. The keeper continues a rerun whose caller is gone.

local MAX_NODES_PER_CALL = 256

-- Approximate number of nodes that a step resets, or of edges that it reads.
local NODES_PER_STEP = 32
local EDGES_PER_STEP = 128

-- Maximum number of reruns that one tick tries to continue, until one of them raises no error.
local TRIED_PER_TICK = 64

local FLOW_FIELDS = {
  'public_flow_state', 'closed_at', 'outcome', 'created_at', 'deadline_at', 'joins', 'purging',
  'rerun_id', 'rerun_state', 'rerun_at', 'rerun_count', 'rerun_node', 'rerun_edge', 'run_key_id', 'at_once',
}

-- Returns the sets of a rerun: its nodes; those that are not reset yet; the edges of the one that is being reset; edges whose
-- upstream does not change; nodes without upstreams.
function rerun.keys(c, flow_id)
  return {
    key.flow_rerun(c, flow_id), key.flow_rerun_left(c, flow_id), key.flow_rerun_inbox(c, flow_id),
    key.flow_rerun_edges(c, flow_id), key.flow_rerun_roots(c, flow_id),
  }
end


-- Checks whether a node can be run again. Returns nil, or the error reply.
local function check_node(c, flow_id, execution_id)
  if not member_list.has(c, flow_id, execution_id) then
    return reply.err('execution_not_in_flow', execution_id)
  end
  local core = record.read(key.exec_core(c, execution_id), { 'node', 'replay_count', 'lifecycle_phase' })
  if not core then return reply.err('execution_not_found') end
  if core.lifecycle_phase ~= 'terminal' then return reply.err('execution_not_terminal', core.node or '') end
  local count = tonumber(core.replay_count) or 0
  if count > 0 and count >= replay.limit(c, execution_id) then
    return reply.err('max_replays_exhausted', core.node or '', number.text(count))
  end
  return nil
end

local function check_nodes(c, A)
  if #A.nodes > MAX_NODES_PER_CALL then
    return reply.err('invalid_input', 'at most ' .. MAX_NODES_PER_CALL .. ' nodes in one call, got: ' .. #A.nodes)
  end
  for _, execution_id in ipairs(A.nodes) do
    local err = check_node(c, A.flow_id, execution_id)
    if err then return err end
  end
  return nil
end

-- Opens the run again, with its full time.
local function reopen_flow(c, flow_id, flow_key, flow)
  if flow.joins == finally.JOINS then finally.forget(flow_key, flow) end
  graph.reopen_flow(c, flow_id, flow_key, flow)
  local deadline = number.finite(flow.deadline_at)
  if not deadline then return end
  deadline = c.now + deadline - (number.finite(flow.rerun_at) or number.finite(flow.created_at) or c.now)
  record.set(flow_key, 'deadline_at', number.text(deadline))
  redis.call('ZADD', key.ffx_flow_deadlines(c), deadline, flow_id)
  wake.due(c, deadline)
end

-- Begins the rerun, when all nodes are known.
local function begin(c, flow_id, flow_key, flow, A, origin)
  local nodes_key = key.flow_rerun(c, flow_id)
  local count = redis.call('SCARD', nodes_key)
  redis.call('COPY', nodes_key, key.flow_rerun_left(c, flow_id), 'REPLACE')
  reopen_flow(c, flow_id, flow_key, flow)
  record.set(flow_key, 'rerun_state', 'resetting', 'rerun_at', c.now_text, 'rerun_mode', A.mode,
    'rerun_by', A.actor, 'rerun_nodes', number.text(count), 'rerun_count',
    number.text((tonumber(flow.rerun_count) or 0) + 1))
  redis.call('SADD', key.ffx_reruns(c), flow_id)
  wake.due(c, c.now + settle.LEFT_MS)
  event_log.add(c, flow_id, 'flow_rerun', '', '', A.mode)
  run_watch.reopened(c, flow_id, origin)
end

-- Resets a node, which waits for all its upstreams once more; its edges follow. Returns whether it does.
local function reset_node(c, flow_id, execution_id, core_key)
  local core = record.read(core_key, replay.FIELDS)
  if not core or core.lifecycle_phase ~= 'terminal' then return false end
  local edges_key, unresolved_key = key.exec_deps_all_edges(c, execution_id), key.exec_deps_unresolved(c, execution_id)
  local r = row.of_key(core_key)
  local open = redis.call('SCARD', edges_key)
  if r then open = row_edges.reset(c, r) end
  if r and open > 0 then
    join.clear(c, core, execution_id)
  elseif open > 0 then
    redis.call('COPY', edges_key, unresolved_key, 'REPLACE')
    redis.call('COPY', edges_key, key.flow_rerun_inbox(c, flow_id), 'REPLACE')
    redis.call('HSET', key.exec_deps_meta(c, execution_id), 'unsatisfied_required_count', number.text(open),
      'impossible_required_count', '0', 'last_dependency_update_at', c.now_text)
    join.clear(c, core, execution_id)
  else
    redis.call('SADD', key.flow_rerun_roots(c, flow_id), execution_id)
  end
  terminal.reopen(c, execution_id, core)
  local values, blank = replay.fields(core)
  blank[#blank + 1] = 'started_at' -- durations count from the rerun
  dependency.hold(c, execution_id, core_key, core, {
    detail = 'held until all nodes of the rerun are reset', attempt_state = 'pending_replay_attempt',
    values = values, blank = blank,
  })
  lease.history(c, execution_id, 'event', 'replay_initiated', 'replay_count',
    number.text((tonumber(core.replay_count) or 0) + 1), 'replay_type', 'rerun', 'ts', c.now_text)
  return open > 0
end

-- Does the same for edges of the graph: `rerun_edge` names the next one.
local function reset_row_edges(c, flow_id, r, limit)
  local flow_key = key.flow_core(c, flow_id)
  local ups = graph_store.of_row(r).ups
  local from, count = tonumber(record.value(flow_key, 'rerun_edge') or nil) or 1, graph_store.edge_count(ups)
  local to = math.min(count, from + limit - 1)
  for i = from, to do
    local upstream = graph_store.edge(ups, i)
    if redis.call('SISMEMBER', key.flow_rerun(c, flow_id), row.execution_id(r.run, upstream)) == 0 then
      redis.call('SADD', key.flow_rerun_edges(c, flow_id), upstream .. ' ' .. r.ordinal)
    end
  end
  if to < count then
    record.set(flow_key, 'rerun_edge', number.text(to + 1))
  else
    record.clear(flow_key, 'rerun_edge')
  end
  return to - from + 1, to >= count
end

-- Opens the edges to a node again which is reset. Edges whose upstream is not run again are resolved once all nodes are reset.
-- Returns how many edges were read, and whether that is all.
local function reset_edges(c, flow_id, execution_id, limit)
  local r = row.of_key(key.exec_core(c, execution_id))
  if r then return reset_row_edges(c, flow_id, r, limit) end
  local inbox_key, kept_key = key.flow_rerun_inbox(c, flow_id), key.flow_rerun_edges(c, flow_id)
  local edge_ids = redis.call('SPOP', inbox_key, limit)
  for _, edge_id in ipairs(edge_ids) do
    local dep_key = key.exec_dep(c, execution_id, edge_id)
    local upstream_id = redis.call('HGET', dep_key, 'upstream_execution_id')
    redis.call('HSET', dep_key, 'state', 'unsatisfied', 'last_resolved_at', '')
    redis.call('HDEL', dep_key, 'outcome', 'late')
    if redis.call('SISMEMBER', key.flow_rerun(c, flow_id), upstream_id or '') == 0 then
      redis.call('SADD', kept_key, edge_id)
    end
  end
  return #edge_ids, redis.call('EXISTS', inbox_key) == 0
end

-- Resets nodes, those with many edges in several steps: `node` is the one that was begun. Returns whether all are reset.
local function reset_some(c, flow_id, flow_key, node)
  local nodes, edges = NODES_PER_STEP, EDGES_PER_STEP
  while nodes > 0 and edges > 0 do
    if not node then
      local id = redis.call('SPOP', key.flow_rerun_left(c, flow_id))
      if not id then return true end
      nodes = nodes - 1
      if reset_node(c, flow_id, id, key.exec_core(c, id)) then node = id end
    end
    if node then
      local seen, all = reset_edges(c, flow_id, node, edges)
      edges = edges - seen
      if all then
        record.clear(flow_key, 'rerun_node')
        node = nil
      else
        record.set(flow_key, 'rerun_node', node)
      end
    end
  end
  return not node and redis.call('EXISTS', key.flow_rerun_left(c, flow_id)) == 0
end

-- Resolves the edges of nodes whose upstreams are not run again, and releases the nodes without upstreams. Returns whether all
-- are resolved.
local function resolve_some(c, flow_id, flow)
  local edges_key, roots_key = key.flow_rerun_edges(c, flow_id), key.flow_rerun_roots(c, flow_id)
  for _, edge_id in ipairs(redis.call('SPOP', edges_key, EDGES_PER_STEP)) do
    local up, down = string.match(edge_id, '^(%d+) (%d+)$')
    if up then row_edges.resolve_kept(c, flow_id, tonumber(up), tonumber(down)) end
    local upstream_id = not up and redis.call('HGET', key.flow_edge(c, flow_id, edge_id), 'upstream_execution_id')
    local upstream = upstream_id and record.read(key.exec_core(c, upstream_id), { 'lifecycle_phase', 'terminal_outcome' })
    if upstream and upstream.lifecycle_phase == 'terminal' then
      propagate.resolve_edge(c, { execution_id = upstream_id, flow_id = flow_id, outcome = upstream.terminal_outcome },
        edge_id, flow.joins)
    end
  end
  for _, execution_id in ipairs(redis.call('SPOP', roots_key, NODES_PER_STEP)) do
    local k = { core = key.exec_core(c, execution_id) }
    local core = record.read(k.core, dependency.CHILD_FIELDS)
    if core and dependency.is_releasable(core) then dependency.release(c, execution_id, k, core) end
  end
  return redis.call('EXISTS', edges_key, roots_key) == 0
end

local function finish(c, flow_id, flow_key)
  redis.call('UNLINK', unpack(rerun.keys(c, flow_id)))
  record.clear(flow_key, 'rerun_state', 'rerun_node')
  redis.call('SREM', key.ffx_reruns(c), flow_id)
end

-- Continues a rerun by one step. Returns whether there is more to do.
local function step(c, flow_id)
  local flow_key = key.flow_core(c, flow_id)
  local flow = record.read(flow_key, FLOW_FIELDS)
  if not flow or not flow.rerun_state then
    redis.call('SREM', key.ffx_reruns(c), flow_id)
    return false
  elseif flow.public_flow_state ~= 'open' then
    -- The run was stopped since. Nodes that have not been reset keep their ends.
    if is_set(flow.rerun_node) and not select(2, reset_edges(c, flow_id, flow.rerun_node, EDGES_PER_STEP)) then
      return true
    end
    finish(c, flow_id, flow_key)
    if not flow.closed_at and record.value(flow_key, 'open_nodes') == '0' then graph.close(c, flow_id, flow_key) end
    return false
  elseif flow.rerun_state == 'resetting' then
    if reset_some(c, flow_id, flow_key, is_set(flow.rerun_node) and flow.rerun_node or nil) then
      record.set(flow_key, 'rerun_state', 'resolving')
    end
    return true
  end
  if not resolve_some(c, flow_id, flow) then return true end
  finish(c, flow_id, flow_key)
  return false
end

-- Continues reruns that others began, one at a time. Returns how many reruns were checked.
function rerun.advance(c)
  local reruns_key, failures = key.ffx_reruns(c), 0
  for _, flow_id in ipairs(redis.call('SRANDMEMBER', reruns_key, TRIED_PER_TICK)) do
    if call.guarded(c, 'rerun', flow_id, function() return step(c, flow_id) end) then
      if redis.call('SCARD', reruns_key) > failures then c.more = true end
      return failures + 1
    end
    failures = failures + 1
  end
  return failures
end

-- @function ffx_rerun
-- @summary  Runs nodes of a run that is over again. They come in one call or in several with the same rerun_id; with the last one
--           (`begin`) the rerun begins, and none of the nodes starts before all are reset. Call again while `more`, or leave the
--           rest to the keeper. Nodes that are not named keep their results, and so do the others until they have new ones. The
--           nodes begin anew, as after a replay of each. The process with the given origin is notified that the run is open again,
--           as the one that has started it.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      rerun_id           text
-- @arg      mode               text
-- @arg      actor              text
-- @arg      begin              bool
-- @arg      origin             text optional
-- @args     nodes              execution_id
-- @reply    OK state:text more:bool
-- @reply    ALREADY_SATISFIED state:text more:bool
-- @error    invalid_input message:text
-- @error    flow_not_found
-- @error    flow_purging
-- @error    flow_not_terminal state:text
-- @error    execution_not_in_flow execution_id:text
-- @error    execution_not_found
-- @error    execution_not_terminal node:text
-- @error    max_replays_exhausted node:text replays:int
-- @error    run_key_taken run_id:text
function F.ffx_rerun(K, A)
  local origin, err = run_watch.parse_origin(A.origin)
  if err then return err end
  local c = call.open(K.partition)
  local flow_key = key.flow_core(c, A.flow_id)
  local flow = record.read(flow_key, FLOW_FIELDS)
  if not flow then return reply.err('flow_not_found') end
  if flow.purging then return reply.err('flow_purging') end
  local begun = flow.rerun_id == A.rerun_id and flow.rerun_state ~= 'collecting'
  if not begun then
    if not flow.closed_at then return reply.err('flow_not_terminal', flow.public_flow_state or '') end
    err = run_key.refuse_reopen(c, flow) or check_nodes(c, A)
    if err then return err end
    local known = flow.rerun_id == A.rerun_id and redis.call('SCARD', key.flow_rerun(c, A.flow_id)) or 0
    if A.begin == '1' and known + #A.nodes == 0 then return reply.err('invalid_input', 'a rerun needs nodes') end
    if flow.rerun_id ~= A.rerun_id then redis.call('UNLINK', unpack(rerun.keys(c, A.flow_id))) end
    record.set(flow_key, 'rerun_id', A.rerun_id, 'rerun_state', 'collecting')
    if #A.nodes > 0 then redis.call('SADD', key.flow_rerun(c, A.flow_id), unpack(A.nodes)) end
    if A.begin ~= '1' then return reply.ok('collecting', '0') end
    begin(c, A.flow_id, flow_key, flow, A, origin)
    settle.run(c)
    return reply.ok('begun', '1')
  elseif not flow.rerun_state then
    return reply.already('begun', '0')
  end
  local more = step(c, A.flow_id)
  settle.run(c)
  return reply.ok('begun', (more or c.more) and '1' or '0')
end
