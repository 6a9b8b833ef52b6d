-- Partial submissions. A server that is killed while it logs a submission can come back with the beginning of it. Its
-- client was not told that the run exists, and only the client knows what is missing, so the part is removed.
--
-- A submission first enters the flow into the index of flows, where reconciling finds it. Then it writes nodes,
-- members, edges, the flow's record, and the texts, of which the definition is the last; what is written after that can
-- be repaired.

-- Whether an execution belongs to such a part: also a copy of another record in which nothing has been set anew. What others
-- were told of is among all executions.
local function is_part(c, flow_id, execution_id)
  local core = redis.call('HMGET', key.exec_core(c, execution_id), 'managed', 'flow_id', 'execution_id')
  return (not core[2] or core[1] == '1' and (core[2] == flow_id or core[3] ~= execution_id))
    and redis.call('SISMEMBER', key.index_all_executions(c), execution_id) == 0
end

-- Whether there is only a part of a run: no record, or one without a definition. `found`: there is a record. A run
-- that has lost its definition by other means has members that others were told of.
function partial_submission.is_partial(c, flow_id, found)
  if found and redis.call('EXISTS', key.flow_definition(c, flow_id)) == 1 then return false end
  local member = redis.call('SRANDMEMBER', key.flow_members(c, flow_id))
  return member and is_part(c, flow_id, member)
end

-- Removes the part that there is of a run: its members, and those of `ids` that belong to it.
function partial_submission.remove(c, flow_id, ids)
  local work = { left = math.huge, lanes = {}, flow = {} }
  local members_key = key.flow_members(c, flow_id)
  for _, list in ipairs({ redis.call('SMEMBERS', members_key), ids or {} }) do
    for _, execution_id in ipairs(list) do
      if is_part(c, flow_id, execution_id) then
        purge.remove_member(c, work, flow_id, execution_id)
        redis.call('SREM', members_key, execution_id)
      end
    end
  end
  if redis.call('EXISTS', members_key) == 0 then purge.remove_record(c, flow_id, key.flow_core(c, flow_id)) end
  purge.forget_lanes(c, work.lanes)
end
