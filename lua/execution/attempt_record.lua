-- Records of attempts: one for each try to run an execution.

-- An attempt of a node with a row is stored only in the row while it just runs and succeeds, if it is the first one or follows
-- failed ones: the field `in_row` is set then. Any other change of the attempt first writes its record.

local NONE = {}

-- Writes the record of a new attempt. For managed executions, it leaves out created_at, which equals started_at, and the usage
-- record: no function reads them.
function attempt_record.open(c, execution_id, index, w, epoch, attempt_id, attempt_type, extra, managed)
  redis.call('HSET', key.attempt_record(c, execution_id, index),
    'attempt_id', attempt_id, 'execution_id', execution_id, 'attempt_index', index,
    'attempt_type', attempt_type, 'attempt_state', 'started', 'started_at', c.now_text, 'lease_id', w.lease_id, 'lease_epoch', epoch,
    'worker_id', w.worker_id, 'worker_instance_id', w.worker_instance_id, unpack(extra or NONE))
  redis.call('ZADD', key.exec_attempts(c, execution_id), c.now_text, index)
  if managed then
    record.clear(key.exec_core(c, execution_id), 'in_row')
  else
    redis.call('HSET', key.attempt_record(c, execution_id, index), 'created_at', c.now_text)
    redis.call('HSET', key.attempt_usage(c, execution_id, index), 'last_usage_report_seq', '0')
  end
end

-- Writes the record of an attempt that only the core contains, with further fields. It names the lease holder only while the core
-- does. Reports whether it did.
function attempt_record.write_first(c, execution_id, core, ...)
  if not core.managed then return false end
  local core_key = key.exec_core(c, execution_id)
  local v = record.values(core_key, 'in_row', 'current_attempt_id', 'started_at', 'current_lease_epoch',
    'current_lease_id', 'current_worker_id', 'current_worker_instance_id', 'completed_at', 'current_attempt_index')
  if not v[1] then return false end
  local index, started = v[9] or '0', v[3] or ''
  local values = { 'attempt_id', v[2] or '', 'execution_id', execution_id, 'attempt_index', index, 'attempt_type', 'initial',
    'attempt_state', 'started', 'started_at', started, 'lease_epoch', v[4] or '' }
  if index ~= '0' then
    local of_retry = record.values(core_key, 'lease_acquired_at', 'failure_reason')
    started = of_retry[1] or started
    values[8], values[12] = 'retry', started
    record.append(values, 'retry_reason', of_retry[2])
    record.append(values, 'previous_attempt_index', number.text(tonumber(index) - 1))
  end
  record.append(values, 'lease_id', v[5])
  record.append(values, 'worker_id', v[6])
  record.append(values, 'worker_instance_id', v[7])
  if is_set(v[8]) then
    record.append(values, 'attempt_state', 'ended_success')
    record.append(values, 'ended_at', v[8])
  end
  local further = { ... }
  for i = 1, #further do values[#values + 1] = further[i] end
  redis.call('HSET', key.attempt_record(c, execution_id, index), unpack(values))
  redis.call('ZADD', key.exec_attempts(c, execution_id), is_set(started) and started or c.now_text, index)
  record.clear(core_key, 'in_row')
  return true
end

-- Writes fields into the record of the current attempt, while the core still names its lease.
function attempt_record.note(c, execution_id, core, ...)
  if not is_set(core.current_attempt_index) then return end
  if attempt_record.write_first(c, execution_id, core, ...) then return end
  redis.call('HSET', key.attempt_record(c, execution_id, core.current_attempt_index), ...)
end

-- Records that the current attempt has ended in `state`.
function attempt_record.finish(c, execution_id, core, state, ...)
  attempt_record.note(c, execution_id, core, 'attempt_state', state, 'ended_at', c.now_text, ...)
end
