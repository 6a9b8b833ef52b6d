-- Repairs waits. The records of a wait are written in this order: the signal with its payload, the condition that takes it, the
-- end of the suspension, the record of the execution. When a server was killed in between, the rest is written here.

-- Maximum number of signals of one execution that are checked, the latest.
local MAX_LOOKED_AT = 256

-- Returns the signal that decided a wait: the last one that its condition took.
local function deciding(c, execution_id, state)
  local last, last_at
  for _, signal_id in ipairs(condition.taken_signals(state)) do
    local at = tonumber(redis.call('ZSCORE', key.exec_signals(c, execution_id), signal_id) or nil) or 0
    if not last or at >= last_at then last, last_at = signal_id, at end
  end
  return last
end

-- Applies to the condition the signals that were recorded as taken.
local function match_recorded(c, execution_id, waitpoint_id, condition_key, state)
  local taken = {}
  for _, signal_id in ipairs(condition.taken_signals(state)) do taken[signal_id] = true end
  for _, signal_id in ipairs(redis.call('ZRANGE', key.exec_signals(c, execution_id), -MAX_LOOKED_AT, -1)) do
    local s = not taken[signal_id]
      and redis.call('HMGET', key.signal_record(c, signal_id), 'target_waitpoint_id', 'observed_effect', 'signal_name', 'source_identity')
    if s and s[1] == waitpoint_id and (s[2] == 'resume_condition_satisfied' or s[2] == 'appended_to_waitpoint') then
      local place = condition.match(state, s[3] or '', signal_id, s[4] or '')
      if place then
        condition.write_match(condition_key, state, place)
        repair_index.note(c, 'waits')
      end
    end
  end
end

-- Opens a wait again whose records were closed while its execution still waits.
local function reopen(c, k)
  redis.call('HSET', k.suspension, 'closed_at', '', 'close_reason', '')
  redis.call('HSET', k.waitpoint, 'state', 'active', 'closed_at', '', 'close_reason', '')
  if redis.call('EXISTS', k.condition) == 1 then redis.call('HSET', k.condition, 'closed', '0', 'closed_reason', '') end
  repair_index.note(c, 'waits')
end

-- Repairs the wait of an execution of a managed flow. Returns whether it is over, and the execution has continued.
function repair_wait.execution(c, execution_id)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, suspension.FIELDS)
  if not is_set(core.current_waitpoint_id) then return false end
  core.execution_id = core.execution_id or execution_id
  local k = wait.keys(c, execution_id, core.current_waitpoint_id)
  local s = redis.call('HMGET', k.suspension, 'closed_at', 'waitpoint_id')
  if s[2] ~= core.current_waitpoint_id then return false end
  if is_set(s[1]) then reopen(c, k) end
  local state = condition.read(k.condition)
  if not state then return false end
  match_recorded(c, execution_id, core.current_waitpoint_id, k.condition, state)
  if #condition.taken_signals(state) == 0 or not condition.is_met(state) then return false end
  local signal_id = deciding(c, execution_id, state)
  k.core, k.suspension_timeout = core_key, key.index_suspension_timeout(c)
  signal.satisfy(c, k, {
    execution_id = execution_id, payload = redis.call('GET', key.signal_payload(c, signal_id)) or '',
    signal_name = redis.call('HGET', key.signal_record(c, signal_id), 'signal_name') or '',
  }, core, 0, state)
  repair_index.note(c, 'waits')
  return true
end
