-- The handoff of a completion: executions that it makes ready are leased to the completing worker in the same call.

-- The list of the executions that a call makes ready and leases to its worker, without entering them into the eligible set, is the
-- call of the usual path (see turn.new). `fed` has by execution the {name, result, upstream} lists that the call gives to it; nil is
-- none. `leased` contains the descriptions of those that are already leased, which count as well.

-- Returns the score of the first execution of the request's lane, which comes before any less urgent one; nil when none waits
-- there. It is read once in a call.
function handoff.head(c, next_up)
  if next_up.looked then return next_up.urgent end
  local request = next_up.request
  local head = redis.call('ZRANGE', key.lane_eligible(call.home(c), request.lane), 0, 0, 'WITHSCORES')
  -- After the mark of a pause, no execution is leased directly.
  next_up.urgent = head[1] == pauses.MARK and -math.huge or tonumber(head[2] or nil)
  next_up.looked, request.drained = true, not next_up.urgent
  return next_up.urgent
end

-- Gives the result of a completed execution to the child of an edge under the edge's name, if it has one.
function handoff.feed(c, next_up, edge)
  local result = c.completed and c.completed[edge.upstream_id]
  if not result or not is_set(edge.input_name) then return end
  local fed = call.list_in(call.list_in(next_up, 'fed'), edge.child_id)
  fed[#fed + 1] = { edge.input_name, result, edge.upstream_id }
end

-- Adds an execution that may run now to the list. Reports whether it did.
function handoff.add(c, next_up, execution_id, core_key, core)
  local request = next_up.request
  local flow = flow_record.read(c, core.flow_id)
  if #next_up + #next_up.leased >= request.count or not core.managed or core.wait or core.lane_id ~= request.lane
    or core.attempt_state ~= 'pending_first_attempt' or core.total_attempt_count ~= '0'
    or core.delay_until and (number.finite(core.delay_until) or 0) > c.now or claim_request.unfit(request, core)
    or core.limits and not limit_admission.may_lease_ahead(request, core) or flow.paused
    or budget_gate.closed(c, flow) then
    return false
  end
  next_up[#next_up + 1] = { c = c, execution_id = execution_id, core_key = core_key, core = core }
  return true
end

local OUTCOME = { 'terminal_outcome' }

-- Reports whether an execution of the list still waits to be leased. The call may have ended it after it was added: when a join
-- can no longer be satisfied, its other upstreams are cancelled.
local function is_open(task)
  local core = record.read(task.core_key, OUTCOME)
  return core and core.terminal_outcome == 'none'
end

-- Leases an execution of the list and appends its description to `out`. When more urgent ones wait, it enters its lane instead.
local function lease_one(c, request, task, urgent, out)
  local core = task.core
  if urgent and not claim_order.may_pass(c, request, core, urgent) or core.limits and not limit_admission.lease_ahead(request, core) then
    dependency.ready(task.c, task.execution_id, task.core_key, core)
  else
    out[#out + 1] = leasing.lease_runnable(task.c, request, task.execution_id, task.core_key, core, #out, true)
  end
end

-- Leases the executions of the list, but none before more urgent ones of the lane, and appends their descriptions to `out`.
function handoff.lease(c, request, out)
  local next_up = c.next_up
  if not next_up or #next_up == 0 then return end
  local urgent = handoff.head(c, next_up)
  for _, task in ipairs(next_up) do
    if is_open(task) then lease_one(c, request, task, urgent, out) end
  end
end
