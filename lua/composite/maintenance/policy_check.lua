-- Repairing the counts of quotas and budgets that other tools of the contract use. Those that flows use are kept
-- correct by their users.

-- The counter of a quota with a cap says how many executions are admitted.
function policy_check.correct(c, id)
  local cap = number.finite(redis.call('HGET', key.quota_record(c, id), 'active_concurrency_cap') or nil) or 0
  if cap <= 0 then return false end
  local admitted = redis.call('SCARD', key.quota_admitted_set(c, id))
  local counter_key = key.quota_concurrency(c, id)
  if tonumber(redis.call('GET', counter_key) or nil) == admitted then return false end
  redis.call('SET', counter_key, number.text(admitted))
  return true
end

-- Starts of executions that have left the window do not count any more.
local function prune_window(c, id, seconds)
  if seconds > 0 then redis.call('ZREMRANGEBYSCORE', key.quota_window(c, id), '-inf', c.now - math.floor(seconds * 1000)) end
end

-- How an admission stands: the time at which it was given, and whether it is still guarded against being given again.
local function admission_of(c, id, execution_id)
  return redis.call('ZSCORE', key.quota_window(c, id), execution_id) or '',
    tostring(redis.call('EXISTS', key.quota_admitted(c, id, execution_id)))
end

-- One quota: its window and counter, and a page of those that it has admitted, for the caller to ask about.
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
-- @summary  Goes through the quotas of a partition that programs of the contract have created: takes starts away that have
--           left the window, corrects the counter of those admitted, and names them, for the caller to find out which of
--           them run, and to hand the others to ffx_drop_admissions. Looks at about `limit` records per call: go on with
--           next_cursor until it is empty.
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
-- @summary  Takes admissions back of executions that do not run any more: those that still stand as ffx_reconcile_quotas has
--           named them. What they have started still counts within the window. One that is guarded only loses its guard: as
--           long as it stands, an execution that is run again is told that it is admitted. `again` names those, for the
--           caller to look at their executions once more; from now on, they are admitted anew.
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

-- Whether a hard limit of a budget is reached.
local function is_breached(c, id)
  local usage_key = key.budget_usage(c, id)
  local limits = redis.call('HGETALL', key.budget_limits(c, id))
  for i = 1, #limits, 2 do
    local dimension, limit = string.match(limits[i], '^hard:(.*)$'), number.finite(limits[i + 1]) or 0
    if dimension and limit > 0 and (tonumber(redis.call('HGET', usage_key, dimension) or nil) or 0) >= limit then return true end
  end
  return false
end

-- A budget says since when a limit is reached, and is where its next reset is looked for. Gives whether that was different.
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
-- @summary  Goes through the budgets of a partition that programs of the contract have created: notes in the usage since when
--           (breached_at) a hard limit is reached, or that none is any more, and enters those with resets in the index of
--           resets. Looks at about `limit` records per call: go on with next_cursor until it is empty.
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
