-- Sums of usage. A worker adds up the reports of its activities for one dimension of a budget, and sends the sum, which costs the same
-- however many reports are in it. A sum counts only where nothing follows from a single report: no limit is reached, no gate opens
-- or closes, and the limits stay as they are. Any other sum has no effect, and its worker sends the reports one by one, see
-- ffx_use_budget.

-- Reports whether the limits that a sum's run declares are to replace the stored ones.
local function declares_others(sum, pinned, declared, declared_at)
  return sum.declares == '1' and not pinned and declared ~= sum.declared
    and (tonumber(sum.declared_at) or 0) >= (tonumber(declared_at or nil) or 0)
end

-- The time of the last change of a budget is written again after this time (ms).
local UPDATED_MS = 1000

-- Reports whether an amount changes nothing but the usage of the dimension, and when the budget was last changed.
local function is_plain(c, sum, n)
  local id, name = sum.budget_id, sum.dimension
  local stored = redis.call('HMGET', key.budget_record(c, id), 'gate', 'closed', budget.BREACHED .. name, 'pinned', 'declared',
    'declared_at', 'next_reset_at', 'last_updated_at')
  if not stored[1] or is_set(stored[2]) or stored[3] or declares_others(sum, stored[4], stored[5], stored[6]) then return false end
  local reset_at = tonumber(stored[7] or nil)
  if reset_at and reset_at <= c.now then return false end
  local limits = redis.call('HMGET', key.budget_limits(c, id), 'hard:' .. name, 'soft:' .. name)
  local hard, soft = number.finite(limits[1] or nil), number.finite(limits[2] or nil) or 0
  if not hard then return false end
  local before = tonumber(redis.call('HGET', key.budget_usage(c, id), name) or nil) or 0
  local after = before + n
  if after > number.MAX_EXACT or soft > 0 and before <= soft and after > soft then return false end
  local reserved = hard > 0 and tonumber(redis.call('HGET', key.budget_reserved(c, id), name) or nil) or 0
  return hard <= 0 or after + reserved < hard, tonumber(stored[8] or nil) or 0
end

-- Returns the context of a call in another partition of budgets.
local function context_of(c, partition)
  if partition == c.at.partition or call.is_clustered() then return c end
  return { at = call.place(c.at.prefix, '{b:' .. partition .. '}'), now = c.now, now_text = c.now_text }
end

-- Counts a sum, once for its account and serial. Reports whether it is counted.
local function count(c, sum)
  local n, serial = tonumber(sum.amount), tonumber(sum.serial)
  if not serial or not n or n < 0 or n % 1 ~= 0 then return false end
  local account = key.budget_dedup(c, sum.budget_id .. '/' .. sum.account)
  local plain, updated_at = is_plain(c, sum, n)
  if not plain then
    local last = tonumber(redis.call('GET', account) or nil)
    return last ~= nil and last >= serial
  end
  local last = redis.call('SET', account, sum.serial, 'PX', budget_use.MEMORY_MS, 'GET')
  if last and tonumber(last) >= serial then
    redis.call('SET', account, last, 'PX', budget_use.MEMORY_MS)
    return true
  end
  redis.call('HINCRBY', key.budget_usage(c, sum.budget_id), sum.dimension, number.digits(n))
  if c.now - updated_at >= UPDATED_MS then
    redis.call('HSET', key.budget_record(c, sum.budget_id), 'last_updated_at', c.now_text)
  end
  return true
end

-- @function ffx_count_usage
-- @summary  Counts sums of usage, each of one dimension of a budget: in a cluster of one partition, otherwise of any. A sum counts
--           once for its account, which is the name that a worker gives to the dimension, and its `serial`, which is larger than in
--           all earlier sums of the account. A sum is not counted when the budget does not exist, when it would reach a
--           limit, when a reset is due, or when it `declares` limits that are to replace the stored ones, see ffx_use_budget. Its
--           reports are then sent with that function.
-- @flags    derives repeatable
-- @key      policies        index.budget_policies
-- @group    sums            partition:int budget_id:budget_id dimension:text amount:int account:text serial:int declares:bool declared:text declared_at:int
-- @reply    OK counted:list(bool)
-- @error    invalid_input message:text
function F.ffx_count_usage(K, A)
  if not A.sums then return reply.err('invalid_input', 'the count of sums does not fit the arguments') end
  local c = call.open(K.policies)
  local counted = {}
  for i, sum in ipairs(A.sums) do counted[i] = count(context_of(c, sum.partition), sum) and '1' or '0' end
  return reply.ok(counted)
end
