-- Checks of the graphs that callers bring, before anything of them is stored.

-- An edge in the lists of a node, as graph_store reads them.
local EDGE, EDGE_BYTES = '<HB', 3
local MAX_FLAGS, KIND_MASK, NO_KIND = 7, 4, 3

-- Ordinals are 16 bits.
local MAX_NODES = 65535

-- Numbers that edges are summed up with: the square of one below this is exact.
local MODULUS = 94906247

local function refuse(text) return reply.err('invalid_input', text) end

-- A number that stands for an edge from one node to another.
local function mixed(up, down, flags)
  local n = (up * 65536 + down) * 8 + flags
  n = (n % MODULUS + math.floor(n / MODULUS)) % MODULUS
  return n * n % MODULUS
end

-- Adds the edges in a list of a node to a total: how many there are, their sum, and the greatest ordinal. Gives the error reply
-- when the list is bad, or names a node twice.
local function add_edges(what, list, ordinal, total, leads_on)
  if #list % EDGE_BYTES ~= 0 then return refuse(what .. ' must have entries of ' .. EDGE_BYTES .. ' bytes') end
  local seen = {}
  for at = 1, #list, EDGE_BYTES do
    local other, flags = struct.unpack(EDGE, list, at)
    if other == 0 or other == ordinal or seen[other] then
      return refuse(what .. ' must name other nodes by their ordinals, each once, got: ' .. number.digits(other))
    elseif flags > MAX_FLAGS or flags % KIND_MASK == NO_KIND then
      return refuse(what .. ' have unknown flags: ' .. number.digits(flags))
    end
    seen[other] = true
    total.count = total.count + 1
    total.sum = (total.sum + (leads_on and mixed(ordinal, other, flags) or mixed(other, ordinal, flags))) % MODULUS
    total.greatest = math.max(total.greatest, other)
  end
  return nil
end

local function is_object(text)
  local ok, decoded = pcall(cjson.decode, text)
  return ok and type(decoded) == 'table'
end

local NODE_NUMBERS = { 'input_count', 'delay', 'start_timeout', 'attempt_timeout' }

-- Numbers of a node: nil, and the error reply when something about it is bad. `part`: see graph_check.part.
local function check_node(node, ordinal, part)
  if node.name == '' or node.lane_id == '' or node.kind == '' and node.wait == '' then
    return nil, refuse('node ' .. number.digits(ordinal) .. ' must have a name, a lane and, unless it is a waitpoint, a kind')
  end
  local what, numbers, err = 'node ' .. node.name, {}, nil
  for _, name in ipairs(NODE_NUMBERS) do
    numbers[name], err = number.count(what .. ': ' .. name, node[name], 0)
    if err then return nil, err end
  end
  numbers.priority, err = number.priority(what .. ': priority', node.priority)
  if err then return nil, err end
  err = add_edges(what .. ': ups', node.ups, ordinal, part.ups) or add_edges(what .. ': downs', node.downs, ordinal, part.downs, true)
  if err then return nil, err end
  for _, name in ipairs({ 'policy', 'tags' }) do
    if node[name] ~= '' and not is_object(node[name]) then return nil, refuse(what .. ': ' .. name .. ' must be a JSON object') end
  end
  if node.wait ~= '' then
    err = select(2, wait.parse_node(what, node.wait))
    if err then return nil, err end
  end
  if node.join ~= '' then
    err = select(2, join_spec.parse(node.name, node.join, #node.ups / EDGE_BYTES))
    if err then return nil, err end
  end
  return numbers
end

-- The part of a graph that a call brings: the ordinal of its first node, the numbers of its nodes, and the totals of the edges
-- that lead to them and on from them. Nil and the error reply when something about it is bad.
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
    first = first, numbers = {}, ups = { count = 0, sum = 0, greatest = 0 }, downs = { count = 0, sum = 0, greatest = 0 },
  }
  local names = {}
  for i, node in ipairs(A.nodes) do
    part.numbers[i], err = check_node(node, first + i - 1, part)
    if err then return nil, err end
    if names[node.name] then return nil, refuse('two nodes have the name ' .. node.name) end
    names[node.name] = true
  end
  return part
end

-- The names of a call's nodes stand for no others of the graph. Nil, or the error reply.
function graph_check.names(graph_key, A, part)
  local fields = {}
  for i, node in ipairs(A.nodes) do fields[i] = '@' .. node.name end
  for i, ordinal in ipairs(redis.call('HMGET', graph_key, unpack(fields))) do
    if ordinal and tonumber(ordinal) ~= part.first + i - 1 then return refuse('two nodes have the name ' .. A.nodes[i].name) end
  end
  return nil
end

-- The totals of a part as text, which is kept until all parts of the graph are there.
function graph_check.totals(part)
  local ups, downs = part.ups, part.downs
  return struct.pack('<I4I4I4I4I4', ups.count, ups.sum, downs.count, downs.sum, math.max(ups.greatest, downs.greatest))
end

-- Whether all of a graph is there and fits together, by the totals of its parts, the last of them among them; `nodes` is how many
-- it has. Nil, or the error reply.
function graph_check.whole(totals, nodes, A)
  local counts, sums, greatest = { 0, 0 }, { 0, 0 }, 0
  for i, text in ipairs(totals) do
    if not text then return refuse('part ' .. number.digits(i) .. ' of the graph is missing') end
    local ups, up_sum, downs, down_sum, most = struct.unpack('<I4I4I4I4I4', text)
    counts[1], counts[2] = counts[1] + ups, counts[2] + downs
    sums[1], sums[2] = (sums[1] + up_sum) % MODULUS, (sums[2] + down_sum) % MODULUS
    greatest = math.max(greatest, most)
  end
  if greatest > nodes then
    return refuse('an edge names node ' .. number.digits(greatest) .. ' of ' .. number.digits(nodes))
  elseif counts[1] ~= counts[2] or sums[1] ~= sums[2] then
    return refuse('the edges that nodes lead to are not those that lead to them')
  end
  local edges, err = number.whole('edges', A.edges)
  if err then return err end
  if edges ~= counts[1] then return refuse('edges must be ' .. number.digits(counts[1]) .. ', got: ' .. A.edges) end
  local result
  result, err = number.whole('result', A.result)
  if err then return err end
  if result < 0 or result > nodes then return refuse('result must be the ordinal of a node, or 0, got: ' .. A.result) end
  return nil
end
