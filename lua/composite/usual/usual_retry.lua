-- Failed attempts and their successors in the usual case, and first attempts that begin at a later time: nodes of small plain runs with
-- only the least fields. The general functions handle all other cases, with the same effect. Like the rest of the usual path, it
-- works on the bytes of the rows, and writes them at once.

local known, held, ORDINAL_OF = run_rows.known, call.held, row.ORDINAL_OF
local ROW_BYTES, TRIED, RAN = node_row.BYTES, node_row.TRIED, node_row.RAN
-- Number of bytes of a row before some of its columns. The common part of leased rows (see row_bytes.lease_of) begins after EXPIRES.
local EXPIRES, STARTED, WORKER = node_row.EXPIRES_AT - 1, node_row.STARTED_AT - 1, node_row.WORKER_AT - 1
local ENDED, CHANGED, LEASE, FLAGS = node_row.ENDED_AT - 1, node_row.CHANGED_AT - 1, node_row.LEASE_AT - 1, node_row.FLAGS_AT
local LEASED_WORKER = WORKER - EXPIRES
local LEASED, RETRIED, AGAIN = node_row.LEASED, node_row.RETRIED, node_row.RETRIED + node_row.RECORDED

-- Returns how many bytes of its run are needed to read the row of a node.
local function read_to(run, node)
  node.row_end = number.text(row.place(run.count, node.ordinal + 1) - 1)
  return node.row_end
end

-- Returns the record of the small plain run of an execution, its node, the beginning of its rows, and the number of its events; nil
-- for another one. With `all`, the bytes may contain the input of the run.
local function find(c, execution_id, all)
  local stem = string.sub(execution_id, 1, -5)
  local run = known.runs[stem]
  if not run or run.at ~= c.at then run = run_rows.find_plain(c, stem) end
  local ordinal = ORDINAL_OF[string.sub(execution_id, -4)]
  if not run or not ordinal or not run.is_small or held.rows and row.is_loaded(run.id) then return nil end
  local node = run.graph.nodes[ordinal] or graph_store.find_node(run.graph, ordinal)
  if not node then return nil end
  local bytes = redis.call('GETRANGE', run.key, '0', all and run.read_to or node.row_end or read_to(run, node))
  local events = run_rows.events_of(run, bytes)
  if not events then return nil end
  return run, node, bytes, events
end

-- Returns the retry policy of a node; false without one. It is kept with the node.
local function policy_of(node)
  local policy = node.retry_policy
  if policy == nil then
    policy = policies.decode(node.policy).retry_policy or false
    node.retry_policy = policy
  end
  return policy
end

-- Writes the record of an attempt that has failed. Returns its index as text.
local function write_attempt(c, execution_id, run, node, index, epoch, began, worker, A)
  local index_text, started_text = number.text(index), number.time(began)
  local target = key.attempt_record(c, execution_id, index_text)
  redis.call('HSET', target, 'attempt_id', A.attempt_id, 'execution_id', execution_id, 'attempt_index', index_text,
    'attempt_type', index > 0 and 'retry' or 'initial', 'attempt_state', 'ended_failure', 'started_at', started_text,
    'lease_id', A.lease_id, 'lease_epoch', number.text(epoch), 'worker_id', worker_registry.worker(run.at, worker),
    'worker_instance_id', worker_registry.instance(run.at, worker), 'ended_at', c.now_text, 'failure_reason', A.reason,
    'failure_category', A.category)
  if index > 0 then
    redis.call('HSET', target, 'retry_reason', row_record.failure(run_rows.more_key(run), node.ordinal).reason,
      'previous_attempt_index', number.text(index - 1))
  end
  redis.call('ZADD', key.exec_attempts(c, execution_id), started_text, index_text)
  return index_text
end

-- Logs an event of a node that does not follow from the rows. `bytes`: the rows, with `events` events.
local function log(c, run, bytes, events, line)
  if events == row.LOGGED then
    event_log.push(c, run.id, run_rows.events_key(run), c.now_text .. '\n' .. line)
  else
    row_log.open(c, run, bytes, events, line)
  end
end

-- Returns the time (ms) of the attempt that follows the failed one which a call names, if it is the usual case: the call holds
-- the lease, and the policy of the node allows the next attempt. Returns nil, with nothing written, in other cases.
function usual_retry.fail(c, A, retry_after, jitter)
  if A.retryable ~= '1' or is_set(A.stack) or call.in_doubt(c) then return nil end
  local execution_id = A.execution_id
  local run, node, bytes, events = find(c, execution_id)
  if not run or node.limits or node.wait then return nil end
  local at, policy = node.place, policy_of(node)
  local phase, owner, _, _, outcome, state, _, flags, index, total, retries, reclaims, epoch, open, told = struct.unpack(TRIED, bytes, at + 1)
  local expires, acquired, started, worker = struct.unpack(RAN, bytes, at + EXPIRES + 1)
  local lease_id, again = string.sub(bytes, at + LEASE + 1, at + ROW_BYTES), flags == LEASED + RETRIED
  if phase ~= 2 or owner ~= 2 or state ~= 3 or not again and flags ~= LEASED or index > 0 and not again or expires <= c.now
    or A.lease_id ~= lease_id or A.lease_epoch ~= number.text(epoch) or A.attempt_id ~= row_record.attempt_of(lease_id)
    or type(policy) ~= 'table' or policy.within_ms then
    return nil
  end
  local delay = retry.delay(policy, retries)
  if not delay then return nil end
  delay = retry_after or retry.jittered(policy, delay, jitter)
  if not retry.is_allowed(c, execution_id, policy, A.category, delay) then return nil end
  local due, category, now = c.now + delay, A.category or '', row_bytes.time(c.now)
  local index_text = write_attempt(c, execution_id, run, node, index, epoch, again and acquired or started, worker, A)
  redis.call('HSET', run_rows.more_key(run), node.ordinal_text .. ' failure', row_record.failure_text(due, category, A.reason))
  log(c, run, bytes, events, encode.logged('retry', node.name, event_log.failed_attempt(index_text, category), event_log.escaped(A.reason)))
  row_log.write_logged(run, bytes, node, struct.pack(TRIED, 1, 1, 2, 4, outcome, 5, 2, AGAIN, index, total, retries + 1, reclaims, epoch, open, told)
    .. struct.pack(RAN, 0, acquired, started, 0) .. string.sub(bytes, at + ENDED + 1, at + CHANGED) .. now .. lease_id)
  redis.call('ZREM', key.index_lease_expiry(c), execution_id)
  if node.attempt_timeout then redis.call('ZREM', key.index_attempt_timeout(c), execution_id) end
  redis.call('ZADD', key.lane_delayed(c, node.lane_id), due, execution_id)
  lane_counts.add(c.at, run, node.ordinal, node.lane_id, -1, 0)
  wake.due(c, due)
  return due
end

-- Makes an execution of a lane eligible whose time has come. `entrants`: see order.entrants. Reports whether it was in the usual case.
local function promote(c, execution_id, lane, entrants, now)
  local run, node, bytes = find(c, execution_id)
  if not run or node.wait or node.lane_id ~= lane or run.fair_key then return false end
  local at = node.place
  local phase, owner, elig, _, outcome, state, _, flags, _, total = struct.unpack(TRIED, bytes, at + 1)
  if phase ~= 1 or elig ~= 2 or not (state == 5 and flags == AGAIN or state == 2 and flags == 0 and total == 0) then return false end
  redis.call('SETRANGE', run.key, node.place_text,
    string.char(phase, owner, 1, 2, outcome, state, 1) .. string.sub(bytes, at + FLAGS, at + CHANGED) .. now)
  local n = #entrants
  entrants[n + 1], entrants[n + 2] = run.created - node.priority_number * record.PRIORITY_STEP, execution_id
  wake.eligible(c, lane, node.priority)
  return true
end

-- Makes executions of a lane eligible whose time has come, at most `limit`, and calls `other` with those that are not in the usual
-- case. Returns how many there were.
function usual_retry.promote(c, lane, delayed_key, limit, other)
  order.gather(c)
  local entrants, left, others, now = order.entrants(c, lane), {}, {}, row_bytes.time(c.now)
  local count = scan.each_due(c, 'delayed_promotion', delayed_key, limit, function(execution_id)
    local list = entrants and promote(c, execution_id, lane, entrants, now) and left or others
    list[#list + 1] = execution_id
  end)
  order.write_gathered(c)
  call.chunked('ZREM', delayed_key, left)
  scan.each(c, 'delayed_promotion', delayed_key, others, other)
  return count
end

-- Leases a node that waits in the lane for its next attempt, as usual_lease.take does for a first one, whose functions are given.
-- Reports whether it did.
function usual_retry.take(x, execution_id, begin_lease, inputs_of)
  local here = turn.enter(x, execution_id)
  local c = here.c
  local run, node, bytes, events = find(c, execution_id, true)
  if events ~= row.LOGGED or not node.may_take or node.limits or node.lane_id ~= x.lane or not claim_request.knows(x.request, node.kind)
    or run.budget_ids and budget_gate.closed(c, run) then
    return false
  end
  local at = node.place
  local phase, owner, elig, _, outcome, state, _, flags, _, total, retries, reclaims, epoch, open, told = struct.unpack(TRIED, bytes, at + 1)
  if phase ~= 1 or owner ~= 1 or elig ~= 1 or state ~= 5 or flags ~= AGAIN then return false end
  if node.start_timeout then call.leave(c, 'ZREM', key.ffx_start_deadlines(c), execution_id) end
  local lease_id, n = begin_lease(x, here, execution_id, node)
  local inputs, complete = inputs_of(c, run, node)
  local index = number.text(total)
  x.leased[n] = row_claimed.describe_again(c, run, execution_id, lease_id, x.expires_text,
    node.uses_flow_input and row_inputs.of_plain(c, run, bytes), inputs, complete, index, number.text(epoch + 1), number.text(retries))
  local leased = here.leased
  redis.call('SETRANGE', run.key, node.place_text,
    struct.pack(TRIED, 2, 2, 9, 1, outcome, 3, 5, LEASED + RETRIED, total, total + 1, retries, reclaims, epoch + 1, open, told)
    .. string.sub(leased, 1, STARTED - EXPIRES) .. string.sub(bytes, at + STARTED + 1, at + WORKER) .. string.sub(leased, LEASED_WORKER + 1)
    .. lease_id)
  log(c, run, bytes, events, encode.logged('started', node.name, index, x.logged_instance))
  turn.count(here, run, node, 1, 0)
  return true
end
