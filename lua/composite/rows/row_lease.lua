-- Leases a node for its first attempt with its graph and the record of its run alone: one that a completion makes ready, to the
-- completing worker, or one that a claim finds in its lane.

local NOTHING, EVENTS = {}, run_head.EVENTS_AT - 1

-- Marks an execution as a node of a run.
local OF_RUN = { managed = '1' }

-- Returns the common data of the executions in one partition that the call leases, for their rows and their descriptions. It is
-- kept with the completions there.
local function terms_of(c, next_up)
  local request = next_up.request
  local expires = c.now + request.ttl
  local terms = {
    expires = expires, expires_text = number.time(expires),
    rows = row_bytes.lease_of(row_bytes.time(expires), c.commits.now,
      worker_registry.number(c.at, request.worker_instance_id, request.worker_id, c.now)),
  }
  c.commits.terms = terms
  wake.due(c, expires)
  return terms
end

-- Returns the results that are inputs of a node, and whether that is all of them: the one that the call has at hand, or the
-- stored ones.
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

-- Reports whether a worker can run a node.
local function is_known(request, node)
  if not claim_request.knows(request, node.kind) then return false end
  node.known_to = request.kinds
  return true
end

-- Reports whether a node may be leased although others wait in its lane, the first with the score `urgent`. An older execution
-- that is at least as urgent comes first, and so do all where keys take turns.
local function may_pass(c, next_up, flow, node, urgent)
  if node.priority_number == 0 and (urgent < flow.created or next_up.fair) then return false end
  if node.priority_number == 0 and next_up.fair == false then return true end
  local request = next_up.request
  next_up.fair = order.is_fair(c, request.lane)
  return claim_order.may_pass(c, request, { created_at = flow.created, priority = node.priority_number }, urgent)
end

-- Reports whether the call may lease a node to its worker now.
local function may_lease(c, next_up, flow, node)
  local request = next_up.request
  if #next_up + #next_up.leased >= request.count or node.lane_id ~= request.lane then return false end
  if node.known_to ~= request.kinds and not is_known(request, node) then return false end
  if not next_up.looked then handoff.head(c, next_up) end
  local urgent = next_up.urgent
  if urgent and not may_pass(c, next_up, flow, node, urgent) or flow.budget_ids and budget_gate.closed(c, flow) then return false end
  return not node.limits or limit_admission.take_room(request, node.limits)
end

-- Leases a node of a plain run that no longer waits, and adds its description to the executions that the call has leased.
-- `result` is the result of the completion, with a name if it is an input of this node. Returns its row; nil when it is to enter
-- its lane.
function row_lease.take(c, next_up, flow, execution_id, node, name, result)
  if not may_lease(c, next_up, flow, node) then return nil end
  local leased, entered, terms, ahead = next_up.leased, c.commits.entered, c.commits.terms or terms_of(c, next_up), node.limits
  local n, e = #leased, #entered
  local lease_id = claim_request.lease_id(c, next_up.request, n)
  entered[e + 1], entered[e + 2] = terms.expires, execution_id
  if node.attempt_timeout then leasing.arm_timeout(c, execution_id, node) end
  if node.input_count == '1' and name and not node.uses_flow_input and #result <= claim_reply.MAX_INLINE_BYTES then
    leased[n + 1] = row_claimed.describe_fed(c, flow, execution_id, lease_id, terms.expires_text, ahead, name, result)
  else
    local inputs, complete = inputs_of(c, flow, node, name, result)
    leased[n + 1] = row_claimed.describe(c, flow, execution_id, lease_id, terms.expires_text,
      node.uses_flow_input and row_inputs.of_plain(c, flow), inputs, complete, ahead)
  end
  return row_bytes.leased(terms.rows, lease_id, ahead)
end

-- Returns the line of a node in the event log, without the part after the attempt. It is kept with the node under a name.
function row_lease.line_of(node, event, name)
  local line = '\n' .. encode.logged(event, node.name, '0', '')
  node[name] = line
  return line
end

-- Returns the common data of the executions in one partition that a claim leases.
local function terms_of_claim(c, request)
  local expires = c.now + request.ttl
  local terms = {
    request = request, expires = expires, expires_text = number.time(expires),
    rows = row_bytes.lease_of(row_bytes.time(expires), row_bytes.time(c.now),
      worker_registry.number(c.at, request.worker_instance_id, request.worker_id, c.now)),
    index = key.index_lease_expiry(c), eligible = key.lane_eligible(call.home(c), request.lane),
  }
  c.claim_terms = terms
  wake.due(c, expires)
  return terms
end

-- Returns the data with which a claim may lease an execution that waits in a lane: the record of its run, its node, and the first
-- bytes of the run, the ordinal, and the number of its events. The worker knows its activity, no budget is used up, and limits have room. Returns nil for another execution,
-- and for one of a large run, because a claim may take so many of them that it is better to write them together.
local function find_ready(c, request, execution_id)
  if string.byte(execution_id, -22) ~= 56 then return nil end
  local flow_id, ordinal = string.sub(execution_id, -36, -5) .. '0000', tonumber(string.sub(execution_id, -4), 16) or 0
  if ordinal < 1 or row.is_loaded(flow_id) then return nil end
  local flow, bytes, _, node, events = run_rows.plain(c, flow_id, ordinal)
  if not node or not flow.is_small or not node.plain or node.lane_id ~= request.lane then return nil end
  if node.known_to ~= request.kinds and not is_known(request, node) then return nil end
  if not row_bytes.is_ready(bytes, node.place) or flow.budget_ids and budget_gate.closed(c, flow) then return nil end
  if node.limits and not limit_admission.take_room(request, node.limits) then return nil end
  return flow, node, bytes, ordinal, events
end

-- Leases an execution of a plain run that waits in a lane for its first attempt, as the n-th of a claim, and returns its
-- description. Returns nil when the general functions have to lease it, with the same effect. It works on the bytes of the row,
-- and writes them at once, so it does not handle runs that the call has loaded, nor executions that pauses may hold back.
function row_lease.claim(c, request, execution_id, n)
  if (c.root or c).pauses then return nil end
  local flow, node, bytes, ordinal, events = find_ready(c, request, execution_id)
  if not flow then return nil end
  local terms = c.claim_terms
  if not terms or terms.request ~= request then terms = terms_of_claim(c, request) end
  local lease_id, ahead = claim_request.lease_id(c, request, n), node.limits
  local leased = row_bytes.leased(terms.rows, lease_id, ahead)
  if flow.logged then
    row_log.write(flow, bytes, nil, nil, node, leased)
    local line = node.line_started or row_lease.line_of(node, 'started', 'line_started')
    event_log.push(c, flow.id, flow.events_key, c.now_text .. line .. request.logged_instance)
  else
    row_log.write(flow, bytes, EVENTS, row_log.extend(flow, bytes, events, node.started, 0), node, leased)
    event_log.touch(c, flow.id)
  end
  lane_counts.add(c.at, flow, ordinal, node.lane_id, 1, 0)
  order.leave_index(c, request.lane, execution_id, terms.eligible, flow.fair_key or order.is_fair(c, request.lane) and '' or nil)
  call.enter(c, terms.index, execution_id, terms.expires)
  if node.attempt_timeout then leasing.arm_timeout(c, execution_id, node) end
  wake.taken(c, request.lane, OF_RUN)
  local inputs, complete = inputs_of(c, flow, node)
  return row_claimed.describe(c, flow, execution_id, lease_id, terms.expires_text,
    node.uses_flow_input and row_inputs.of_plain(c, flow, bytes), inputs, complete, ahead)
end
