-- The edges of runs, which are in their graphs. An edge is resolved once: the row of a node contains the number of edges from it
-- that were resolved since it ended, in the order of the graph, and the row of an edge's downstream the number of its open edges.

-- Maximum number of roots of a run that one call makes eligible; the rest is left to the keeper. One that is blocked, or opens as
-- a waitpoint, counts as COST_OF_SPECIAL.
local ROOTS_PER_CALL = 256
local COST_OF_SPECIAL = 4

-- Returns the entry of the backlog for the remaining roots: the id of the run itself.
local function roots_entry(run) return run.tag .. ':' .. run.id end

local function is_held_back(node) return node.wait or node.delay end

-- Makes one root eligible, as its row already states unless something blocks it. Returns the cost of that.
local function release_root(c, run, ordinal, batch, fair_key)
  local g = graph_store.of_run(run)
  local node = graph_store.node(g, ordinal)
  local execution_id = row.execution_id(run, ordinal)
  if run.start_at then
    run_start.hold(c, run, ordinal, run.start_at, node.delay or 0)
    return COST_OF_SPECIAL
  end
  if is_held_back(node) or not batch then
    local core_key = key.exec_core(c, execution_id)
    dependency.ready(c, execution_id, core_key, row_steps.fresh(row.at(run, ordinal)) or record.read(core_key, dependency.CHILD_FIELDS))
    return is_held_back(node) and COST_OF_SPECIAL or 1
  end
  local lane = node.lane_id
  local score = run.created - node.priority_number * record.PRIORITY_STEP
  batch_writes.gather(batch, 'ZADD', key.lane_eligible(call.home(c), lane), score, execution_id)
  local queue_key = (fair_key or order.is_fair(c, lane)) and order.queue_for(c, lane, execution_id, { fair_key = fair_key or '' })
  if queue_key then batch_writes.gather(batch, 'ZADD', queue_key, score, execution_id) end
  wake.eligible(c, lane, node.priority)
  if node.start_timeout then order.limit_start(c, execution_id, tonumber(node.start_timeout)) end
  return 1
end

-- Adds the lanes of all nodes of a run to the partition's list of lanes.
function row_edges.note_lanes(c, g)
  local known = c.known_lanes
  if not known then
    known = {}
    c.known_lanes = known
  end
  for _, lane in ipairs(graph_store.lanes(g)) do
    if not known[lane] then
      known[lane] = true
      pauses.note_lane(c, lane)
    end
  end
end

-- Makes the roots of a new run eligible, as many as one call may.
function row_edges.release_roots(c, run, g, batch, of)
  row_edges.note_lanes(c, g)
  local roots = g.root_ordinals or graph_store.roots(g)
  if #roots <= ROOTS_PER_CALL then g.root_ordinals = roots end
  local fair_key, left, at = is_set(of.fair_key) and of.fair_key or nil, ROOTS_PER_CALL, 0
  while left > 0 and at < #roots do
    at = at + 1
    left = left - release_root(c, run, roots[at], batch, fair_key)
  end
  if at == #roots then return end
  record.set(key.flow_core(c, run.id), 'roots_left', number.text(#roots - at))
  redis.call('RPUSH', key.ffx_backlog(c), roots_entry(run))
  c.more = true
end

-- Releases further roots, within the call's budget. Reports whether all are released.
local function release_more(c, run)
  local flow_key = key.flow_core(c, run.id)
  local flow = record.read(flow_key, { 'roots_left', 'public_flow_state', 'start_at' })
  local left = flow and flow.public_flow_state == 'open' and tonumber(flow.roots_left) or 0
  if left > 0 then
    run.start_at = run_start.at(flow)
    local roots = graph_store.roots(graph_store.of_run(run))
    while left > 0 and c.budget > 0 do
      local ordinal = roots[#roots - left + 1]
      local r = row.at(run, ordinal)
      c.budget = c.budget - (r.phase == 1 and r.total == 0 and release_root(c, run, ordinal) or 1)
      left = left - 1
    end
  end
  if left > 0 then
    record.set(flow_key, 'roots_left', number.text(left))
    return false
  end
  record.clear(flow_key, 'roots_left')
  return true
end

-- Releases further roots of a run that was submitted before, as many as one call may.
function row_edges.release_left(c, flow_id)
  local run = row.run(c, flow_id)
  if not run then return end
  local before = c.budget
  c.budget = ROOTS_PER_CALL
  if release_more(c, run) then
    redis.call('LREM', key.ffx_backlog(c), 1, roots_entry(run))
  else
    c.more = true
  end
  c.budget = before
end

-- Reports whether edges for the cases of a condition lead from a node.
local function decides(node)
  for i = 1, graph_store.edge_count(node.downs) do
    if decision.case_of_kind((select(2, graph_store.edge(node.downs, i)))) then return true end
  end
  return false
end

-- Keeps the states of the edges from a node when it is run again, in the field `kept_edges`: for each time the outcome that they
-- received, followed by the number of the case of a condition, or 1 for a skip with a reason, how many received it, and when the node
-- had ended. An edge that was satisfied then stays so, however the node ends.
local function keep_edges(r)
  if r.told == 0 or row_record.flag(r, node_row.UNTOLD) or not row.is_replayed(r.run) then return end
  local kept = row_record.read(r, { 'kept_edges' }).kept_edges
  local case = decides(graph_store.of_row(r)) and row_decision.case_of(r) or row_decision.reason(r) and 1
  local entry = node_row.OUTCOME[r.outcome] .. (case and number.digits(case) or '') .. ' ' .. number.text(r.told) .. ' ' .. number.text(r.ended)
  row_record.set(r, 'kept_edges', kept and kept .. ',' .. entry or entry)
end

-- Returns the entries of that field of a node; nil when it has none.
local function kept_edges(r)
  if not row.is_replayed(r.run) then return nil end
  local text = row_record.read(r, { 'kept_edges' }).kept_edges
  if not text then return nil end
  local kept = {}
  for outcome, case, told, at in string.gmatch(text, '(%a+)(%d*) (%d+) (%d+)') do
    kept[#kept + 1] = { outcome = outcome, case = tonumber(case), told = tonumber(told), at = tonumber(at) }
  end
  return kept
end

-- Returns an entry for the field `reopened_edges` of a node, which keeps the states of the edges to it when a replay opened them
-- again. An upstream that had been run again, or had ended with an outcome that does not satisfy its edge, has an entry
-- `,upstream:count:state`. The first `count` entries of its kept_edges were known then, and gave a satisfied edge (state 1) or an
-- open one (0).
local function reopened_entry(up, upstream, place, satisfied)
  local kept = kept_edges(up)
  local count = kept and #kept or 0
  if not satisfied and up.phase == 4 and place <= up.told and not row_record.flag(up, node_row.UNTOLD) then count = count + 1 end
  if count == 0 then return '' end
  return ',' .. number.text(upstream) .. ':' .. number.text(count) .. ':' .. (satisfied and '1' or '0')
end

-- Returns the data of an upstream in that field of a child: the count, and whether the edge was satisfied.
local function reopened_of(child, upstream)
  local text = row_record.read(child, { 'reopened_edges' }).reopened_edges
  if not text then return 0, false end
  local known = child.reopened
  if not known or known.text ~= text then
    known = { text = text }
    for name, count, state in string.gmatch(text, ',(%d+):(%d+):(%d)') do
      known[tonumber(name)] = { count = tonumber(count), satisfied = state == '1' }
    end
    child.reopened = known
  end
  local entry = known[upstream]
  if not entry then return 0, false end
  return entry.count, entry.satisfied
end

local function case_of_entry(entry) return entry.case end

local OF_ENTRY = { number_of = case_of_entry, reason_of = case_of_entry }

-- Reports whether an edge was satisfied before its upstream was run again. `kept` belongs to the upstream, `upstream` is its
-- ordinal, `place` the place of the edge among its edges. States of a child's edges from before a rerun that reset them do not
-- count, and an edge that could not be satisfied stays so until the child is run again.
local function is_kept(kept, kind, upstream, place, child)
  local known, satisfied = reopened_of(child, upstream)
  if satisfied then return true end
  local reset = tonumber(row_record.read(child, { 'edges_reset_at' }).edges_reset_at) or 0
  for i = known + 1, #kept do
    local entry = kept[i]
    if place <= entry.told and entry.at > reset then
      return decision.verdict_by(kind, entry.outcome, OF_ENTRY, entry) == 'success'
    end
  end
  return false
end

-- Reports whether a node of a run with replayed nodes need not receive an edge. `kept` and `place` are those in is_kept. A node
-- without open edges has received all of them; a join counts the edges that it receives, and knows the earlier ones.
local function is_resolved_for(child, kept, kind, upstream, place)
  if graph_store.of_row(child).join then return false end
  return child.open == 0 or kept ~= nil and is_kept(kept, kind, upstream, place, child)
end

-- Returns the place of the edge to a node among the edges from another one.
local function place_of(up, ordinal)
  local downs = graph_store.of_row(up).downs
  for i = 1, graph_store.edge_count(downs) do
    if graph_store.edge(downs, i) == ordinal then return i end
  end
end

-- Reports whether the edge between two nodes is satisfied for good, since its upstream was run again after that.
local function stays_satisfied(up, child, kind)
  if graph_store.of_row(child).join then return row_joins.is_satisfied(child, up.ordinal) end
  local kept = kept_edges(up)
  return kept ~= nil and is_kept(kept, kind, up.ordinal, place_of(up, child.ordinal), child)
end

-- Maximum number of ordinals between two that are loaded without need instead of with another command.
local MAX_BETWEEN = 8

-- Loads the rows of nodes that a part of a list of edges names, those that are close to each other together.
local function load_named(run, list, from, to)
  local first, last
  for i = from, to do
    local ordinal = graph_store.edge(list, i)
    if first and ordinal > last and ordinal - last <= MAX_BETWEEN then
      last = ordinal
    else
      if first and last > first then row.load(run, first, last) end
      first, last = ordinal, ordinal
    end
  end
  if first and last > first then row.load(run, first, last) end
end

-- Leaves the remaining edges from a node to a keeper, or to the worker whose reply contains `more`.
function row_edges.postpone(c, execution_id)
  redis.call('RPUSH', key.ffx_backlog(c), execution_id)
  c.more = true
end

-- Adds the edges from an ended node to a wave, from the first unresolved one on, within the call's budget. Reports whether these
-- are all of them.
local function add_edges(c, wave, item, r, flow, is_over)
  local downs = graph_store.of_row(r).downs
  local count = graph_store.edge_count(downs)
  local from = r.told
  if from >= count then return true end
  local to = math.min(count, from + math.max(0, c.budget))
  local kept, replayed = kept_edges(r), row.is_replayed(r.run)
  load_named(r.run, downs, from + 1, to)
  for i = from + 1, to do
    local child, kind, carries = graph_store.edge(downs, i)
    local concerns = not is_over or graph_store.is_finally(graph_store.node(graph_store.of_run(r.run), child))
    if concerns and not (replayed and is_resolved_for(row.at(r.run, child), kept, kind, r.ordinal, i)) then
      propagate.add_edge(c, wave, item, flow, {
        child_id = row.execution_id(r.run, child), upstream_id = item.execution_id, kind = kind, input_name = carries and item.node or '',
        upstream = r.ordinal,
      })
    end
  end
  c.budget = c.budget - (to - from)
  r.told = to
  row.touch(r)
  return to == count
end

-- Marks the edges of a node in a run that is over as resolved: they need no resolution, and get none when the run is open again.
local function tell_nobody(r)
  local count = graph_store.edge_count(graph_store.of_row(r).downs)
  if r.told == count then return end
  r.told = count
  row_record.set_flag(r, node_row.UNTOLD, true)
  row.touch(r)
end

row_edges.end_last = tell_nobody

-- Resolves the edges of a node that has ended in a run that is over: only the edges to finally nodes. Reports whether all are
-- resolved.
local function tell_finally(c, wave, item, r, flow)
  local count = graph_store.edge_count(graph_store.of_row(r).downs)
  if flow.joins == finally.JOINS and r.told < count then
    if not add_edges(c, wave, item, r, flow, true) then return false end
    row_record.set_flag(r, node_row.UNTOLD, true)
    row.touch(r)
    return true
  end
  tell_nobody(r)
  return true
end

-- Adds the edges of a node that has ended: see store.lua.
function row_edges.add_to_wave(r, c, wave, item)
  local flow = flow_record.read(c, item.flow_id)
  if flow.public_flow_state ~= 'open' then
    if not tell_finally(c, wave, item, r, flow) then row_edges.postpone(c, item.execution_id) end
    return true
  end
  item.node = item.node or graph_store.of_row(r).name
  if not add_edges(c, wave, item, r, flow) then row_edges.postpone(c, item.execution_id) end
  return not row.is_extended(r.run)
end

-- Works off the entry of a node or a run in the backlog. Reports whether that is done.
local function drain(run, c, entry)
  local ordinal = row.ordinal(entry)
  if ordinal == 0 then return release_more(c, run) end
  local r = row.at(run, ordinal)
  -- A node that runs again resolves all its edges when it ends.
  if not r or r.phase ~= 4 then return true end
  local flow = flow_record.read(c, run.id)
  local wave, is_over = propagate.new_wave(), flow.public_flow_state ~= 'open'
  if is_over and flow.joins ~= finally.JOINS then
    tell_nobody(r)
    return true
  end
  local item = {
    execution_id = entry, flow_id = run.id, outcome = node_row.OUTCOME[r.outcome], node = graph_store.of_row(r).name,
    reason = row_decision.reason(r),
  }
  local all
  if is_over then all = tell_finally(c, wave, item, r, flow) else all = add_edges(c, wave, item, r, flow) end
  propagate.resolve_wave(c, wave)
  return all
end

function row_edges.drain(run, c, entry)
  local all = drain(run, c, entry)
  if all then c.budget = c.budget - 1 end
  return all
end

-- Reports whether the edge from an ended node to another one has been resolved.
function row_edges.is_resolved(up, ordinal)
  local downs = graph_store.of_row(up).downs
  if up.told >= graph_store.edge_count(downs) then return true end
  for i = 1, up.told do
    if graph_store.edge(downs, i) == ordinal then return true end
  end
  return false
end

-- Returns how many edges of the graph to a node are open, in a run with replayed nodes, regardless of the counter. A node that
-- was replayed itself also waits for the replay of failed upstreams.
function row_edges.count_open(r)
  local ups, open = graph_store.of_row(r).ups, 0
  local waits = row_record.read(r, { 'replay_count' }).replay_count ~= '0'
  load_named(r.run, ups, 1, graph_store.edge_count(ups))
  for i = 1, graph_store.edge_count(ups) do
    local upstream, kind = graph_store.edge(ups, i)
    local up = row.at(r.run, upstream)
    if (up.phase ~= 4 or not row_edges.is_resolved(up, r.ordinal)
      or waits and row_decision.verdict(up, kind) ~= 'success') and not stays_satisfied(up, r, kind) then
      open = open + 1
    end
  end
  return open
end

function row_edges.open(r) return r.open, 0 end

-- Removes open edges of a node, and returns how many are left. Replayed nodes resolve their edges again, so that these are
-- counted again, with those from the contract's calls.
function row_edges.take(r, c, execution_id, k, count)
  if not row.is_replayed(r.run) then
    r.open = math.max(0, r.open - count)
  else
    r.open = row_edges.count_open(r)
    if row.is_extended(r.run) then
      r.open = r.open + redis.call('SCARD', k and k.unresolved or key.exec_deps_unresolved(c, execution_id))
    end
  end
  row.touch(r)
  return r.open
end

function row_edges.add(r, c, execution_id, _, count)
  return count > 0 and row_edges.take(r, c, execution_id, nil, -count) or r.open
end

-- Marks the edges of a node that runs again for another resolution at its end, except those that were satisfied. The row no longer
-- names the worker that has completed it.
function row_edges.reopen_downstream(r)
  keep_edges(r)
  r.told, r.worker = 0, 0
  row_record.set_flag(r, node_row.UNTOLD, false)
  row.touch(r)
end

function row_edges.note_replay(r)
  if row.is_replayed(r.run) then return end
  run_rows.note_unusual(r.run)
  r.run.flags = r.run.flags + run_head.REPLAYED
  row.touch_run(r.run)
end

-- Opens the edges to a skipped node again, except those that their ended upstreams satisfy.
function row_edges.reopen(r, _, _, of_records)
  local node, open, satisfied, reopened = graph_store.of_row(r), 0, {}, {}
  load_named(r.run, node.ups, 1, graph_store.edge_count(node.ups))
  for i = 1, graph_store.edge_count(node.ups) do
    local upstream, kind = graph_store.edge(node.ups, i)
    local up = row.at(r.run, upstream)
    local is_satisfied = up.phase == 4 and row_decision.verdict(up, kind) == 'success'
      or stays_satisfied(up, r, kind)
    if is_satisfied then satisfied[#satisfied + 1] = upstream else open = open + 1 end
    if not node.join then reopened[i] = reopened_entry(up, upstream, place_of(up, r.ordinal), is_satisfied) end
  end
  if node.join then
    row_joins.satisfy(r, satisfied)
  else
    row_record.set(r, 'reopened_edges', table.concat(reopened))
  end
  r.open = open + of_records
  row.touch(r)
  return r.open
end

function row_edges.count(r)
  local node = graph_store.of_row(r)
  return graph_store.edge_count(node.downs), graph_store.edge_count(node.ups)
end

local function add_named(r, ids, list)
  for i = 1, graph_store.edge_count(list) do ids[#ids + 1] = row.execution_id(r.run, (graph_store.edge(list, i))) end
end

function row_edges.add_downstream(r, ids) add_named(r, ids, graph_store.of_row(r).downs) end

function row_edges.add_upstream(r, ids) add_named(r, ids, graph_store.of_row(r).ups) end

-- Opens all edges to a node of a rerun. Returns how many there are.
function row_edges.reset(c, r)
  local count = graph_store.edge_count(graph_store.of_row(r).ups)
  r.open = count
  row.touch(r)
  if row.is_replayed(r.run) then row_record.set(r, 'edges_reset_at', c.now_text) end
  if graph_store.of_row(r).join then row_joins.forget(r) end
  return count
end

-- Resolves the edge between two nodes, the first of which ended before a rerun and is not part of it.
function row_edges.resolve_kept(c, flow_id, up_ordinal, down_ordinal)
  local run = row.run(c, flow_id)
  local up = run and row.at(run, up_ordinal)
  if not up or up.phase ~= 4 then return end
  local node = graph_store.of_row(up)
  local item = {
    execution_id = row.execution_id(run, up_ordinal), flow_id = flow_id, outcome = node_row.OUTCOME[up.outcome], node = node.name,
    reason = row_decision.reason(up),
  }
  local wave, flow = propagate.new_wave(), flow_record.read(c, flow_id)
  for i = 1, graph_store.edge_count(node.downs) do
    local child, kind, carries = graph_store.edge(node.downs, i)
    if child == down_ordinal then
      propagate.add_edge(c, wave, item, flow, {
        child_id = row.execution_id(run, child), upstream_id = item.execution_id, kind = kind, input_name = carries and node.name or '',
        upstream = up_ordinal,
      })
    end
  end
  propagate.resolve_wave(c, wave)
end
