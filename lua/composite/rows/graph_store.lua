-- Graphs, each stored once in a partition for all its runs: the data of a node that is the same in all of them. The client
-- compiles a graph and puts it with the first run in the partition. It is removed with the last class of runs that has it, or when
-- no run is submitted: see graph_upkeep.
--
-- The hash of a graph holds `nodes` (how many), `edges`, `classes` (how many use it), `definition` (JSON; a graph with several
-- chunks has it in parts: d1, d2 …), chunks of CHUNK nodes (n1, n2 …, msgpack), the ordinals of nodes without upstreams (o1 …)
-- and of joins (j1 …), their lanes (l1 …, msgpack, each once, with the number of nodes that have upstreams), the ordinal of each
-- node under `@<name>`, the budgets that all its runs have (`budgets`, JSON; `blocking`, the ids of those that may keep nodes
-- from starting), and `complete` once all parts are stored; until then the totals of the edges of each chunk (c1 …, see
-- graph_check.totals). It also holds the initial rows of a run (`rows`) when the graph has one chunk. For a larger graph they are
-- a separate text, header included, and runs are copies of it.

local CHUNK = 32
graph_store.CHUNK = CHUNK

-- Graphs that the interpreter knows, by the key of their hash: nodes that have been read, and the key of a run that has requested
-- them. Bounded by the bytes that were read for them: when it is full, it is emptied.
local known, known_bytes = {}, 0
local MAX_KNOWN_BYTES = 16777216

local function remember(bytes)
  known_bytes = known_bytes + bytes
  if known_bytes > MAX_KNOWN_BYTES then known, known_bytes = {}, bytes end
end

-- Returns the interpreter's entry of a graph.
local function entry(graph_key)
  local g = known[graph_key]
  if not g then
    g = { key = graph_key, nodes = {}, rows_key = nil }
    known[graph_key] = g
  end
  return g
end

local function given(value) return value ~= '' and value or nil end

-- Reads a node from a chunk: its fields in the order of stored_node. The table is made with all of its fields at once, including
-- later ones, since growing a table costs more than all other work here. `count` is how many nodes the graph has.
local function read_node(values, ordinal, count)
  local name, kind, lane_id, priority, uses_flow_input, input_count, capabilities, policy, tags, start_timeout, attempt_timeout, delay, wait_for,
    policy_of_join, ups, downs, limits = unpack(values)
  ups = ups or ''
  local special, place = capabilities .. wait_for, row.place(count, ordinal)
  return {
    ordinal = ordinal, suffix = row.suffix(ordinal), place = place, place_text = number.text(place),
    ordinal_text = number.text(ordinal), name = given(name), kind = given(kind),
    lane_id = given(lane_id), priority = given(priority), uses_flow_input = given(uses_flow_input),
    input_count = given(input_count) or '0', capabilities = given(capabilities), policy = given(policy), tags = given(tags),
    start_timeout = given(start_timeout), attempt_timeout = given(attempt_timeout), delay = given(delay), wait = given(wait_for),
    join = given(policy_of_join), ups = ups, downs = downs or '', limits = given(limits),
    priority_number = tonumber(priority) or 0, open = #ups / edge_list.EDGE_BYTES, plain = special .. delay .. policy_of_join == '',
    is_fresh = special .. delay == '', may_take = special == '',
    known_to = nil, successors = nil, read_to = nil, join_policy = nil, line_started = nil, line_success = nil, passed_on = nil,
    started = row.started(ordinal), succeeded = row.succeeded(ordinal),
  }
end

local function chunk_of(ordinal) return math.floor((ordinal - 1) / CHUNK) + 1 end

-- Returns the head fields of a graph in the call's partition; nil when the partition does not have it.
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

local function load_chunk(g, chunk)
  local head = g.head or head_of(g)
  local bytes = head and redis.call('HGET', g.key, 'n' .. number.digits(chunk))
  if not bytes then return end
  remember(#bytes)
  for i, values in ipairs(cmsgpack.unpack(bytes)) do
    local ordinal = (chunk - 1) * CHUNK + i
    if not g.nodes[ordinal] then g.nodes[ordinal] = read_node(values, ordinal, head.nodes) end
  end
end

-- Raises the error that a graph is missing. It names the run that has requested the graph.
function graph_store.refuse_gone(g)
  local core_key = g.rows_key and string.gsub(g.rows_key, ':nodes$', ':core')
  local run = core_key and record.values(core_key, 'run_id', 'flow_kind') or {}
  local of = run[1] and run[2] and ' of run ' .. run[1] .. ' of flow ' .. run[2] or ''
  error('the graph' .. of .. ' is gone: ' .. g.key, 0)
end

-- Returns the graph of a run.
function graph_store.of_run(run)
  local g = run.known_graph
  if not g then
    g = entry(run.prefix .. ':ffx:' .. run.tag .. ':graph:' .. run_class.of_run(run).graph)
    run.known_graph = g
  end
  g.rows_key = run.key
  return g
end

-- Returns the graph with a hash, in the partition of the call.
function graph_store.of_call(c, graph_hash) return entry(key.ffx_graph(c, graph_hash)) end

-- Returns the graph's data of a node; nil when the graph is missing.
function graph_store.find_node(g, ordinal)
  local node = g.nodes[ordinal]
  if node then return node end
  load_chunk(g, chunk_of(ordinal))
  return g.nodes[ordinal]
end

-- Does the same, and raises an error when the graph is missing.
function graph_store.node(g, ordinal)
  return g.nodes[ordinal] or graph_store.find_node(g, ordinal) or graph_store.refuse_gone(g)
end

-- Reports whether the graph of an execution's run is missing, so that the execution cannot be read or changed.
function graph_store.is_gone(c, execution_id)
  local r = row.of(c, execution_id)
  return r ~= nil and not r.node and not graph_store.find_node(graph_store.of_run(r.run), r.ordinal)
end

-- Returns the graph's data of a row's node.
function graph_store.of_row(r)
  local node = r.node
  if not node then
    node = graph_store.node(graph_store.of_run(r.run), r.ordinal)
    r.node = node
  end
  return node
end

-- Returns the lane of a row's node by its graph; nil when that is missing.
function graph_store.lane_of_row(r)
  local node = r.node or graph_store.find_node(graph_store.of_run(r.run), r.ordinal)
  return node and node.lane_id
end

graph_store.edge = edge_list.edge

function graph_store.edge_count(list) return #list / edge_list.EDGE_BYTES end

-- Maximum number of a node's successors that are listed: as many as one completion resolves edges to.
local MAX_LISTED = 128

-- Returns the same list without the joins.
local function without_joins(successors, node)
  local rest = { count = 0, names = {}, others = successors.others, joins = nil, last = node.ordinal }
  for i = 1, successors.count do
    local child = successors[i]
    if not child.join then
      local n = rest.count + 1
      rest[n], rest.names[n], rest.count, rest.last = child, successors.names[i], n, child.ordinal
    end
  end
  return rest
end

local function list_successors(g, node)
  local all = graph_store.edge_count(node.downs)
  local count = math.min(all, MAX_LISTED)
  local successors, last = { of = node.ordinal, count = count, names = {}, others = count < all, joins = nil, rest = nil }, node.ordinal
  for i = 1, count do
    local ordinal, kind, carries = graph_store.edge(node.downs, i)
    if not edge_list.SATISFIED_BY_SUCCESS[kind] or ordinal <= last then return false end
    last = ordinal
    successors[i], successors.names[i] = graph_store.node(g, ordinal), carries and node.name
    if successors[i].join then successors.joins = true end
  end
  successors.last = last
  if successors.joins then successors.rest = without_joins(successors, node) end
  return successors
end

-- Returns the successors of a node, in the order of the graph, when all of them come after it and its success satisfies all edges
-- to them. `names` has the node's name for those that get its result, `count` is their number, and `last` the ordinal of the last
-- one, or of the node itself; `joins` means that some are joins, without which `rest` is
-- the list, `others` that they are the first of many, and `of` is the ordinal of the node. Returns false when there are other edges.
function graph_store.successors(g, node)
  local successors = node.successors
  if successors == nil then
    successors = list_successors(g, node)
    node.successors = successors
  end
  return successors
end

-- Returns the ordinal of a node by its name, or nil.
function graph_store.ordinal(run, name)
  return tonumber(redis.call('HGET', graph_store.of_run(run).key, '@' .. name) or nil)
end

-- Time (ms) for which a graph without a run is kept.
graph_store.KEPT_MS = 3600000

-- Enters a graph without runs into the index of unused graphs, with the time of its removal.
function graph_store.set_unused(c, graph_hash)
  redis.call('ZADD', key.ffx_unused_graphs(c), c.now + graph_store.KEPT_MS, graph_hash)
end

-- Returns the head fields of a graph; nil when the graph is missing.
function graph_store.head(g) return g.head or head_of(g) end

-- Returns the graph of the call's partition with a hash, with its head; nil when the partition does not have it.
function graph_store.find(c, graph_hash)
  local g = entry(key.ffx_graph(c, graph_hash))
  return graph_store.head(g) and g
end

-- Returns the ordinal of the node whose result becomes the run's result; 0 for none.
function graph_store.result(g) return (graph_store.head(g) or {}).result or 0 end

-- Counts `count` more runs of a class, whose graph graph_store.find returned. `class_key`: the key of its record. Reports whether the
-- graph still exists, as it may have been removed since, and whether these are the first runs of the class.
function graph_store.use(c, class, g, count, class_key)
  if redis.call('HINCRBY', class_key, 'runs', count) > count then return true, false end
  if not head_of(g) then
    redis.call('UNLINK', class_key)
    return false
  end
  redis.call('HSET', class_key, 'text', class.text)
  if redis.call('HINCRBY', g.key, 'classes', 1) == 1 then redis.call('ZREM', key.ffx_unused_graphs(c), class.graph) end
  return true, true
end

-- Removes a graph. Reports whether the partition had it.
function graph_store.remove(c, graph_hash)
  local graph_key = key.ffx_graph(c, graph_hash)
  redis.call('UNLINK', key.ffx_graph_rows(c, graph_hash))
  known[graph_key] = nil
  return redis.call('UNLINK', graph_key) == 1
end

-- Counts one run less of its class. The last one removes the class, and the graph, if no other class has it.
function graph_store.leave(c, run)
  local class = run_class.of_run(run)
  local class_key = key.ffx_run_class(c, class.digits)
  if redis.call('HINCRBY', class_key, 'runs', -1) > 0 then return end
  redis.call('UNLINK', class_key)
  if redis.call('HINCRBY', key.ffx_graph(c, class.graph), 'classes', -1) <= 0 then graph_store.remove(c, class.graph) end
end

-- Maximum number of nodes of a graph whose lists are kept in memory.
local MAX_KEPT_NODES = 128

-- Returns the parts of a graph that are stored with each chunk.
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

-- Returns these parts joined.
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

-- Returns the initial course and rows of a graph of one chunk; nil for other graphs.
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

-- Return the ordinals of nodes without upstreams, and of joins.
function graph_store.roots(g) return ordinals(joined(g, 'o')) end
function graph_store.joins(g) return ordinals(joined(g, 'j')) end

-- Reports whether a graph has joins. Its head is known.
function graph_store.has_joins(g)
  if g.has_joins == nil then g.has_joins = #graph_store.joins(g) > 0 end
  return g.has_joins
end

-- Reports whether a node runs however its run ends.
function graph_store.is_finally(node) return node.join ~= nil and string.sub(node.join, 1, 8) == 'finally ' end

-- Returns the value of a run record's field `joins` for the runs of a graph; nil when it has no joins, or is missing.
function graph_store.joins_of(g)
  local text = g.joins_text
  if text == nil then
    if not graph_store.head(g) then return nil end
    local joins = graph_store.joins(g)
    text = #joins > 0 and '1' or false
    for i = 1, #joins do
      if graph_store.is_finally(graph_store.node(g, joins[i])) then text = finally.JOINS end
    end
    g.joins_text = text
  end
  return text or nil
end

-- Returns the joins as a set.
function graph_store.join_set(g)
  local set = g.join_set
  if not set then
    set = {}
    for _, ordinal in ipairs(graph_store.joins(g)) do set[ordinal] = true end
    g.join_set = set
  end
  return set
end

-- Returns the definition of a graph, as JSON; false without one.
function graph_store.definition(g)
  if not graph_store.head(g) then return false end
  local whole = redis.call('HGET', g.key, 'definition')
  return whole or table.concat(pieces(g, 'd'))
end

-- Returns the lanes of a graph; and by lane the number of nodes that have upstreams, where there are any.
function graph_store.lanes(g)
  if g.lanes then return g.lanes, g.waiting end
  local lanes, waiting, seen = {}, {}, {}
  for _, part in ipairs(pieces(g, 'l')) do
    local pairs_of = cmsgpack.unpack(part)
    for i = 1, #pairs_of, 2 do
      local lane, count = pairs_of[i], pairs_of[i + 1]
      if not seen[lane] then lanes[#lanes + 1], seen[lane] = lane, true end
      if count > 0 then waiting[lane] = (waiting[lane] or 0) + count end
    end
  end
  if #lanes <= MAX_KEPT_NODES then g.lanes, g.waiting = lanes, waiting end
  return lanes, waiting
end

-- Returns the budgets that all runs of a graph have, as JSON; "" for none.
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
-- @summary  Returns the fields that claims leave out of the nodes of a graph: for at most CHUNK of them, from one of the places
--           1, 33, 65 … on. Also returns the budgets that all runs of the graph have, as JSON.
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
  local found = redis.call('HMGET', key.ffx_graph(c, A.graph), 'n' .. number.digits(chunk_of(first)), 'budgets')
  if not found[1] then return reply.err('graph_unknown') end
  local nodes = cmsgpack.unpack(found[1])
  local NAME, KIND, POLICY, TAGS, LIMITS = 1, 2, 8, 9, 17 -- where the fields are in a chunk
  for i, values in ipairs(nodes) do nodes[i] = { values[NAME], values[KIND], values[POLICY], values[TAGS], values[LIMITS] } end
  return reply.ok(nodes, found[2] or '')
end
