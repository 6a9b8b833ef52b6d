-- Removes executions that ended some time ago and do not belong to a managed flow; members of managed flows are purged with their
-- run.

-- Approximate number of keys that one call removes, and maximum number of records that it checks.
local KEYS_PER_CALL = 1000
local MAX_CHECKED = 500

local CORE_FIELDS = { 'lifecycle_phase', 'managed', 'completed_at', 'last_mutation_at', 'created_at', 'flow_id' }

-- Returns how long an execution is kept after its end (ms): by its policy, or by the caller's default. Negative is for ever.
function trim.keeps(c, execution_id, default)
  local policy = policies.of(c, execution_id).stream_policy
  return type(policy) == 'table' and number.finite(policy.retention_ttl_ms) or default
end

-- Reports whether an execution waits for the end of a member of a flow and has not received it yet.
function trim.is_awaited(c, flow_id, execution_id)
  for _, edge_id in ipairs(redis.call('SMEMBERS', key.flow_out(c, flow_id, execution_id))) do
    local child_id = redis.call('HGET', key.flow_edge(c, flow_id, edge_id), 'downstream_execution_id')
    if child_id and redis.call('SISMEMBER', key.exec_deps_unresolved(c, child_id), edge_id) == 1 then return true end
  end
  return false
end

-- Removes the edges from the upstreams of a member that is about to be removed.
function trim.detach(c, flow_id, execution_id)
  for _, edge_id in ipairs(redis.call('SMEMBERS', key.flow_in(c, flow_id, execution_id))) do
    local upstream_id = redis.call('HGET', key.flow_edge(c, flow_id, edge_id), 'upstream_execution_id')
    if upstream_id then redis.call('SREM', key.flow_out(c, flow_id, upstream_id), edge_id) end
  end
end

-- Removes a flow that has lost its last member and that had no additions for the given time (ms). Returns whether it is removed.
function trim.flow(c, flow_id, keep)
  local flow_key = key.flow_core(c, flow_id)
  local flow = record.read(flow_key, { 'managed', 'node_count', 'last_mutation_at', 'created_at' })
  if not flow or flow.managed or keep < 0 or (tonumber(flow.node_count) or 0) == 0
    or redis.call('EXISTS', key.flow_members(c, flow_id)) == 1 then
    return false
  end
  if (number.finite(flow.last_mutation_at) or number.finite(flow.created_at) or c.now) + keep > c.now then
    redis.call('SADD', key.index_flow_index(c), flow_id) -- where it is found when it may be removed
    return false
  end
  purge.remove_record(c, flow_id, flow_key)
  return true
end

-- Removes an execution that has been kept long enough, or a part of one that has very many attempts, signals or edges: the next
-- call then continues with it.
function trim.execution(c, work, execution_id)
  local core = record.read(key.exec_core(c, execution_id), CORE_FIELDS)
  if not core or core.managed then return end
  work.unmanaged = work.unmanaged + 1
  if core.lifecycle_phase ~= 'terminal' then return end
  local ended_at = number.finite(core.completed_at) or 0
  if ended_at <= 0 then ended_at = number.finite(core.last_mutation_at) or number.finite(core.created_at) or c.now end
  local keep = trim.keeps(c, execution_id, work.keep)
  if keep < 0 or ended_at + keep > c.now then return end
  local flow_id = core.flow_id or ''
  if is_set(flow_id) then
    if trim.is_awaited(c, flow_id, execution_id) then return end
    trim.detach(c, flow_id, execution_id)
  end
  if not purge.remove_member(c, work, flow_id, execution_id) then
    work.left = 0
    return
  end
  work.trimmed = work.trimmed + 1
  work.lag = math.max(work.lag, c.now - ended_at - keep)
  if not is_set(flow_id) then return end
  redis.call('SREM', key.flow_members(c, flow_id), execution_id)
  redis.call('SREM', key.flow_pending_cancels(c, flow_id), execution_id)
  if trim.flow(c, flow_id, keep) then work.flows = work.flows + 1 end
end

-- The two parts of a pass: all executions, then flows that have lost their members. The letter begins a cursor.
local PARTS = {
  e = { index = key.index_all_executions, visit = trim.execution, next = 'f' },
  f = {
    index = key.index_flow_index,
    visit = function(c, work, flow_id)
      if trim.flow(c, flow_id, work.keep) then work.flows = work.flows + 1 end
    end,
  },
}

-- Does one page of a pass. Returns the next cursor, "" at the end. A page that this call could not finish is read again. A member
-- that raises an error is passed over.
function trim.go_on(c, work, cursor, limit)
  local letter, from = string.match(cursor, '^([ef])(%d+)$')
  letter, from = letter or 'e', from or '0'
  local part = PARTS[letter]
  local page = redis.call('SSCAN', part.index(c), from, 'COUNT', limit)
  for _, member in ipairs(page[2]) do
    if work.left <= 0 then return letter .. from end
    work.checked = work.checked + 1
    call.guarded(c, 'execution_retention', member, function() part.visit(c, work, member) end)
  end
  if work.left <= 0 then return letter .. from end
  if page[1] ~= '0' then return letter .. page[1] end
  return part.next and part.next .. '0' or ''
end

-- @function ffx_trim
-- @summary  Removes executions that ended some time ago and do not belong to a managed flow, with all their keys, and unmanaged
--           flows that have lost all their members in this way. An execution is kept for the retention_ttl_ms of the
--           stream_policy in its policy, or for `keep`; a negative time is for ever. An execution stays while another one waits
--           for its end and has not received it. Checks about `limit` records per call and removes about 1000 keys: continue with
--           next_cursor until it is empty. `unmanaged` counts the checked executions that do not belong to a managed flow.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      limit              int
-- @arg      keep               ms
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text checked:int unmanaged:int trimmed:int flows:int lag:ms faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_trim(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local keep = number.finite(A.keep)
  if not keep then return number.refuse('keep', A.keep) end
  local c = call.open_guarded(K.partition)
  local work = {
    left = KEYS_PER_CALL, lanes = {}, flow = {}, joins = true, keep = keep, checked = 0, unmanaged = 0, trimmed = 0, flows = 0, lag = 0,
  }
  local cursor = trim.go_on(c, work, A.cursor or '', math.max(1, math.min(limit, MAX_CHECKED)))
  if work.trimmed + work.flows > 0 then purge.settle(c, work.lanes) end
  return reply.ok(cursor, number.text(work.checked), number.text(work.unmanaged), number.text(work.trimmed),
    number.text(work.flows), number.text(work.lag), c.faults)
end
