-- Counts the success of a node at joins after it, as join.resolve does. Only the waiting row of a join, the states of its edges and
-- the counts of its group change; or the success satisfies a join that then cancels its other upstreams, as sibling_cancel does.

local HEAD_BYTES, ROW_BYTES, TRIED, RAN = run_head.BYTES, node_row.BYTES, node_row.TRIED, node_row.RAN
-- Number of bytes before the flags in the header, and of a row before some of its columns.
local FLAGS, EXPIRES, LEASE = run_head.FLAGS_AT - 1, node_row.EXPIRES_AT - 1, node_row.LEASE_AT - 1
local TERMINAL = 4

-- The upstreams that a join is to cancel when the completion that is being decided on satisfies it: nodes of the graph.
local rest = {}

-- Returns the policy of a join.
local function policy_of(node)
  local policy = node.join_policy
  if not policy then
    policy = join_spec.parse(node.name, node.join, node.open)
    node.join_policy = policy
  end
  return policy
end

local function group_key(run, stem, node) return key.flow_edgegroup(run, run.id, stem .. node.suffix) end

-- Reports whether the other upstreams of a join can be cancelled without the general functions, and collects them: none of them has
-- done more than to begin its first attempt, and nothing else needs them. `upstream`: the ordinal of the one that has succeeded.
local function may_cancel(run, node, upstream)
  local g = run.graph
  if not run.is_small or run.fair_key or graph_store.joins_of(g) ~= '1' then return false end
  local bytes = redis.call('GETRANGE', run.key, '0', row.place(run.count, run.count + 1) - 1)
  local marks, _, _, _, events = struct.unpack(run_head.BEGUN, bytes, run_head.MARKS_AT)
  if events == row.LOGGED or marks % 4 >= 2 then return false end
  local count, result = 0, graph_store.result(g)
  for i = 1, node.open do
    local ordinal, kind = graph_store.edge(node.ups, i)
    local other = graph_store.node(g, ordinal)
    local at = other.place
    if kind ~= 'success_only' then return false end
    if ordinal ~= upstream and string.byte(bytes, at + 1) ~= TERMINAL then
      if ordinal == result or graph_store.edge_count(other.downs) > 1 or other.limits or other.wait or other.join
        or not (string.sub(bytes, at + 1, at + EXPIRES) == row_bytes.ACTIVE or row_bytes.open_edges(bytes, at) or row_bytes.is_ready(bytes, at)) then
        return false
      end
      count = count + 1
      rest[count] = other
    end
  end
  rest[count + 1] = nil
  return true
end

-- Reports whether one more success satisfies a join with `open` open edges; nil when the general functions decide that.
local function is_satisfied(run, stem, successors, node, open)
  local policy = policy_of(node)
  if policy.variant == 'finally' or policy.variant == 'any_failure' then return open == 1 end
  local satisfied = policy.variant == 'any_of'
  if not satisfied then
    satisfied = (tonumber(redis.call('HGET', group_key(run, stem, node), 'succeeded') or nil) or 0) + 1 >= policy.k
    if open == 1 and not satisfied then return nil end
  end
  if satisfied and policy.on_satisfied == 'cancel_remaining' and not (successors.count == 1 and may_cancel(run, node, successors.of)) then
    return nil
  end
  return satisfied
end

-- Returns how many edges to a join are open, 1 when one more success satisfies it, and 0 when it is satisfied already. `open`: how
-- many are, nil for a join that no longer waits. Returns nil when the general functions have to resolve the edge.
function usual_join.open_to(run, stem, successors, node, open)
  if not open then return redis.call('HGET', group_key(run, stem, node), 'group_state') == 'satisfied' and 0 or nil end
  if open < 1 then return nil end
  local satisfied = is_satisfied(run, stem, successors, node, open)
  if not satisfied then return satisfied == false and open or nil end
  return node.may_take and not node.delay and successors.count == 1 and 1 or nil
end

-- Returns how many bytes of its run come before the number of a join's open edges.
local function open_place(node)
  node.open_place = number.text(node.place + node_row.OPEN_AT - 1)
  return node.open_place
end

-- Counts the success of an upstream at the joins among its successors. `open`: the results of usual_join.open_to. The row of a
-- join that it satisfies is left to the caller.
function usual_join.count_all(c, run, stem, upstream, successors, open)
  for i = 1, successors.count do
    local node = successors[i]
    if node.join then
      local target = group_key(run, stem, node)
      row_joins.note_success(run, stem, node, upstream, open[i] == 0)
      redis.call('HINCRBY', target, 'succeeded', 1)
      if open[i] == 1 then
        redis.call('HSET', target, 'group_state', 'satisfied', 'satisfied_at', c.now_text)
      elseif open[i] > 1 then
        redis.call('SETRANGE', run.key, node.open_place or open_place(node), struct.pack(node_row.OPEN_FORMAT, open[i] - 1))
      end
    end
  end
end

local REASON, DETAIL = 'sibling_quorum_satisfied', 'cancelled: sibling_quorum_satisfied'

-- Removes an execution from the index of leases, where the call itself may have leased it.
local function leave(here, execution_id)
  local count, entered = here.left_count + 1, here.entered
  here.left[count], here.left_count = execution_id, count
  for i = here.entered_count, 2, -2 do
    if entered[i] == execution_id then
      table.remove(entered, i)
      table.remove(entered, i - 1)
      here.entered_count = here.entered_count - 2
    end
  end
end

-- Ends the attempt of an upstream that is cancelled while a worker runs it. `acquired`: the start of the lease (ms).
local function stop(c, here, execution_id, node, lease_id, acquired, worker)
  local started, attempt_id = number.time(acquired), row_record.attempt_of(lease_id)
  local instance = worker_registry.instance(here.at, worker)
  redis.call('HSET', key.attempt_record(c, execution_id, '0'), 'attempt_id', attempt_id, 'execution_id', execution_id,
    'attempt_index', '0', 'attempt_type', 'initial', 'attempt_state', 'ended_cancelled', 'started_at', started, 'lease_epoch', '1',
    'lease_id', lease_id, 'worker_id', worker_registry.worker(here.at, worker), 'worker_instance_id', instance, 'ended_at', c.now_text,
    'failure_reason', DETAIL)
  redis.call('ZADD', key.exec_attempts(c, execution_id), started, '0')
  if node.attempt_timeout then call.leave(c, 'ZREM', key.index_attempt_timeout(c), execution_id) end
  leave(here, execution_id)
  wake.cancel(c, instance, execution_id, lease_id, 'cancelled', REASON)
end

-- Removes an upstream that is cancelled from the lane in which it waits.
local function leave_lane(x, c, execution_id, node)
  redis.call('ZREM', key.lane_eligible(call.home(c), node.lane_id), execution_id)
  if node.start_timeout then redis.call('ZREM', key.ffx_start_deadlines(c), execution_id) end
  x.looked, x.waiting = false, turn.MANY
end

-- Cancels one of the upstreams that were collected. `bytes`: the run. Returns the new row, and the event.
local function cancel(x, here, run, execution_id, node, bytes)
  local at, c = node.place, here.c
  local phase, _, elig, _, _, attempt, _, _, index, total, _, _, epoch, open = struct.unpack(TRIED, bytes, at + 1)
  local _, acquired, started, worker = struct.unpack(RAN, bytes, at + EXPIRES + 1)
  local lease_id, flags, index_text = string.sub(bytes, at + LEASE + 1, at + ROW_BYTES), node_row.MORE, ''
  if phase == 2 then
    attempt, flags, index_text = 7, flags + node_row.RECORDED, '0'
    stop(c, here, execution_id, node, lease_id, acquired, worker)
    turn.count(here, run, node, -1, 0)
  elseif elig == 1 then
    leave_lane(x, c, execution_id, node)
  else
    turn.count(here, run, node, 0, -1)
  end
  return struct.pack(TRIED, TERMINAL, 1, 9, 1, 4, attempt, 9, flags, index, total, 0, 0, epoch, open, 1)
    .. struct.pack(RAN, 0, acquired, started, 0) .. x.ended .. lease_id, encode.logged('cancelled', node.name, index_text, REASON)
end

-- Cancels the upstreams of a satisfied join, `of`, that were collected: writes their rows and events, and the counts of their ends. The
-- outcome of the run does not depend on them.
local function cancel_rest(x, c, run, stem, of)
  local target = group_key(run, stem, of)
  redis.call('HSET', target, 'cancel_siblings_reason', REASON)
  local count = #rest
  if count == 0 then return end
  local bytes = redis.call('GETRANGE', run.key, '0', row.place(run.count, run.count + 1) - 1)
  local here, flags, open, events, before = x.by_place[run.at], nil, nil, nil, bytes
  flags, open, events = struct.unpack(run_head.TAIL, bytes, FLAGS + 1)
  local more, lines = {}, {}
  for i = 1, count do
    local node, changed = rest[i], nil
    changed, lines[i] = cancel(x, here, run, stem .. node.suffix, node, bytes)
    bytes = string.sub(bytes, 1, node.place) .. changed .. string.sub(bytes, node.place + ROW_BYTES + 1)
    local name = node.ordinal_text
    more[6 * i - 5], more[6 * i - 4] = name .. ' cancellation_reason', REASON
    more[6 * i - 3], more[6 * i - 2] = name .. ' cancelled_by', 'edge_group'
    more[6 * i - 1], more[6 * i] = name .. ' absorbed', 'cancelled_siblings'
    row_joins.note_cancel(run, stem, of, node)
  end
  redis.call('HSET', run_rows.more_key(run), unpack(more))
  redis.call('HINCRBY', target, 'failed', count)
  local counts = run_rows.key_of(run, 'core')
  redis.call('HINCRBY', counts, 'nodes_cancelled', count)
  redis.call('HINCRBY', counts, 'cancelled_siblings', count)
  row_log.open(c, run, before, events, table.concat(lines, '\n'))
  if flags < run_head.OVERLAY then flags = flags + run_head.OVERLAY end
  redis.call('SETRANGE', run.key, FLAGS, struct.pack(run_head.TAIL, flags, open, row.LOGGED) .. string.sub(bytes, HEAD_BYTES + 1))
end

-- Performs the consequences of a satisfied join, once its row and the row of the upstream are written. That may load the run; it is
-- written at once, so that the call may lease the join in the usual path, unless the general functions work on other runs.
function usual_join.follow(x, c, run, stem, node)
  local policy = policy_of(node)
  if policy.on_satisfied == 'cancel_remaining' and policy.variant ~= 'finally' and policy.variant ~= 'any_failure' then
    return cancel_rest(x, c, run, stem, node)
  end
  if policy.variant ~= 'finally' then return end
  finally.begin(c, run.id, policy)
  run_rows.forget(stem)
  if x.is_mixed then return end
  row.flush()
  row.forget()
end
