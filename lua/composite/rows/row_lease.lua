-- Leasing a node that a completion makes ready to the completing worker, by its row and its graph alone.

-- Adds a node that needs nothing beyond the least to the executions that the call leases in the end. Reports whether it did.
function row_lease.add(c, next_up, execution_id, r, node, flow)
  local request, n = next_up.request, #next_up
  if n >= request.count or node.lane_id ~= request.lane or not claim_request.knows(request, node.kind) or flow.paused
    or budget_gate.closed(c, flow) then
    return false
  end
  next_up[n + 1] = { execution_id = execution_id, row = r }
  return true
end

local NOTHING = {}

-- The results that lead to a node, and whether that is all of them: what the call has at hand, or what is stored.
local function inputs_of(c, execution_id, r, node)
  if node.input_count == '0' then return NOTHING, true end
  return claim_reply.inputs(c, execution_id, { input_count = node.input_count, flow_id = r.run.id })
end

-- What claim_reply.describe gives of the same.
local function describe(c, execution_id, r, node, flow, w)
  local run = r.run
  local inputs, complete = inputs_of(c, execution_id, r, node)
  local flow_input = node.uses_flow_input and redis.call('GET', key.flow_input(c, run.id)) or ''
  return {
    execution_id, '', '', '', flow.flow_kind or '', flow.run_id or '', '0', w.attempt_id, 'initial', w.lease_id, '1',
    number.time(r.expires), flow.deadline_at or '', '0', run.created_text or row.created_text(run), '', flow.trace_context or '', '',
    flow_input, complete and '1' or '0', inputs, '1', NOTHING, '', flow.budgets and budget_gate.of(c, run.id, flow.budgets) or '',
    run.graph,
  }
end

-- Leases a node that was added, as the n-th of the call, and gives its description. Where others of its lane come first, of which
-- the first has the score `urgent`, it enters the lane instead, and the result is nil.
function row_lease.take(c, request, task, urgent, n)
  local r, execution_id = task.row, task.execution_id
  local run, node = r.run, graph_store.of_row(r)
  if urgent and not claim_order.may_pass(c, request, { created_at = run.created, priority = node.priority_number }, urgent) then
    requeue.ready_fresh(c, execution_id, claim.of_row(r))
    return nil
  end
  local w = claim_request.lease_for(c, request, n)
  row_steps.start(c, r, execution_id, w)
  if node.attempt_timeout then leasing.arm_timeout(c, execution_id, node) end
  event_log.add(c, run.id, 'started', node.name, '0', request.worker_instance_id)
  wake.due(c, c.now + request.ttl)
  return describe(c, execution_id, r, node, flow_record.read(c, run.id), w)
end
