-- Submitting a whole flow.

-- Bounds of one call; a larger graph comes in chunks.
local MAX_NODES_PER_CALL = 256
local MAX_EDGES_PER_CALL = 512
local RELEASED_PER_CALL = 256
local RELEASED_AT_A_TIME = 32

-- A waitpoint that is opened counts as so many nodes that are released.
local COST_OF_WAITPOINT = 4

local NODE_NUMBERS = { 'input_count', 'upstream_count', 'delay', 'start_timeout', 'attempt_timeout', 'priority' }

-- Members of sets and sorted sets are gathered, and written with one command for each key: `second` follows a score.
local function gather(batch, command, target, first, second)
  local list = batch[target]
  if not list then
    list = { command = command, target = target }
    batch[target] = list
    batch[#batch + 1] = list
  end
  list[#list + 1] = first
  if second then list[#list + 1] = second end
end

local function write_gathered(batch)
  for _, list in ipairs(batch) do call.chunked(list.command, list.target, list) end
end

-- What may not be different when a flow id is used again. Nil, or the error reply.
local function check_same(flow, A)
  if flow.graph_hash ~= A.graph_hash then
    return reply.err('flow_id_conflict', 'graph', flow.graph_hash or '', A.graph_hash)
  elseif flow.input_hash ~= A.input_hash then
    return reply.err('flow_id_conflict', 'input', flow.input_hash or '', A.input_hash)
  end
  local parent = A.parent and A.parent[1]
  if parent and flow.parent_execution_id ~= parent.execution_id then
    return reply.err('flow_id_conflict', 'parent', flow.parent_execution_id or '', parent.execution_id)
  end
  return nil
end

-- Numbers of a node, or nil and the error reply.
local function parse_node(node)
  local numbers = {
    input_count = number.whole('', node.input_count),
    upstream_count = number.whole('', node.upstream_count),
    delay = number.whole('', node.delay),
    start_timeout = number.whole('', node.start_timeout),
    attempt_timeout = number.whole('', node.attempt_timeout),
    priority = number.priority('', node.priority),
  }
  for _, name in ipairs(NODE_NUMBERS) do
    if not numbers[name] then return nil, number.refuse('node ' .. (node.name or '') .. ': ' .. name, node[name]) end
  end
  if is_set(node.wait) then
    local err
    numbers.wait, err = waits.parse_node('node ' .. (node.name or ''), node.wait)
    if err then return nil, err end
  end
  return numbers
end

-- Numbers of the call, converted before anything is written. Nil and the error reply when one is bad.
local function parse(A)
  local n = { nodes = {}, to_open = {} }
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
    n.nodes[i], err = parse_node(node)
    if err then return nil, err end
    n.waits = n.waits or n.nodes[i].wait ~= nil
  end
  n.limits, err = limits.parse(A)
  if err then return nil, err end
  n.joins, err = joins.parse(A, n.nodes)
  if err then return nil, err end
  -- One entry at most: all budgets of the flow, and the ids of those whose effect is to block.
  n.budgets = A.budgets and A.budgets[1] or {}
  for i = 1, #n.nodes do n.nodes[i].budget_ids = n.budgets.blocking end
  n.fire, err = schedules.parse_fire(A)
  if err then return nil, err end
  return n
end

local function append(values, field, value)
  if is_set(value) and value ~= 0 then
    values[#values + 1] = field
    values[#values + 1] = value
  end
end

-- Creates the flow record with the first chunk; `added` holds the counts of its nodes and edges.
local function write_flow(c, flow_key, A, n, held, added)
  local values = {
    'flow_id', A.flow_id,
    'flow_kind', A.flow_name,
    'namespace', A.namespace,
    'managed', '1',
    'run_id', A.run_id,
    'graph_hash', A.graph_hash,
    'input_hash', A.input_hash,
    'graph_revision', added.nodes + added.edges,
    'node_count', added.nodes,
    'edge_count', added.edges,
    'open_nodes', n.node_total,
    'public_flow_state', 'open',
    'created_at', c.now_text,
    'last_mutation_at', c.now_text,
  }
  append(values, 'held', held and '1' or '')
  append(values, 'node_total', held and n.node_total or 0)
  append(values, 'joins', next(n.joins) and '1' or '')
  append(values, 'result_execution_id', A.result_execution_id)
  if n.deadline then append(values, 'deadline_at', number.text(c.now + n.deadline)) end
  append(values, 'creator_identity', A.creator_identity)
  local parent = A.parent and A.parent[1]
  if parent then
    append(values, 'parent_execution_id', parent.execution_id)
    append(values, 'fail_fast', parent.fail_fast == '1' and '1' or '')
    children.born(c, A.flow_id)
  end
  append(values, 'trace_context', A.trace_context)
  append(values, 'retention', A.retention)
  append(values, 'fair_key', A.fair_key)
  append(values, 'budgets', n.budgets.text)
  append(values, 'budget_ids', n.budgets.blocking)
  redis.call('HSET', flow_key, unpack(values))
  schedules.note_fire(c, n.fire, flow_key)
  redis.call('SET', key.flow_definition(c, A.flow_id), A.definition)
  if is_set(A.input) then redis.call('SET', key.flow_input(c, A.flow_id), A.input) end
  local tags = {}
  for _, tag in ipairs(A.tags) do
    tags[#tags + 1] = tag.name
    tags[#tags + 1] = tag.value
  end
  if #tags > 0 then call.chunked('HSET', key.flow_tags(c, A.flow_id), tags) end
  redis.call('SADD', key.index_flow_index(c), A.flow_id)
  flows.list_run(c, A.flow_id, A.flow_name, tags)
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

-- Puts a new node into the index that its state names: see hold.
local function index_node(c, batch, A, node, numbers, why)
  local execution_id, lane = node.execution_id, node.lane_id
  if why == 'dependencies' then
    gather(batch, 'ZADD', key.lane_blocked_dependencies(c, lane), c.now_text, execution_id)
    if numbers.upstream_count == 0 then gather(batch, 'SADD', key.flow_held(c, A.flow_id), execution_id) end
  elseif why == 'delay' then
    gather(batch, 'ZADD', key.lane_delayed(c, lane), c.now + numbers.delay, execution_id)
    wake.due(c, c.now + numbers.delay)
  elseif not numbers.wait then
    local score = record.eligible_score({ created_at = c.now, priority = numbers.priority })
    local queue_key = order.queue_for(c, lane, execution_id, { fair_key = is_set(A.fair_key) and A.fair_key or nil })
    gather(batch, 'ZADD', key.lane_eligible(c, lane), score, execution_id)
    if queue_key then gather(batch, 'ZADD', queue_key, score, execution_id) end
    graph.became_eligible(c, execution_id,
      { priority = numbers.priority, start_timeout = numbers.start_timeout > 0 and numbers.start_timeout or nil }, lane)
  end
end

-- Creates one node: the record of ff_create_execution and ff_add_execution_to_flow in one, without fields that have no
-- value. A small hash is searched from its beginning, so the fields that completions and claims read come first. Gives why
-- the node may not run yet: see hold.
local function write_node(c, batch, A, node, numbers, held, has_limits)
  local why, detail = hold(c, numbers, held)
  local eligibility, reason, text, public = create.state(why, detail)
  local further = {}
  append(further, 'required_capabilities', node.capabilities)
  append(further, 'wait', numbers.wait and '1' or '')
  append(further, 'start_timeout', numbers.start_timeout)
  append(further, 'attempt_timeout', numbers.attempt_timeout)
  append(further, 'attached', numbers.attempt_timeout > 0 and '1' or '')
  append(further, 'budget_ids', numbers.budget_ids)
  if numbers.delay > 0 then append(further, 'delay_until', number.text(c.now + numbers.delay)) end
  local uses_input = node.uses_flow_input == '1'
  local simple = (#further > 0 or has_limits) and '' or uses_input and 'input' or '1'
  append(further, 'uses_flow_input', uses_input and '1' or '')
  append(further, 'blocking_detail', text)
  if not numbers.wait then append(further, 'fair_key', A.fair_key) end
  redis.call('HSET', key.exec_core(c, node.execution_id),
    'lifecycle_phase', 'runnable',
    'ownership_state', 'unowned',
    'eligibility_state', eligibility,
    'attempt_state', 'pending_first_attempt',
    'terminal_outcome', 'none',
    'simple', simple,
    'lane_id', node.lane_id,
    'managed', '1',
    'flow_id', A.flow_id,
    'node', node.name,
    'current_lease_epoch', '0',
    'total_attempt_count', '0',
    'current_lane', node.lane_id,
    'execution_kind', node.kind,
    'input_count', numbers.input_count,
    'created_at', c.now_text,
    'priority', numbers.priority,
    'retry_count', '0',
    'blocking_reason', reason,
    'public_state', public,
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
    'execution_id', node.execution_id,
    'namespace', A.namespace,
    'partition_id', call.partition(c),
    'creator_identity', is_set(A.creator_identity) and A.creator_identity or 'flow',
    'replay_count', '0',
    'lease_reclaim_count', '0',
    unpack(further))
  redis.call('SET', key.exec_policy(c, node.execution_id), node.policy)
  if numbers.wait then redis.call('SET', key.exec_wait(c, node.execution_id), node.wait) end
  local tags = record.tags_of(node.tags)
  if #tags > 0 then call.chunked('HSET', key.exec_tags(c, node.execution_id), tags) end
  index_node(c, batch, A, node, numbers, why)
  return why
end

-- An execution that is not a member of the flow is never written over: the ids of those that are, as a set, or nil and
-- the error reply. One command tells that all ids are new; only a call with known ones looks at each.
local function known_nodes(c, A)
  local known, cores = {}, {}
  for i, node in ipairs(A.nodes) do cores[i] = key.exec_core(c, node.execution_id) end
  if #cores == 0 or redis.call('EXISTS', unpack(cores)) == 0 then return known end
  local members_key = key.flow_members(c, A.flow_id)
  for i, node in ipairs(A.nodes) do
    if redis.call('EXISTS', cores[i]) == 1 then
      if redis.call('SISMEMBER', members_key, node.execution_id) == 0 then
        return nil, reply.err('invalid_input', 'node ' .. node.name .. ': execution ' .. node.execution_id
          .. ' exists already and is not a member of the flow')
      end
      known[node.execution_id] = true
    end
  end
  return known
end

-- Creates the nodes that are not `known`. Gives those that it created, as a set, and how many they are.
local function write_nodes(c, A, n, held, known)
  local batch, created, lanes, count = {}, {}, {}, 0
  for i, node in ipairs(A.nodes) do
    local execution_id = node.execution_id
    if not known[execution_id] and not created[execution_id] then
      created[execution_id] = true
      count = count + 1
      local why = write_node(c, batch, A, node, n.nodes[i], held, n.limits ~= nil)
      if n.nodes[i].wait and not why then n.to_open[#n.to_open + 1] = node end
      if n.limits then limits.attach(c, execution_id, n.limits) end
      local join = n.joins[execution_id]
      if join then joins.write(c, key.flow_edgegroup(c, A.flow_id, execution_id), join) end
      gather(batch, 'SADD', key.flow_members(c, A.flow_id), execution_id)
      gather(batch, 'SADD', key.index_all_executions(c), execution_id)
      lanes[node.lane_id] = true
    end
  end
  write_gathered(batch)
  for lane in pairs(lanes) do
    if redis.call('SADD', key.ffx_lanes(c), lane) == 1 then pauses.lane_added(c, lane) end
  end
  return created, count
end

-- Edges of one child, told to the child and its join in one step. `is_new`: this call created the child.
local function write_child_counts(c, A, child_id, edge_ids, is_new, has_joins)
  call.chunked('SADD', key.exec_deps_unresolved(c, child_id), edge_ids)
  call.chunked('SADD', key.exec_deps_all_edges(c, child_id), edge_ids)
  local count = #edge_ids
  local meta = key.exec_deps_meta(c, child_id)
  if not is_new then count = redis.call('HINCRBY', meta, 'unsatisfied_required_count', count) end
  if is_new then redis.call('HSET', meta, 'unsatisfied_required_count', count) end
  local g = has_joins and joins.of(c, A.flow_id, child_id)
  if g then joins.add_edges(g.key, g, #edge_ids) end
end

-- Writes the edges that are not known, and gives how many they are. Those that lead to a node that this call created
-- are new, unless they come twice.
local function write_edges(c, A, created, has_joins)
  local batch, children, by_child, seen, count = {}, {}, {}, {}, 0
  for _, edge in ipairs(A.edges) do
    local edge_id, child_id = edge.edge_id, edge.downstream_execution_id
    local in_key = key.flow_in(c, A.flow_id, child_id)
    local is_new = not seen[edge_id]
    seen[edge_id] = true
    if created[child_id] then
      if is_new then gather(batch, 'SADD', in_key, edge_id) end
    else
      is_new = redis.call('SADD', in_key, edge_id) == 1
    end
    if is_new then
      gather(batch, 'SADD', key.flow_out(c, A.flow_id, edge.upstream_execution_id), edge_id)
      graph.write_edge(c, key.flow_edge(c, A.flow_id, edge_id), A.flow_id, edge)
      dependency.write_child_edge(c, key.exec_dep(c, child_id, edge_id), A.flow_id, child_id, edge)
      local edge_ids = by_child[child_id]
      if not edge_ids then
        edge_ids = {}
        by_child[child_id] = edge_ids
        children[#children + 1] = child_id
      end
      edge_ids[#edge_ids + 1] = edge_id
      count = count + 1
    end
  end
  write_gathered(batch)
  for _, child_id in ipairs(children) do
    write_child_counts(c, A, child_id, by_child[child_id], created[child_id], has_joins)
  end
  return count
end

-- Writes what the call brings: the flow when it is new, else its counts.
local function write_graph(c, flow_key, A, n, flow, held, known)
  local has_joins = next(n.joins) ~= nil or (flow and flow.joins) ~= nil
  local created, nodes = write_nodes(c, A, n, held, known)
  local edges = write_edges(c, A, created, has_joins)
  if not flow then
    write_flow(c, flow_key, A, n, held, { nodes = nodes, edges = edges })
    return
  end
  if next(n.joins) then redis.call('HSET', flow_key, 'joins', '1') end
  if nodes > 0 then redis.call('HINCRBY', flow_key, 'node_count', nodes) end
  if edges > 0 then redis.call('HINCRBY', flow_key, 'edge_count', edges) end
  if nodes + edges > 0 then redis.call('HINCRBY', flow_key, 'graph_revision', nodes + edges) end
end

-- Opens the waitpoints that nothing holds back.
local function open_waitpoints(c, A, n)
  for _, node in ipairs(n.to_open) do
    waits.open(c, node.execution_id, key.exec_core(c, node.execution_id),
      { flow_id = A.flow_id, managed = '1', node = node.name, lane_id = node.lane_id })
  end
end

-- Lets the roots of a chunked flow go, a bounded number per call.
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
      end
      left = left - (core and core.wait and COST_OF_WAITPOINT or 1)
    end
  end
  if redis.call('EXISTS', held_key) == 1 then
    c.more = true
  else
    redis.call('HDEL', flow_key, 'held', 'node_total')
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
  if flow then
    if flow.purging then return reply.err('flow_purging') end
    err = check_same(flow, A)
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
    err = schedules.refuse_fire(c, n.fire)
    if err then return err end
  end
  if n.waits then
    err = token.check_secret(key.waitpoint_secrets(c))
    if err then return err end
  end
  local whole = A.last == '1' and #A.nodes == n.node_total and #A.edges == n.edge_total
  if A.last == '1' and not whole then
    err = check_complete(flow, A, n)
    if err then return err end
    release_held(c, flow_key, A)
  else
    local known
    known, err = known_nodes(c, A)
    if err then return err end
    write_graph(c, flow_key, A, n, flow, flow ~= nil or not whole, known)
    open_waitpoints(c, A, n)
    if flow and whole then release_held(c, flow_key, A) end
  end
  graph.settle(c)
  return reply.ok('open', c.more and '1' or '0')
end
