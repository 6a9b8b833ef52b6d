-- The inputs of a run's nodes: the input of the run, and results.

-- Number of results that are read together: few, because large ones may be read in vain.
local RESULTS_AT_A_TIME = 16

-- Returns the ordinals and names of upstreams that provide results to a node of a graph. For a join with a row, these are the
-- upstreams that had ended when it was satisfied.
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

-- Maximum number of a node's upstreams for which the interpreter keeps with the node whose results are its inputs.
local MAX_KNOWN_UPS = 8

-- Returns all of them for a node that is not a join.
local function all_feeders(of_graph, node)
  local ordinals, names = node.feeders, node.feeder_names
  if ordinals then return ordinals, names end
  local count = graph_store.edge_count(node.ups)
  ordinals, names = feeders_of(of_graph, node, 1, count)
  if count <= MAX_KNOWN_UPS then node.feeders, node.feeder_names = ordinals, names end
  return ordinals, names
end

-- Returns results of nodes as {name, result} pairs, up to a number of bytes, and whether that is all of them.
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

-- Does the same for the upstreams of a node that is not a join.
function row_inputs.of_node(c, flow_id, of_graph, node, max_bytes)
  local ordinals, names = all_feeders(of_graph, node)
  return results_of(c, flow_id, ordinals, names, max_bytes)
end

-- Returns the results of the upstreams of a node as {name, result} pairs, up to a number of bytes, and whether that is all of
-- them; nil for an execution without a row.
function row_inputs.read(c, execution_id, g, max_bytes)
  local r = row.of_key(key.exec_core(c, execution_id))
  if not r then return nil end
  local node, ordinals, names = graph_store.of_row(r), nil, nil
  if g then
    ordinals, names = feeders(r, g, 1, graph_store.edge_count(node.ups))
  else
    ordinals, names = all_feeders(graph_store.of_run(r.run), node)
  end
  return results_of(c, r.run.id, ordinals, names, max_bytes)
end

-- Returns a page of them, from the n-th edge on: {name, result} pairs, and where the next page begins, nil after the last.
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

-- Maximum size (bytes) of an input and of a result after the rows. A run's input may follow its rows, and then, for a run of one
-- node, the result, each with its length before it. A separate key would take more than that in memory, and further commands. The
-- input is present when a flag of the run is set; a result when its length is not 0.
local MAX_BEHIND, LENGTH, LENGTH_BYTES = 1024, '<I4', 4

-- The last byte of a run of one node that an input after its row can have.
row_inputs.LAST_OF_ONE = row.place(1, 2) + LENGTH_BYTES + MAX_BEHIND - 1

-- Returns an input or a result in the form that follows the rows; nil when it is too long for that.
function row_inputs.behind(text)
  if #text > MAX_BEHIND then return nil end
  return struct.pack(LENGTH, #text) .. text
end

-- Returns the text that begins after `at` bytes, and where it ends; nil when it is not in these bytes.
local function text_at(bytes, at)
  if #bytes < at + LENGTH_BYTES then return nil end
  local last = at + LENGTH_BYTES + struct.unpack(LENGTH, bytes, at + 1)
  if #bytes < last then return nil end
  return string.sub(bytes, at + LENGTH_BYTES + 1, last), last
end

-- Reads the input after a number of rows from the engine, in the form of `row_inputs.behind`.
local function read_behind(nodes_key, count)
  local at = row.place(count, count + 1)
  return redis.call('GETRANGE', nodes_key, at, at + LENGTH_BYTES + MAX_BEHIND - 1)
end

-- Returns the input of a plain run. `bytes`: the beginning of its rows, if the call has read it.
function row_inputs.of_plain(c, flow, bytes)
  if not flow.has_input then return redis.call('GET', key.flow_input(c, flow.id)) or '' end
  return bytes and text_at(bytes, row.place(flow.count, flow.count + 1)) or text_at(read_behind(flow.nodes_key, flow.count), 0) or ''
end

-- Returns the input of a flow.
function row_inputs.of_flow(c, flow_id)
  local run = row.run(c, flow_id)
  if run and row.has_input(run.flags) then return text_at(read_behind(run.key, run.count), 0) or '' end
  return redis.call('GET', key.flow_input(c, flow_id)) or ''
end

-- Returns the input after the row of a plain run of one node, in its stored form; "" when there is none. `bytes`: the beginning
-- of the run.
function row_inputs.between(flow, bytes)
  if not flow.has_input then return '' end
  local at = row.place(1, 2)
  local _, last = text_at(bytes, at)
  return last and string.sub(bytes, at + 1, last) or read_behind(flow.nodes_key, 1)
end

-- Returns the bytes after the row of a run of one node, and how many of them come before the result.
local function read_one(run)
  local behind = redis.call('GETRANGE', run.key, row.place(1, 2), -1)
  if not row.has_input(run.flags) then return behind, 0 end
  local _, last = text_at(behind, 0)
  return behind, last
end

-- Returns the input of a timer node, as JSON: the input of its run, or the first result of its upstreams.
function row_inputs.of_timer(r, c, core, of)
  if of.input then return row_inputs.of_flow(c, r.run.id) end
  local execution_id = row.execution_id(r.run, r.ordinal)
  local g = flow_record.read(c, core.flow_id).joins and edge_group.of(c, core.flow_id, execution_id) or nil
  local inputs = row_inputs.read(c, execution_id, g, math.huge)
  return inputs[1] and inputs[1][2] or ''
end

-- Writes the result of the one node of a run after its row, or removes the stored one (nil). Reports whether the result is stored
-- there; an empty result is not.
local function write_one(run, text)
  local behind, at = read_one(run)
  local result = is_set(text) and row_inputs.behind(text) or nil
  if result or #behind > at then redis.call('SETRANGE', run.key, row.place(1, 2) + at, result or row_inputs.behind('')) end
  return result ~= nil
end

-- Returns the result after the row of the one node of a run, or nil.
local function result_of_one(run)
  local text = text_at(read_one(run))
  return is_set(text) and text or nil
end

-- Writes the result of a node, or removes it (nil).
function row_inputs.write_result(r, _, _, text)
  local is_behind_row = r.run.count == 1 and write_one(r.run, text)
  if text and not is_behind_row then
    redis.call('HSET', row.results_key(r.run), r.ordinal, text)
  elseif is_behind_row and r.total <= 1 and not row.is_replayed(r.run) then
    return -- no earlier result
  elseif r.started > 0 or graph_store.of_row(r).wait then
    redis.call('HDEL', row.results_key(r.run), r.ordinal)
  end
end

-- Returns the result of a node, or false.
function row_inputs.result(r)
  return r.run.count == 1 and result_of_one(r.run) or redis.call('HGET', row.results_key(r.run), r.ordinal)
end
