-- The joins of a submitted flow, parsed and checked.

local MAX_JOINS_PER_CALL = 256

local ON_SATISFIED = { cancel_remaining = true, let_run = true }

local function refuse(node, what)
  return nil, reply.err('invalid_input', 'node ' .. node.name .. ': ' .. what)
end

-- The policy of one join, or nil and the error reply. `upstreams` is how many edges will lead to its node.
local function parse_one(spec, node, upstreams)
  if not ON_SATISFIED[spec.on_satisfied] then
    return refuse(node, 'on_satisfied must be cancel_remaining or let_run, got: ' .. spec.on_satisfied)
  elseif upstreams < 1 then
    return refuse(node, 'a join needs upstreams')
  elseif spec.policy_variant == 'any_of' then
    return { variant = 'any_of', on_satisfied = spec.on_satisfied, k = 0, expected = upstreams }
  elseif spec.policy_variant ~= 'quorum' then
    return refuse(node, 'policy_variant must be any_of or quorum, got: ' .. spec.policy_variant)
  end
  local k, err = number.whole('node ' .. node.name .. ': k', spec.k)
  if err then return nil, err end
  if k < 1 or k > upstreams then
    return refuse(node, 'quorum k is ' .. spec.k .. ', must be 1 to ' .. number.digits(upstreams))
  end
  return { variant = 'quorum', on_satisfied = spec.on_satisfied, k = k, expected = upstreams }
end

-- The joins of a submitting call, by execution, checked against its nodes. Nil and the error reply when one is bad.
-- `numbers` are those of the nodes.
function join_spec.parse(A, numbers)
  if not A.joins or #A.joins > MAX_JOINS_PER_CALL then
    return nil, reply.err('invalid_input', 'at most ' .. MAX_JOINS_PER_CALL .. ' joins in one call')
  end
  local parsed = {}
  if #A.joins == 0 then return parsed end
  local place = {}
  for i, node in ipairs(A.nodes) do place[node.execution_id] = i end
  for _, spec in ipairs(A.joins) do
    local i = place[spec.execution_id]
    if not i then
      return nil, reply.err('invalid_input', 'a join must come with its node, got: ' .. spec.execution_id)
    elseif parsed[spec.execution_id] then
      return refuse(A.nodes[i], 'two joins')
    end
    local p, err = parse_one(spec, A.nodes[i], numbers[i].upstream_count)
    if err then return nil, err end
    parsed[spec.execution_id] = p
  end
  return parsed
end
