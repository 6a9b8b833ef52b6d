-- The records of a suspension: the suspension itself, its waitpoint and its condition.

-- Score of suspensions without a timeout.
local NO_TIMEOUT = 9999999999999
suspension_record.NO_TIMEOUT = NO_TIMEOUT

-- A new suspension has no buffered signals; its waitpoint counts later ones.
local NO_SIGNALS = '{"total_count":0,"matched_count":0,"signal_names":[]}'

-- Returns the keys of the records of an execution's current suspension.
function suspension_record.keys(c, execution_id, core)
  local k = { suspension = key.exec_suspension(c, execution_id) }
  if is_set(core.current_waitpoint_id) then
    k.waitpoint = key.waitpoint_record(c, core.current_waitpoint_id)
    k.condition = key.waitpoint_condition(c, core.current_waitpoint_id)
  end
  return k
end

local NOTHING = {}

local function close_one(hash, c, known, satisfied, ...)
  if not hash or not known and redis.call('EXISTS', hash) == 0 then return end
  if satisfied then
    redis.call('HSET', hash, 'closed_at', c.now_text, 'satisfied_at', c.now_text, ...)
  else
    redis.call('HSET', hash, 'closed_at', c.now_text, ...)
  end
end

-- Closes all existing records of a suspension, so that no later signal finds it open. `o`: satisfied (its condition was met, or
-- it was resumed), condition_reason (when the condition has another reason), known (a set: the records that are written without a
-- check whether they exist).
function suspension_record.close(c, k, reason, o)
  o = o or NOTHING
  local known = o.known or NOTHING
  close_one(k.suspension, c, known.suspension, o.satisfied, 'close_reason', reason)
  close_one(k.waitpoint, c, known.waitpoint, o.satisfied, 'state', 'closed', 'close_reason', reason)
  close_one(k.condition, c, known.condition, false, 'closed', '1', 'closed_reason', o.condition_reason or reason)
end

-- All records of a suspension, for `known` of suspension_record.close.
suspension_record.ALL = { suspension = true, waitpoint = true, condition = true }

-- Returns an open suspension record, or nil.
function suspension_record.read_open(suspension_key)
  local s = record.read(suspension_key,
    { 'suspension_id', 'closed_at', 'timeout_at', 'timeout_behavior', 'waitpoint_id', 'reason_code' })
  if not s or not is_set(s.suspension_id) or is_set(s.closed_at) then return nil end
  return s
end

-- Activates the waitpoint of a suspension. `about`: the information for the people who answer.
local function activate(c, K, A, w, about)
  if is_set(about) then redis.call('HSET', K.waitpoint, 'about', about) end
  if A.reason_code == timer.REASON then redis.call('HSET', K.waitpoint, 'timer', '1') end
  if w.pending then
    redis.call('HSET', K.waitpoint, 'suspension_id', A.suspension_id, 'state', 'active', 'activated_at', c.now_text,
      'expires_at', A.timeout_at or '')
    redis.call('ZREM', K.pending_waitpoint_expiry, w.id)
    return
  end
  redis.call('HSET', K.waitpoint, 'waitpoint_id', w.id, 'execution_id', A.execution_id,
    'attempt_index', A.attempt_index, 'suspension_id', A.suspension_id, 'waitpoint_key', w.key,
    'waitpoint_token', w.token, 'state', 'active', 'created_at', c.now_text, 'activated_at', c.now_text,
    'expires_at', A.timeout_at or '', 'signal_count', '0', 'matched_signal_count', '0', 'last_signal_at', '')
  if A.step then redis.call('HSET', K.waitpoint, 'step', A.step) end
end

-- Returns the fields of an entry of a stream of signals.
local function fields_of(entry)
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  return fields
end

-- Applies the signals that came before the suspension to its condition. Returns the id of the one that met it, or nil.
local function apply_buffered(c, K, state)
  local decided
  for _, entry in ipairs(redis.call('XRANGE', K.signals, '-', '+')) do
    local fields = fields_of(entry)
    condition.match(state, fields.signal_name or '', fields.signal_id or '', fields.source_identity)
    if not decided and condition.is_met(state) then decided = fields.signal_id or '' end
  end
  return decided
end

-- Applies the early signals of a managed flow's wait to a condition, up to the one that meets it, without writing anything.
function suspension_record.match_early(K, state)
  for _, entry in ipairs(redis.call('XRANGE', K.signals, '-', '+')) do
    local fields = fields_of(entry)
    condition.match(state, fields.signal_name or '', fields.signal_id or '', fields.source_identity)
    if condition.is_met(state) then return end
  end
end

-- Number of early signals that are read at a time.
local EARLY_AT_A_TIME = 64

-- Applies the early signals of a wait of a managed flow to its condition, in the order of arrival, up to the one that meets it,
-- as if they had come to the open wait. Later signals are not read; the waitpoint records where they begin. Returns the id of the
-- signal that met the condition, or nil.
local function apply_early(c, K, state)
  local from = '-'
  while true do
    local entries = redis.call('XRANGE', K.signals, from, '+', 'COUNT', EARLY_AT_A_TIME)
    for _, entry in ipairs(entries) do
      local fields = fields_of(entry)
      local place = condition.match(state, fields.signal_name or '', fields.signal_id or '', fields.source_identity)
      redis.call('HSET', key.signal_record(c, fields.signal_id), 'observed_effect', place and 'appended_to_waitpoint' or 'no_op')
      if place and condition.is_met(state) then
        redis.call('HSET', K.waitpoint, 'decided_at', entry[1])
        return fields.signal_id
      end
    end
    if #entries < EARLY_AT_A_TIME then return nil end
    from = '(' .. entries[#entries][1]
  end
end

local function write_suspension(K, A, w, now_text)
  redis.call('HSET', K.suspension, 'suspension_id', A.suspension_id, 'execution_id', A.execution_id,
    'attempt_index', A.attempt_index, 'waitpoint_id', w.id, 'waitpoint_key', w.key, 'reason_code', A.reason_code,
    'requested_by', A.requested_by, 'created_at', now_text, 'timeout_at', A.timeout_at or '',
    'timeout_behavior', A.timeout_behavior or 'fail', 'resume_condition_json', A.resume_condition_json,
    'resume_policy_json', A.resume_policy_json,
    'continuation_metadata_pointer', A.continuation_metadata_pointer or '',
    'buffered_signal_summary_json', NO_SIGNALS, 'last_signal_at', '', 'satisfied_at', '', 'closed_at', '',
    'close_reason', '')
  if A.step then redis.call('HSET', K.suspension, 'step', A.step) end
end

-- Writes the records of a new suspension. `A` holds the arguments of ff_suspend_execution and, when a function of a managed flow
-- waits, its step; `w` the waitpoint. Returns the id of the early signal that has already met the condition, or nil; the records
-- are closed then.
function suspension_record.begin(c, K, A, w, state)
  activate(c, K, A, w, A.about or state.about)
  local decided
  if w.pending then decided = (A.managed and apply_early or apply_buffered)(c, K, state) end
  condition.write(c, K.condition, state)
  redis.call('SADD', K.waitpoints, w.id)
  write_suspension(K, A, w, c.now_text)
  if decided then
    suspension_record.close(c, K, 'resumed', { satisfied = true, condition_reason = 'satisfied' })
  end
  return decided
end

-- Enters a suspended execution into the indexes. `timeout_at` is nil without a timeout.
function suspension_record.index(c, K, execution_id, core, timeout_at)
  redis.call('ZADD', K.suspended or key.lane_suspended(c, record.lane(core)), timeout_at or NO_TIMEOUT, execution_id)
  if timeout_at then
    redis.call('ZADD', K.suspension_timeout or key.index_suspension_timeout(c), timeout_at, execution_id)
    wake.due_for(c, core, timeout_at)
  end
  if core.managed then redis.call('ZADD', key.ffx_open_waits(c), c.now, execution_id) end
end

-- Enters a suspended execution that has become a member of a run into the list of open waits.
function suspension_record.adopt(c, execution_id) redis.call('ZADD', key.ffx_open_waits(c), c.now, execution_id) end

-- Removes an execution whose suspension is over from the indexes. `suspended` is its lane's index, nil to derive it.
function suspension_record.leave_indexes(c, execution_id, core, suspended)
  redis.call('ZREM', suspended or key.lane_suspended(c, record.lane(core)), execution_id)
  redis.call('ZREM', key.index_suspension_timeout(c), execution_id)
  if core.managed then redis.call('ZREM', key.ffx_open_waits(c), execution_id) end
end
