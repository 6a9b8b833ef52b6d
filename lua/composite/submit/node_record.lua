-- The records of the nodes of submitted flows.

local append, gather = record.append, batch_writes.gather

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

-- Where a new node stands in the eligible set of its lane.
function node_record.score(c, numbers)
  return c.now - numbers.priority * record.PRIORITY_STEP
end

-- Puts a new node into the index that its state names: see hold.
function node_record.index(c, batch, A, node, execution_id, numbers, why)
  local lane = node.lane_id
  if why == 'dependencies' then
    gather(batch, 'ZADD', key.lane_blocked_dependencies(c, lane), c.now_text, execution_id)
    if numbers.upstream_count == 0 then gather(batch, 'SADD', key.flow_held(c, A.flow_id), execution_id) end
  elseif why == 'delay' then
    gather(batch, 'ZADD', key.lane_delayed(c, lane), c.now + numbers.delay, execution_id)
    wake.due(c, c.now + numbers.delay)
  elseif not numbers.wait then
    local score = node_record.score(c, numbers)
    local queue_key = order.queue_for(c, lane, execution_id, is_set(A.fair_key) and A or KEYLESS)
    gather(batch, 'ZADD', key.lane_eligible(c, lane), score, execution_id)
    if queue_key then gather(batch, 'ZADD', queue_key, score, execution_id) end
    wake.eligible(c, lane, execution_id, numbers.priority)
    if numbers.start_timeout > 0 then order.limit_start(c, execution_id, numbers.start_timeout) end
  end
end

-- The record of ff_create_execution and ff_add_execution_to_flow in one, without fields that have no value. A small hash is
-- searched from its beginning, so the fields that completions and claims read and write most often come first: those of the
-- first lease, too, which are empty until then and would otherwise be looked for to the end and added there. `onward` and
-- `onward_edge`: see propagate.onward.
local function write_core(c, core_key, A, node, execution_id, numbers, onward, onward_edge, why, detail, has_limits)
  local eligibility, reason, text, public = create.state(why, detail)
  local further = {}
  append(further, 'required_capabilities', node.capabilities)
  append(further, 'wait', numbers.wait and '1' or '')
  append(further, 'start_timeout', numbers.start_timeout)
  if numbers.delay > 0 then append(further, 'delay_until', number.text(c.now + numbers.delay)) end
  append(further, 'blocking_detail', text)
  local uses_input, is_timed = node.uses_flow_input == '1', numbers.attempt_timeout > 0
  local ordinary = #further == 0 and not has_limits
  local simple = ordinary and claim.simple_mark(uses_input, is_set(A.fair_key), is_timed) or ''
  append(further, 'attempt_timeout', numbers.attempt_timeout)
  append(further, 'budget_ids', A.budget.blocking)
  append(further, 'uses_flow_input', uses_input and '1' or '')
  if not numbers.wait then append(further, 'fair_key', A.fair_key) end
  redis.call('HSET', core_key,
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
    'attached', is_timed and lease.TIMED or '',
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

-- Whether a node's record is that of another one, or can be after a few fields of a copy are set anew.
local function is_like(first, A, node, numbers)
  if first.fair_key ~= A.fair_key or is_set(first.budget_ids) ~= is_set(A.budget.blocking) then return false end
  local other, theirs = first.node, first.numbers
  return node == other or node.lane_id == other.lane_id and node.capabilities == other.capabilities
    and node.uses_flow_input == other.uses_flow_input
    and numbers.priority == theirs.priority and numbers.delay == theirs.delay
    and numbers.start_timeout == theirs.start_timeout and numbers.attempt_timeout == theirs.attempt_timeout
    and (numbers.upstream_count == 0) == (theirs.upstream_count == 0)
end

-- Writes the record of a node as a copy of the first one of the call that it is like: one of the same run, or of another.
local function write_copy(first, core_key, A, node, execution_id, numbers, onward, onward_edge)
  redis.call('COPY', first.key, core_key)
  if first.flow_id == A.flow_id and first.numbers.input_count == numbers.input_count then
    redis.call('HSET', core_key, 'onward', onward, 'onward_edge', onward_edge, 'node', node.name, 'execution_id', execution_id)
    return
  end
  local budget_ids = first.budget_ids ~= A.budget.blocking and { 'budget_ids', A.budget.blocking } or {}
  redis.call('HSET', core_key, 'onward', onward, 'onward_edge', onward_edge, 'flow_id', A.flow_id, 'node', node.name,
    'input_count', numbers.input_count, 'execution_id', execution_id, unpack(budget_ids))
end

-- Records as DUMP gives them are kept from call to call, at most so many (1 KB each): to restore one and set anew what differs
-- is a third of the work of setting all fields. Only the interpreter knows of them. Where nobody may dump or restore, all
-- fields are set.
local MAX_KEPT = 128
local kept, kept_count, may_keep = {}, 0, true

-- Under which name the record of an ordinary node is kept: nil for nodes with what few have.
local function name_to_keep(kind, A, node, numbers)
  if not may_keep or numbers.wait or numbers.delay > 0 or is_set(A.fair_key) or is_set(A.budget.blocking) then return nil end
  return kind .. ' ' .. node.lane_id .. ' ' .. node.uses_flow_input .. ' ' .. node.priority .. ' ' .. node.start_timeout .. ' '
    .. node.attempt_timeout .. ' ' .. node.capabilities
end

-- Keeps a record that has just been written.
local function keep(name, core_key, A, node, numbers)
  if not may_keep then return end
  local dump = redis.pcall('DUMP', core_key)
  may_keep = type(dump) == 'string'
  if not may_keep then return end
  if kept_count >= MAX_KEPT then kept, kept_count = {}, 0 end
  if not kept[name] then kept_count = kept_count + 1 end
  kept[name] = {
    dump = dump, numbers = numbers, fair_key = A.fair_key, budget_ids = A.budget.blocking,
    namespace = A.namespace, creator_identity = A.creator_identity,
    node = { lane_id = node.lane_id, capabilities = node.capabilities, uses_flow_input = node.uses_flow_input },
  }
end

-- Writes the record of a node as another call wrote that of one like it. Gives whether it has.
local function write_kept(c, name, core_key, A, node, execution_id, numbers, onward, onward_edge)
  local first = kept[name]
  if not first or first.namespace ~= A.namespace or first.creator_identity ~= A.creator_identity
    or not is_like(first, A, node, numbers) then
    return false
  end
  if redis.pcall('RESTORE', core_key, '0', first.dump).err then
    may_keep = false
    return false
  end
  redis.call('HSET', core_key, 'onward', onward, 'onward_edge', onward_edge, 'flow_id', A.flow_id, 'node', node.name,
    'last_transition_at', c.now_text, 'last_mutation_at', c.now_text, 'input_count', numbers.input_count,
    'created_at', c.now_text, 'execution_id', execution_id, 'partition_id', call.partition(c))
  return true
end

-- What the limits of a node set in its record: a copy gets the same fields, and then its own values.
local function limit_fields(by_id, execution_id)
  local entry = by_id and by_id[execution_id]
  if not entry then return ' none ' end
  return is_set(entry.quota_policy_id) and ' quota ' or ' limits '
end

-- Creates one node. Gives why it may not run yet: see hold.
function node_record.write(c, batch, A, node, execution_id, core_key, numbers, edge, held, by_id)
  local onward, onward_edge = propagate.onward(edge, node.name)
  local why, detail = hold(c, numbers, held)
  local kind = (why or 'ready') .. limit_fields(by_id, execution_id) .. node.kind
  local first = not numbers.wait and batch.nodes[kind]
  if first and is_like(first, A, node, numbers) then
    write_copy(first, core_key, A, node, execution_id, numbers, onward, onward_edge)
  else
    local name = name_to_keep(kind, A, node, numbers)
    if not name or not write_kept(c, name, core_key, A, node, execution_id, numbers, onward, onward_edge) then
      write_core(c, core_key, A, node, execution_id, numbers, onward, onward_edge, why, detail, by_id and by_id[execution_id])
      if name then keep(name, core_key, A, node, numbers) end
    end
    if not numbers.wait then
      batch.nodes[kind] = {
        key = core_key, flow_id = A.flow_id, node = node, numbers = numbers, fair_key = A.fair_key,
        budget_ids = A.budget.blocking,
      }
    end
  end
  batch_writes.text(batch, key.exec_policy(c, execution_id), node.policy)
  if numbers.wait then redis.call('SET', key.exec_wait(c, execution_id), node.wait) end
  if is_set(node.tags) then
    local tags = record.tags_of(node.tags)
    if #tags > 0 then call.chunked('HSET', key.exec_tags(c, execution_id), tags) end
  end
  node_record.index(c, batch, A, node, execution_id, numbers, why)
  batch.lanes[node.lane_id] = true
  return why
end
