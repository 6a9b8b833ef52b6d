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

-- Reports whether another value replaces the result of an upstream that was skipped.
local function has_replaced(node)
  local known = node.has_replaced
  if known == nil then
    known = false
    for i = 1, graph_store.edge_count(node.ups) do
      local _, kind = graph_store.edge(node.ups, i)
      known = known or kind == 'unless_failed'
    end
    node.has_replaced = known
  end
  return known
end

-- Returns all of them for a node that is not a join, and whether another value replaces some after a skip.
local function all_feeders(of_graph, node)
  local ordinals, names = node.feeders, node.feeder_names
  if ordinals then return ordinals, names end
  local count = graph_store.edge_count(node.ups)
  ordinals, names = feeders_of(of_graph, node, 1, count)
  if has_replaced(node) then return ordinals, names, true end
  if count <= MAX_KNOWN_UPS then node.feeders, node.feeder_names = ordinals, names end
  return ordinals, names
end

-- Returns results of nodes of a run, false for missing ones. `run` is a run or the record of a plain one.
local function texts_of(run, ordinals, from, to)
  local results_key = run.is_plain and run_rows.results_key(run) or row.results_key(run)
  if not run_data.has_results(run) then return redis.call('HMGET', results_key, unpack(ordinals, from, to)) end
  local stored, texts = run_data.results(run), {}
  for i = from, to do texts[i - from + 1] = stored[ordinals[i]] or redis.call('HGET', results_key, ordinals[i]) end
  return texts
end

-- Returns results of nodes as {name, result, ordinal} lists, up to a number of bytes, and whether that is all of them.
local function results_of(run, ordinals, names, max_bytes)
  local inputs, bytes = {}, 0
  for from = 1, #ordinals, RESULTS_AT_A_TIME do
    local to = math.min(from + RESULTS_AT_A_TIME - 1, #ordinals)
    local texts = texts_of(run, ordinals, from, to)
    for i = 1, to - from + 1 do
      local result = texts[i] or ''
      bytes = bytes + (string.byte(result) == 0 and stored_value.size(result) or #result)
      if bytes > max_bytes then return inputs, false end
      inputs[#inputs + 1] = { names[from + i - 1], result, number.text(ordinals[from + i - 1]) }
    end
  end
  return inputs, true
end

-- Returns the ordinal, as text, of the only upstream of a node that provides a result.
function row_inputs.only_feeder(run, node) return number.text(all_feeders(run.graph, node)[1]) end

-- Does the same as results_of for the upstreams of a node of a plain run.
function row_inputs.of_node(run, node, max_bytes)
  local ordinals, names
  if node.join then
    ordinals, names = feeders_of(run.graph, node, 1, node.open, { run = { key = run.key, stem = run.at.tag .. ':' .. string.sub(run.id, 1, 32) }, ordinal = node.ordinal })
  else
    ordinals, names = all_feeders(run.graph, node)
  end
  return results_of(run, ordinals, names, max_bytes)
end

-- Empties the results of skipped upstreams among inputs that another value replaces after a skip: they stem from earlier ends of these
-- upstreams, before a rerun.
local function leave_out_skipped(r, ordinals, inputs)
  local ups, skipped = graph_store.of_row(r).ups, {}
  for i = 1, graph_store.edge_count(ups) do
    local upstream, kind = graph_store.edge(ups, i)
    if kind == 'unless_failed' then
      local up = row.at(r.run, upstream)
      skipped[upstream] = up.phase == 4 and node_row.OUTCOME[up.outcome] == 'skipped'
    end
  end
  for i = 1, #inputs do
    if skipped[ordinals[i]] then inputs[i][2] = '' end
  end
end

-- Returns the results of the upstreams of a node as {name, result, ordinal} lists, up to a number of bytes, and whether that is all of
-- them; nil for an execution without a row.
function row_inputs.read(c, execution_id, g, max_bytes)
  local r = row.of_key(key.exec_core(c, execution_id))
  if not r then return nil end
  local node, ordinals, names, replaced = graph_store.of_row(r), nil, nil, nil
  if g then
    ordinals, names = feeders(r, g, 1, graph_store.edge_count(node.ups))
  else
    ordinals, names, replaced = all_feeders(graph_store.of_run(r.run), node)
  end
  if not replaced then return results_of(r.run, ordinals, names, max_bytes) end
  local inputs, complete = results_of(r.run, ordinals, names, max_bytes)
  leave_out_skipped(r, ordinals, inputs)
  return inputs, complete
end

-- Returns a page of them, from the n-th edge on: {name, result, ordinal} lists, and where the next page begins, nil after the last.
function row_inputs.page(c, execution_id, g, from, limit)
  local r = row.of_key(key.exec_core(c, execution_id))
  if not r then return nil end
  local count = graph_store.edge_count(graph_store.of_row(r).ups)
  local to = math.min(count, from + limit - 1)
  local ordinals, names = feeders(r, g, from, to)
  local inputs = #ordinals > 0 and texts_of(r.run, ordinals, 1, #ordinals) or {}
  for i, name in ipairs(names) do inputs[i] = { name, inputs[i] or '', number.text(ordinals[i]) } end
  if has_replaced(graph_store.of_row(r)) then leave_out_skipped(r, ordinals, inputs) end
  return inputs, to < count and to + 1 or nil
end

-- Returns the input of a plain run. `bytes`: the beginning of its rows, if the call has read it. A large one is named: see
-- stored_value.lua.
function row_inputs.of_plain(c, flow, bytes)
  return run_data.input(flow, bytes) or stored_value.own_input(c, flow.id) or ''
end

-- Returns the input of a flow. A large one is named.
function row_inputs.of_flow(c, flow_id)
  local run = row.run(c, flow_id)
  return run and run_data.input(run) or stored_value.own_input(c, flow_id) or ''
end

-- Returns the input of a timer node, as JSON: the input of its run, or the first result of its upstreams.
function row_inputs.of_timer(r, c, core, of)
  if of.input then return stored_value.bytes(c.at.prefix, row_inputs.of_flow(c, r.run.id)) end
  local execution_id = row.execution_id(r.run, r.ordinal)
  local g = flow_record.read(c, core.flow_id).joins and edge_group.of(c, core.flow_id, execution_id) or nil
  local inputs = row_inputs.read(c, execution_id, g, math.huge)
  return inputs[1] and stored_value.bytes(c.at.prefix, inputs[1][2]) or ''
end

-- Writes the result of a node, or removes it (nil). Returns it as it is stored.
function row_inputs.write_result(r, _, _, text)
  local is_first = r.total <= r.retries + 1 and not row.is_replayed(r.run) and (r.total > 0 or not graph_store.of_row(r).wait)
  if not is_first then stored_value.drop_result(r.run, r.ordinal) end
  if text then text = stored_value.keep_result(r.run, r.ordinal, text) end
  local is_with_data = run_data.write_result(r.run, r.ordinal, text, is_first)
  if text and not is_with_data then
    redis.call('HSET', row.results_key(r.run), r.ordinal, text)
  elseif not (is_with_data and is_first) and (r.total > 0 or graph_store.of_row(r).wait) then
    redis.call('HDEL', row.results_key(r.run), r.ordinal)
  end
  return text
end
