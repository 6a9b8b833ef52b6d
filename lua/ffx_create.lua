-- The records of the nodes and edges of submitted flows. What a call creates is alike for the most part, so it writes the first record of a kind,
-- and the others are copies in which only what differs is set anew: to set all fields of a hash costs a multiple of that.

local NODE_NUMBERS = { 'input_count', 'upstream_count', 'delay', 'start_timeout', 'attempt_timeout', 'priority' }

-- What may not be different when a flow id is used again. Nil, or the error reply.
function create.check_same(flow, A)
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
function create.parse_node(node)
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

-- What the creating functions share within one call: members that enter indexes (see create.gather), and the first records
-- of their kind, from which others are copied.
function create.batch()
  return { nodes = {}, texts = {}, edges = {}, lanes = {} }
end

-- Members of sets and sorted sets are gathered, and written with one command for each key: `second` follows a score.
function create.gather(batch, command, target, first, second)
  local list = batch[target]
  if not list then
    list = { command = command, target = target }
    batch[target] = list
    batch[#batch + 1] = list
  end
  list[#list + 1] = first
  if second then list[#list + 1] = second end
end

local gather = create.gather

-- A text that is written at the end of the call, together with the others.
function create.text(batch, text_key, text)
  local texts = batch.texts
  local n = #texts
  texts[n + 1] = text_key
  texts[n + 2] = text
end

-- Texts of one command (bytes), roughly: what a command is given is copied before it is kept.
local TEXT_BYTES = 65536
local TEXTS_AT_A_TIME = 500

local function write_texts(texts)
  local from, bytes = 1, 0
  for i = 2, #texts, 2 do
    bytes = bytes + #texts[i]
    if i == #texts or bytes >= TEXT_BYTES or i - from >= TEXTS_AT_A_TIME then
      redis.call('MSET', unpack(texts, from, i))
      from, bytes = i + 1, 0
    end
  end
end

-- Writes what was gathered, at the end of a call.
function create.finish(c, batch)
  write_texts(batch.texts)
  create.finish_events(c, batch)
  for _, list in ipairs(batch) do call.chunked(list.command, list.target, list) end
  for lane in pairs(batch.lanes) do
    if redis.call('SADD', key.ffx_lanes(c), lane) == 1 then pauses.lane_added(c, lane) end
  end
end

-- A field goes with the others of a record unless it has no value.
function create.append(values, field, value)
  if is_set(value) and value ~= 0 then
    values[#values + 1] = field
    values[#values + 1] = value
  end
end

local append = create.append

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

-- What order.queue_for wants to know of an execution without a key.
local KEYLESS = {}

-- Puts a new node into the index that its state names: see hold.
function create.index_node(c, batch, A, node, execution_id, numbers, why)
  local lane = node.lane_id
  if why == 'dependencies' then
    gather(batch, 'ZADD', key.lane_blocked_dependencies(c, lane), c.now_text, execution_id)
    if numbers.upstream_count == 0 then gather(batch, 'SADD', key.flow_held(c, A.flow_id), execution_id) end
  elseif why == 'delay' then
    gather(batch, 'ZADD', key.lane_delayed(c, lane), c.now + numbers.delay, execution_id)
    wake.due(c, c.now + numbers.delay)
  elseif not numbers.wait then
    local score = c.now - numbers.priority * record.PRIORITY_STEP
    local queue_key = order.queue_for(c, lane, execution_id, is_set(A.fair_key) and A or KEYLESS)
    gather(batch, 'ZADD', key.lane_eligible(c, lane), score, execution_id)
    if queue_key then gather(batch, 'ZADD', queue_key, score, execution_id) end
    wake.eligible(c, lane, execution_id, numbers.priority)
    if numbers.start_timeout > 0 then graph.limit_start(c, execution_id, numbers.start_timeout) end
  end
end

-- The record of ff_create_execution and ff_add_execution_to_flow in one, without fields that have no value. A small hash is
-- searched from its beginning, so the fields that completions and claims read and write most often come first: those of the
-- first lease, too, which are empty until then and would otherwise be looked for to the end and added there. `onward` and
-- `onward_edge`: see graph.onward.
local function write_core(c, A, node, execution_id, numbers, onward, onward_edge, why, detail, has_limits)
  local eligibility, reason, text, public = create.state(why, detail)
  local further = {}
  append(further, 'required_capabilities', node.capabilities)
  append(further, 'wait', numbers.wait and '1' or '')
  append(further, 'start_timeout', numbers.start_timeout)
  append(further, 'attempt_timeout', numbers.attempt_timeout)
  if numbers.delay > 0 then append(further, 'delay_until', number.text(c.now + numbers.delay)) end
  append(further, 'blocking_detail', text)
  local uses_input = node.uses_flow_input == '1'
  local ordinary = #further == 0 and numbers.attempt_timeout == 0 and not has_limits
  local simple = ordinary and claim.simple_mark(uses_input, is_set(A.fair_key)) or ''
  append(further, 'budget_ids', A.budget.blocking)
  append(further, 'uses_flow_input', uses_input and '1' or '')
  if not numbers.wait then append(further, 'fair_key', A.fair_key) end
  redis.call('HSET', key.exec_core(c, execution_id),
    'lifecycle_phase', 'runnable',
    'ownership_state', 'unowned',
    'attempt_state', 'pending_first_attempt',
    'current_lease_id', '',
    'lease_expires_at', '',
    'current_worker_instance_id', '',
    'eligibility_state', eligibility,
    'simple', simple,
    'onward', onward,
    'onward_edge', onward_edge,
    'lane_id', node.lane_id,
    'flow_id', A.flow_id,
    'node', node.name,
    'current_lease_epoch', '0',
    'total_attempt_count', '0',
    'current_attempt_index', '',
    'current_attempt_id', '',
    'public_state', public,
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
    'current_worker_id', '',
    'terminal_outcome', 'none',
    'blocking_reason', reason,
    'lease_acquired_at', '',
    'started_at', '',
    'completed_at', '',
    'managed', '1',
    'current_lane', node.lane_id,
    'attached', numbers.attempt_timeout > 0 and '1' or '',
    'execution_kind', node.kind,
    'input_count', numbers.input_count,
    'created_at', c.now_text,
    'priority', numbers.priority,
    'retry_count', '0',
    'execution_id', execution_id,
    'namespace', A.namespace,
    'partition_id', call.partition(c),
    'creator_identity', is_set(A.creator_identity) and A.creator_identity or 'flow',
    'replay_count', '0',
    'lease_reclaim_count', '0',
    unpack(further))
end

-- Sets what differs in a copy of the first record of its kind and reason to wait. False when more differs.
local function write_copy(first, core_key, A, node, execution_id, numbers, onward, onward_edge)
  if first.fair_key ~= A.fair_key or is_set(first.budget_ids) ~= is_set(A.budget.blocking) then return false end
  local other, theirs = first.node, first.numbers
  local budget_ids = first.budget_ids ~= A.budget.blocking and { 'budget_ids', A.budget.blocking } or {}
  if node == other then
    redis.call('COPY', first.key, core_key)
    redis.call('HSET', core_key, 'flow_id', A.flow_id, 'execution_id', execution_id, 'onward', onward, 'onward_edge', onward_edge,
      unpack(budget_ids))
    return true
  end
  local alike = node.lane_id == other.lane_id and node.capabilities == other.capabilities
    and node.uses_flow_input == other.uses_flow_input
    and numbers.priority == theirs.priority and numbers.delay == theirs.delay
    and numbers.start_timeout == theirs.start_timeout and numbers.attempt_timeout == theirs.attempt_timeout
    and (numbers.upstream_count == 0) == (theirs.upstream_count == 0)
  if not alike then return false end
  redis.call('COPY', first.key, core_key)
  redis.call('HSET', core_key, 'flow_id', A.flow_id, 'node', node.name, 'input_count', numbers.input_count,
    'execution_id', execution_id, 'onward', onward, 'onward_edge', onward_edge, unpack(budget_ids))
  return true
end

-- What the limits of a node set in its record: a copy gets the same fields, and then its own values.
local function limit_fields(by_id, execution_id)
  local entry = by_id and by_id[execution_id]
  if not entry then return ' none ' end
  return is_set(entry.quota_policy_id) and ' quota ' or ' limits '
end

-- Creates one node. Gives why it may not run yet: see hold.
local function write_node(c, batch, A, node, execution_id, numbers, edge, held, by_id)
  local onward, onward_edge = graph.onward(edge, node.name)
  local why, detail = hold(c, numbers, held)
  local core_key = key.exec_core(c, execution_id)
  local kind = (why or 'ready') .. limit_fields(by_id, execution_id) .. node.kind
  local copied = not numbers.wait
  local first = copied and batch.nodes[kind]
  if not first or not write_copy(first, core_key, A, node, execution_id, numbers, onward, onward_edge) then
    write_core(c, A, node, execution_id, numbers, onward, onward_edge, why, detail, by_id and by_id[execution_id])
    if copied then batch.nodes[kind] = { key = core_key, node = node, numbers = numbers, fair_key = A.fair_key, budget_ids = A.budget.blocking } end
  end
  create.text(batch, key.exec_policy(c, execution_id), node.policy)
  if numbers.wait then redis.call('SET', key.exec_wait(c, execution_id), node.wait) end
  if is_set(node.tags) then
    local tags = record.tags_of(node.tags)
    if #tags > 0 then call.chunked('HSET', key.exec_tags(c, execution_id), tags) end
  end
  create.index_node(c, batch, A, node, execution_id, numbers, why)
  batch.lanes[node.lane_id] = true
  return why
end

-- The one edge that leaves an execution, for those that exactly one leaves and whose flow comes whole; false where more do.
local function single_edges(A)
  local single = {}
  for _, edge in ipairs(A.edges) do
    local upstream = edge.upstream_execution_id
    local other = single[upstream]
    if other == nil then
      single[upstream] = edge
    elseif other and other.edge_id ~= edge.edge_id then
      single[upstream] = false
    end
  end
  return single
end

-- Makes new executions members of their flow, and known to the partition.
function create.enter_members(c, batch, flow_id, ids)
  call.chunked('SADD', key.flow_members(c, flow_id), ids)
  local all_key = key.index_all_executions(c)
  for i = 1, #ids do gather(batch, 'SADD', all_key, ids[i]) end
end

-- Creates the nodes that are not `known`; `ids` are those of their executions, and `single` is what single_edges gives. Gives
-- those that it created, as a set, and how many they are.
local function write_nodes(c, batch, A, n, held, known, single)
  local created, ids = {}, {}
  for i, node in ipairs(A.nodes) do
    local execution_id = A.ids[i]
    if not known[execution_id] and not created[execution_id] then
      created[execution_id] = true
      ids[#ids + 1] = execution_id
      local why = write_node(c, batch, A, node, execution_id, n.nodes[i], single[execution_id], held, n.limits)
      if n.nodes[i].wait and not why then n.to_open[#n.to_open + 1] = node end
      if n.limits then limits.attach(c, execution_id, n.limits) end
      local join = n.joins[execution_id]
      if join then joins.write(c, key.flow_edgegroup(c, A.flow_id, execution_id), join) end
    end
  end
  create.enter_members(c, batch, A.flow_id, ids)
  return created, #ids
end

-- Writes the flow's and the child's record of an edge as copies of those of another one, from which fields with their values
-- are different.
function create.copy_edge(first, edge_key, dep_key, ...)
  redis.call('COPY', first.edge, edge_key, 'REPLACE')
  redis.call('HSET', edge_key, ...)
  redis.call('COPY', first.dep, dep_key, 'REPLACE')
  redis.call('HSET', dep_key, ...)
end

-- The records that a flow and a child have of a new edge.
local function write_edge(c, batch, A, edge)
  local flow_id, upstream_id, child_id = A.flow_id, edge.upstream_execution_id, edge.downstream_execution_id
  local edge_key, dep_key = key.flow_edge(c, flow_id, edge.edge_id), key.exec_dep(c, child_id, edge.edge_id)
  local first = batch.edges[edge.dependency_kind]
  if not first then
    graph.write_edge(c, edge_key, flow_id, edge)
    dependency.write_child_edge(c, dep_key, flow_id, child_id, edge)
    batch.edges[edge.dependency_kind] = {
      edge = edge_key, dep = dep_key, flow_id = flow_id, upstream_id = upstream_id, child_id = child_id,
      input_name = edge.input_name,
    }
    return
  end
  local changes = { 'edge_id', edge.edge_id }
  if first.flow_id ~= flow_id then append(changes, 'flow_id', flow_id) end
  if first.upstream_id ~= upstream_id then append(changes, 'upstream_execution_id', upstream_id) end
  if first.child_id ~= child_id then append(changes, 'downstream_execution_id', child_id) end
  if first.input_name ~= edge.input_name then
    changes[#changes + 1] = 'data_passing_ref'
    changes[#changes + 1] = edge.input_name
  end
  create.copy_edge(first, edge_key, dep_key, unpack(changes))
end

-- Edges that a new child has, entered into its lists.
function create.enter_child_edges(c, flow_id, child_id, edge_ids)
  call.chunked('SADD', key.flow_in(c, flow_id, child_id), edge_ids)
  call.chunked('SADD', key.exec_deps_unresolved(c, child_id), edge_ids)
  call.chunked('SADD', key.exec_deps_all_edges(c, child_id), edge_ids)
  redis.call('HSET', key.exec_deps_meta(c, child_id), 'unsatisfied_required_count', #edge_ids)
end

-- Edges of one child, told to the child and its join in one step. `is_new`: this call created the child.
local function write_child_counts(c, A, child_id, edge_ids, is_new, has_joins)
  if is_new then
    create.enter_child_edges(c, A.flow_id, child_id, edge_ids)
  else
    call.chunked('SADD', key.exec_deps_unresolved(c, child_id), edge_ids)
    call.chunked('SADD', key.exec_deps_all_edges(c, child_id), edge_ids)
    redis.call('HINCRBY', key.exec_deps_meta(c, child_id), 'unsatisfied_required_count', #edge_ids)
  end
  local g = has_joins and joins.of(c, A.flow_id, child_id)
  if g then joins.add_edges(g.key, g, #edge_ids) end
end

-- Members of one command.
local IDS_AT_A_TIME = 1000

-- Edges of a call by the child that they lead to, each once: a list of {child_id, edges, ids}.
local function edges_by_child(edges)
  local children, by_id, seen = {}, {}, {}
  for _, edge in ipairs(edges) do
    local child_id = edge.downstream_execution_id
    local child = by_id[child_id]
    if not child then
      child = { child_id = child_id, edges = {}, ids = {} }
      by_id[child_id] = child
      children[#children + 1] = child
    end
    if not seen[edge.edge_id] then
      seen[edge.edge_id] = true
      child.edges[#child.edges + 1] = edge
      child.ids[#child.ids + 1] = edge.edge_id
    end
  end
  return children
end

-- Enters the edges of a child that an earlier call has created, and leaves those in its lists that are new: all or none of
-- them, but for calls that were cut in another way before. An edge is known when it has a record.
local function enter_edges(c, A, child)
  local added, in_key = 0, key.flow_in(c, A.flow_id, child.child_id)
  for from = 1, #child.ids, IDS_AT_A_TIME do
    added = added + redis.call('SADD', in_key, unpack(child.ids, from, math.min(from + IDS_AT_A_TIME - 1, #child.ids)))
  end
  if added == #child.ids then return end
  local edges, ids = {}, {}
  for i = 1, added > 0 and #child.ids or 0 do
    if redis.call('EXISTS', key.flow_edge(c, A.flow_id, child.ids[i])) == 0 then
      edges[#edges + 1], ids[#ids + 1] = child.edges[i], child.ids[i]
    end
  end
  child.edges, child.ids = edges, ids
end

-- Writes the edges that are not known, and gives how many they are. Those that lead to a node that this call created
-- are new. `single`: see single_edges.
local function write_edges(c, batch, A, created, single, has_joins)
  local count = 0
  for _, child in ipairs(edges_by_child(A.edges)) do
    local child_id, is_new = child.child_id, created[child.child_id]
    if not is_new then enter_edges(c, A, child) end
    for _, edge in ipairs(child.edges) do
      local upstream_id = edge.upstream_execution_id
      local out_key = key.flow_out(c, A.flow_id, upstream_id)
      if single[upstream_id] then redis.call('SADD', out_key, edge.edge_id) else gather(batch, 'SADD', out_key, edge.edge_id) end
      write_edge(c, batch, A, edge)
    end
    if #child.ids > 0 then write_child_counts(c, A, child_id, child.ids, is_new, has_joins) end
    count = count + #child.ids
  end
  return count
end

-- An execution that is not a member of the flow is never written over: the ids of those that are, as a set, or nil and
-- the error reply. One command tells that all ids are new; only a call with known ones looks at each.
function create.known_nodes(c, A)
  local known, cores = {}, {}
  for i, execution_id in ipairs(A.ids) do cores[i] = key.exec_core(c, execution_id) end
  if #cores == 0 or redis.call('EXISTS', unpack(cores)) == 0 then return known end
  local members_key = key.flow_members(c, A.flow_id)
  for i, execution_id in ipairs(A.ids) do
    if redis.call('EXISTS', cores[i]) == 1 then
      if redis.call('SISMEMBER', members_key, execution_id) == 0 then
        return nil, reply.err('invalid_input', 'node ' .. A.nodes[i].name .. ': execution ' .. execution_id
          .. ' exists already and is not a member of the flow')
      end
      known[execution_id] = true
    end
  end
  return known
end

-- Writes the nodes and edges that a call brings for a flow and that are not known. Gives how many of each are new.
function create.graph(c, batch, A, n, held, known, has_joins)
  local single = held and {} or single_edges(A)
  local created, nodes = write_nodes(c, batch, A, n, held, known, single)
  return nodes, write_edges(c, batch, A, created, single, has_joins)
end
