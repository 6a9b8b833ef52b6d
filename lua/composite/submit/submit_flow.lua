-- Submitting a whole flow.

-- Bounds of one call; a larger graph comes in chunks.
local MAX_NODES_PER_CALL = 256
local MAX_EDGES_PER_CALL = 512
local RELEASED_PER_CALL = 256
local RELEASED_AT_A_TIME = 32

-- A waitpoint that is opened counts as so many nodes that are released.
local COST_OF_WAITPOINT = 4

-- Numbers of the call, converted before anything is written. Nil and the error reply when one is bad.
local function parse(A)
  local n = { nodes = {}, to_open = {} }
  A.ids = {}
  local err
  n.node_total, err = number.whole('node_total', A.node_total)
  if err then return nil, err end
  n.edge_total, err = number.whole('edge_total', A.edge_total)
  if err then return nil, err end
  n.deadline, err = number.optional('deadline', A.deadline, nil)
  if err then return nil, err end
  err = purge.check_retention(A.retention)
  if err then return nil, err end
  if not A.tags or not A.nodes or not A.edges then
    return nil, reply.err('invalid_input', 'the counts of tags, nodes and edges do not fit the arguments')
  end
  if #A.nodes > MAX_NODES_PER_CALL or #A.edges > MAX_EDGES_PER_CALL then
    return nil, reply.err('invalid_input', 'at most ' .. MAX_NODES_PER_CALL .. ' nodes and '
      .. MAX_EDGES_PER_CALL .. ' edges in one call')
  end
  for i, node in ipairs(A.nodes) do
    n.nodes[i], err = batch_writes.parse_node(node)
    if err then return nil, err end
    A.ids[i] = node.execution_id
    n.waits = n.waits or n.nodes[i].wait ~= nil
  end
  n.limits, err = limit_admission.parse(A)
  if err then return nil, err end
  n.joins, err = join_spec.parse(A, n.nodes)
  if err then return nil, err end
  -- One entry at most: all budgets of the flow, and the ids of those whose effect is to block.
  A.budget = A.budgets and A.budgets[1] or {}
  n.fire, err = schedule.parse_fire(A)
  if err then return nil, err end
  return n
end

-- Writes what the call brings: the flow when it is new, else its counts.
local function write_graph(c, flow_key, A, n, flow, held, known)
  local batch = batch_writes.new()
  local has_joins = next(n.joins) ~= nil or (flow and flow.joins) ~= nil
  if not flow then
    recovery.state(c) -- as long as there is nothing that would have to be gone through
    redis.call('SADD', key.index_flow_index(c), A.flow_id) -- first of all: see partial_submission.is_partial
  end
  local nodes, edges = graph_record.write(c, batch, A, n, held, known, has_joins)
  if not flow then
    run_record.write(c, batch, flow_key, A, n, held, nodes, edges)
    schedule.note_fire(c, n.fire, flow_key)
  end
  batch_writes.finish(c, batch)
  if not flow then return end
  if next(n.joins) then flow_record.set(flow_key, 'joins', '1') end
  if nodes > 0 then redis.call('HINCRBY', flow_key, 'node_count', nodes) end
  if edges > 0 then redis.call('HINCRBY', flow_key, 'edge_count', edges) end
  if nodes + edges > 0 then redis.call('HINCRBY', flow_key, 'graph_revision', nodes + edges) end
end

-- Removes the run that there is if it is only a part of one. Gives whether it was.
local function drop_partial(c, A)
  local found = partial_submission.is_partial(c, A.flow_id, true)
  if found then partial_submission.remove(c, A.flow_id, A.ids) end
  return found
end

-- Opens the waitpoints that nothing holds back.
local function open_waitpoints(c, A, n)
  for _, node in ipairs(n.to_open) do
    wait.open(c, node.execution_id, key.exec_core(c, node.execution_id),
      { flow_id = A.flow_id, managed = '1', node = node.name, lane_id = node.lane_id })
  end
end

-- Lets the roots of a chunked flow go, a bounded number per call. What depends on those that have ended meanwhile is told.
local function release_held(c, flow_key, A)
  local held_key = key.flow_held(c, A.flow_id)
  local left = RELEASED_PER_CALL
  while left > 0 do
    local ids = redis.call('SPOP', held_key, math.min(left, RELEASED_AT_A_TIME))
    if #ids == 0 then break end
    for _, execution_id in ipairs(ids) do
      local k = { core = key.exec_core(c, execution_id) }
      local core = record.read(k.core, dependency.CHILD_FIELDS)
      if core and core.eligibility_state == 'blocked_by_dependencies' then
        dependency.release(c, execution_id, k, core)
      elseif core and core.lifecycle_phase == 'terminal' then
        c.queue = c.queue or {}
        c.queue[#c.queue + 1] = { execution_id = execution_id, flow_id = A.flow_id, outcome = core.terminal_outcome }
      end
      left = left - (core and core.wait and COST_OF_WAITPOINT or 1)
    end
  end
  if redis.call('EXISTS', held_key) == 1 then
    c.more = true
  else
    redis.call('HDEL', flow_key, 'held', 'node_total')
    flow_record.forget(c)
  end
end

-- The call that releases a chunked flow brings nothing, and everything must be in. Nil, or the error reply.
local function check_complete(flow, A, n)
  if #A.nodes > 0 or #A.edges > 0 then
    return reply.err('invalid_input', 'the last call of a flow in chunks must bring no nodes or edges')
  end
  local nodes, edges = flow and flow.node_count or '0', flow and flow.edge_count or '0'
  if tonumber(nodes) ~= n.node_total or tonumber(edges) ~= n.edge_total then
    return reply.err('invalid_input', 'the flow has ' .. nodes .. ' of ' .. A.node_total .. ' nodes and '
      .. edges .. ' of ' .. A.edge_total .. ' edges')
  end
  return nil
end

-- @function ffx_submit_flow
-- @summary  Creates a flow with its executions and edges, or one chunk of a large one, and makes the roots
--           eligible once the last chunk is in. Nothing can be claimed before. Sent again it converges; another
--           graph or input under the same flow id is refused, and so is a node whose execution exists outside the
--           flow. All nodes must come before the first edge, a join with its node;
--           definition, input and tags are wanted with the first call only. `retention` is how long the run is kept
--           after its end (ms): one time for all outcomes, or four, for success, failed, cancelled and expired; a
--           negative time, and none, is for ever. Nodes with a `fair_key` take turns with those of other keys in their
--           lane. A run that a schedule starts brings the one fire that it is of: a fire creates one run at most, also when
--           that run has been purged (then the state is `purged`), and none after `start_before`.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      flow_name          text
-- @arg      run_id             text
-- @arg      namespace          text
-- @arg      graph_hash         text
-- @arg      input_hash         text
-- @arg      definition         bytes optional
-- @arg      input              bytes optional
-- @arg      result_execution_id execution_id optional
-- @arg      deadline           ms optional
-- @arg      creator_identity   text optional
-- @arg      trace_context      text optional
-- @arg      retention          csv optional
-- @arg      fair_key           text optional
-- @arg      node_total         int
-- @arg      edge_total         int
-- @arg      last               bool
-- @group    tags               name:text value:text
-- @group    nodes              execution_id:execution_id name:text kind:text lane_id:lane_id priority:int uses_flow_input:bool input_count:int upstream_count:int capabilities:csv policy:json tags:json delay:ms start_timeout:ms attempt_timeout:ms wait:json?
-- @group    edges              edge_id:edge_id upstream_execution_id:execution_id downstream_execution_id:execution_id dependency_kind:text input_name:text
-- @group    joins              execution_id:execution_id policy_variant:text on_satisfied:text k:int
-- @group    limits             execution_id:execution_id text:text quota_policy_id:text
-- @group    budgets            text:json blocking:csv
-- @group    fires              schedule_id:schedule_id name:text incarnation:text serial:int fire_at:unix_ms start_before:unix_ms
-- @group    parent             execution_id:text fail_fast:bool
-- @reply    OK state:text more:bool
-- @reply    ALREADY_SATISFIED state:text more:bool
-- @error    flow_purging
-- @error    fire_too_late start_before:unix_ms now:unix_ms
-- @error    flow_id_conflict what:text stored:text given:text
-- @error    invalid_input message:text
-- @error    set:signing
function F.ffx_submit_flow(K, A)
  local n, err = parse(A)
  if err then return err end
  local c = call.open(K.partition)
  local flow_key = key.flow_core(c, A.flow_id)
  local flow = record.read(flow_key, { 'graph_hash', 'input_hash', 'public_flow_state', 'held',
    'node_count', 'edge_count', 'joins', 'purging', 'priority',
    'parent_execution_id' }, true)
  if flow and flow.purging then return reply.err('flow_purging') end
  if flow and drop_partial(c, A) then flow = nil end
  if flow then
    err = batch_writes.check_same(flow, A)
    if err then return err end
    if not flow.held then return reply.already(flow.public_flow_state, '0') end
    if flow.priority then
      for _, numbers in ipairs(n.nodes) do numbers.priority = tonumber(flow.priority) or numbers.priority end
    end
  end
  if not flow and not is_set(A.definition) then
    return reply.err('invalid_input', 'the first call of a flow must bring its definition')
  end
  if not flow then
    err = schedule.refuse_fire(c, n.fire)
    if err then return err end
  end
  if n.waits then
    err = waitpoint_token.check_secret(key.waitpoint_secrets(c))
    if err then return err end
  end
  local whole = A.last == '1' and #A.nodes == n.node_total and #A.edges == n.edge_total
  if A.last == '1' and not whole then
    err = check_complete(flow, A, n)
    if err then return err end
    release_held(c, flow_key, A)
  else
    local known
    known, err = graph_record.known_nodes(c, A, not flow)
    if err then return err end
    write_graph(c, flow_key, A, n, flow, flow ~= nil or not whole, known)
    open_waitpoints(c, A, n)
    if flow and whole then release_held(c, flow_key, A) end
  end
  settle.run(c)
  return reply.ok('open', c.more and '1' or '0')
end
