-- Stores graphs: chunk by chunk, the last one with the fields that make them complete.

local function positive(n) return n > 0 and number.text(n) or '' end

-- Initial rows by the number of edges that lead to their nodes.
local FIRST_ROWS, MAX_FIRST_ROWS = {}, 64

local function first_row(open)
  local text = FIRST_ROWS[open]
  if not text then
    text = row.initial(open)
    if open <= MAX_FIRST_ROWS then FIRST_ROWS[open] = text end
  end
  return text
end

-- Returns a node of a call in the form of its chunk: its fields in order.
local function stored_node(node, numbers)
  return {
    node.name, node.kind, node.lane_id, number.exact(numbers.priority), node.uses_flow_input == '1' and '1' or '', number.text(numbers.input_count),
    node.capabilities, node.policy, node.tags, positive(numbers.start_timeout), positive(numbers.attempt_timeout),
    positive(numbers.delay), node.wait, node.join, node.ups, node.downs, node.limits,
  }
end

-- Returns the graph fields in a call, which belong to chunk `at`, and the rows of its nodes.
local function fields_of(A, part, at)
  local chunk, rows, roots, joins, lanes, seen, waits = {}, {}, {}, {}, {}, {}, false
  local values, count, nodes = {}, 0, A.nodes
  for i = 1, #nodes do
    local node, ordinal = nodes[i], part.first + i - 1
    chunk[i], rows[i] = stored_node(node, part.numbers[i]), first_row(#node.ups / edge_list.EDGE_BYTES)
    values[count + 1], values[count + 2] = part.fields[i], number.text(ordinal)
    count = count + 2
    if node.ups == '' then roots[#roots + 1] = struct.pack('<H', ordinal) end
    local at_lane = seen[node.lane_id]
    if not at_lane then
      at_lane = #lanes + 1
      lanes[at_lane], lanes[at_lane + 1], seen[node.lane_id] = node.lane_id, 0, at_lane
    end
    if node.ups ~= '' then lanes[at_lane + 1] = lanes[at_lane + 1] + 1 end
    if node.wait ~= '' then waits = true end
    if node.join ~= '' then joins[#joins + 1] = struct.pack('<H', ordinal) end
  end
  local pieces_of = { n = cmsgpack.pack(chunk), o = table.concat(roots), j = table.concat(joins), l = cmsgpack.pack(lanes) }
  for letter, piece in pairs(pieces_of) do
    values[#values + 1] = letter .. at
    values[#values + 1] = piece
  end
  if waits then record.append(values, 'waits', '1') end
  record.append(values, at == '1' and A.last == '1' and 'definition' or 'd' .. at, A.definition)
  record.append(values, 'budgets', A.budgets)
  record.append(values, 'blocking', A.blocking)
  return values, table.concat(rows)
end

-- Stores the rows of one of several chunks. When it is the last, the header and the course are put before them, of which only
-- then the length is known.
local function write_rows(c, A, part, rows)
  local rows_key = key.ffx_graph_rows(c, A.graph)
  redis.call('SETRANGE', rows_key, (part.first - 1) * node_row.BYTES, rows)
  if A.last ~= '1' then return end
  local nodes = part.first + #A.nodes - 1
  redis.call('SET', rows_key, row.first_head(nodes) .. row.first_course(nodes) .. redis.call('GET', rows_key))
end

-- Handles the last call of a graph: checks the whole graph, and adds the mark that it is complete. Returns nil, or the error
-- reply.
local function complete(c, graph_key, A, part, chunks, values, rows)
  local fields, totals = {}, { graph_check.totals(part) }
  for i = 1, chunks do fields[i] = 'c' .. number.digits(i) end
  if chunks > 1 then
    totals = redis.call('HMGET', graph_key, unpack(fields))
    totals[chunks] = graph_check.totals(part)
  end
  local nodes = part.first + #A.nodes - 1
  local err = graph_check.whole(totals, nodes, A)
  if err then return err end
  graph_store.set_unused(c, A.graph)
  if chunks == 1 then record.append(values, 'rows', row.first_course(nodes) .. rows) else write_rows(c, A, part, rows) end
  record.append(values, 'nodes', number.text(nodes))
  for _, name in ipairs({ 'edges', 'result' }) do
    values[#values + 1] = name
    values[#values + 1] = A[name]
  end
  record.append(values, 'complete', '1')
  redis.call('HSET', graph_key, unpack(values))
  if chunks > 1 then call.chunked('HDEL', graph_key, fields) end
  return nil
end

-- @function ffx_put_graph
-- @summary  Stores nodes of a graph in a partition, 32 of them in each call but the last, in any order except the last, which is
--           sent after all others were answered. Each call has a part of the definition, or one has all of it. Runs of the graph
--           can be submitted after `last`. A repeated call changes nothing. A graph for which no run is submitted within an hour
--           is removed.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      graph              text
-- @arg      first              int
-- @arg      last               bool
-- @arg      edges              int
-- @arg      result             int
-- @arg      definition         bytes<plain> optional
-- @arg      budgets            json optional
-- @arg      blocking           csv optional
-- @group    nodes              name:text kind:text lane_id:lane_id priority:int uses_flow_input:bool input_count:int capabilities:csv policy:json tags:json start_timeout:ms attempt_timeout:ms delay:ms wait:json join:text ups:bytes<plain> downs:bytes<plain> limits:text
-- @reply    OK
-- @error    invalid_input message:text
function F.ffx_put_graph(K, A)
  local part, err = graph_check.part(A, graph_store.CHUNK)
  if err then return err end
  local c = call.open(K.partition)
  local graph_key = key.ffx_graph(c, A.graph)
  local known_as = redis.call('HMGET', graph_key, 'complete', 'classes')
  if known_as[1] then
    if (tonumber(known_as[2] or nil) or 0) <= 0 then graph_store.set_unused(c, A.graph) end
    return reply.ok()
  end
  err = graph_check.names(graph_key, A, part)
  if err then return err end
  local chunks = math.floor((part.first - 1) / graph_store.CHUNK) + 1
  local at = number.digits(chunks)
  local values, rows = fields_of(A, part, at)
  if A.last == '1' then
    err = complete(c, graph_key, A, part, chunks, values, rows)
    if err then return err end
  else
    values[#values + 1] = 'c' .. at
    values[#values + 1] = graph_check.totals(part)
    graph_store.set_unused(c, A.graph)
    write_rows(c, A, part, rows)
    redis.call('HSET', graph_key, unpack(values))
  end
  return reply.ok()
end
