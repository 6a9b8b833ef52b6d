-- Starts of a key that are counted: at most so many within a time. The key has a list of the times of its last starts, the latest first;
-- a start that would be one too many takes place as soon as the oldest of those no longer counts.

-- No start is put off for longer than this time (ms): ten years.
local MAX_AHEAD_MS = 316224000000

-- Judges a new run: the outcome of one that is not created, or nil; one that is put off starts at n.start_at. Nothing is written.
function throttle.judge(c, n, run, a)
  local oldest = number.finite(redis.call('LINDEX', key.ffx_run_key_starts(c, a.key_id), a.starts - 1))
  local at = oldest and oldest + a.per or 0
  run.counted_at = math.max(c.now, at)
  if at <= c.now then return nil end
  if a.when_many == 'reject' or at - c.now > MAX_AHEAD_MS then return { 'throttled', '', number.digits(at), '' } end
  n.start_at = at
  return nil
end

-- Counts the start of a run that has been created.
function throttle.created(c, run, a)
  local starts_key = key.ffx_run_key_starts(c, a.key_id)
  redis.call('LPUSH', starts_key, number.digits(run.counted_at))
  redis.call('LTRIM', starts_key, 0, a.starts - 1)
  redis.call('PEXPIRE', starts_key, number.digits(run.counted_at - c.now + a.per))
end
