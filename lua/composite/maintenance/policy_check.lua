-- Repairs the counters of quotas and budgets that other tools of the contract use. The users of flows' quotas and budgets keep
-- those correct.

-- Corrects the counter of a quota with a cap: how many executions are admitted.
function policy_check.correct(c, id)
  local cap = number.finite(redis.call('HGET', key.quota_record(c, id), 'active_concurrency_cap') or nil) or 0
  if cap <= 0 then return false end
  local admitted = redis.call('SCARD', key.quota_admitted_set(c, id))
  local counter_key = key.quota_concurrency(c, id)
  if tonumber(redis.call('GET', counter_key) or nil) == admitted then return false end
  redis.call('SET', counter_key, number.text(admitted))
  return true
end

-- Removes starts of executions that are outside of the window.
local function prune_window(c, id, seconds)
  if seconds > 0 then redis.call('ZREMRANGEBYSCORE', key.quota_window(c, id), '-inf', c.now - math.floor(seconds * 1000)) end
end

-- Returns the state of an admission: the time at which it was given, and whether it is still guarded against being given again.
local function admission_of(c, id, execution_id)
  return redis.call('ZSCORE', key.quota_window(c, id), execution_id) or '',
    tostring(redis.call('EXISTS', key.quota_admitted(c, id, execution_id)))
end

-- Checks one quota: its window and counter, and a page of its admitted executions, which the caller then queries.
local function visit_quota(c, work, id, inner)
  local quota = record.read(key.quota_record(c, id), { 'requests_per_window_seconds', 'active_concurrency_cap', 'name' })
  if not quota then
    redis.call('SREM', key.index_quota_policies(c), id)
    work.repaired = work.repaired + 1
    return nil, true
  elseif quota.name then
    return nil
  end
  if inner == '' then
    prune_window(c, id, number.finite(quota.requests_per_window_seconds) or 0)
    if policy_check.correct(c, id) then work.repaired = work.repaired + 1 end
  end
  local page = redis.call('SSCAN', key.quota_admitted_set(c, id), inner == '' and '0' or inner, 'COUNT', work.limit)
  for _, execution_id in ipairs(page[2]) do
    work.admitted[#work.admitted + 1] = { id, execution_id, admission_of(c, id, execution_id) }
  end
  work.checked = work.checked + #page[2]
  if page[1] ~= '0' then return page[1] end
end

-- @record admitted quota_policy_id:quota_policy_id execution:text admitted_at:text guarded:bool

-- @function ffx_reconcile_quotas
-- @summary  Checks the quotas of a partition that programs of the contract have created: removes starts that are outside of the
--           window, corrects the counter of admitted executions, and returns these, so that the caller can find out which of them
--           run, and pass the others to ffx_drop_admissions. Checks about `limit` records per call: continue with next_cursor
--           until it is empty.
-- @flags    derives repeatable
-- @key      policies           index.quota_policies
-- @arg      limit              int
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text checked:int repaired:int admitted:list(admitted) faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_reconcile_quotas(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local c = call.open_guarded(K.policies)
  local work = scan.begin(limit)
  work.admitted, work.repaired = {}, 0
  local cursor = scan.set(c, 'quota_reconciliation', work, K.policies, A.cursor or '', function(id, inner) return visit_quota(c, work, id, inner) end)
  return reply.ok(cursor, number.text(work.checked), number.text(work.repaired), work.admitted, c.faults)
end

-- @function ffx_drop_admissions
-- @summary  Takes back the admissions of executions that no longer run, if they are unchanged since ffx_reconcile_quotas. Their
--           starts still count within the window. A guarded admission only loses its guard, which would otherwise admit an
--           execution that is run again. `again` names those, so that the caller checks their executions once more; from now on,
--           they are admitted anew.
-- @flags    derives repeatable
-- @key      policies           index.quota_policies
-- @group    admissions         quota_policy_id:quota_policy_id execution:text admitted_at:text guarded:bool
-- @reply    OK dropped:int again:list(admitted)? faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_drop_admissions(K, A)
  if not A.admissions then return reply.err('invalid_input', 'the count of admissions does not fit the arguments') end
  local c = call.open_guarded(K.policies)
  local dropped, touched, again = 0, {}, {}
  local function drop(_, entry)
    local id = entry.quota_policy_id
    local at, guarded = admission_of(c, id, entry.execution)
    if at == entry.admitted_at and guarded == entry.guarded then
      if guarded == '1' then
        redis.call('DEL', key.quota_admitted(c, id, entry.execution))
        again[#again + 1] = { id, entry.execution, at, '0' }
      elseif redis.call('SREM', key.quota_admitted_set(c, id), entry.execution) == 1 then
        dropped = dropped + 1
        touched[id] = true
      end
    end
  end
  for _, entry in ipairs(A.admissions) do call.guarded(c, 'quota_reconciliation', entry.quota_policy_id, drop, entry) end
  for id in pairs(touched) do call.guarded(c, 'quota_reconciliation', id, function() policy_check.correct(c, id) end) end
  return reply.ok(number.text(dropped), again, c.faults)
end

-- Reports whether a hard limit of a budget is reached.
local function is_breached(c, id)
  local usage_key = key.budget_usage(c, id)
  local limits = redis.call('HGETALL', key.budget_limits(c, id))
  for i = 1, #limits, 2 do
    local dimension, limit = string.match(limits[i], '^hard:(.*)$'), number.finite(limits[i + 1]) or 0
    if dimension and limit > 0 and (tonumber(redis.call('HGET', usage_key, dimension) or nil) or 0) >= limit then return true end
  end
  return false
end

-- Corrects the time since when a budget's limit is reached, and its entry for the next reset. Returns whether either was
-- different.
local function repair_budget(c, id, stored)
  local changed = false
  local interval = number.finite(stored.reset_interval_ms) or 0
  if interval > 0 and not redis.call('ZSCORE', key.index_budget_resets(c), id) then
    local at = number.finite(stored.next_reset_at) or c.now + interval
    budget.schedule_reset({ definition = key.budget_record(c, id), resets = key.index_budget_resets(c) }, id, at)
    wake.tell_keepers(c, 'b', at)
    changed = true
  end
  local usage_key = key.budget_usage(c, id)
  local since = redis.call('HGET', usage_key, 'breached_at')
  if is_breached(c, id) then
    if since and since ~= '0' then return changed end
    redis.call('HSET', usage_key, 'breached_at', c.now_text)
  else
    if not since then return changed end
    redis.call('HDEL', usage_key, 'breached_at')
  end
  return true
end

-- @function ffx_reconcile_budgets
-- @summary  Checks the budgets of a partition that programs of the contract have created: records in the usage since when
--           (breached_at) a hard limit is reached, or that none is, and enters those with resets in the index of resets. Checks
--           about `limit` records per call: continue with next_cursor until it is empty.
-- @flags    derives repeatable
-- @key      policies           index.budget_policies
-- @arg      limit              int
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text checked:int repaired:int faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_reconcile_budgets(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local c = call.open_guarded(K.policies)
  local work, repaired = scan.begin(limit), 0
  local cursor = scan.set(c, 'budget_reconciliation', work, K.policies, A.cursor or '', function(id)
    local stored = record.read(key.budget_record(c, id), { 'budget_id', 'reset_interval_ms', 'next_reset_at', 'gate', 'name' })
    if not stored or not stored.budget_id then
      repaired = repaired + redis.call('SREM', K.policies, id)
      redis.call('ZREM', key.index_budget_resets(c), id)
      return nil, true
    end
    if not stored.gate and not stored.name and repair_budget(c, id, stored) then repaired = repaired + 1 end
  end)
  return reply.ok(cursor, number.text(work.checked), number.text(repaired), c.faults)
end
