-- Resolving the edges of ended executions of managed flows. All edges that a call resolves are worked together: each
-- child is told once of all upstreams that the call has ended.

-- What the fields `onward` and `onward_edge` of an execution's core say when one ordinary edge leaves it: the child, behind a
-- plus when it takes the result along under the node's name, else behind a minus, and the edge's id. Both are short, for a long
-- value would make the record a large one. They are empty where there is no edge, or several.
function propagate.onward(edge, node_name)
  if not edge or edge.dependency_kind ~= 'success_only' then return '', '' end
  if edge.input_name == '' then return '-' .. edge.downstream_execution_id, edge.edge_id end
  if edge.input_name ~= node_name then return '', '' end
  return '+' .. edge.downstream_execution_id, edge.edge_id
end

-- Tells a child at its join. It is told of one edge at a time, since each may bring it to its decision.
local function resolve_at_join(c, flow_id, edge)
  local k = dependency.child_keys(c, edge.child_id, edge.edge_id)
  k.managed = true
  local dep = record.read(k.dep, dependency.EDGE_FIELDS)
  local g = edge_group.find(c, key.flow_edgegroup(c, flow_id, edge.child_id))
  local outcome = dep and dependency.verdict(dep.dependency_kind, edge.ended)
  if dep and join.is_update(g, dep, outcome) then
    join.resolve(c, k, g, {
      edge_id = edge.edge_id, flow_id = flow_id, child_id = edge.child_id, upstream_id = edge.upstream_id,
    }, dep, outcome)
  end
end

-- The edges that are resolved together, by the child that they lead to: a list of lists, and each of them by the child's id.
-- `plain`: all of them are satisfied.
local function new_wave() return { plain = true } end

-- Adds an edge to a wave, unless the flow has joins: then it is resolved at once.
local function add_edge(c, wave, item, flow, edge_id, child_id, kind, input_name)
  local edge = { edge_id = edge_id, child_id = child_id, upstream_id = item.execution_id, input_name = input_name }
  if flow.joins then
    edge.ended = item.outcome
    resolve_at_join(c, item.flow_id, edge)
    return
  end
  edge.outcome = dependency.verdict(kind, item.outcome)
  edge.is_named = input_name ~= '' and input_name == item.node
  if edge.outcome ~= 'success' then wave.plain = false end
  local edges = wave[child_id]
  if edges then
    edges[#edges + 1] = edge
    return
  end
  edges = { edge }
  wave[child_id] = edges
  wave[#wave + 1] = edges
end

-- Adds an edge by its id.
local function add_edge_by_id(c, wave, item, flow, edge_id)
  local edge = redis.call('HMGET', key.flow_edge(c, item.flow_id, edge_id), 'downstream_execution_id', 'dependency_kind',
    'data_passing_ref')
  if edge[1] then add_edge(c, wave, item, flow, edge_id, edge[1], edge[2], edge[3]) end
end

-- Takes edges of one child off its open ones, and gives those that were: an edge that is resolved already, or that the child
-- has not been told of, is not among them.
local function take_open(unresolved_key, edges)
  if #edges == 1 then
    return redis.call('SREM', unresolved_key, edges[1].edge_id) == 1 and edges or {}
  end
  local ids, open, open_ids = {}, {}, {}
  for i, edge in ipairs(edges) do ids[i] = edge.edge_id end
  for i, is_open in ipairs(redis.call('SMISMEMBER', unresolved_key, unpack(ids))) do
    if is_open == 1 then open[#open + 1], open_ids[#open + 1] = edges[i], ids[i] end
  end
  if #open > 0 then redis.call('SREM', unresolved_key, unpack(open_ids)) end
  return open
end

-- @hook Keeps the result that an edge brings to a child, for the case that the call leases the child itself.
function propagate.hand_result(c, next_up, edge) end

-- Tells one child of its edges in a wave.
local function resolve_child(c, edges)
  local child_id = edges[1].child_id
  edges = take_open(key.exec_deps_unresolved(c, child_id), edges)
  if #edges == 0 then return end
  local next_up = c.next_up
  if next_up and #next_up < next_up.request.count then
    for _, edge in ipairs(edges) do propagate.hand_result(c, next_up, edge) end
  else
    next_up = nil
  end
  dependency.resolve_taken(c, child_id, edges, next_up)
end

local function resolve_wave(c, wave)
  if #wave == 0 then return end
  -- Many children that become ready leave the index of blocked ones together, and enter the lane together.
  if #wave > 1 and wave.plain then
    call.gather(c)
    order.gather(c)
  end
  for _, edges in ipairs(wave) do resolve_child(c, edges) end
  order.write_gathered(c)
end

-- Resolves one outgoing edge of an ended execution by its id, unless that has been done. `has_joins`: whether any node of the
-- flow is a join.
function propagate.resolve_edge(c, item, edge_id, has_joins)
  local wave = new_wave()
  add_edge_by_id(c, wave, item, { joins = has_joins }, edge_id)
  resolve_wave(c, wave)
end

-- Puts the outgoing edges of an ended execution into the backlog.
local function postpone(c, item, out_key)
  redis.call('COPY', out_key, key.ffx_unresolved_edges(c, item.execution_id), 'REPLACE')
  redis.call('RPUSH', key.ffx_backlog(c), item.execution_id)
  c.more = true
end

-- Adds the one edge that leaves an ended execution, when its record names it. False when the call has done enough.
local function add_onward(c, wave, item)
  if c.budget < 1 then return false end
  local flow = flow_record.read(c, item.flow_id)
  if flow.public_flow_state ~= 'open' then return true end
  c.budget = c.budget - 1
  local input_name = string.sub(item.onward, 1, 1) == '+' and item.node or ''
  add_edge(c, wave, item, flow, item.onward_edge, string.sub(item.onward, 2), 'success_only', input_name)
  return true
end

-- Adds the outgoing edges of one ended execution, or postpones them.
local function add_edges(c, wave, item)
  if item.onward and add_onward(c, wave, item) then return end
  local out_key = key.flow_out(c, item.flow_id, item.execution_id)
  -- All of them, unless there are more than may be worked.
  local room = math.max(0, c.budget)
  local ids = redis.call('SRANDMEMBER', out_key, room + 1)
  if #ids == 0 then return end
  local flow = flow_record.read(c, item.flow_id)
  if flow.public_flow_state ~= 'open' then return end
  if #ids > room then
    postpone(c, item, out_key)
    return
  end
  c.budget = c.budget - #ids
  for i = 1, #ids do add_edge_by_id(c, wave, item, flow, ids[i]) end
end

-- Resolves what the call's terminal transitions touch, as far as the budget goes. What it does may end further
-- executions, which come next.
function propagate.run(c)
  c.budget = c.budget or call.WORK_BUDGET
  while c.queue do
    local ended, wave = c.queue, new_wave()
    c.queue = nil
    for _, item in ipairs(ended) do add_edges(c, wave, item) end
    resolve_wave(c, wave)
  end
end

settle.propagate = propagate.run

-- Works off postponed edges. Gives how many were looked at.
function propagate.drain_backlog(c, limit)
  local backlog_key = key.ffx_backlog(c)
  c.budget = limit
  while c.budget > 0 do
    local execution_id = redis.call('LINDEX', backlog_key, 0)
    if not execution_id then break end
    local edges_key = key.ffx_unresolved_edges(c, execution_id)
    local core = record.read(key.exec_core(c, execution_id), { 'flow_id', 'terminal_outcome', 'lifecycle_phase' })
    local ids = redis.call('SPOP', edges_key, c.budget)
    c.budget = c.budget - math.max(#ids, 1)
    -- One that runs again by now resolves all its edges when it ends.
    if core and core.lifecycle_phase == 'terminal' then
      local item = { execution_id = execution_id, flow_id = core.flow_id, outcome = core.terminal_outcome }
      local wave, flow = new_wave(), { joins = #ids > 0 and redis.call('HGET', key.flow_core(c, core.flow_id), 'joins') }
      for _, edge_id in ipairs(ids) do add_edge_by_id(c, wave, item, flow, edge_id) end
      resolve_wave(c, wave)
    end
    if redis.call('EXISTS', edges_key) == 0 then redis.call('LPOP', backlog_key) end
  end
  propagate.run(c)
  if redis.call('EXISTS', backlog_key) == 1 then c.more = true end
  return limit - math.max(0, c.budget)
end
