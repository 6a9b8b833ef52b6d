-- The joins of a graph: `<policy> <on_satisfied> <k>`.

local ON_SATISFIED = { cancel_remaining = true, let_run = true }

local function refuse(name, what)
  return nil, reply.err('invalid_input', 'node ' .. name .. ': ' .. what)
end

-- Returns the policy in a text, or nil and the error reply. `upstreams` is how many edges lead to the node.
function join_spec.parse(name, text, upstreams)
  local variant, on_satisfied, k_text = string.match(text, '^(%S*) (%S*) (%S*)$')
  if not variant then return refuse(name, 'a join must be "<policy> <on_satisfied> <k>", got: ' .. text) end
  if not ON_SATISFIED[on_satisfied] then
    return refuse(name, 'on_satisfied must be cancel_remaining or let_run, got: ' .. on_satisfied)
  elseif upstreams < 1 then
    return refuse(name, 'a join needs upstreams')
  elseif variant == 'any_of' or variant == 'any_failure' then
    return { variant = variant, on_satisfied = on_satisfied, k = 0, expected = upstreams, n = upstreams }
  elseif variant == 'finally' then
    local within, wrong = number.count('node ' .. name .. ': k', k_text, 0)
    if wrong then return nil, wrong end
    return { variant = variant, on_satisfied = on_satisfied, k = within, expected = upstreams, n = upstreams }
  elseif variant ~= 'quorum' then
    return refuse(name, 'policy_variant must be any_of, quorum, any_failure or finally, got: ' .. variant)
  end
  local k, err = number.whole('node ' .. name .. ': k', k_text)
  if err then return nil, err end
  if k < 1 or k > upstreams then return refuse(name, 'quorum k is ' .. k_text .. ', must be 1 to ' .. number.digits(upstreams)) end
  return { variant = 'quorum', on_satisfied = on_satisfied, k = k, expected = upstreams, n = upstreams }
end
