-- What a completion makes ready and leases to the worker that completed, in one step.

-- An execution that a completion makes ready, and that the worker may run next, is leased by the same call without a
-- stop in the eligible set: it is an heir. `heirs` is the list of them, with the request of the call, and by execution the
-- {name, result} pairs that the call feeds it.
function work.no_heirs(request)
  return { request = request, fed = {} }
end

-- An edge of an execution that the call has completed hands its result to a child under a name, if it has one.
function work.feed(c, heirs, edge)
  local result = c.completed and c.completed[edge.upstream_id]
  if not result or not is_set(edge.input_name) then return end
  local fed = call.list_in(heirs.fed, edge.child_id)
  fed[#fed + 1] = { edge.input_name, result }
end

-- Whether an execution that may run now becomes an heir.
function work.inherit(c, heirs, execution_id, core_key, core)
  local request = heirs.request
  local flow = graph.flow(c, core.flow_id)
  if #heirs >= request.count or not core.managed or core.wait or core.lane_id ~= request.lane
    or core.attempt_state ~= 'pending_first_attempt' or core.total_attempt_count ~= '0'
    or core.delay_until and (number.finite(core.delay_until) or 0) > c.now or work.unfit(request, core)
    or core.limits and not limits.may_lease_ahead(request, core) or flow.paused
    or budgets.closed(c, flow) then
    return false
  end
  heirs[#heirs + 1] = { execution_id = execution_id, core_key = core_key, core = core }
  return true
end

-- Leases the heirs, but no one before what is more urgent in the lane.
function work.take_heirs(c, request, out)
  local heirs = c.heirs
  if not heirs or #heirs == 0 then return end
  local eligible_key = key.lane_eligible(c, request.lane)
  local head = redis.call('ZRANGE', eligible_key, 0, 0, 'WITHSCORES')
  -- Behind the mark of a pause, everything goes the long way.
  local urgent = head[1] == pauses.MARK and -math.huge or tonumber(head[2] or nil)
  request.drained = not urgent
  for _, heir in ipairs(heirs) do
    local core = heir.core
    if urgent and not order.may_pass(c, request, core, urgent) or core.limits and not limits.lease_ahead(request, core) then
      dependency.ready(c, heir.execution_id, heir.core_key, core)
    else
      out[#out + 1] = work.lease_runnable(c, request, heir.execution_id, heir.core_key, core, #out, true)
    end
  end
end
