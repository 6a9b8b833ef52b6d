-- Capability sets, which are sent as comma-separated text.

local MAX_CAPABILITY_BYTES = 4096
local MAX_CAPABILITY_TOKENS = 256

-- Returns the set of the tokens of a CSV, or nil and the error reply. `kind` names the owner of the set.
function capability.parse(csv, kind)
  local set = {}
  if not is_set(csv) then return set end
  if #csv > MAX_CAPABILITY_BYTES then
    return nil, reply.err('invalid_capabilities', kind .. ':too_many_bytes')
  end
  local count = 0
  for token in string.gmatch(csv, '[^,]+') do
    count = count + 1
    if count > MAX_CAPABILITY_TOKENS then
      return nil, reply.err('invalid_capabilities', kind .. ':too_many_tokens')
    end
    set[token] = true
  end
  return set
end

-- Returns a sorted CSV of the tokens that `required` contains and `offered` lacks; "" when nothing is missing.
function capability.missing(required, offered)
  local missing = {}
  for token in pairs(required) do
    if not offered[token] then missing[#missing + 1] = token end
  end
  table.sort(missing)
  return table.concat(missing, ',')
end

local function token_fault(token)
  if type(token) ~= 'string' then return 'non_string_token' end
  if token == '' then return 'empty_token' end
  if string.find(token, ',', 1, true) then return 'comma_in_token' end
  if string.find(token, '[%z\1-\32\127]') then return 'control_or_whitespace' end
  return nil
end

-- Returns a CSV of the capabilities that a policy document requires ("" = none), or nil and the error reply.
function capability.of_policy(policy_json)
  if not is_set(policy_json) or policy_json == '{}' then return '' end
  local ok, policy = pcall(cjson.decode, policy_json)
  if not ok then return nil, reply.err('invalid_policy_json', 'malformed') end
  if type(policy) ~= 'table' or policy.routing_requirements == nil then return '' end
  local routing = policy.routing_requirements
  if type(routing) ~= 'table' then
    return nil, reply.err('invalid_policy_json', 'routing_requirements:not_object')
  end
  local tokens = routing.required_capabilities
  if tokens == nil then return '' end
  if type(tokens) ~= 'table' then
    return nil, reply.err('invalid_capabilities', 'required:not_array')
  end
  local list = {}
  for i, token in ipairs(tokens) do
    local fault = token_fault(token)
    if fault then return nil, reply.err('invalid_capabilities', 'required:' .. fault) end
    list[i] = token
  end
  if #list > MAX_CAPABILITY_TOKENS then
    return nil, reply.err('invalid_capabilities', 'required:too_many_tokens')
  end
  table.sort(list)
  local csv = table.concat(list, ',')
  if #csv > MAX_CAPABILITY_BYTES then
    return nil, reply.err('invalid_capabilities', 'required:too_many_bytes')
  end
  return csv
end
