-- Creating an execution record.

-- Fields that the contract stores empty at creation. A missing field means the same, so the composite calls
-- leave them out.
local EMPTY_AT_CREATION = {
  'current_attempt_index', 'current_attempt_id', 'current_lease_id', 'current_worker_id',
  'current_worker_instance_id', 'started_at', 'completed_at', 'lease_acquired_at', 'lease_expires_at',
  'lease_last_renewed_at', 'lease_renewal_deadline', 'lease_expired_at', 'lease_revoked_at',
  'lease_revoke_reason', 'current_suspension_id', 'current_waitpoint_id', 'pending_retry_reason',
  'pending_replay_reason', 'pending_replay_requested_by', 'pending_previous_attempt_index', 'progress_pct',
  'progress_message', 'progress_updated_at', 'flow_id',
}

-- State of an execution that nobody has claimed yet. `held` names why it may not run: nil, 'delay' or
-- 'dependencies'.
function create.state(held, detail)
  if held == 'delay' then
    return 'not_eligible_until_time', 'waiting_for_delay', detail, 'delayed'
  elseif held == 'dependencies' then
    return 'blocked_by_dependencies', 'waiting_for_children', detail, 'waiting_children'
  end
  return 'eligible_now', 'waiting_for_worker', '', 'waiting'
end

-- Core fields of a new execution as a flat list; only those with a value. A small hash is searched from its
-- beginning, so the fields that every claim and completion reads or writes come first.
function create.fields(c, e)
  local eligibility, reason, detail, public = create.state(e.held, e.detail)
  local values = {
    'lifecycle_phase', 'runnable',
    'ownership_state', 'unowned',
    'eligibility_state', eligibility,
    'attempt_state', 'pending_first_attempt',
    'terminal_outcome', 'none',
    'blocking_reason', reason,
    'public_state', public,
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
    'current_lease_epoch', '0',
    'total_attempt_count', '0',
    'lane_id', e.lane_id,
    'current_lane', e.lane_id,
    'execution_id', e.execution_id,
    'execution_kind', e.kind,
    'created_at', c.now_text,
    'priority', number.text(e.priority),
    'retry_count', '0',
    'namespace', e.namespace,
    'partition_id', e.partition_id,
    'creator_identity', e.creator_identity,
    'replay_count', '0',
    'lease_reclaim_count', '0',
  }
  if detail ~= '' then
    values[#values + 1] = 'blocking_detail'
    values[#values + 1] = detail
  end
  return values
end

local function parse_numbers(A)
  local priority, err = number.priority('priority', A.priority)
  if err then return nil, err end
  local delay
  delay, err = number.optional('delay_until', A.delay_until, 0)
  if err then return nil, err end
  local deadline
  deadline, err = number.optional('execution_deadline_at', A.execution_deadline_at, nil)
  if err then return nil, err end
  return {
    priority = priority,
    delay_until = delay,
    deadline = deadline,
    dedup_ttl = number.whole('dedup_ttl_ms', A.dedup_ttl_ms) or 0,
  }
end

-- @function ff_create_execution
-- @summary  Creates the execution record and places it in one scheduling set. The set follows from the state,
--           whichever of the two the caller named.
-- @flags    derives repeatable
-- @key      core            exec.core
-- @key      payload         exec.payload
-- @key      policy          exec.policy
-- @key      tags            exec.tags
-- @key      scheduling      lane.eligible
-- @key      idem            exec.idem optional
-- @key      execution_deadline index.execution_deadline
-- @key      all_executions  index.all_executions
-- @arg      execution_id    execution_id
-- @arg      namespace       text
-- @arg      lane_id         lane_id
-- @arg      execution_kind  text
-- @arg      priority        int
-- @arg      creator_identity text
-- @arg      policy_json     json optional
-- @arg      input_payload   bytes optional
-- @arg      delay_until     unix_ms optional
-- @arg      dedup_ttl_ms    ms optional
-- @arg      tags_json       json optional
-- @arg      execution_deadline_at unix_ms optional
-- @arg      partition_id    text
-- @reply    OK execution_id:execution_id public_state:text
-- @reply    DUPLICATE execution_id:execution_id
-- @error    invalid_input message:text
-- @error    invalid_policy_json reason:text
-- @error    invalid_capabilities reason:text
function F.ff_create_execution(K, A)
  local n, err = parse_numbers(A)
  if err then return err end
  local c = call.open(K.core)
  local deduplicated = K.idem ~= '' and not string.find(K.idem, 'ff:noop:', 1, true)
  if deduplicated then
    local existing = redis.call('GET', K.idem)
    if existing then return reply.duplicate(existing) end
  end
  if redis.call('EXISTS', K.core) == 1 then return reply.duplicate(A.execution_id) end
  local capabilities
  capabilities, err = capability.of_policy(A.policy_json)
  if err then return err end

  local delayed = n.delay_until > c.now
  local values = create.fields(c, {
    execution_id = A.execution_id, namespace = A.namespace, lane_id = A.lane_id, kind = A.execution_kind,
    priority = n.priority, creator_identity = A.creator_identity, partition_id = A.partition_id,
    held = delayed and 'delay' or nil, detail = 'delayed until ' .. (A.delay_until or ''),
  })
  local n_values = #values
  local function append(field, value)
    values[n_values + 1] = field
    values[n_values + 2] = value
    n_values = n_values + 2
  end
  append('delay_until', delayed and A.delay_until or '')
  if not delayed then append('blocking_detail', '') end
  for i = 1, #EMPTY_AT_CREATION do append(EMPTY_AT_CREATION[i], '') end
  if capabilities ~= '' then append('required_capabilities', capabilities) end
  redis.call('HSET', K.core, unpack(values))
  if is_set(A.input_payload) then redis.call('SET', K.payload, A.input_payload) end
  if is_set(A.policy_json) then redis.call('SET', K.policy, A.policy_json) end
  local tags = record.tags_of(A.tags_json)
  if #tags > 0 then call.chunked('HSET', K.tags, tags) end
  if delayed then
    redis.call('ZADD', key.lane_delayed(c, A.lane_id), n.delay_until, A.execution_id)
  else
    redis.call('ZADD', key.lane_eligible(c, A.lane_id),
      record.eligible_score({ created_at = c.now, priority = n.priority }), A.execution_id)
  end
  redis.call('SADD', K.all_executions, A.execution_id)
  if n.deadline then redis.call('ZADD', K.execution_deadline, n.deadline, A.execution_id) end
  if n.dedup_ttl > 0 and deduplicated then
    redis.call('SET', K.idem, A.execution_id, 'PX', n.dedup_ttl)
  end
  return reply.ok(A.execution_id, delayed and 'delayed' or 'waiting')
end
