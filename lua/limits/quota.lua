-- Quotas: limits on the executions that are admitted per window of time, and at once.

-- Time (ms) for which an admission without a window is remembered, so that it is not counted twice.
local MIN_GUARD_MS = 1000
local MAX_JITTER_MS = 3600000

-- @function ff_create_quota_policy
-- @summary  Creates a quota policy. A policy that exists is left as it is.
-- @flags    repeatable intake
-- @key      definition      quota.record
-- @key      window          quota.window
-- @key      concurrency     quota.concurrency
-- @key      admitted_set    quota.admitted_set
-- @key      policies        index.quota_policies
-- @arg      quota_policy_id quota_policy_id
-- @arg      window_seconds  int
-- @arg      max_requests_per_window int
-- @arg      max_concurrent  int
-- @arg      now_ms          unix_ms
-- @reply    OK quota_policy_id:quota_policy_id
-- @reply    ALREADY_SATISFIED quota_policy_id:quota_policy_id
function F.ff_create_quota_policy(K, A)
  redis.call('SADD', K.policies, A.quota_policy_id)
  if redis.call('EXISTS', K.definition) == 1 then return reply.already(A.quota_policy_id) end
  redis.call('HSET', K.definition, 'quota_policy_id', A.quota_policy_id,
    'requests_per_window_seconds', A.window_seconds, 'max_requests_per_window', A.max_requests_per_window,
    'active_concurrency_cap', A.max_concurrent, 'created_at', A.now_ms)
  redis.call('SET', K.concurrency, '0')
  return reply.ok(A.quota_policy_id)
end

-- Returns the stricter one of two limits, where 0 and less mean no limit.
local function stricter(stored, given)
  stored = number.finite(stored or nil) or 0
  if stored <= 0 or given > 0 and given < stored then return given end
  return stored
end

-- Returns the limits of an admission: the stricter of the stored policy's limits and the caller's, in the longer window. Returns
-- nil and the error reply when an argument is invalid.
local function limits_of(K, A)
  local n, err = {}, nil
  for _, name in ipairs({ 'now_ms', 'window_seconds', 'rate_limit', 'concurrency_cap' }) do
    n[name] = number.finite(A[name])
    if not n[name] then return nil, number.refuse(name, A[name]) end
  end
  n.jitter, err = number.optional('jitter_ms', A.jitter_ms, 0)
  if err then return nil, err end
  n.jitter = math.min(n.jitter, MAX_JITTER_MS)
  local stored = redis.call('HMGET', K.definition, 'requests_per_window_seconds', 'max_requests_per_window',
    'active_concurrency_cap')
  local window = math.floor(math.max(number.finite(stored[1] or nil) or n.window_seconds, n.window_seconds) * 1000)
  n.window = math.max(-number.MAX_EXACT, math.min(number.MAX_EXACT, window))
  n.rate_limit = stricter(stored[2], n.rate_limit)
  n.concurrency_cap = stricter(stored[3], n.concurrency_cap)
  return n
end

-- Returns the time until the oldest admission leaves the window (ms), with the caller's jitter.
local function retry_after(K, n)
  local oldest = redis.call('ZRANGE', K.window, 0, 0, 'WITHSCORES')
  local delay = 0
  if oldest[2] then delay = math.max(0, tonumber(oldest[2]) + n.window - n.now_ms) end
  if n.jitter > 0 then delay = delay + math.random(0, n.jitter) end
  return delay
end

-- @function ff_check_admission_and_record
-- @summary  Admits an execution under a quota, or returns why not. An execution that has been admitted is not counted again, and
--           one that holds a slot keeps it when its admission lapses and is requested again.
-- @key      window          quota.window
-- @key      concurrency     quota.concurrency
-- @key      definition      quota.record
-- @key      guard           quota.admitted
-- @key      admitted_set    quota.admitted_set
-- @arg      now_ms          unix_ms
-- @arg      window_seconds  int
-- @arg      rate_limit      int
-- @arg      concurrency_cap int
-- @arg      execution_id    execution_id
-- @arg      jitter_ms       ms optional=0
-- @reply    bare ADMITTED
-- @reply    bare ALREADY_ADMITTED
-- @reply    bare RATE_EXCEEDED retry_after:ms
-- @reply    bare CONCURRENCY_EXCEEDED
-- @error    invalid_input message:text
function F.ff_check_admission_and_record(K, A)
  local n, err = limits_of(K, A)
  if err then return err end
  if redis.call('EXISTS', K.guard) == 1 then return { 'ALREADY_ADMITTED' } end
  redis.call('ZREMRANGEBYSCORE', K.window, '-inf', n.now_ms - n.window)
  if n.rate_limit > 0 and redis.call('ZCARD', K.window) >= n.rate_limit then
    return { 'RATE_EXCEEDED', number.text(retry_after(K, n)) }
  end
  local holds = redis.call('SISMEMBER', K.admitted_set, A.execution_id) == 1
  local running = tonumber(redis.call('GET', K.concurrency) or nil) or 0
  if n.concurrency_cap > 0 and not holds and running >= n.concurrency_cap then return { 'CONCURRENCY_EXCEEDED' } end
  redis.call('ZADD', K.window, n.now_ms, A.execution_id)
  redis.call('SET', K.guard, '1', 'PX', n.window > 0 and n.window or MIN_GUARD_MS, 'NX')
  if n.concurrency_cap > 0 and not holds then redis.call('INCR', K.concurrency) end
  redis.call('SADD', K.admitted_set, A.execution_id)
  return { 'ADMITTED' }
end

-- @function ff_release_admission
-- @summary  Takes an admission back, with its place in the window. Only an admission that was held is given back.
-- @flags    derives repeatable
-- @key      guard           quota.admitted
-- @key      admitted_set    quota.admitted_set
-- @key      concurrency     quota.concurrency
-- @arg      execution_id    execution_id
-- @reply    OK outcome:text
function F.ff_release_admission(K, A)
  local held = redis.call('DEL', K.guard) + redis.call('SREM', K.admitted_set, A.execution_id)
  if held == 0 then return reply.ok('released') end
  local policy_key = string.match(K.admitted_set, '^(.*):admitted_set$')
  local cap
  if policy_key then
    redis.call('ZREM', policy_key .. ':window:requests_per_window', A.execution_id)
    cap = number.finite(redis.call('HGET', policy_key, 'active_concurrency_cap') or nil)
  end
  local counted = (cap or 1) > 0
  if counted and (tonumber(redis.call('GET', K.concurrency) or nil) or 0) > 0 then
    redis.call('DECR', K.concurrency)
  end
  return reply.ok('released')
end
