-- Maintenance of quotas: grants permits that are due, and verifies their holders.

-- Maximum number of places whose holders are checked per quota and tick, and of quotas per tick.
local MAX_VERIFIED = 64
local MAX_DUE = 16

-- A place that is unused after this time (ms) goes to the next execution, if there is one.
local STALE_MS = 2000

-- Returns holders of a quota, some at a time, that have held their places for long enough to be in use.
local function to_verify(c, q, out)
  local cursor = redis.call('HGET', q.record, 'verified_to') or '0'
  local page = redis.call('HSCAN', q.holders, cursor, 'COUNT', MAX_VERIFIED)
  redis.call('HSET', q.record, 'verified_to', page[1])
  local contended = redis.call('ZCARD', q.waiting) > 0
  for i = 1, #page[2], 2 do
    local token, since, given = quota_queue.split(page[2][i + 1])
    local age = c.now - (tonumber(since) or 0)
    if age >= quota_permits.VERIFY_SOON_MS then
      out[#out + 1] = { q.id, page[2][i], token, contended and age >= STALE_MS and '1' or '0', given }
    end
  end
end

-- Removes an unused quota, unless an operator has set its limits. Its next use creates it again.
local function forget(c, q, stored)
  if stored.pinned then return end
  redis.call('DEL', q.record, q.window, q.concurrency, q.admitted_set, q.waiting, q.holders, q.blocks)
  redis.call('SREM', key.index_quota_policies(c), q.id)
end

-- @record quota_grant quota_policy_id:quota_policy_id execution:text token:int grant:int
-- @record quota_check quota_policy_id:quota_policy_id execution:text token:int stale:bool grant:int
-- @record quota_block quota_policy_id:quota_policy_id worker_instance_id:worker_instance_id places:int seq:int
-- @record quota_limits quota_policy_id:quota_policy_id name:text key:text rate:int window_ms:int cap:int

-- @function ffx_quota_tick
-- @summary  Checks the quotas of a partition that are due: grants free places to waiting executions, and names the holders whose
--           places the caller should verify, and the blocks of workers without a recent report. `quotas` describes the named
--           ones.
-- @flags    derives repeatable
-- @key      policies           index.quota_policies
-- @reply    OK now:unix_ms next_due_at:unix_ms granted:list(quota_grant) checks:list(quota_check) quotas:list(quota_limits) blocks:list(quota_block) faults:list(item_fault)?
function F.ffx_quota_tick(K)
  local c = call.open_guarded(K.policies)
  local granted, checks, named, blocks = {}, {}, {}, {}
  scan.each_due(c, 'quota', key.quota_due(c), MAX_DUE, function(id)
    local q = quota_limits.keys_of(c, id)
    local stored = record.read(q.record, { 'quota_policy_id', 'requests_per_window_seconds', 'max_requests_per_window',
      'active_concurrency_cap', 'pinned', 'skipped', 'name', 'key', 'other_windows' }) or {}
    quota_queue.read_skipped(c, q, stored.skipped)
    local l = quota_limits.with_others(c, quota_limits.limits_from(stored), stored.other_windows)
    local out = {}
    local free, at = quota_permits.grant(c, q, l, quota_places.MAX_GRANTS, out)
    quota_places.write_count(q)
    for _, place in ipairs(out) do granted[#granted + 1] = { id, place[1], place[2], place[3] } end
    to_verify(c, q, checks)
    permit_pool.blocks_to_verify(c, q, blocks)
    if not quota_permits.schedule(c, q, l, free, at, true) then forget(c, q, stored) end
    named[#named + 1] = { id, stored.name or '', stored.key or '', number.text(l.rate), number.text(l.window),
      number.text(l.cap) }
  end)
  local first = redis.call('ZRANGE', key.quota_due(c), 0, 0, 'WITHSCORES')
  wake.visited(c, tonumber(first[2] or nil))
  return reply.ok(c.now_text, first[2] or '', granted, checks, named, blocks, c.faults)
end
