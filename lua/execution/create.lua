-- Creates the records of executions.

-- Returns the state of an execution that was never claimed. `held` names the reason why it may not run: nil, 'delay' or
-- 'dependencies'.
function create.state(held, detail)
  if held == 'delay' then
    return 'not_eligible_until_time', 'waiting_for_delay', detail, 'delayed'
  elseif held == 'dependencies' then
    return 'blocked_by_dependencies', 'waiting_for_children', detail, 'waiting_children'
  end
  return 'eligible_now', 'waiting_for_worker', '', 'waiting'
end

-- Writes the record of a new execution. A small hash is searched from its beginning, so the fields that every claim
-- and completion reads or writes come first.
local function write_core(c, core_key, A, priority, delayed, capabilities)
  local eligibility, reason, detail, public = create.state(delayed and 'delay' or nil,
    'delayed until ' .. (A.delay_until or ''))
  record.set(core_key,
    'lifecycle_phase', 'runnable',
    'ownership_state', 'unowned',
    'eligibility_state', eligibility,
    'attempt_state', 'pending_first_attempt',
    'terminal_outcome', 'none',
    'current_lease_epoch', '0',
    'total_attempt_count', '0',
    'lane_id', A.lane_id,
    'current_attempt_index', '',
    'current_attempt_id', '',
    'current_lease_id', '',
    'current_worker_instance_id', '',
    'lease_expires_at', '',
    'current_lane', A.lane_id,
    'started_at', '',
    'flow_id', '',
    'blocking_reason', reason,
    'blocking_detail', detail,
    'public_state', public,
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
    'current_worker_id', '',
    'lease_acquired_at', '',
    'lease_last_renewed_at', '',
    'lease_renewal_deadline', '',
    'lease_expired_at', '',
    'lease_revoked_at', '',
    'lease_revoke_reason', '',
    'completed_at', '',
    'pending_retry_reason', '',
    'pending_replay_reason', '',
    'pending_replay_requested_by', '',
    'pending_previous_attempt_index', '',
    'execution_id', A.execution_id,
    'execution_kind', A.execution_kind,
    'created_at', c.now_text,
    'priority', number.exact(priority),
    'retry_count', '0',
    'namespace', A.namespace,
    'partition_id', A.partition_id,
    'creator_identity', A.creator_identity,
    'replay_count', '0',
    'lease_reclaim_count', '0',
    'delay_until', delayed and A.delay_until or '',
    'current_suspension_id', '',
    'current_waitpoint_id', '',
    'progress_pct', '',
    'progress_message', '',
    'progress_updated_at', '',
    unpack(capabilities ~= '' and { 'required_capabilities', capabilities } or {}))
end

-- Converts the times of a create call, before anything is written.
local function parse_times(A)
  local delay, err = number.optional('delay_until', A.delay_until, 0)
  if err then return nil, err end
  local deadline
  deadline, err = number.optional('execution_deadline_at', A.execution_deadline_at, nil)
  if err then return nil, err end
  return {
    delay_until = delay,
    deadline = deadline,
    dedup_ttl = number.whole('dedup_ttl_ms', A.dedup_ttl_ms) or 0,
  }
end

-- @hook Returns why an execution cannot have an id; nil when it can.
function create.refuse_id(execution_id) return nil end

-- @function ff_create_execution
-- @summary  Creates the execution record and places it in one scheduling set. The state determines the set, regardless of which
--           of the two the caller named.
-- @flags    derives repeatable intake
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
-- @arg      dedup_ttl_ms    ms optional=0
-- @arg      tags_json       json optional
-- @arg      execution_deadline_at unix_ms optional
-- @arg      partition_id    text
-- @reply    OK execution_id:execution_id public_state:text
-- @reply    DUPLICATE execution_id:execution_id
-- @error    invalid_input message:text
-- @error    invalid_policy_json reason:text
-- @error    invalid_capabilities reason:text
function F.ff_create_execution(K, A)
  local priority, err = number.priority('priority', A.priority)
  if err then return err end
  local c = call.open(K.core)
  local deduplicated = K.idem ~= '' and not string.find(K.idem, 'ff:noop:', 1, true)
  if deduplicated then
    local existing = redis.call('GET', K.idem)
    if existing then return reply.duplicate(existing) end
  end
  if record.exists(K.core) == 1 then return reply.duplicate(A.execution_id) end
  local refusal = create.refuse_id(A.execution_id)
  if refusal then return reply.err('invalid_input', refusal) end
  local capabilities
  capabilities, err = capability.of_policy(A.policy_json)
  if err then return err end
  local n
  n, err = parse_times(A)
  if err then return err end

  local core = { created_at = c.now, priority = priority }
  local delayed = n.delay_until > c.now
  write_core(c, K.core, A, priority, delayed, capabilities)
  if is_set(A.input_payload) then redis.call('SET', K.payload, A.input_payload) end
  if is_set(A.policy_json) then redis.call('SET', K.policy, A.policy_json) end
  local tags = record.tags_of(A.tags_json)
  if #tags > 0 then call.chunked('HSET', K.tags, tags) end
  if delayed then
    redis.call('ZADD', key.lane_delayed(c, A.lane_id), n.delay_until, A.execution_id)
    wake.due_for(c, core, n.delay_until)
  else
    order.enter(c, A.lane_id, A.execution_id, core)
    wake.entered(c, A.lane_id, core)
  end
  wake.note_lane(c, A.lane_id)
  redis.call('SADD', K.all_executions, A.execution_id)
  if n.deadline then
    redis.call('ZADD', K.execution_deadline, n.deadline, A.execution_id)
    wake.due_for(c, core, n.deadline)
  end
  if n.dedup_ttl > 0 and deduplicated then
    redis.call('SET', K.idem, A.execution_id, 'PX', n.dedup_ttl)
  end
  wake.flush(c)
  return reply.ok(A.execution_id, delayed and 'delayed' or 'waiting')
end
