-- Purges the nodes of a run that have rows. Most of them do not have their own keys.

-- Maximum number of rows that one call visits. The graph's data of their nodes is read only where it has waitpoints.
local ROWS_PER_CALL = 160

-- Reports whether a node can have keys in addition to its row: it did more than run once and succeed, or was never started.
local function may_have_keys(r, is_join, g)
  return r.flags ~= 0 or r.retries > 0 or r.reclaims > 0 or r.total > 1 or is_join
    or g.head.waits and graph_store.of_row(r).wait ~= nil
end

-- Removes the further data of nodes with rows, each with `remove_member`, from the one on that the record of the run names.
-- Reports whether that is all.
function purge_rows.remove(c, work, run, remove_member)
  local flow_key = key.flow_core(c, run.id)
  local from = tonumber(record.value(flow_key, 'purged_to') or nil) or 0
  local to = math.min(run.count, from + ROWS_PER_CALL)
  if to > from then row.load(run, from + 1, to) end
  if to > from then stored_value.drop_results(run, from + 1, to) end
  local at, g = from, graph_store.find(c, run_class.of_run(run).graph)
  if not g then graph_store.refuse_gone(graph_store.of_run(run)) end
  local is_join = graph_store.join_set(g)
  for _, lane in ipairs(graph_store.lanes(g)) do work.lanes[lane] = true end
  while at < to and work.left > 0 do
    local r = row.at(run, at + 1)
    if is_join[at + 1] then row_joins.forget(r) end
    if may_have_keys(r, is_join[at + 1], g) and not remove_member(c, work, run.id, row.execution_id(run, at + 1)) then break end
    at = at + 1
  end
  if at >= run.count then return true end
  record.set(flow_key, 'purged_to', number.text(at))
  return false
end

-- Removes the rows of a run, with its record, and counts it no longer as one of its class. Returns the run; nil for a
-- flow without rows.
function purge_rows.finish(c, flow_id)
  local run = row.run(c, flow_id)
  if not run then return nil end
  row.drop(run)
  redis.call('UNLINK', key.flow_nodes(c, flow_id), key.flow_more(c, flow_id), key.flow_results(c, flow_id))
  graph_store.leave(c, run)
  return run
end
