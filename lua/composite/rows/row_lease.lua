-- Leasing a node that a completion makes ready to the completing worker, by its graph and the record of its run alone.

local NOTHING = {}

-- What the executions that the call leases have in common, for their rows and their descriptions. It is kept with the list of them.
local function terms_of(c, next_up)
  local request = next_up.request
  local expires = c.now + request.ttl
  local terms = {
    expires = expires, expires_text = number.time(expires),
    rows = row_bytes.lease_of(row_bytes.time(expires), c.commits.now,
      worker_registry.number(c.at, request.worker_instance_id, request.worker_id, c.now)),
  }
  next_up.terms = terms
  wake.due(c, expires)
  return terms
end

-- The results that lead to a node, and whether that is all of them: the one that the call has at hand, or what is stored.
local function inputs_of(c, flow, node, name, result)
  local count = node.input_count
  if count == '0' then return NOTHING, true end
  if count == '1' and name then
    if #result > claim_reply.MAX_INLINE_BYTES then return NOTHING, false end
    return { { name, result } }, true
  end
  if not claim_reply.may_hand_out(c, tonumber(count)) then return NOTHING, false end
  return row_inputs.of_node(c, flow.id, flow.graph, node, claim_reply.MAX_INLINE_BYTES)
end

-- Whether a worker can run a node.
local function is_known(request, node)
  if not claim_request.knows(request, node.kind) then return false end
  node.known_to = request.kinds
  return true
end

-- Whether a node may be leased although others wait in its lane, of which the first has the score `urgent`. What is older and no less
-- urgent comes first, and so do all where keys take turns.
local function may_pass(c, next_up, flow, node, urgent)
  if node.priority_number == 0 and (urgent < flow.created or next_up.fair) then return false end
  if node.priority_number == 0 and next_up.fair == false then return true end
  local request = next_up.request
  next_up.fair = order.is_fair(c, request.lane)
  return claim_order.may_pass(c, request, { created_at = flow.created, priority = node.priority_number }, urgent)
end

-- Whether the call may lease a node to its worker now.
local function may_lease(c, next_up, flow, node)
  local request = next_up.request
  if #next_up + #next_up.leased >= request.count or node.lane_id ~= request.lane then return false end
  if node.known_to ~= request.kinds and not is_known(request, node) then return false end
  if not next_up.looked then handoff.head(c, next_up) end
  local urgent = next_up.urgent
  if urgent and not may_pass(c, next_up, flow, node, urgent) or flow.budget_ids and budget_gate.closed(c, flow) then return false end
  return not node.limits or limit_admission.take_room(request, node.limits)
end

-- Leases a node of a plain run that waits for nothing any more, and adds its description to what the call has leased. `result` is
-- that of the completion, which comes under a name where it goes there. Gives its row; nil when it is to enter its lane.
function row_lease.take(c, next_up, flow, execution_id, node, name, result)
  if not may_lease(c, next_up, flow, node) then return nil end
  local leased, entered, terms, ahead = next_up.leased, c.commits.entered, next_up.terms or terms_of(c, next_up), node.limits
  local n, e = #leased, #entered
  local lease_id = claim_request.lease_id(c, next_up.request, n)
  entered[e + 1], entered[e + 2] = terms.expires, execution_id
  if node.attempt_timeout then leasing.arm_timeout(c, execution_id, node) end
  if node.input_count == '1' and name and not node.uses_flow_input and #result <= claim_reply.MAX_INLINE_BYTES then
    leased[n + 1] = row_claimed.describe_fed(c, flow, execution_id, lease_id, terms.expires_text, ahead, name, result)
  else
    local inputs, complete = inputs_of(c, flow, node, name, result)
    leased[n + 1] = row_claimed.describe(c, flow, node, execution_id, lease_id, terms.expires_text, inputs, complete, ahead)
  end
  return row_bytes.leased(terms.rows, lease_id, ahead)
end
