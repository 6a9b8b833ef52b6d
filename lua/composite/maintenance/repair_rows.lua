-- Repairs the edge counts in the rows of a run, by the ends of the nodes that the edges connect.

-- Maximum number of edges of one node that are checked; one with more keeps its count.
local MAX_EDGES = 512

-- Resolves the edges of a node that has ended; the rest of many is in the backlog.
function repair_rows.edges_from(c, execution_id)
  local r = row.of_key(key.exec_core(c, execution_id))
  if r.told >= graph_store.edge_count(graph_store.of_row(r).downs) or redis.call('LPOS', key.ffx_backlog(c), execution_id) then return end
  local flow = flow_record.read(c, r.run.id)
  if flow.public_flow_state ~= 'open' or is_set(record.value(key.flow_core(c, r.run.id), 'rerun_state')) then return end
  redis.call('RPUSH', key.ffx_backlog(c), execution_id)
  repair_index.note(c, 'backlog')
  wake.due(c, c.now)
end

-- Returns how many edges of the graph that lead to a node are open, and whether one of the others was not satisfied.
local function count_open(r)
  local ups, open, impossible = graph_store.of_row(r).ups, 0, false
  for i = 1, graph_store.edge_count(ups) do
    local upstream, kind = graph_store.edge(ups, i)
    local up = row.at(r.run, upstream)
    if up.phase ~= 4 or not row_edges.is_resolved(up, r.ordinal) then
      open = open + 1
    elseif row_decision.verdict(up, kind) ~= 'success' then
      impossible = true
    end
  end
  return open, impossible
end

-- Corrects the counts of a join, by the letters of its edges.
local function repair_join(c, r, execution_id)
  local g = edge_group.read(key.flow_edgegroup(c, r.run.id, execution_id))
  if g and g.is_join then repair_edges.group(c, g, row_joins.states(r)) end
end

-- Corrects the count of open edges of a blocked node, by its upstreams. A node that waits for none continues.
function repair_rows.edges_to(c, execution_id, core)
  if not repair_edges.settled_flow(c, core) then return end
  local r = row.of_key(key.exec_core(c, execution_id))
  local node = graph_store.of_row(r)
  if row.is_extended(r.run) or graph_store.edge_count(node.ups) > MAX_EDGES then return end
  if node.join then return repair_join(c, r, execution_id) end
  if (tonumber(core.replay_count) or 0) > 0 then return end
  -- In a run with replayed nodes, the count is only right when an edge has just been resolved.
  if row.is_replayed(r.run) and row_edges.count_open(r) > 0 then return end
  local open, impossible = count_open(r)
  if open ~= r.open then
    r.open = open
    row.touch(r)
    repair_index.note(c, 'unresolved')
  end
  if open > 0 or impossible or not dependency.is_releasable(core) or child_run.is_awaited(core) then return end
  repair_index.note(c, 'unresolved')
  dependency.release(c, execution_id, { core = key.exec_core(c, execution_id) },
    record.read(key.exec_core(c, execution_id), dependency.CHILD_FIELDS))
end
