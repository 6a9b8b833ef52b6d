-- The deferred end of a node: see ending.lua.

local FIELDS = { 'ending', 'ending_reason', 'ending_flags', 'ending_lease', 'ending_until' }

-- Ends a node whose end was deferred.
function kept_end.finish(c, execution_id, core_key)
  local core, how = record.read(core_key, terminal.END_FIELDS), record.read(core_key, FIELDS)
  if not store.row(core_key) then redis.call('ZREM', key.lane_blocked_dependencies(c, record.lane(core)), execution_id) end
  local flags = how.ending_flags or ''
  terminal.finish(c, execution_id, core_key, core, {
    outcome = how.ending, attempt_state = terminal.ended_attempt_state(core), blank = FIELDS, reason = how.ending_reason,
    category = record.value(core_key, 'failure_category') or how.ending == 'expired' and 'timeout' or nil,
    tolerated = string.find(flags, 't', 1, true) ~= nil, silent = string.find(flags, 's', 1, true) ~= nil, is_due = true,
  })
end
