-- Compacting closed runs: dropping records and fields that nothing reads after the end of a run.

-- Members that one call makes smaller, and closed flows that it looks at, roughly.
local MEMBERS_PER_CALL = 64
local FLOWS_PER_CALL = 128

-- Attempts of one member whose records go at a time; one with more of them keeps the rest.
local MAX_ATTEMPTS = 64

-- Core fields of an ended execution that are the same for all such, or say what others say, too.
local CORE_FIELDS = {
  'current_lane', 'last_mutation_at', 'partition_id', 'ownership_state', 'eligibility_state', 'blocking_reason',
  'attempt_state', 'current_attempt_id', 'creator_identity', 'last_transition_at', 'namespace',
  -- Without a lease these are empty, and what the last two spare a claim or a completion to look up can be looked up.
  'current_lease_id', 'lease_expires_at', 'current_worker_id', 'current_worker_instance_id', 'lease_last_renewed_at',
  'lease_renewal_deadline', 'simple', 'onward', 'onward_edge',
}

-- Fields of the flow's record of an edge that are the same for all edges, or stand in its key.
local EDGE_FIELDS = { 'edge_id', 'flow_id', 'satisfaction_condition', 'edge_state', 'created_by' }

local function forget_attempts(c, id, count)
  local names = { key.exec_lease_history(c, id) }
  -- The record of an attempt stays with what its output stream says.
  local keep = false
  for index = 0, count - 1 do
    local text = number.text(index)
    if redis.call('EXISTS', key.stream_meta(c, id, text)) == 1 then
      keep = true
    else
      names[#names + 1] = key.attempt_record(c, id, text)
      names[#names + 1] = key.attempt_usage(c, id, text)
      names[#names + 1] = key.attempt_policy(c, id, text)
      redis.call('ZREM', key.exec_attempts(c, id), text)
    end
  end
  if not keep then names[#names + 1] = key.exec_attempts(c, id) end
  redis.call('UNLINK', unpack(names))
end

-- What the child's side knows of edges that are all satisfied can be told from the flow's side.
local function forget_edges(c, flow_id, id)
  local names = { key.exec_deps_meta(c, id), key.exec_deps_all_edges(c, id) }
  for _, edge_id in ipairs(redis.call('SMEMBERS', key.flow_in(c, flow_id, id))) do
    names[#names + 1] = key.exec_dep(c, id, edge_id)
    redis.call('HDEL', key.flow_edge(c, flow_id, edge_id), unpack(EDGE_FIELDS))
  end
  redis.call('UNLINK', unpack(names))
end

-- Makes one member smaller, and its edges when the call has not done much yet. Gives how much work that was, in members.
local function compact_member(c, flow_id, flow, id, is_fresh)
  local core_key = key.exec_core(c, id)
  local core = record.read(core_key, { 'lifecycle_phase', 'terminal_outcome', 'total_attempt_count', 'lane_id', 'priority' })
  if not core or core.lifecycle_phase ~= 'terminal' then return 0 end
  local attempts = tonumber(core.total_attempt_count) or 0
  if attempts > MAX_ATTEMPTS then return 1 end
  forget_attempts(c, id, attempts)
  local edges = redis.call('SCARD', key.flow_in(c, flow_id, id))
  if is_fresh and not flow.joins and core.terminal_outcome == 'success' and edges <= call.WORK_BUDGET then
    forget_edges(c, flow_id, id)
  end
  if is_set(core.lane_id) then redis.call('HDEL', core_key, unpack(CORE_FIELDS)) end
  if core.priority == '0' then redis.call('HDEL', core_key, 'priority') end
  -- Records of so many attempts may be missing from here on.
  redis.call('HSET', core_key, 'compacted', number.text(attempts))
  return 1 + math.floor(edges / 16)
end

-- Writes the child's side of satisfied edges again, for an execution that is to run once more.
function compaction.restore_edges(c, flow_id, id)
  local edge_ids = redis.call('SMEMBERS', key.flow_in(c, flow_id, id))
  if #edge_ids == 0 or redis.call('EXISTS', key.exec_deps_meta(c, id)) == 1 then return end
  for _, edge_id in ipairs(edge_ids) do
    local edge = record.read(key.flow_edge(c, flow_id, edge_id),
      { 'upstream_execution_id', 'dependency_kind', 'data_passing_ref' })
    if edge then
      local dep_key = key.exec_dep(c, id, edge_id)
      dependency.write_child_edge(c, dep_key, flow_id, id, {
        edge_id = edge_id, upstream_execution_id = edge.upstream_execution_id or '',
        dependency_kind = edge.dependency_kind or '', input_name = edge.data_passing_ref or '',
      })
      redis.call('HSET', dep_key, 'state', 'satisfied')
    end
  end
  call.chunked('SADD', key.exec_deps_all_edges(c, id), edge_ids)
  redis.call('HSET', key.exec_deps_meta(c, id), 'unsatisfied_required_count', '0')
end

-- Makes members of one flow smaller, from a cursor on. Gives the next cursor, '0' at the end, and the work done.
local function compact_flow(c, flow_id, flow, cursor)
  local page = redis.call('SSCAN', key.flow_members(c, flow_id), cursor, 'COUNT', MEMBERS_PER_CALL)
  local work_done = 1
  for _, id in ipairs(page[2]) do
    work_done = work_done + compact_member(c, flow_id, flow, id, work_done < 2 * MEMBERS_PER_CALL)
  end
  if page[1] == '0' then event_log.shrink(c, key.flow_events(c, flow_id)) end
  return page[1], work_done
end

-- @function ffx_compact
-- @summary  Makes runs smaller that closed at least `age` ago, a bounded number per call; call again while `more`.
--           Describing a run, its result and running it again stay possible. What is dropped: the records of its
--           attempts and leases, except where an attempt has output, and when each of its edges was satisfied.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      age                ms
-- @reply    OK compacted:int more:bool
-- @error    invalid_input message:text
function F.ffx_compact(K, A)
  local age, err = number.count('age', A.age, 0)
  if err then return err end
  local c = call.open(K.partition)
  local place_key = key.ffx_compaction(c)
  local place = record.read(place_key, { 'at', 'flow_id', 'cursor' }) or {}
  local list = redis.call('ZRANGE', key.ffx_closed_flows(c), place.at or '-inf', c.now - age, 'BYSCORE', 'LIMIT', 0,
    FLOWS_PER_CALL, 'WITHSCORES')
  local left, compacted, at, more = MEMBERS_PER_CALL, 0, place.at, false
  local stopped
  for i = 1, #list, 2 do
    if left <= 0 then
      more = true
      break
    end
    local flow_id, score = list[i], list[i + 1]
    local flow_key = key.flow_core(c, flow_id)
    local flow = record.read(flow_key, { 'closed_at', 'joins', 'compacted', 'purging' })
    at, left = score, left - 0.25
    if flow and is_set(flow.closed_at) and flow.compacted ~= flow.closed_at and not flow.purging then
      local cursor, work_done = compact_flow(c, flow_id, flow, place.flow_id == flow_id and place.cursor or '0')
      left = left - work_done
      if cursor ~= '0' then
        stopped, more = { flow_id, cursor }, true
        break
      end
      redis.call('HSET', flow_key, 'compacted', flow.closed_at)
      compacted = compacted + 1
    end
  end
  if #list >= 2 * FLOWS_PER_CALL and not more then
    more = true
    -- So many of one time that they would be looked at again and again.
    if at == place.at then at = '(' .. at end
  end
  if stopped then
    redis.call('HSET', place_key, 'at', at, 'flow_id', stopped[1], 'cursor', stopped[2])
  elseif at and at ~= place.at then
    redis.call('HSET', place_key, 'at', at)
    redis.call('HDEL', place_key, 'flow_id', 'cursor')
  end
  return reply.ok(number.text(compacted), more and '1' or '0')
end
