-- The writes of a submission, gathered and sent with few commands, and checks that all submissions share. Records of
-- one kind are mostly alike, so the first is written in full and the others are copies in which only the differences
-- are set, which costs a fraction of setting all fields.

local NODE_NUMBERS = { 'input_count', 'upstream_count', 'delay', 'start_timeout', 'attempt_timeout', 'priority' }

-- What may not be different when a flow id is used again. Nil, or the error reply.
function batch_writes.check_same(flow, A)
  if flow.graph_hash ~= A.graph_hash then
    return reply.err('flow_id_conflict', 'graph', flow.graph_hash or '', A.graph_hash)
  elseif flow.input_hash ~= A.input_hash then
    return reply.err('flow_id_conflict', 'input', flow.input_hash or '', A.input_hash)
  end
  local parent = A.parent and A.parent[1]
  if parent and flow.parent_execution_id ~= parent.execution_id then
    return reply.err('flow_id_conflict', 'parent', flow.parent_execution_id or '', parent.execution_id)
  end
  return nil
end

-- The first of the numbers of a node that is none, as the error reply.
local function refuse_number(node, numbers)
  for _, name in ipairs(NODE_NUMBERS) do
    if not numbers[name] then return number.refuse('node ' .. (node.name or '') .. ': ' .. name, node[name]) end
  end
end

-- Numbers of a node, or nil and the error reply.
function batch_writes.parse_node(node)
  local input_count, upstream_count, delay = number.whole('', node.input_count), number.whole('', node.upstream_count),
    number.whole('', node.delay)
  local start_timeout, attempt_timeout = number.whole('', node.start_timeout), number.whole('', node.attempt_timeout)
  local priority = number.priority('', node.priority)
  local numbers = {
    input_count = input_count, upstream_count = upstream_count, delay = delay, start_timeout = start_timeout,
    attempt_timeout = attempt_timeout, priority = priority,
  }
  if not (input_count and upstream_count and delay and start_timeout and attempt_timeout and priority) then
    return nil, refuse_number(node, numbers)
  end
  if is_set(node.wait) then
    local err
    numbers.wait, err = wait.parse_node('node ' .. (node.name or ''), node.wait)
    if err then return nil, err end
  end
  return numbers
end

-- What the creating functions share within one call: members that enter indexes (see batch_writes.gather), and the first records
-- of their kind, from which others are copied.
function batch_writes.new()
  return { nodes = {}, texts = {}, text_count = 0, edges = {}, lanes = {} }
end

-- The list in which members of a set or sorted set are gathered, which one command for each key writes at the end of the call.
function batch_writes.list(batch, command, target)
  local list = batch[target]
  if not list then
    list = { command = command, target = target }
    batch[target] = list
    batch[#batch + 1] = list
  end
  return list
end

-- Gathers a member: `second` follows a score.
function batch_writes.gather(batch, command, target, first, second)
  local list = batch_writes.list(batch, command, target)
  list[#list + 1] = first
  if second then list[#list + 1] = second end
end

-- A text that is written at the end of the call, together with the others.
function batch_writes.text(batch, text_key, text)
  local texts, count = batch.texts, batch.text_count
  texts[count + 1] = text_key
  texts[count + 2] = text
  batch.text_count = count + 2
end

-- Texts of one command (bytes), roughly: what a command is given is copied before it is kept.
local TEXT_BYTES = 65536
local TEXTS_AT_A_TIME = 500

local function write_texts(texts, count)
  local from, bytes = 1, 0
  for i = 2, count, 2 do
    bytes = bytes + #texts[i]
    if i == count or bytes >= TEXT_BYTES or i - from >= TEXTS_AT_A_TIME then
      redis.call('MSET', unpack(texts, from, i))
      from, bytes = i + 1, 0
    end
  end
end

-- Writes what was gathered, at the end of a call.
function batch_writes.finish(c, batch)
  write_texts(batch.texts, batch.text_count)
  batch_writes.finish_events(c, batch)
  for _, list in ipairs(batch) do call.chunked(list.command, list.target, list) end
  for lane in pairs(batch.lanes) do
    if redis.call('SADD', key.ffx_lanes(c), lane) == 1 then pauses.lane_added(c, lane) end
  end
end

-- A new stream keeps room for more entries than most logs get; a copy does not, nor what is appended to it.
function batch_writes.finish_events(c, batch)
  local first = batch.flow
  if not first then return end
  if first.copied_events then
    redis.call('COPY', first.copied_events, first.events, 'REPLACE')
  else
    event_log.shrink(c, first.events)
  end
end
