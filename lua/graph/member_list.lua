-- The members of a flow: those of its record's set and, of a run that was submitted whole, the nodes of its graph.

-- @hook How many members a run has beside those of the set; 0 for other flows.
function member_list.node_count(c, flow_id) return 0 end

-- @hook The execution id of the n-th of those.
function member_list.node(c, flow_id, n) return nil end

-- @hook Whether an execution is one of those.
function member_list.is_node(c, flow_id, execution_id) return false end

local function set_page(c, flow_id, cursor, limit)
  local page = redis.call('SSCAN', key.flow_members(c, flow_id), cursor, 'COUNT', limit)
  return page[2], page[1]
end

-- A page of members, from a cursor on, which is '0' at the beginning. Gives them and the next cursor, '0' at the end.
function member_list.page(c, flow_id, cursor, limit)
  local nodes = member_list.node_count(c, flow_id)
  if nodes == 0 then return set_page(c, flow_id, cursor, limit) end
  local in_set = string.match(cursor, '^s(%d+)$')
  if in_set then
    local ids, rest = set_page(c, flow_id, in_set, limit)
    return ids, rest == '0' and '0' or 's' .. rest
  end
  local from = (number.place(cursor) or 0) + 1
  local to = math.min(nodes, from + limit - 1)
  local ids = {}
  for n = from, to do ids[#ids + 1] = member_list.node(c, flow_id, n) end
  if to < nodes then return ids, number.digits(to) end
  return ids, redis.call('EXISTS', key.flow_members(c, flow_id)) == 1 and 's0' or '0'
end

function member_list.count(c, flow_id)
  return member_list.node_count(c, flow_id) + redis.call('SCARD', key.flow_members(c, flow_id))
end

function member_list.has(c, flow_id, execution_id)
  return member_list.is_node(c, flow_id, execution_id) or redis.call('SISMEMBER', key.flow_members(c, flow_id), execution_id) == 1
end

-- All members, of flows that are known to be small, or where all have to be looked at.
function member_list.all(c, flow_id)
  local ids = redis.call('SMEMBERS', key.flow_members(c, flow_id))
  for n = 1, member_list.node_count(c, flow_id) do ids[#ids + 1] = member_list.node(c, flow_id, n) end
  return ids
end
