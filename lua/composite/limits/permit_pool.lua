-- Permit pools: permits of a quota that a worker holds for any of its executions, so that they need not request them one by one.
-- A worker has a pool only while the limit is far from full, reports it periodically while it uses it, and returns the unused
-- permits. A pool is stored under the worker's instance as "<permits> <number> <since>"; the number is the one of the worker's
-- last report, so that a late report changes nothing.

-- A worker that has sent no report of its block for this time (ms) has started nothing in it since: it must request it again
-- first.
local SILENT_MS = 2000

-- Maximum number of blocks that are checked per quota and tick.
local MAX_BLOCKS = 64

local function parse(text)
  local places, seq, since = string.match(text or '', '^(%d+) (%d+) (%d+)$')
  return tonumber(places) or 0, tonumber(seq) or 0, tonumber(since) or 0
end

-- Returns how many places a block may have that requests `places`, `needed` of them for present executions.
local function places_of_block(c, q, l, held, n, free)
  if n.places <= held then return n.places end
  if quota_queue.waits(q) then return held end
  local more = math.max(math.min(n.needed - held, free), math.min(n.places - held, quota_places.spare(c, q, l)))
  return held + math.max(0, more)
end

-- @function ffx_hold_places
-- @summary  Sets how many places of a quota without a rate a worker holds as a block: `places` of them, of which `needed` are in
--           use or about to be. It gets more than it has only while no execution waits, and more than it needs only while the
--           limit is far away. `seq` numbers the reports of the worker; one that is not later than the last changes nothing.
--           `held` is the number of places that it has then, `last_seq` the number that the next report has to exceed. Places
--           that it gives back go to waiting executions, see ffx_exchange, as do `granted`, `contended` and `room`.
-- @flags    derives repeatable
-- @key      definition         quota.record
-- @arg      quota_policy_id    quota_policy_id
-- @arg      name               text optional
-- @arg      key                text optional
-- @arg      rate               int
-- @arg      window_ms          int
-- @arg      cap                int
-- @arg      worker_instance_id worker_instance_id
-- @arg      places             int
-- @arg      needed             int
-- @arg      seq                int
-- @reply    OK held:int last_seq:int granted:list(place) contended:bool room:int rated:bool
-- @error    invalid_input message:text
function F.ffx_hold_places(K, A)
  local n, err = quota_limits.check(A, { { 'places', 0 }, { 'needed', 0 }, { 'seq', 1 } })
  if err then return err end
  local c = call.open(K.definition)
  local q = quota_limits.keys_of(c, A.quota_policy_id)
  local l = quota_limits.define(c, q, A, n)
  -- A rate counts starts, which a block does not report.
  if l.rate > 0 then n.places = 0 end
  local held, last = parse(redis.call('HGET', q.blocks, A.worker_instance_id) or nil)
  local out = {}
  local free, at = quota_places.room(c, q, l)
  if n.seq > last then
    local places = places_of_block(c, q, l, held, n, free)
    quota_places.count(q, places - held)
    redis.call('HSET', q.blocks, A.worker_instance_id, number.text(places) .. ' ' .. number.text(n.seq) .. ' ' .. c.now_text)
    held, last = places, n.seq
    if quota_queue.waits(q) then
      q.waits = nil
      free, at = quota_permits.grant(c, q, l, quota_places.MAX_GRANTS, out)
    end
  end
  quota_places.write_count(q)
  local _, waiting = quota_permits.schedule(c, q, l, free, at)
  return reply.ok(number.text(held), number.text(last), out, waiting and '1' or '0',
    waiting and '0' or number.text(quota_places.spare(c, q, l)), l.rate > 0 and '1' or '0')
end

-- Returns blocks of a quota without a recent report, some at a time. Blocks without places are removed, once no report of their
-- worker can arrive late.
function permit_pool.blocks_to_verify(c, q, out)
  if redis.call('EXISTS', q.blocks) == 0 then return end
  local cursor = redis.call('HGET', q.record, 'blocks_verified_to') or '0'
  local page = redis.call('HSCAN', q.blocks, cursor, 'COUNT', MAX_BLOCKS)
  redis.call('HSET', q.record, 'blocks_verified_to', page[1])
  for i = 1, #page[2], 2 do
    local places, seq, since = parse(page[2][i + 1])
    local silent = c.now - since
    if places > 0 and silent >= SILENT_MS then
      out[#out + 1] = { q.id, page[2][i], number.text(places), number.text(seq) }
    elseif places == 0 and silent >= quota_permits.VERIFY_LATER_MS then
      redis.call('HDEL', q.blocks, page[2][i])
    end
  end
end
