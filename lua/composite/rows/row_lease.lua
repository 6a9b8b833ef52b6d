-- Leasing a node that a completion makes ready to the completing worker, by its graph and the record of its run alone.

local NOTHING = {}

-- What the executions that the call leases have in common, for their rows and their descriptions. It is kept with the list of them.
local function terms_of(c, next_up)
  local terms = next_up.terms
  if terms then return terms end
  local request = next_up.request
  local expires = c.now + request.ttl
  terms = {
    expires = expires, expires_text = number.time(expires),
    rows = row_bytes.lease_of(row_bytes.time(expires), c.packed_now,
      worker_registry.number(c.at, request.worker_instance_id, request.worker_id, c.now)),
  }
  next_up.terms = terms
  wake.due(c, expires)
  return terms
end

-- The results that lead to a node, and whether that is all of them: the one that the call has at hand, or what is stored.
local function inputs_of(c, flow_id, flow, node, name, result)
  local count = node.input_count
  if count == '0' then return NOTHING, true end
  if count == '1' and name then
    if #result > claim_reply.MAX_INLINE_BYTES then return NOTHING, false end
    return { { name, result } }, true
  end
  if not claim_reply.may_hand_out(c, tonumber(count)) then return NOTHING, false end
  return row_inputs.of_node(c, flow_id, flow.graph, node, claim_reply.MAX_INLINE_BYTES)
end

-- Whether the call may lease a node to its worker now.
local function may_lease(c, next_up, flow, node)
  local request = next_up.request
  if #next_up + #next_up.leased >= request.count or node.lane_id ~= request.lane then return false end
  if node.known_to ~= request.kinds then
    if not claim_request.knows(request, node.kind) then return false end
    node.known_to = request.kinds
  end
  local urgent = next_up.urgent
  if not next_up.looked then urgent = handoff.head(c, next_up) end
  if not urgent then return true end
  -- What is older and no less urgent comes first, and so do all where keys take turns.
  if node.priority_number == 0 and (urgent < flow.created or next_up.fair) then return false end
  if node.priority_number == 0 and next_up.fair == false then return true end
  next_up.fair = order.is_fair(c, request.lane)
  return claim_order.may_pass(c, request, { created_at = flow.created, priority = node.priority_number }, urgent)
end

-- Leases a node of a plain run that waits for nothing any more, and adds its description to what the call has leased. `result` is
-- that of the completion, which comes under a name where it goes there. Gives its row; nil when it is to enter its lane.
function row_lease.take(c, next_up, flow_id, flow, execution_id, node, name, result)
  if not may_lease(c, next_up, flow, node) then return nil end
  local request, leased, terms = next_up.request, next_up.leased, terms_of(c, next_up)
  local n, entered = #leased, c.leases_entered
  local lease_id, e = claim_request.lease_id(c, request, n), #entered
  entered[e + 1], entered[e + 2] = terms.expires, execution_id
  if node.attempt_timeout then leasing.arm_timeout(c, execution_id, node) end
  local inputs, complete = inputs_of(c, flow_id, flow, node, name, result)
  leased[n + 1] = {
    execution_id, lease_id, terms.expires_text, flow.flow_kind, flow.run_id, flow.created_text, flow.deadline_at or '',
    flow.trace_context or '', flow.graph_hash, node.uses_flow_input and redis.call('GET', key.flow_input(c, flow_id)) or '',
    complete and '1' or '0', inputs,
  }
  return row_bytes.active(terms.rows, lease_id)
end
