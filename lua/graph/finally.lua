-- Executions that run after all other executions of their flow have ended, however the flow ended: also after a cancel, a failure
-- or an exceeded deadline. Each of them is a join with the policy finally over all others. The field `joins` of such a flow is
-- `finally`.

finally.JOINS = 'finally'

-- Reports whether an execution is one of these.
function finally.is_one(core_key)
  local s, at = store.of(core_key)
  return s.is_finally(at)
end

-- Reports whether a flow is over for an execution, so that the execution may no longer start.
function finally.is_over(flow, core_key)
  return flow_record.is_over(flow) and not (flow.joins == finally.JOINS and finally.is_one(core_key))
end

-- Starts the deadline of a finally group (`k` in ms; 0 is none) when all other executions have ended. It replaces the deadline of
-- the flow. Of several groups, the latest deadline counts.
function finally.begin(c, flow_id, g)
  local flow_key = key.flow_core(c, flow_id)
  local within = tonumber(g.k) or 0
  local flow = record.values(flow_key, 'deadline_at', 'finally_until')
  if not flow[2] and flow[1] then record.set(flow_key, 'main_deadline_at', flow[1]) end
  local before = tonumber(flow[2] or nil)
  local till = within > 0 and before ~= 0 and math.max(before or 0, c.now + within) or 0
  record.set(flow_key, 'finally_until', number.text(till))
  if till > 0 then
    record.set(flow_key, 'deadline_at', number.text(till))
    redis.call('ZADD', key.ffx_flow_deadlines(c), till, flow_id)
    wake.due(c, till)
  else
    record.clear(flow_key, 'deadline_at')
    redis.call('ZREM', key.ffx_flow_deadlines(c), flow_id)
  end
  flow_record.forget(c)
end

-- Restores the state of a flow that runs again. `flow` contains its deadline_at, which becomes the flow's main deadline again.
function finally.forget(flow_key, flow)
  local began, deadline = unpack(record.values(flow_key, 'finally_until', 'main_deadline_at'))
  if not began then return end
  record.clear(flow_key, 'finally_until', 'finally_over', 'main_deadline_at')
  flow.deadline_at = deadline or nil
  if deadline then record.set(flow_key, 'deadline_at', deadline) else record.clear(flow_key, 'deadline_at') end
end
