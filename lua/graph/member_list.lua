-- The members of a flow: those in its record's set and, for a run that was submitted whole, the nodes of its graph.

local function set_page(c, flow_id, cursor, limit)
  local page = redis.call('SSCAN', key.flow_members(c, flow_id), cursor, 'COUNT', limit)
  return page[2], page[1]
end

-- Returns a page of members from a cursor on, and the next cursor. The cursor is '0' at the beginning and at the end.
function member_list.page(c, flow_id, cursor, limit)
  local s, at = flow_store.of(c, flow_id)
  local nodes = s.node_count(at)
  if nodes == 0 then return set_page(c, flow_id, cursor, limit) end
  local in_set = string.match(cursor, '^s(%d+)$')
  if in_set then
    local ids, rest = set_page(c, flow_id, in_set, limit)
    return ids, rest == '0' and '0' or 's' .. rest
  end
  local from = (number.place(cursor) or 0) + 1
  local to = math.min(nodes, from + limit - 1)
  local ids = {}
  s.add_nodes(at, ids, from, to)
  if to < nodes then return ids, number.digits(to) end
  return ids, redis.call('EXISTS', key.flow_members(c, flow_id)) == 1 and 's0' or '0'
end

function member_list.count(c, flow_id)
  local s, at = flow_store.of(c, flow_id)
  return s.node_count(at) + redis.call('SCARD', key.flow_members(c, flow_id))
end

function member_list.has(c, flow_id, execution_id)
  local s, at = store.of(key.exec_core(c, execution_id))
  return s.is_node_of(at, flow_id) or redis.call('SISMEMBER', key.flow_members(c, flow_id), execution_id) == 1
end

-- Returns all members. Used for flows that are known to be small, or where all members have to be read.
function member_list.all(c, flow_id)
  local ids = redis.call('SMEMBERS', key.flow_members(c, flow_id))
  local s, at = flow_store.of(c, flow_id)
  s.add_nodes(at, ids, 1, s.node_count(at))
  return ids
end
