-- Removes graphs for which no run was submitted within an hour.

-- Maximum number of graphs that one call removes: a graph may have many nodes.
local GRAPHS_PER_CALL = 16

-- Removes graphs that have waited long enough for a run. Returns how many it removed.
function graph_upkeep.remove_due(c)
  local unused_key = key.ffx_unused_graphs(c)
  local gone = 0
  local count = scan.each_due(c, 'retention', unused_key, GRAPHS_PER_CALL, function(graph_hash)
    local graph_key = key.ffx_graph(c, graph_hash)
    if (tonumber(redis.call('HGET', graph_key, 'classes') or nil) or 0) <= 0 then
      if graph_store.remove(c, graph_hash) then gone = gone + 1 end
    end
    redis.call('ZREM', unused_key, graph_hash)
  end)
  if count == GRAPHS_PER_CALL then c.more = true end
  return gone
end

-- Adds a graph to the index, or removes it, by its own fields.
function graph_upkeep.repair(c, graph_hash)
  local unused_key, classes = key.ffx_unused_graphs(c), redis.call('HGET', key.ffx_graph(c, graph_hash), 'classes')
  if (tonumber(classes or nil) or 0) > 0 or redis.call('EXISTS', key.ffx_graph(c, graph_hash)) == 0 then
    repair_index.drop(c, 'unused_graphs', 'ZREM', unused_key, graph_hash)
  else
    repair_index.place(c, 'unused_graphs', unused_key, graph_hash, c.now + graph_store.KEPT_MS, false)
  end
end
