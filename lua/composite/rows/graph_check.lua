-- Checks the graphs that callers send, before any part of them is stored.

-- Bytes of an edge in the lists of a node, as graph_store reads them: the ordinal of the other node, low byte first, and flags.
local EDGE_BYTES = 3
local MAX_FLAGS, CASE, CASE_STEP = 7, 3, 8

-- The course of a run has twice the ordinals, in 16 bits.
local MAX_NODES = 32000

-- Modulus of the sums over edges: the square of a number below it is exact.
local MODULUS = 94906247

local function refuse(text) return reply.err('invalid_input', text) end

-- Reports whether a list names a node twice.
local function repeats(list)
  local seen, byte = {}, string.byte
  for at = 1, #list, EDGE_BYTES do
    local low, high = byte(list, at, at + 1)
    local other = low + 256 * high
    if seen[other] then return other end
    seen[other] = true
  end
  return nil
end

-- Weights of edges by their flags: small numbers, so that sums stay exact. Flags without an entry are invalid.
local WEIGHTS = {}
for flags = 0, MAX_FLAGS do WEIGHTS[flags] = flags + 1 end
for n = 1, decision.MAX_CASES do WEIGHTS[CASE + n * CASE_STEP] = MAX_FLAGS + 1 + n end

-- Returns the sums of the other nodes' ordinals in a list, and of their squares, each times the weight of the flags, and the
-- greatest. Returns nil and the error reply when the list is invalid, or names a node twice.
local function sum_up(what, list, ordinal)
  if #list % EDGE_BYTES ~= 0 then return nil, refuse(what .. ' must have entries of ' .. EDGE_BYTES .. ' bytes') end
  local sum, squares, last, sorted, greatest, byte, weights = 0, 0, 0, true, 0, string.byte, WEIGHTS
  for at = 1, #list, EDGE_BYTES do
    local low, high, flags = byte(list, at, at + 2)
    local other, weight = low + 256 * high, weights[flags]
    if other == 0 or other == ordinal then
      return nil, refuse(what .. ' must name other nodes by their ordinals, each once, got: ' .. number.digits(other))
    elseif not weight then
      return nil, refuse(what .. ' have unknown flags: ' .. number.digits(flags))
    end
    if other > last then
      if other > greatest then greatest = other end
    else
      sorted = false
    end
    local weighted = other * weight
    last, sum, squares = other, sum + weighted, squares + other * weighted
  end
  local twice = not sorted and repeats(list)
  if twice then return nil, refuse(what .. ' must name other nodes by their ordinals, each once, got: ' .. number.digits(twice)) end
  return sum, squares, greatest
end

-- Adds the edges in the lists of a node to the totals of a part: their number, two sums, and the greatest ordinal. An edge adds
-- the same to the totals of both its ends: up * down and up^2 * down, each times the weight of its flags. Returns nil, or the
-- error reply.
local function add_edges(name, node, ordinal, part)
  local ups, downs = part.ups, part.downs
  if node.ups ~= '' then
    local sum, squares, greatest = sum_up('node ' .. name .. ': ups', node.ups, ordinal)
    if not sum then return squares end
    ups.count, part.greatest = ups.count + #node.ups / EDGE_BYTES, math.max(part.greatest, greatest)
    ups.sum, ups.squares = (ups.sum + sum % MODULUS * ordinal) % MODULUS, (ups.squares + squares % MODULUS * ordinal) % MODULUS
  end
  if node.downs ~= '' then
    local sum, other, greatest = sum_up('node ' .. name .. ': downs', node.downs, ordinal)
    if not sum then return other end
    downs.count, part.greatest = downs.count + #node.downs / EDGE_BYTES, math.max(part.greatest, greatest)
    sum = sum % MODULUS * ordinal % MODULUS
    downs.sum, downs.squares = (downs.sum + sum) % MODULUS, (downs.squares + sum * ordinal) % MODULUS
  end
  return nil
end

local function is_table(text)
  local ok, decoded = pcall(cjson.decode, text)
  return ok and type(decoded) == 'table'
end

-- Does the same with a text whose plain strings are emptied, which is JSON when the text itself is: a removed string has neither
-- quotes nor escapes, and the text between two quotes is either a string in both texts, or makes both invalid.
local function is_table_like(text, known)
  local like = string.gsub(text, '"[%w._-]+"', '""')
  if known[like] == nil then known[like] = is_table(like) end
  return known[like]
end

local function is_known_table(text, known)
  if known[text] == nil then known[text] = is_table(text) end
  return known[text]
end

local INPUT = ',"input":'

-- Reports whether a text is a JSON object. `known`: the results of the call's earlier checks. Most policies are equal except for
-- the input, which names other nodes: the part before it, and the input with the rest, are each an object when both are one
-- together.
local function is_object(text, known)
  if known[text] then return true end
  local at = string.find(text, INPUT, 1, true)
  if at and at > 2 and is_known_table(string.sub(text, 1, at - 1) .. '}', known)
    and is_table_like('{' .. string.sub(text, at + 1), known) then
    return true
  end
  return is_known_table(text, known)
end

local NODE_NUMBERS, NODE_OBJECTS = { 'input_count', 'delay', 'start_timeout', 'attempt_timeout' }, { 'policy', 'tags' }

-- Returns the numbers of a node; nil, and the error reply when a field is invalid. `part`: see graph_check.part.
local function check_node(node, ordinal, part)
  if node.name == '' or node.lane_id == '' or node.kind == '' and node.wait == '' then
    return nil, refuse('node ' .. number.digits(ordinal) .. ' must have a name, a lane and, unless it is a waitpoint, a kind')
  end
  local numbers, err = { input_count = 0, delay = 0, start_timeout = 0, attempt_timeout = 0, priority = 0 }, nil
  for i = 1, #NODE_NUMBERS do
    local name = NODE_NUMBERS[i]
    if node[name] ~= '0' then
      numbers[name], err = number.count('node ' .. node.name .. ': ' .. name, node[name], 0)
      if err then return nil, err end
    end
  end
  if node.priority ~= '0' then
    numbers.priority, err = number.priority('node ' .. node.name .. ': priority', node.priority)
    if err then return nil, err end
  end
  err = add_edges(node.name, node, ordinal, part)
  if err then return nil, err end
  for i = 1, #NODE_OBJECTS do
    local name = NODE_OBJECTS[i]
    if node[name] ~= '' and not is_object(node[name], part.objects) then
      return nil, refuse('node ' .. node.name .. ': ' .. name .. ' must be a JSON object')
    end
  end
  if node.wait ~= '' then
    err = select(2, wait.parse_node('node ' .. node.name, node.wait))
    if err then return nil, err end
  end
  if node.limits ~= '' and not decode.limits(node.limits) then
    return nil, refuse('malformed limits of node ' .. node.name)
  end
  if node.join ~= '' then
    err = select(2, join_spec.parse(node.name, node.join, #node.ups / EDGE_BYTES))
    if err then return nil, err end
  end
  return numbers
end

-- Returns the part of a graph that a call contains: the ordinal of its first node, the numbers of its nodes, the totals of the
-- edges to them and from them, and the `fields` of their ordinals by name. Returns nil and the error reply when a field is
-- invalid.
function graph_check.part(A, chunk)
  local first, err = number.whole('first', A.first)
  if err then return nil, err end
  if not string.match(A.graph, '^%x+$') or #A.graph ~= 32 then return nil, refuse('graph must be 32 hexadecimal digits, got: ' .. A.graph) end
  if not A.nodes or #A.nodes == 0 or #A.nodes > chunk or A.last ~= '1' and #A.nodes < chunk then
    return nil, refuse('a call must bring ' .. chunk .. ' nodes, and at least one where it is the last')
  elseif first < 1 or first % chunk ~= 1 or first + #A.nodes - 1 > MAX_NODES then
    return nil, refuse('first must be one of the ordinals 1, 33, 65 … up to ' .. MAX_NODES .. ', got: ' .. A.first)
  end
  local part = {
    first = first, numbers = {}, greatest = 0, objects = {}, fields = {}, ups = { count = 0, sum = 0, squares = 0 },
    downs = { count = 0, sum = 0, squares = 0 },
  }
  local names = {}
  for i, node in ipairs(A.nodes) do
    part.numbers[i], err = check_node(node, first + i - 1, part)
    if err then return nil, err end
    if names[node.name] then return nil, refuse('two nodes have the name ' .. node.name) end
    names[node.name] = true
    part.fields[i] = '@' .. node.name
  end
  return part
end

-- Checks that no other node of the graph has the name of one of the call's nodes. Returns nil, or the error reply.
function graph_check.names(graph_key, A, part)
  for i, ordinal in ipairs(redis.call('HMGET', graph_key, unpack(part.fields))) do
    if ordinal and tonumber(ordinal) ~= part.first + i - 1 then return refuse('two nodes have the name ' .. A.nodes[i].name) end
  end
  return nil
end

local TOTALS = '<I4I4I4I4I4I4I4'

-- Returns the totals of a part as text, which is kept until all parts of the graph are stored.
function graph_check.totals(part)
  local ups, downs = part.ups, part.downs
  return struct.pack(TOTALS, ups.count, ups.sum, ups.squares, downs.count, downs.sum, downs.squares, part.greatest)
end

-- Adds the totals of one end of the edges of a part.
local function add_totals(to, count, sum, squares)
  to.count, to.sum, to.squares = to.count + count, (to.sum + sum) % MODULUS, (to.squares + squares) % MODULUS
end

-- Checks whether a graph is complete and consistent, by the totals of its parts, including the last; `nodes` is its number of
-- nodes. Returns nil, or the error reply.
function graph_check.whole(totals, nodes, A)
  local ups, downs, greatest = { count = 0, sum = 0, squares = 0 }, { count = 0, sum = 0, squares = 0 }, 0
  for i, text in ipairs(totals) do
    if not text then return refuse('part ' .. number.digits(i) .. ' of the graph is missing') end
    local up_count, up_sum, up_squares, down_count, down_sum, down_squares, most = struct.unpack(TOTALS, text)
    add_totals(ups, up_count, up_sum, up_squares)
    add_totals(downs, down_count, down_sum, down_squares)
    greatest = math.max(greatest, most)
  end
  if greatest > nodes then
    return refuse('an edge names node ' .. number.digits(greatest) .. ' of ' .. number.digits(nodes))
  elseif ups.count ~= downs.count or ups.sum ~= downs.sum or ups.squares ~= downs.squares then
    return refuse('the edges that nodes lead to are not those that lead to them')
  end
  local edges, err = number.whole('edges', A.edges)
  if err then return err end
  if edges ~= ups.count then return refuse('edges must be ' .. number.digits(ups.count) .. ', got: ' .. A.edges) end
  local result
  result, err = number.whole('result', A.result)
  if err then return err end
  if result < 0 or result > nodes then return refuse('result must be the ordinal of a node, or 0, got: ' .. A.result) end
  return nil
end
