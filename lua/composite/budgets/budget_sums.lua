-- Sums of usage. A worker adds up the reports of its activities for one dimension of a budget, and sends the sum, which costs the same
-- however many reports are in it. A sum counts only where nothing follows from a single report: no limit is reached, no gate opens
-- or closes, and the limits stay as they are. Any other sum has no effect, and its worker sends the reports one by one, see
-- ffx_use_budget.

-- Maximum number of sums in one call, and the number of arguments of each: see usage_sum.
local MAX_SUMS, PER_SUM = 64, 9

-- The time of the last change of a budget is written again after this time (ms).
local UPDATED_MS = 1000

-- Reports whether an amount changes nothing but the usage of the dimension, and when the budget was last changed. `declared` are
-- the limits that the worker's runs declare, at the time `declared_at`; nil if they declare none.
local function is_plain(c, id, name, n, declared, declared_at)
  local stored = redis.call('HMGET', key.budget_record(c, id), 'gate', 'closed', budget.BREACHED .. name, 'pinned', 'declared',
    'declared_at', 'next_reset_at', 'last_updated_at')
  if not stored[1] or is_set(stored[2]) or stored[3] then return false end
  -- The declared limits are to replace the stored ones.
  if declared and not stored[4] and declared ~= stored[5]
    and (tonumber(declared_at) or 0) >= (tonumber(stored[6] or nil) or 0) then
    return false
  end
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

-- Returns the context of a call in a partition of budgets. In a cluster, it is the context of the call.
local function context_of(c, partition)
  if call.is_clustered() then return c end
  return { at = call.place(c.at.prefix, '{b:' .. partition .. '}'), now = c.now }
end

-- Counts a sum, once for its account and serial. Reports whether it is counted.
local function count(c, partition, id, name, amount, account, serial_text, declares, declared, declared_at)
  local n, serial = tonumber(amount), tonumber(serial_text)
  if not serial or not n or n < 0 or n % 1 ~= 0 then return false end
  c = context_of(c, partition)
  local account_key = key.budget_dedup(c, id .. '/' .. account)
  local plain, updated_at = is_plain(c, id, name, n, declares == '1' and declared, declared_at)
  if not plain then
    local last = tonumber(redis.call('GET', account_key) or nil)
    return last ~= nil and last >= serial
  end
  local last = redis.call('SET', account_key, serial_text, 'PX', budget_use.MEMORY_MS, 'GET')
  if last and tonumber(last) >= serial then
    redis.call('SET', account_key, last, 'PX', budget_use.MEMORY_MS)
    return true
  end
  redis.call('HINCRBY', key.budget_usage(c, id), name, number.digits(n))
  if c.now - updated_at >= UPDATED_MS then redis.call('HSET', key.budget_record(c, id), 'last_updated_at', number.time(c.now)) end
  return true
end

-- Reports whether the arguments of a call from `at` on are a number of sums, and these.
function budget_sums.fit(args, at)
  local number_of = tonumber(args[at])
  return number_of and number_of >= 0 and number_of <= MAX_SUMS and number_of % 1 == 0 and #args >= at + number_of * PER_SUM
end

-- Counts the sums in the arguments of a call from `at` on. Returns a digit for each: 1 if it is counted. A sum that raises an
-- error is not.
function budget_sums.count(c, args, at)
  local counted = {}
  for i = 1, tonumber(args[at]) do
    local ok, is_counted = pcall(count, c, unpack(args, at + 1, at + PER_SUM))
    counted[i] = ok and is_counted and '1' or '0'
    at = at + PER_SUM
  end
  return table.concat(counted)
end

-- @record usage_sum partition:int budget_id:budget_id dimension:text amount:int account:text serial:int declares:bool declared:text declared_at:int

-- @function ffx_count_usage
-- @summary  Counts sums of usage, each of one dimension of a budget: in a cluster of one partition, otherwise of any. A sum counts
--           once for its account, which is the name that a worker gives to the dimension, and its `serial`, which is larger than in
--           all earlier sums of the account. A sum is not counted when the budget does not exist, when it would reach a limit, when
--           a reset is due, or when it `declares` limits that are to replace the stored ones, see ffx_use_budget. Its reports are
--           then sent with that function. `counted` has a digit for each sum: 1 if it is counted, otherwise 0.
-- @flags    derives repeatable positional
-- @key      policies        index.budget_policies
-- @group    sums            usage_sum
-- @reply    OK counted:text
-- @error    invalid_input message:text
function F.ffx_count_usage(keys, args)
  if not budget_sums.fit(args, 1) then return reply.err('invalid_input', 'the count of sums does not fit the arguments') end
  return reply.ok(budget_sums.count(call.open(keys[1]), args, 1))
end
