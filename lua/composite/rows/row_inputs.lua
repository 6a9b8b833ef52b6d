-- The results that nodes of a run take in.

-- Results that are read together: few enough that not much is read in vain where they are large.
local RESULTS_AT_A_TIME = 16

-- The ordinals and names of upstreams that bring results to a node of a graph. Of a join with a row, those that were there when it
-- was satisfied.
local function feeders_of(of_graph, node, from, to, joined)
  local ordinals, names = {}, {}
  for i = from, to do
    local upstream, _, carries = graph_store.edge(node.ups, i)
    if carries and (not joined or row_joins.feeds(joined, upstream)) then
      ordinals[#ordinals + 1], names[#names + 1] = upstream, graph_store.node(of_graph, upstream).name
    end
  end
  return ordinals, names
end

local function feeders(r, g, from, to)
  return feeders_of(graph_store.of_run(r.run), graph_store.of_row(r), from, to, g and r)
end

-- Results of nodes as {name, result} pairs, up to so many bytes, and whether that is all of them.
local function results_of(c, flow_id, ordinals, names, max_bytes)
  local inputs, bytes = {}, 0
  for from = 1, #ordinals, RESULTS_AT_A_TIME do
    local to = math.min(from + RESULTS_AT_A_TIME - 1, #ordinals)
    for i, result in ipairs(redis.call('HMGET', key.flow_results(c, flow_id), unpack(ordinals, from, to))) do
      result = result or ''
      bytes = bytes + #result
      if bytes > max_bytes then return inputs, false end
      inputs[#inputs + 1] = { names[from + i - 1], result }
    end
  end
  return inputs, true
end

-- The same of the upstreams of a node that is no join.
function row_inputs.of_node(c, flow_id, of_graph, node, max_bytes)
  local ordinals, names = feeders_of(of_graph, node, 1, graph_store.edge_count(node.ups))
  return results_of(c, flow_id, ordinals, names, max_bytes)
end

-- Results of the upstreams of a node as {name, result} pairs, up to so many bytes, and whether that is all of them; nil for an
-- execution without a row.
function row_inputs.read(c, execution_id, g, max_bytes)
  local r = row.of_key(key.exec_core(c, execution_id))
  if not r then return nil end
  local ordinals, names = feeders(r, g, 1, graph_store.edge_count(graph_store.of_row(r).ups))
  return results_of(c, r.run.id, ordinals, names, max_bytes)
end

-- A page of them, from the n-th edge on: {name, result} pairs, and where the next page begins, nil behind the last.
function row_inputs.page(c, execution_id, g, from, limit)
  local r = row.of_key(key.exec_core(c, execution_id))
  if not r then return nil end
  local count = graph_store.edge_count(graph_store.of_row(r).ups)
  local to = math.min(count, from + limit - 1)
  local ordinals, names = feeders(r, g, from, to)
  local inputs = #ordinals > 0 and redis.call('HMGET', key.flow_results(c, r.run.id), unpack(ordinals)) or {}
  for i, name in ipairs(names) do inputs[i] = { name, inputs[i] or '' } end
  return inputs, to < count and to + 1 or nil
end

-- A run of one node has a result of at most so many bytes behind its row, with the length before it, which is 0 where there is none:
-- a key of its own would take more than that in memory, and a further command.
local MAX_BEHIND_ROW, BEHIND_ROW, LENGTH, LENGTH_BYTES = 1024, row.place(2), '<I4', 4

-- What is behind the row of the one node of a run with a result; nil when the result is too long for that.
function row_inputs.behind_row(result)
  if #result > MAX_BEHIND_ROW then return nil end
  return struct.pack(LENGTH, #result) .. result
end

-- Writes the result of the one node of a run behind its row, or takes away what is there (nil). Reports whether the result is there.
local function write_behind_row(run, text)
  local behind = text and row_inputs.behind_row(text)
  if behind or redis.call('GETRANGE', run.key, BEHIND_ROW, BEHIND_ROW) ~= '' then
    redis.call('SETRANGE', run.key, BEHIND_ROW, behind or row_inputs.behind_row(''))
  end
  return behind ~= nil
end

-- The result behind the row of the one node of a run, or nil.
local function read_behind_row(run)
  local behind = redis.call('GETRANGE', run.key, BEHIND_ROW, -1)
  local length = #behind > LENGTH_BYTES and struct.unpack(LENGTH, behind) or 0
  return length > 0 and string.sub(behind, LENGTH_BYTES + 1, LENGTH_BYTES + length) or nil
end

local function results_key(run) return run.prefix .. ':flow:' .. run.tag .. ':' .. run.id .. ':results' end

function results.write_row(core_key, text)
  local r = row.of_key(core_key)
  if not r then return false end
  local is_behind_row = r.run.count == 1 and write_behind_row(r.run, text)
  if text and not is_behind_row then
    redis.call('HSET', results_key(r.run), r.ordinal, text)
  elseif is_behind_row and not row.is_replayed(r.run) then
    return true -- there has been no other
  elseif r.started > 0 or graph_store.of_row(r).wait then
    redis.call('HDEL', results_key(r.run), r.ordinal)
  end
  return true
end

function results.read_row(core_key)
  local r = row.of_key(core_key)
  if not r then return nil end
  return r.run.count == 1 and read_behind_row(r.run) or redis.call('HGET', results_key(r.run), r.ordinal)
end

function policies.of_row(core_key)
  local r = row.of_key(core_key)
  return r and graph_store.of_row(r).policy
end
