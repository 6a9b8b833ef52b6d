-- Submitting a whole flow.

-- Bounds of one call; a larger graph comes in chunks.
local MAX_NODES_PER_CALL = 256
local MAX_EDGES_PER_CALL = 512
local RELEASED_PER_CALL = 256

local submit = {}

-- What may not be different when a flow id is used again. Nil, or the error reply.
local function check_same(flow, A)
  if flow.graph_hash ~= A.graph_hash then
    return reply.err('flow_id_conflict', 'graph', flow.graph_hash or '', A.graph_hash)
  elseif flow.input_hash ~= A.input_hash then
    return reply.err('flow_id_conflict', 'input', flow.input_hash or '', A.input_hash)
  end
  return nil
end

-- Numbers of the call, converted before anything is written. Nil and the error reply when one is bad.
local function parse(A)
  local n = { nodes = {} }
  local err
  n.node_total, err = number.whole('node_total', A.node_total)
  if err then return nil, err end
  n.edge_total, err = number.whole('edge_total', A.edge_total)
  if err then return nil, err end
  n.deadline, err = number.optional('deadline', A.deadline, nil)
  if err then return nil, err end
  err = flows.check_retention(A.retention)
  if err then return nil, err end
  if not A.tags or not A.nodes or not A.edges then
    return nil, reply.err('invalid_input', 'the counts of tags, nodes and edges do not fit the arguments')
  end
  if #A.nodes > MAX_NODES_PER_CALL or #A.edges > MAX_EDGES_PER_CALL then
    return nil, reply.err('invalid_input', 'at most ' .. MAX_NODES_PER_CALL .. ' nodes and '
      .. MAX_EDGES_PER_CALL .. ' edges in one call')
  end
  for i, node in ipairs(A.nodes) do
    local numbers = {}
    for _, name in ipairs({ 'input_count', 'upstream_count', 'delay', 'start_timeout', 'attempt_timeout' }) do
      numbers[name], err = number.whole('node ' .. (node.name or '') .. ': ' .. name, node[name])
      if err then return nil, err end
    end
    numbers.priority, err = number.priority('node ' .. (node.name or '') .. ': priority', node.priority)
    if err then return nil, err end
    n.nodes[i] = numbers
  end
  n.joins, err = joins.parse(A, n.nodes)
  if err then return nil, err end
  return n
end

local function append(values, field, value)
  if is_set(value) and value ~= 0 then
    values[#values + 1] = field
    values[#values + 1] = value
  end
end

-- Creates the flow record with the first chunk.
local function write_flow(c, flow_key, A, n, held)
  local values = {
    'flow_id', A.flow_id,
    'flow_kind', A.flow_name,
    'namespace', A.namespace,
    'managed', '1',
    'run_id', A.run_id,
    'graph_hash', A.graph_hash,
    'input_hash', A.input_hash,
    'graph_revision', '0',
    'node_count', '0',
    'edge_count', '0',
    'open_nodes', n.node_total,
    'public_flow_state', 'open',
    'created_at', c.now_text,
    'last_mutation_at', c.now_text,
  }
  append(values, 'held', held and '1' or '')
  append(values, 'result_execution_id', A.result_execution_id)
  if n.deadline then append(values, 'deadline_at', number.text(c.now + n.deadline)) end
  append(values, 'creator_identity', A.creator_identity)
  append(values, 'trace_context', A.trace_context)
  append(values, 'retention', A.retention)
  redis.call('HSET', flow_key, unpack(values))
  redis.call('SET', key.flow_definition(c, A.flow_id), A.definition)
  if is_set(A.input) then redis.call('SET', key.flow_input(c, A.flow_id), A.input) end
  local tags = {}
  for _, tag in ipairs(A.tags) do
    tags[#tags + 1] = tag.name
    tags[#tags + 1] = tag.value
  end
  if #tags > 0 then call.chunked('HSET', key.flow_tags(c, A.flow_id), tags) end
  redis.call('SADD', key.index_flow_index(c), A.flow_id)
  redis.call('ZADD', key.ffx_runs(c, A.flow_name), c.now, A.flow_id)
  if n.deadline then
    redis.call('ZADD', key.ffx_flow_deadlines(c), c.now + n.deadline, A.flow_id)
    wake.due(c, c.now + n.deadline)
  end
  graph.log(c, A.flow_id, 'flow_submitted')
end

-- Why a new node may not run yet: 'delay', 'dependencies' or nil, with the text for the record.
local function hold(c, numbers, held)
  if numbers.upstream_count > 0 then
    return 'dependencies', ''
  elseif held then
    return 'dependencies', 'held until the flow is submitted'
  elseif numbers.delay > 0 then
    return 'delay', 'delayed until ' .. number.text(c.now + numbers.delay)
  end
  return nil, ''
end

-- Creates one node and puts it into the index that its state names.
local function write_node(c, A, node, numbers, held)
  local why, detail = hold(c, numbers, held)
  local values = create.fields(c, {
    execution_id = node.execution_id, namespace = A.namespace, lane_id = node.lane_id, kind = node.kind,
    priority = numbers.priority, creator_identity = is_set(A.creator_identity) and A.creator_identity or 'flow',
    partition_id = call.partition(c), held = why, detail = detail,
  })
  values[#values + 1] = 'flow_id'
  values[#values + 1] = A.flow_id
  values[#values + 1] = 'managed'
  values[#values + 1] = '1'
  values[#values + 1] = 'node'
  values[#values + 1] = node.name
  append(values, 'required_capabilities', node.capabilities)
  append(values, 'input_count', numbers.input_count)
  append(values, 'uses_flow_input', node.uses_flow_input == '1' and '1' or '')
  append(values, 'start_timeout', numbers.start_timeout)
  append(values, 'attempt_timeout', numbers.attempt_timeout)
  append(values, 'attached', numbers.attempt_timeout > 0 and '1' or '')
  if numbers.delay > 0 then append(values, 'delay_until', number.text(c.now + numbers.delay)) end
  redis.call('HSET', key.exec_core(c, node.execution_id), unpack(values))
  redis.call('SET', key.exec_policy(c, node.execution_id), node.policy)
  local tags = record.tags_of(node.tags)
  if #tags > 0 then call.chunked('HSET', key.exec_tags(c, node.execution_id), tags) end
  redis.call('SADD', key.index_all_executions(c), node.execution_id)
  if why == 'dependencies' then
    redis.call('ZADD', key.lane_blocked_dependencies(c, node.lane_id), c.now, node.execution_id)
    if numbers.upstream_count == 0 then redis.call('SADD', key.flow_held(c, A.flow_id), node.execution_id) end
  elseif why == 'delay' then
    redis.call('ZADD', key.lane_delayed(c, node.lane_id), c.now + numbers.delay, node.execution_id)
    wake.due(c, c.now + numbers.delay)
  else
    redis.call('ZADD', key.lane_eligible(c, node.lane_id),
      record.eligible_score({ created_at = c.now, priority = numbers.priority }), node.execution_id)
    graph.became_eligible(c, node.execution_id,
      { priority = numbers.priority, start_timeout = numbers.start_timeout > 0 and numbers.start_timeout or nil },
      node.lane_id)
  end
end

-- An execution that is not a member of the flow is never written over: nil, or the error reply. One command tells that
-- all ids are new; only a call with known ones looks at each.
local function check_new(c, A)
  local cores = {}
  for i, node in ipairs(A.nodes) do cores[i] = key.exec_core(c, node.execution_id) end
  if #cores == 0 or redis.call('EXISTS', unpack(cores)) == 0 then return nil end
  local members_key = key.flow_members(c, A.flow_id)
  for i, node in ipairs(A.nodes) do
    if redis.call('EXISTS', cores[i]) == 1 and redis.call('SISMEMBER', members_key, node.execution_id) == 0 then
      return reply.err('invalid_input', 'node ' .. node.name .. ': execution ' .. node.execution_id
        .. ' exists already and is not a member of the flow')
    end
  end
  return nil
end

local function write_nodes(c, flow_key, A, n, held)
  local members_key = key.flow_members(c, A.flow_id)
  local added, lanes = 0, {}
  for i, node in ipairs(A.nodes) do
    if redis.call('SADD', members_key, node.execution_id) == 1 then
      write_node(c, A, node, n.nodes[i], held)
      local join = n.joins[node.execution_id]
      if join then joins.write(c, key.flow_edgegroup(c, A.flow_id, node.execution_id), join) end
      added = added + 1
      lanes[node.lane_id] = true
    end
  end
  for lane in pairs(lanes) do
    if redis.call('SADD', key.ffx_lanes(c), lane) == 1 then pauses.lane_added(c, lane) end
  end
  if next(n.joins) then redis.call('HSET', flow_key, 'joins', '1') end
  if added > 0 then
    redis.call('HINCRBY', flow_key, 'node_count', added)
    redis.call('HINCRBY', flow_key, 'graph_revision', added)
  end
end

-- Edges of one child, told to the child and its join in one step.
local function write_child_counts(c, A, child_id, edge_ids, has_joins)
  call.chunked('SADD', key.exec_deps_unresolved(c, child_id), edge_ids)
  call.chunked('SADD', key.exec_deps_all_edges(c, child_id), edge_ids)
  local meta = key.exec_deps_meta(c, child_id)
  redis.call('HINCRBY', meta, 'unsatisfied_required_count', #edge_ids)
  redis.call('HSET', meta, 'flow_id', A.flow_id, 'last_dependency_update_at', c.now_text)
  local g = has_joins and joins.of(c, A.flow_id, child_id)
  if g then joins.add_edges(g.key, g, #edge_ids) end
end

local function write_edges(c, flow_key, A, has_joins)
  local added, children, by_child = 0, {}, {}
  for _, edge in ipairs(A.edges) do
    local child_id = edge.downstream_execution_id
    if redis.call('SADD', key.flow_in(c, A.flow_id, child_id), edge.edge_id) == 1 then
      redis.call('SADD', key.flow_out(c, A.flow_id, edge.upstream_execution_id), edge.edge_id)
      graph.write_edge(c, key.flow_edge(c, A.flow_id, edge.edge_id), A.flow_id, edge)
      dependency.write_child_edge(c, key.exec_dep(c, child_id, edge.edge_id), A.flow_id, child_id, edge)
      if not by_child[child_id] then
        by_child[child_id] = {}
        children[#children + 1] = child_id
      end
      table.insert(by_child[child_id], edge.edge_id)
      added = added + 1
    end
  end
  for _, child_id in ipairs(children) do write_child_counts(c, A, child_id, by_child[child_id], has_joins) end
  if added > 0 then
    redis.call('HINCRBY', flow_key, 'edge_count', added)
    redis.call('HINCRBY', flow_key, 'graph_revision', added)
  end
end

-- Lets the roots of a chunked flow go, a bounded number per call.
local function release_held(c, flow_key, A)
  local held_key = key.flow_held(c, A.flow_id)
  for _, execution_id in ipairs(redis.call('SPOP', held_key, RELEASED_PER_CALL)) do
    local k = { core = key.exec_core(c, execution_id) }
    local core = record.read(k.core, dependency.CHILD_FIELDS)
    if core and core.eligibility_state == 'blocked_by_dependencies' then
      dependency.release(c, execution_id, k, core)
    end
  end
  if redis.call('EXISTS', held_key) == 1 then
    c.more = true
  else
    redis.call('HDEL', flow_key, 'held')
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
--           negative time, and none, is for ever.
-- @flags    derives repeatable
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
-- @arg      node_total         int
-- @arg      edge_total         int
-- @arg      last               bool
-- @group    tags               name:text value:text
-- @group    nodes              execution_id:execution_id name:text kind:text lane_id:lane_id priority:int uses_flow_input:bool input_count:int upstream_count:int capabilities:csv policy:json tags:json delay:ms start_timeout:ms attempt_timeout:ms
-- @group    edges              edge_id:edge_id upstream_execution_id:execution_id downstream_execution_id:execution_id dependency_kind:text input_name:text
-- @group    joins              execution_id:execution_id policy_variant:text on_satisfied:text k:int
-- @reply    OK state:text more:bool
-- @reply    ALREADY_SATISFIED state:text more:bool
-- @error    flow_purging
-- @error    flow_id_conflict what:text stored:text given:text
-- @error    invalid_input message:text
function F.ffx_submit_flow(K, A)
  local n, err = parse(A)
  if err then return err end
  local c = call.open(K.partition)
  local flow_key = key.flow_core(c, A.flow_id)
  local flow = record.read(flow_key, { 'graph_hash', 'input_hash', 'public_flow_state', 'held',
    'node_count', 'edge_count', 'joins', 'purging' })
  if flow then
    if flow.purging then return reply.err('flow_purging') end
    err = check_same(flow, A)
    if err then return err end
    if not flow.held then return reply.already(flow.public_flow_state, '0') end
  end
  if not flow and not is_set(A.definition) then
    return reply.err('invalid_input', 'the first call of a flow must bring its definition')
  end
  local whole = A.last == '1' and #A.nodes == n.node_total and #A.edges == n.edge_total
  if A.last == '1' and not whole then
    err = check_complete(flow, A, n)
    if err then return err end
    release_held(c, flow_key, A)
  else
    err = check_new(c, A)
    if err then return err end
    if not flow then write_flow(c, flow_key, A, n, not whole) end
    write_nodes(c, flow_key, A, n, flow ~= nil or not whole)
    write_edges(c, flow_key, A, next(n.joins) or flow and flow.joins)
    if flow and whole then release_held(c, flow_key, A) end
  end
  wake.flush(c)
  return reply.ok('open', c.more and '1' or '0')
end
