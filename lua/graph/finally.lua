-- Executions that run when everything else of their flow is over, however that ended: also in a flow that was cancelled, has failed or
-- exceeded its deadline. Each is a join of the policy finally of all others. The field `joins` of such a flow says `finally`.

finally.JOINS = 'finally'

-- Whether an execution is one of these.
function finally.is_one(core_key)
  local s, at = store.of(core_key)
  return s.is_finally(at)
end

-- Whether a flow is over for an execution: nothing of it is to start any more.
function finally.is_over(flow, core_key)
  return flow_record.is_over(flow) and not (flow.joins == finally.JOINS and finally.is_one(core_key))
end

-- Everything else is over: the deadline of the flow counts no more, and that of the group (`k`, ms; 0 is none) begins. Of several, the
-- latest counts.
function finally.begin(c, flow_id, g)
  local flow_key = key.flow_core(c, flow_id)
  local within = tonumber(g.k) or 0
  local flow = redis.call('HMGET', flow_key, 'deadline_at', 'finally_until')
  if not flow[2] and flow[1] then redis.call('HSET', flow_key, 'main_deadline_at', flow[1]) end
  local before = tonumber(flow[2] or nil)
  local till = within > 0 and before ~= 0 and math.max(before or 0, c.now + within) or 0
  redis.call('HSET', flow_key, 'finally_until', number.text(till))
  if till > 0 then
    redis.call('HSET', flow_key, 'deadline_at', number.text(till))
    redis.call('ZADD', key.ffx_flow_deadlines(c), till, flow_id)
    wake.due(c, till)
  else
    redis.call('HDEL', flow_key, 'deadline_at')
    redis.call('ZREM', key.ffx_flow_deadlines(c), flow_id)
  end
  flow_record.forget(c)
end

-- The flow runs again. `flow` holds its deadline_at, which becomes that of the flow itself.
function finally.forget(flow_key, flow)
  local deadline = redis.call('HGET', flow_key, 'main_deadline_at') or nil
  if redis.call('HDEL', flow_key, 'finally_until', 'finally_over', 'main_deadline_at') == 0 then return end
  flow.deadline_at = deadline
  if deadline then redis.call('HSET', flow_key, 'deadline_at', deadline) else redis.call('HDEL', flow_key, 'deadline_at') end
end
