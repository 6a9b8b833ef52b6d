-- Timers that operators move and end.

-- Moves the time of a timer that runs.
local function move(c, execution_id, core, k, at)
  redis.call('HSET', k.suspension, 'timeout_at', number.text(at))
  redis.call('HSET', k.waitpoint, 'expires_at', number.text(at))
  redis.call('ZADD', key.lane_suspended(c, record.lane(core)), at, execution_id)
  redis.call('ZADD', key.index_suspension_timeout(c), at, execution_id)
  record.set(key.exec_core(c, execution_id), 'blocking_detail', timer.detail(at), 'last_mutation_at', c.now_text)
  event_log.add_for(c, core, 'timer_moved', core.current_attempt_index, number.text(at))
  wake.due_for(c, core, at)
end

-- @function ffx_move_timer
-- @summary  Moves the time for which a node sleeps, a timer node or a function, to another one; a past or missing time ends the
--           timer now, as if its time had come.
-- @flags    derives operator
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      node               text
-- @arg      at                 unix_ms optional
-- @arg      actor              text optional
-- @reply    OK execution_id:execution_id moved_from:unix_ms more:bool
-- @error    flow_not_found
-- @error    execution_not_found
-- @error    execution_not_suspended
-- @error    invalid_input message:text
function F.ffx_move_timer(K, A)
  local at, err = number.optional('at', A.at, 0)
  if err then return err end
  local c = call.open(K.partition)
  local run = row.run(c, A.flow_id)
  if not run then return reply.err('flow_not_found') end
  local ordinal = graph_store.ordinal(run, A.node)
  if not ordinal then return reply.err('execution_not_found') end
  local execution_id = row.execution_id(run, ordinal)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, suspension.FIELDS)
  local k = suspension_record.keys(c, execution_id, core)
  k.core = core_key
  local open = core.lifecycle_phase == 'suspended' and suspension_record.read_open(k.suspension)
  if not open or open.reason_code ~= timer.REASON then return reply.err('execution_not_suspended') end
  if at > c.now then
    move(c, execution_id, core, k, at)
  else
    suspension.end_sleep(c, execution_id, core_key, core, k, 'timer_skipped', A.actor)
  end
  settle.run(c)
  return reply.ok(execution_id, open.timeout_at, c.more and '1' or '0')
end
