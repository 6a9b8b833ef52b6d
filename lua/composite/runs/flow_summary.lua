-- Summaries of flows that were made call by call: the numbers of members by state. Managed flows count theirs as they run.

-- Maximum number of members that are counted; of a larger flow, that many are taken at random.
local MAX_COUNTED = 1000

-- Field of the summary for each public state.
local COUNTED_AS = {
  completed = 'members_completed', failed = 'members_failed', cancelled = 'members_cancelled', expired = 'members_expired',
  skipped = 'members_skipped', active = 'members_active', suspended = 'members_suspended', waiting = 'members_waiting',
  delayed = 'members_delayed', rate_limited = 'members_rate_limited', waiting_children = 'members_waiting_children',
}
local TERMINAL = { 'members_completed', 'members_failed', 'members_cancelled', 'members_expired', 'members_skipped' }
local HELD_UP = { 'members_suspended', 'members_delayed', 'members_rate_limited', 'members_waiting_children' }

-- The reason with which a satisfied join cancels its other upstreams.
local NOT_NEEDED = 'sibling_quorum_satisfied'

local function sum(counts, fields)
  local total = 0
  for _, field in ipairs(fields) do total = total + counts[field] end
  return total
end

-- Counts some members by state; `not_needed` are the cancelled ones that a join did not need.
local function count(c, execution_ids)
  local counts, not_needed = {}, 0
  for _, field in pairs(COUNTED_AS) do counts[field] = 0 end
  for _, execution_id in ipairs(execution_ids) do
    local core_key = key.exec_core(c, execution_id)
    local field = COUNTED_AS[record.value(core_key, 'public_state') or '']
    if field then counts[field] = counts[field] + 1 end
    if field == 'members_cancelled' and record.value(core_key, 'cancellation_reason') == NOT_NEEDED then
      not_needed = not_needed + 1
    end
  end
  return counts, not_needed
end

-- Returns the state of a flow by its members.
local function state_of(counts, sampled, not_needed)
  if sum(counts, TERMINAL) == sampled then
    local bad = counts.members_failed + counts.members_expired + counts.members_cancelled - not_needed
    return bad > 0 and 'failed' or 'completed'
  elseif counts.members_active > 0 then
    return 'running'
  end
  return sum(counts, HELD_UP) > 0 and 'blocked' or 'open'
end

-- Writes the summary of a flow if it has changed. Returns whether it has.
local function write(c, flow_id, fields)
  local summary_key = key.flow_summary(c, flow_id)
  local names, values, new = {}, {}, {}
  for name, value in pairs(fields) do
    names[#names + 1], values[#values + 1] = name, value
  end
  local found = redis.call('HMGET', summary_key, unpack(names))
  for i, name in ipairs(names) do
    if found[i] ~= values[i] then
      new[#new + 1] = name
      new[#new + 1] = values[i]
    end
  end
  if #new == 0 then return false end
  redis.call('HSET', summary_key, 'last_summary_update_at', c.now_text, unpack(new))
  return true
end

-- Updates the summary of a flow. Its second result is whether the flow has left the index.
function flow_summary.flow(c, work, flow_id)
  local flow = record.values(key.flow_core(c, flow_id), 'created_at', 'managed')
  if not flow[1] then
    redis.call('SREM', key.index_flow_index(c), flow_id)
    return nil, true
  elseif flow[2] then
    return
  end
  work.unmanaged = work.unmanaged + 1
  local members_key = key.flow_members(c, flow_id)
  local size = redis.call('SCARD', members_key)
  if size == 0 then return end
  local sample = size <= MAX_COUNTED and redis.call('SMEMBERS', members_key) or redis.call('SRANDMEMBER', members_key, MAX_COUNTED)
  work.checked = work.checked + #sample
  local counts, not_needed = count(c, sample)
  local fields = {
    total_members = number.text(size), sampled_members = number.text(#sample),
    public_flow_state = state_of(counts, #sample, not_needed),
  }
  for field, n in pairs(counts) do fields[field] = number.text(n) end
  if write(c, flow_id, fields) then work.projected = work.projected + 1 end
end

-- @function ffx_project_flows
-- @summary  Updates the summaries of flows that were not submitted as a whole: the numbers of members by state, and the state
--           that follows. All members count, in a flow with more than 1000 that many at random. Checks about `limit` records per
--           call: continue with next_cursor until it is empty. `unmanaged` counts the flows of this kind, `projected` the changed
--           ones.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      limit              int
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text checked:int unmanaged:int projected:int faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_project_flows(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local c = call.open_guarded(K.partition)
  local work = scan.begin(limit)
  work.unmanaged, work.projected = 0, 0
  local cursor = scan.set(c, 'flow_projection', work, key.index_flow_index(c), A.cursor or '', function(flow_id) return flow_summary.flow(c, work, flow_id) end)
  return reply.ok(cursor, number.text(work.checked), number.text(work.unmanaged), number.text(work.projected), c.faults)
end
