-- Making executions eligible: at once, after a delay, or by promotion of delayed ones.

-- Makes a record that nothing holds back any longer ready to be claimed, at once or when it is due. `r`: values and
-- blank (further core fields); due (ms) with reason and detail for a delay; own_delay: the record's own delay still
-- counts; eligible and delayed (indexes of its lane, derived when they are missing). Gives the public state.
function requeue.ready(c, execution_id, core_key, core, r)
  local due, reason, detail = r.due, r.reason, r.detail
  if r.own_delay then
    due, reason = number.finite(core.delay_until), 'waiting_for_delay'
    if due and due > c.now then detail = 'delayed until ' .. core.delay_until else due = nil end
  end
  if core.wait and not due then
    if r.values then record.set(core_key, unpack(r.values)) end
    if r.blank and #r.blank > 0 then record.clear(core_key, unpack(r.blank)) end
    return wait.open(c, execution_id, core_key, core)
  end
  local values = {
    'lifecycle_phase', 'runnable',
    'ownership_state', 'unowned',
    'eligibility_state', due and 'not_eligible_until_time' or 'eligible_now',
    'blocking_reason', due and reason or 'waiting_for_worker',
    'terminal_outcome', 'none',
    'public_state', due and 'delayed' or 'waiting',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }
  local function append(list)
    for _, value in ipairs(list) do values[#values + 1] = value end
  end
  append(r.values or {})
  local blank = { unpack(r.blank or {}) }
  if not due then
    blank[#blank + 1] = 'blocking_detail'
  elseif r.own_delay then
    append({ 'blocking_detail', detail })
  else
    append({ 'blocking_detail', detail, 'delay_until', number.text(due) })
  end
  record.write(core_key, core.managed, values, blank)
  local lane = record.lane(core)
  if due then
    redis.call('ZADD', r.delayed or key.lane_delayed(c, lane), due, execution_id)
    wake.delayed(c, lane, core, due)
    return 'delayed'
  end
  order.enter(c, lane, execution_id, core, r.eligible)
  order.announce(c, execution_id, core, lane)
  return 'waiting'
end

-- The same for an execution that its store has called fresh, and that nothing holds back.
function requeue.ready_fresh(c, execution_id, core_key, core, eligible_key)
  local s, at = store.of(core_key)
  s.mark_ready(at, c)
  order.enter(c, core.lane_id, execution_id, core, eligible_key)
  order.announce(c, execution_id, core, core.lane_id)
end

-- Puts a runnable record into the eligible set of its lane.
function requeue.make_eligible(c, execution_id, core)
  local lane = record.lane(core)
  order.enter(c, lane, execution_id, core)
  wake.entered(c, lane, core)
end

-- Core fields that a promotion reads.
local PROMOTE_FIELDS = {
  'lifecycle_phase', 'eligibility_state', 'delay_until', 'created_at', 'priority', 'lane_id', 'current_lane',
  'managed', 'execution_id', 'node', 'flow_id', 'wait', 'fair_key',
}

-- A delayed execution whose time has come becomes eligible. `now` is the clock to compare with (ms).
function requeue.promote(c, execution_id, core_key, delayed_key, eligible_key, now)
  local s, at = store.of(core_key)
  local delayed = now == c.now and s.delayed(at)
  local due = delayed and tonumber(redis.call('ZSCORE', delayed_key, execution_id) or nil)
  if due then
    if due > now then return 'not_yet_due' end
    redis.call('ZREM', delayed_key, execution_id)
    s.mark_ready(at, c)
    order.enter(c, delayed.lane_id, execution_id, delayed, eligible_key)
    wake.entered(c, delayed.lane_id, delayed)
    return 'promoted'
  end
  local core = record.read(core_key, PROMOTE_FIELDS)
  if not core then
    redis.call('ZREM', delayed_key, execution_id)
    return 'not_found_cleaned'
  end
  if core.lifecycle_phase ~= 'runnable' then
    redis.call('ZREM', delayed_key, execution_id)
    return 'not_runnable_cleaned'
  end
  if core.eligibility_state ~= 'not_eligible_until_time' then
    redis.call('ZREM', delayed_key, execution_id)
    if core.eligibility_state == 'eligible_now' then
      order.enter(c, record.lane(core), execution_id, core, eligible_key)
      wake.entered(c, record.lane(core), core)
    end
    return 'not_delayed_cleaned'
  end
  local delay_until = number.finite(core.delay_until)
  if not delay_until then
    delay_until = tonumber(redis.call('ZSCORE', delayed_key, execution_id) or nil) or 0
  end
  if delay_until > now then return 'not_yet_due' end
  if core.wait then
    redis.call('ZREM', delayed_key, execution_id)
    wait.open(c, execution_id, core_key, core)
    return 'promoted'
  end
  local now_text = number.text(now)
  record.write(core_key, core.managed, {
    'lifecycle_phase', 'runnable',
    'ownership_state', 'unowned',
    'eligibility_state', 'eligible_now',
    'blocking_reason', 'waiting_for_worker',
    'terminal_outcome', 'none',
    'public_state', 'waiting',
    'last_transition_at', now_text,
    'last_mutation_at', now_text,
  }, { 'blocking_detail', 'delay_until' })
  redis.call('ZREM', delayed_key, execution_id)
  order.enter(c, record.lane(core), execution_id, core, eligible_key)
  wake.entered(c, record.lane(core), core)
  return 'promoted'
end

-- @function ff_promote_delayed
-- @summary  A delayed execution whose time has come, by the caller's clock, becomes eligible.
-- @flags    derives repeatable
-- @key      core            exec.core
-- @key      delayed         lane.delayed
-- @key      eligible        lane.eligible
-- @arg      execution_id    execution_id
-- @arg      now_ms          unix_ms
-- @reply    OK outcome:text
-- @error    invalid_input message:text
function F.ff_promote_delayed(K, A)
  local now, err = number.whole('now_ms', A.now_ms)
  if err then return err end
  local c = call.open(K.core)
  local outcome = requeue.promote(c, A.execution_id, K.core, K.delayed, K.eligible, now)
  settle.run(c)
  return reply.ok(outcome)
end
