-- Resolves the edges of ended executions of managed flows. A call works all its edges together: it resolves all edges to one
-- child in one step, for all upstreams that the call has ended.

-- Resolves one edge at a child's join. Edges are resolved one at a time, because each may decide the join.
local function resolve_at_join(c, item, edge)
  local k = dependency.child_keys(c, edge.child_id, edge.edge_id or '')
  k.managed = true
  if edge.upstream then k.node_edge = edge end
  local dep = edge_state.read(k)
  local flow_id = item.flow_id
  local g = edge_group.find(c, key.flow_edgegroup(c, flow_id, edge.child_id))
  local outcome = dep and decision.verdict_of_item(c, dep.dependency_kind or edge.kind, item)
  if dep and join.is_update(g, dep, outcome) then
    join.resolve(c, k, g, {
      edge_id = edge.edge_id, flow_id = flow_id, child_id = edge.child_id, upstream_id = edge.upstream_id,
      reason = outcome ~= 'success' and decision.reason(c, edge.kind, item) or nil,
    }, dep, outcome)
  end
end

-- Creates a wave: the edges that are resolved together, grouped by the child that they lead to. It is a list of lists, and also
-- has each list under its child's id. `plain`: all edges are satisfied.
function propagate.new_wave() return { plain = true } end

local function add_edge(c, wave, item, flow, edge)
  if flow.joins and (edge.edge_id or edge_group.is_join(c, item.flow_id, edge.child_id)) then
    resolve_at_join(c, item, edge)
    return
  end
  edge.outcome = decision.verdict_of_item(c, edge.kind, item)
  if edge.outcome ~= 'success' then
    wave.plain = false
    edge.reason = decision.reason(c, edge.kind, item)
  end
  local edges = wave[edge.child_id]
  if edges then
    edges[#edges + 1] = edge
    return
  end
  edges = { edge }
  wave[edge.child_id] = edges
  wave[#wave + 1] = edges
end

-- Adds an edge to a wave: child_id, upstream_id, kind, input_name, and edge_id or, for a graph, `upstream` (the ordinal). In a
-- flow with joins, the edge is resolved at once.
function propagate.add_edge(c, wave, item, flow, edge)
  if not flow.joins or not (c.root or c).faults then return add_edge(c, wave, item, flow, edge) end
  call.guarded(c, 'propagation', edge.child_id, function() add_edge(c, wave, item, flow, edge) end)
end

-- Adds an edge by its id.
local function add_edge_by_id(c, wave, item, flow, edge_id)
  local edge = redis.call('HMGET', key.flow_edge(c, item.flow_id, edge_id), 'downstream_execution_id', 'dependency_kind',
    'data_passing_ref')
  if edge[1] then
    propagate.add_edge(c, wave, item, flow, {
      edge_id = edge_id, child_id = edge[1], upstream_id = item.execution_id, kind = edge[2], input_name = edge[3] or '',
    })
  end
end

-- Removes edges of one child from its open edges, and returns those that were open. An edge that is already resolved, or was not
-- yet applied to the child, is not among them. Edges of a graph are resolved once.
local function take_open(unresolved_key, edges)
  local ids, open, others = {}, {}, {}
  for _, edge in ipairs(edges) do
    if edge.upstream then
      open[#open + 1] = edge
    else
      ids[#ids + 1], others[#others + 1] = edge.edge_id, edge
    end
  end
  if #ids == 0 then return open end
  local open_ids = {}
  for i, is_open in ipairs(redis.call('SMISMEMBER', unresolved_key, unpack(ids))) do
    if is_open == 1 then open[#open + 1], open_ids[#open_ids + 1] = others[i], ids[i] end
  end
  if #open_ids > 0 then redis.call('SREM', unresolved_key, unpack(open_ids)) end
  return open
end

-- @hook Keeps the result that an edge carries to a child, in case the call leases the child itself.
function propagate.hand_result(c, next_up, edge) end

-- Resolves the edges of one child in a wave.
local function resolve_child(c, edges)
  local child_id = edges[1].child_id
  if #edges > 1 or not edges[1].upstream then
    edges = take_open(key.exec_deps_unresolved(c, child_id), edges)
    if #edges == 0 then return end
  end
  local next_up = c.next_up
  if next_up and #next_up < next_up.request.count then
    for _, edge in ipairs(edges) do propagate.hand_result(c, next_up, edge) end
  else
    next_up = nil
  end
  dependency.resolve_taken(c, child_id, edges, next_up)
end

function propagate.resolve_wave(c, wave)
  if #wave == 0 then return end
  -- Many children that become ready leave the index of blocked ones together, and enter the lane together.
  if #wave > 1 and wave.plain then
    call.gather(c)
    order.gather(c)
  end
  local guards = (c.root or c).faults
  local function resolve(_, edges) resolve_child(c, edges) end
  for _, edges in ipairs(wave) do
    if guards then
      call.guarded(c, 'propagation', edges[1].child_id, resolve, edges)
    else
      resolve_child(c, edges)
    end
  end
  order.write_gathered(c)
end

-- Resolves one outgoing edge of an ended execution by its id, if it is still open. `has_joins`: whether any node of the flow is a
-- join.
function propagate.resolve_edge(c, item, edge_id, has_joins)
  local wave = propagate.new_wave()
  add_edge_by_id(c, wave, item, { joins = has_joins }, edge_id)
  propagate.resolve_wave(c, wave)
end

-- Adds the outgoing edges of an ended execution to the backlog.
local function postpone(c, item, out_key)
  redis.call('COPY', out_key, key.ffx_unresolved_edges(c, item.execution_id), 'REPLACE')
  redis.call('RPUSH', key.ffx_backlog(c), item.execution_id)
  c.more = true
end

-- Adds the outgoing edges of one ended execution, or postpones them.
local function add_edges(c, wave, item)
  local s, at = store.of(key.exec_core(c, item.execution_id))
  if s.add_to_wave(at, c, wave, item) then return end
  local out_key = key.flow_out(c, item.flow_id, item.execution_id)
  -- All of them, unless there are more than the budget allows.
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

-- Resolves the edges of all executions that the call has ended, within the call's budget. This may end further executions, whose
-- edges come next.
function propagate.run(c)
  while c.queue do
    local ended, wave = c.queue, propagate.new_wave()
    c.queue = nil
    local guards = (c.root or c).faults
    for _, item in ipairs(ended) do
      if guards then
        call.guarded(c, 'propagation', item.execution_id, function() add_edges(c, wave, item) end)
      else
        add_edges(c, wave, item)
      end
    end
    propagate.resolve_wave(c, wave)
  end
end

settle.propagate = propagate.run

-- @hook Resolves edges from an ended member of a flow that is not managed.
function propagate.resolve_unmanaged(c, item, edge_ids) end

-- Leaves the outgoing edges of an ended member of a flow that is not managed to the keeper.
function propagate.leave_to_keeper(c, execution_id, core)
  local out_key = key.flow_out(c, core.flow_id, execution_id)
  if not wake.tells_of_others() or redis.call('EXISTS', out_key) == 0 then return end
  postpone(c, { execution_id = execution_id }, out_key)
  wake.due(c, c.now)
end

-- Resolves edges from an ended execution of a managed flow, by their ids.
local function resolve_ids(c, item, edge_ids)
  local wave, flow = propagate.new_wave(), { joins = #edge_ids > 0 and record.value(key.flow_core(c, item.flow_id), 'joins') }
  for _, edge_id in ipairs(edge_ids) do add_edge_by_id(c, wave, item, flow, edge_id) end
  propagate.resolve_wave(c, wave)
end

-- Works off postponed edges that have records. Reports whether all edges of the execution are done.
local function drain_edges(c, execution_id)
  local edges_key = key.ffx_unresolved_edges(c, execution_id)
  local core = record.read(key.exec_core(c, execution_id), { 'flow_id', 'terminal_outcome', 'lifecycle_phase', 'managed' })
  local ids = redis.call('SPOP', edges_key, c.budget)
  c.budget = c.budget - math.max(#ids, 1)
  -- An execution that runs again resolves all its edges when it ends.
  if core and core.lifecycle_phase == 'terminal' then
    local item = { execution_id = execution_id, flow_id = core.flow_id, outcome = core.terminal_outcome }
    if core.managed then resolve_ids(c, item, ids) else propagate.resolve_unmanaged(c, item, ids) end
  end
  return redis.call('EXISTS', edges_key) == 0
end

-- Pause (ms) before an entry of the backlog that has raised an error is tried again.
local FAILED_PAUSE_MS = 1000

-- Works off postponed edges. An entry that raises an error goes to the end of the backlog. Returns the number of entries read.
function propagate.drain_backlog(c, limit)
  local backlog_key = key.ffx_backlog(c)
  local failed, failures = {}, 0
  local function drain(entry)
    local s, at = store.of_entry(c, entry)
    -- A node with a row may also have edges with records.
    if s.drain(at, c, entry) and drain_edges(c, entry) then redis.call('LPOP', backlog_key) end
  end
  c.budget = limit
  while c.budget > 0 do
    local entry = redis.call('LINDEX', backlog_key, 0)
    if not entry or failed[entry] then break end
    if not call.guarded(c, 'propagation', entry, drain) then
      failed[entry], failures = true, failures + 1
      c.budget = c.budget - 1
      redis.call('RPUSH', backlog_key, redis.call('LPOP', backlog_key))
    end
  end
  propagate.run(c)
  if failures > 0 then wake.due(c, c.now + FAILED_PAUSE_MS) end
  if redis.call('LLEN', backlog_key) > failures then c.more = true end
  return limit - math.max(0, c.budget)
end
