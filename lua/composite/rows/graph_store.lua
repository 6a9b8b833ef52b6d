-- Graphs, each stored once in a partition for all runs of it: what is the same for a node in all of them. The client compiles a
-- graph and puts it with the first run that the partition has of it; it goes with the last run of it, or when no run of it comes: see
-- graph_upkeep.
--
-- The hash of a graph holds `nodes` (how many), `edges`, `runs` (how many use it), `definition` (JSON; of a graph with several chunks
-- it comes in parts: d1, d2 …), chunks of CHUNK nodes (n1, n2 …, msgpack), of the ordinals of nodes without upstreams (o1 …) and of joins (j1 …), of their lanes (l1 …, msgpack, each
-- once), the ordinal of each node under `@<name>`, the budgets that all runs of it have (`budgets`, JSON; `blocking`, the ids of those
-- that may keep nodes from starting), and `complete` once all is in; until then the totals of the edges of each chunk
-- (c1 …, see graph_check.totals). The rows of a run as they begin are in it, too, where the graph has one chunk (`rows`); of a graph with
-- more, they are a text of its own, header included, which runs are copies of.

local CHUNK = 32
graph_store.CHUNK = CHUNK

-- Where some fields of a node are in a chunk.
local NAME, KIND, POLICY, TAGS, LIMITS = 1, 2, 8, 9, 17

-- Graphs that the interpreter knows, by the key of their hash: nodes that have been read. Bounded by the bytes that were read
-- for them; beyond that, all are dropped.
local known, known_bytes = {}, 0
local MAX_KNOWN_BYTES = 16777216

local function remember(bytes)
  known_bytes = known_bytes + bytes
  if known_bytes > MAX_KNOWN_BYTES then known, known_bytes = {}, bytes end
end

-- What the interpreter knows of a graph.
local function entry(graph_key)
  local g = known[graph_key]
  if not g then
    g = { key = graph_key, nodes = {}, chunks = {} }
    known[graph_key] = g
  end
  return g
end

local function given(value) return value ~= '' and value or nil end

-- A node as a chunk has it: its fields in the order of stored_node. The table is made with all of its fields at once, those that come
-- later included, since one that grows costs more than all else.
local function read_node(values, ordinal)
  local name, kind, lane_id, priority, uses_flow_input, input_count, capabilities, policy, tags, start_timeout, attempt_timeout, delay, wait_for,
    policy_of_join, ups, downs, limits = unpack(values)
  ups = ups or ''
  local special = capabilities .. start_timeout .. delay .. wait_for .. policy_of_join
  return {
    ordinal = ordinal, suffix = row.suffix(ordinal), place = row.place(ordinal), name = given(name), kind = given(kind),
    lane_id = given(lane_id), priority = given(priority), uses_flow_input = given(uses_flow_input),
    input_count = given(input_count) or '0', capabilities = given(capabilities), policy = given(policy), tags = given(tags),
    start_timeout = given(start_timeout), attempt_timeout = given(attempt_timeout), delay = given(delay), wait = given(wait_for),
    join = given(policy_of_join), ups = ups, downs = downs or '', limits = given(limits),
    priority_number = tonumber(priority) or 0, open = #ups / edge_list.EDGE_BYTES, plain = special == '',
    known_to = nil, successors = nil, read_to = nil, line_started = nil, line_success = nil,
  }
end

local function load_chunk(g, chunk)
  local bytes = redis.call('HGET', g.key, 'n' .. number.digits(chunk))
  if not bytes then error('a graph is missing: ' .. g.key) end
  remember(#bytes)
  for i, values in ipairs(cmsgpack.unpack(bytes)) do
    local ordinal = (chunk - 1) * CHUNK + i
    if not g.nodes[ordinal] then g.nodes[ordinal] = read_node(values, ordinal) end
  end
end

-- The graph of a run.
function graph_store.of_run(run)
  local g = run.known_graph
  if not g then
    g = entry(run.prefix .. ':ffx:' .. run.tag .. ':graph:' .. run.graph)
    run.known_graph = g
  end
  return g
end

-- The graph with a hash, in the partition of the call.
function graph_store.of_call(c, graph_hash) return entry(key.ffx_graph(c, graph_hash)) end

-- What a graph says of a node.
function graph_store.node(g, ordinal)
  local node = g.nodes[ordinal]
  if node then return node end
  load_chunk(g, math.floor((ordinal - 1) / CHUNK) + 1)
  return g.nodes[ordinal]
end

-- What the graph says of the node of a row.
function graph_store.of_row(r)
  local node = r.node
  if not node then
    node = graph_store.node(graph_store.of_run(r.run), r.ordinal)
    r.node = node
  end
  return node
end

graph_store.edge = edge_list.edge

function graph_store.edge_count(list) return #list / edge_list.EDGE_BYTES end

-- Nodes behind a node that are listed: as many as one completion resolves edges to.
local MAX_LISTED = 128

local function list_successors(g, node)
  local all = graph_store.edge_count(node.downs)
  local count = math.min(all, MAX_LISTED)
  local successors, last = { count = count, names = {}, others = count < all }, node.ordinal
  for i = 1, count do
    local ordinal, kind, carries = graph_store.edge(node.downs, i)
    if not edge_list.SATISFIED_BY_SUCCESS[kind] or ordinal <= last then return false end
    last = ordinal
    successors[i], successors.names[i] = graph_store.node(g, ordinal), carries and node.name
  end
  successors.last = last
  return successors
end

-- The nodes behind a node, in the order of the graph, which all come after it and all of whose edges its success satisfies. `names` has
-- the node's name for those that get its result, `count` is how many they are, and `last` the ordinal of the last one, or of the node
-- itself; `others` says that they are the first of many. False where there are other edges.
function graph_store.successors(g, node)
  local successors = node.successors
  if successors == nil then
    successors = list_successors(g, node)
    node.successors = successors
  end
  return successors
end

-- The ordinal of a node by its name, or nil.
function graph_store.ordinal(run, name)
  return tonumber(redis.call('HGET', graph_store.of_run(run).key, '@' .. name) or nil)
end

-- How long a graph is kept of which no run comes (ms).
graph_store.KEPT_MS = 3600000

-- No run uses a graph: it is in the index of such graphs, with the time at which it goes.
local function set_unused(c, graph_hash)
  redis.call('ZADD', key.ffx_unused_graphs(c), c.now + graph_store.KEPT_MS, graph_hash)
end

-- What a graph of the call's partition says of itself; nil when the partition does not have it.
local function head_of(g)
  local head = redis.call('HMGET', g.key, 'complete', 'nodes', 'edges', 'result', 'waits', 'budgets', 'blocking')
  if not head[1] then
    known[g.key] = nil
    return nil
  end
  g.head = {
    nodes = tonumber(head[2]), edges = tonumber(head[3]), result = tonumber(head[4]), waits = is_set(head[5]), budgets = is_set(head[6]),
    blocking = head[7] or '',
  }
  return g.head
end

-- The graph of the call's partition with a hash, with its head; nil when the partition does not have it.
function graph_store.find(c, graph_hash)
  local g = entry(key.ffx_graph(c, graph_hash))
  return (g.head or head_of(g)) and g
end

-- The ordinal of the node whose result is that of the run; 0 for none.
function graph_store.result(g) return (g.head or head_of(g) or {}).result or 0 end

-- So many runs more use a graph that graph_store.find gave. Reports whether there still is one: it may have gone meanwhile.
function graph_store.use(c, g, graph_hash, count)
  local uses = redis.call('HINCRBY', g.key, 'runs', count)
  if uses > count then return true end
  if head_of(g) then
    redis.call('ZREM', key.ffx_unused_graphs(c), graph_hash)
    return true
  end
  if redis.call('HINCRBY', g.key, 'runs', -count) == 0 and redis.call('HLEN', g.key) == 1 then redis.call('DEL', g.key) end
  return false
end

-- Removes a graph. Reports whether the partition had it.
function graph_store.remove(c, graph_hash)
  local graph_key = key.ffx_graph(c, graph_hash)
  redis.call('UNLINK', key.ffx_graph_rows(c, graph_hash))
  known[graph_key] = nil
  return redis.call('UNLINK', graph_key) == 1
end

-- One run less uses a graph, which goes with the last one.
function graph_store.leave(c, graph_hash)
  local graph_key = key.ffx_graph(c, graph_hash)
  if redis.call('HINCRBY', graph_key, 'runs', -1) > 0 then return end
  graph_store.remove(c, graph_hash)
end

-- What is kept of small graphs only.
local MAX_KEPT_NODES = 128

-- The pieces of a graph that are stored with each chunk.
local function pieces(g, letter)
  local fields, count = {}, math.ceil(g.head.nodes / CHUNK)
  for i = 1, count do fields[i] = letter .. number.digits(i) end
  local parts = {}
  for from = 1, count, 500 do
    local found = redis.call('HMGET', g.key, unpack(fields, from, math.min(from + 499, count)))
    for i = 1, #found do parts[#parts + 1] = found[i] or nil end
  end
  return parts
end

-- The same in one.
local function joined(g, letter)
  local kept = g[letter]
  if kept then return kept end
  local all = table.concat(pieces(g, letter))
  if g.head.nodes <= MAX_KEPT_NODES then
    g[letter] = all
    remember(#all)
  end
  return all
end

-- The rows of a graph of one chunk as they begin; nil for other graphs.
function graph_store.initial_rows(g)
  if g.head.nodes > CHUNK then return nil end
  local rows = g.rows
  if not rows then
    rows = redis.call('HGET', g.key, 'rows')
    g.rows = rows
    remember(#rows)
  end
  return rows
end

local function ordinals(list)
  local out = {}
  for at = 1, #list, 2 do out[#out + 1] = struct.unpack('<H', list, at) end
  return out
end

-- The ordinals of nodes without upstreams, and of joins.
function graph_store.roots(g) return ordinals(joined(g, 'o')) end
function graph_store.joins(g) return ordinals(joined(g, 'j')) end

-- Whether a node runs however its run ends.
function graph_store.is_finally(node) return node.join ~= nil and string.sub(node.join, 1, 8) == 'finally ' end

-- What the record of a run says of the joins of its graph, which has some.
function graph_store.joins_text(g)
  local text = g.joins_text
  if not text then
    text = '1'
    for _, ordinal in ipairs(graph_store.joins(g)) do
      if graph_store.is_finally(graph_store.node(g, ordinal)) then text = finally.JOINS end
    end
    g.joins_text = text
  end
  return text
end

-- The same of joins as a set.
function graph_store.join_set(g)
  local set = g.join_set
  if not set then
    set = {}
    for _, ordinal in ipairs(graph_store.joins(g)) do set[ordinal] = true end
    g.join_set = set
  end
  return set
end

-- The definition of a graph, as JSON; false without one.
function graph_store.definition(g)
  if not g.head and not head_of(g) then return false end
  local whole = redis.call('HGET', g.key, 'definition')
  return whole or table.concat(pieces(g, 'd'))
end

-- The lanes of a graph.
function graph_store.lanes(g)
  if g.lanes then return g.lanes end
  local lanes, seen = {}, {}
  local last
  for _, part in ipairs(pieces(g, 'l')) do
    for _, lane in ipairs(part ~= last and cmsgpack.unpack(part) or {}) do
      if not seen[lane] then lanes[#lanes + 1], seen[lane] = lane, true end
    end
    last = part
  end
  if #lanes <= MAX_KEPT_NODES then g.lanes = lanes end
  return lanes
end

-- The budgets that all runs of a graph have, as JSON; "" for none.
function graph_store.budgets(g)
  if g.budgets then return g.budgets end
  local text = redis.call('HGET', g.key, 'budgets') or ''
  if text ~= '' then
    g.budgets = text
    remember(#text)
  end
  return text
end

-- @record graph_node name:text kind:text policy:json tags:json limits:text

-- @function ffx_read_graph
-- @summary  What claims leave out of the nodes of a graph: of at most CHUNK of them, from one of the places 1, 33, 65 … on. With the
--           budgets that all runs of the graph have, as JSON.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      graph              text
-- @arg      first              int
-- @reply    OK nodes:list(graph_node) budgets:text
-- @error    graph_unknown
-- @error    invalid_input message:text
function F.ffx_read_graph(K, A)
  local first, err = number.whole('first', A.first)
  if err then return err end
  local c = call.open(K.partition)
  local found = redis.call('HMGET', key.ffx_graph(c, A.graph), 'n' .. number.digits(math.floor((first - 1) / CHUNK) + 1), 'budgets')
  if not found[1] then return reply.err('graph_unknown') end
  local nodes = cmsgpack.unpack(found[1])
  for i, values in ipairs(nodes) do nodes[i] = { values[NAME], values[KIND], values[POLICY], values[TAGS], values[LIMITS] } end
  return reply.ok(nodes, found[2] or '')
end

local function positive(n) return n > 0 and number.text(n) or '' end

-- First rows by how many edges lead to their nodes.
local FIRST_ROWS, MAX_FIRST_ROWS = {}, 64

local function first_row(open)
  local text = FIRST_ROWS[open]
  if not text then
    text = row.initial(open)
    if open <= MAX_FIRST_ROWS then FIRST_ROWS[open] = text end
  end
  return text
end

-- A node of a call as its chunk has it: its fields in order.
local function stored_node(node, numbers)
  return {
    node.name, node.kind, node.lane_id, number.exact(numbers.priority), node.uses_flow_input == '1' and '1' or '', number.text(numbers.input_count),
    node.capabilities, node.policy, node.tags, positive(numbers.start_timeout), positive(numbers.attempt_timeout),
    positive(numbers.delay), node.wait, node.join, node.ups, node.downs, node.limits,
  }
end

-- The fields of a graph that a call brings: those of chunk `at`. Gives the rows of its nodes, too.
local function fields_of(A, part, at)
  local chunk, rows, roots, joins, lanes, seen, waits = {}, {}, {}, {}, {}, {}, false
  local values, count, nodes = {}, 0, A.nodes
  for i = 1, #nodes do
    local node, ordinal = nodes[i], part.first + i - 1
    chunk[i], rows[i] = stored_node(node, part.numbers[i]), first_row(#node.ups / edge_list.EDGE_BYTES)
    values[count + 1], values[count + 2] = part.fields[i], number.text(ordinal)
    count = count + 2
    if node.ups == '' then roots[#roots + 1] = struct.pack('<H', ordinal) end
    if not seen[node.lane_id] then lanes[#lanes + 1], seen[node.lane_id] = node.lane_id, true end
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

-- Stores the rows of a chunk of several, with the header before them when it is the last.
local function write_rows(c, A, part, rows)
  local rows_key = key.ffx_graph_rows(c, A.graph)
  redis.call('SETRANGE', rows_key, row.place(part.first), rows)
  if A.last == '1' then redis.call('SETRANGE', rows_key, '0', row.first_head(part.first + #A.nodes - 1, A.graph)) end
end

-- The last call of a graph: checks all of it, and adds what says that it is complete. Nil, or the error reply.
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
  set_unused(c, A.graph)
  if chunks == 1 then record.append(values, 'rows', rows) else write_rows(c, A, part, rows) end
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
-- @summary  Brings nodes of a graph into a partition, 32 of them in a call but the last, in any order but the last, which comes
--           when all others have been answered. Each brings a part of the definition, or one brings all of it. Runs of the graph can be submitted once `last` has come. Sent again it
--           changes nothing. A graph of which no run is submitted for an hour goes.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      graph              text
-- @arg      first              int
-- @arg      last               bool
-- @arg      edges              int
-- @arg      result             int
-- @arg      definition         bytes optional
-- @arg      budgets            json optional
-- @arg      blocking           csv optional
-- @group    nodes              name:text kind:text lane_id:lane_id priority:int uses_flow_input:bool input_count:int capabilities:csv policy:json tags:json start_timeout:ms attempt_timeout:ms delay:ms wait:json join:text ups:bytes downs:bytes limits:text
-- @reply    OK
-- @error    invalid_input message:text
function F.ffx_put_graph(K, A)
  local part, err = graph_check.part(A, CHUNK)
  if err then return err end
  local c = call.open(K.partition)
  local graph_key = key.ffx_graph(c, A.graph)
  local known_as = redis.call('HMGET', graph_key, 'complete', 'runs')
  if known_as[1] then
    if (tonumber(known_as[2] or nil) or 0) <= 0 then set_unused(c, A.graph) end
    return reply.ok()
  end
  err = graph_check.names(graph_key, A, part)
  if err then return err end
  local chunks = math.floor((part.first - 1) / CHUNK) + 1
  local at = number.digits(chunks)
  local values, rows = fields_of(A, part, at)
  if A.last == '1' then
    err = complete(c, graph_key, A, part, chunks, values, rows)
    if err then return err end
  else
    values[#values + 1] = 'c' .. at
    values[#values + 1] = graph_check.totals(part)
    set_unused(c, A.graph)
    write_rows(c, A, part, rows)
    redis.call('HSET', graph_key, unpack(values))
  end
  return reply.ok()
end
