-- Quotas, in their own partition: which executions hold a permit, which wait for one, and in which order. The keys of the
-- contract (window, counter, guards, admitted set) are kept up to date, so its functions use the same quota. quota_limits.lua has
-- the limits, quota_places.lua the holders of places, quota_queue.lua the waiting executions.

-- Intervals (ms) at which holders are verified: while executions wait, and otherwise.
quota_permits.VERIFY_SOON_MS, quota_permits.VERIFY_LATER_MS = 1000, 15000

-- Time (ms) after which the keeper grants places that a caller did not use.
local LEFT_OVER_MS = 20

-- Returns how many places a caller may get for others than itself: one for each that it gives back, so that none waits for a
-- keeper, and more only while the limit is far away, since those others have to be notified first.
local function beyond(c, q, l, want) return math.max(want, quota_places.spare(c, q, l)) end

-- Gives free places to the first waiting executions, at most `most`, and adds them to `out`. The caller begins with the first
-- `begin` of them.
function quota_permits.grant(c, q, l, most, out, begin)
  local free, at = quota_places.room(c, q, l)
  begin = begin or 0
  while free > 0 and most > 0 do
    local list, last = quota_queue.take(q, math.min(free, most, begin > 0 and begin or most))
    quota_places.hand_out(c, q, l, list, out, begin > 0)
    most, begin = most - #list, begin - #list
    free, at = quota_places.room(c, q, l)
    if last then
      q.waits = q.all_skipped or false
      break
    end
  end
  return free, at
end

-- Gives the remaining places to the requests that do not wait, when no execution waits. The rest of these requests get none.
local function grant_at_once(c, q, l, free, at, out)
  if #q.at_once == 0 or free <= 0 or quota_queue.waits(q) then return free, at end
  local list = {}
  for i = 1, math.min(free, #q.at_once) do list[i] = q.at_once[i] end
  quota_places.hand_out(c, q, l, list, out, true)
  return quota_places.room(c, q, l)
end

-- Schedules the next check of the quota. `at`: when the window has room; `free`: remaining places.
function quota_permits.schedule(c, q, l, free, at, now_due)
  local waiting = quota_queue.waits(q)
  local next_at
  if waiting and free > 0 and q.all_skipped then
    next_at = c.now + quota_queue.SKIP_MS
  elseif waiting and free > 0 then
    next_at = c.now + LEFT_OVER_MS
  elseif waiting then
    next_at = math.min(at or c.now + quota_permits.VERIFY_SOON_MS, c.now + quota_permits.VERIFY_SOON_MS)
  elseif quota_places.running(q) > 0 or redis.call('EXISTS', q.holders, q.window, q.blocks) > 0 then
    next_at = c.now + quota_permits.VERIFY_LATER_MS
  end
  local before = not now_due and tonumber(redis.call('ZSCORE', q.due, q.id) or nil)
  if not next_at then
    if now_due then redis.call('ZREM', q.due, q.id) end
  elseif not before or next_at < before then
    redis.call('ZADD', q.due, next_at, q.id)
    if not now_due then wake.tell_keepers(c, 'q', next_at) end
  end
  return next_at ~= nil, waiting
end

-- Handles the request of an execution that already holds a place: it keeps the place, or renews it when its function begins now.
-- Under another token it is a new lease of the same execution, whose earlier one is over.
local function request_place(q, l, entry, out)
  local place = q.places[entry.execution]
  if place then
    local token, since, _, reserved = quota_queue.split(place)
    if token == entry.token and q.within and l.rate > 0 then
      q.renewing[#q.renewing + 1] = entry
      return
    end
    if token == entry.token then
      local given = quota_places.next_grant(q)
      redis.call('HSET', q.holders, entry.execution,
        token .. ' ' .. since .. ' ' .. given .. (is_set(reserved) and ' ' .. reserved or ''))
      out[#out + 1] = { entry.execution, token, given, '0' }
      return
    end
    if (tonumber(token) or 0) > (tonumber(entry.token) or 0) then return end
    quota_places.release(q, entry.execution, token, false, '0', entry.needs)
  end
  quota_queue.join(q, entry)
end

-- Reports whether the start of a holder may count from now on: in each window its place still counts, or there is room. An
-- earlier start with this place continues to count, under a separate name.
local function may_renew(c, q, l, entry, added)
  local member = entry.execution .. ' ' .. entry.token
  local in_use = quota_places.in_window(c, q, l) -- first, since it drops starts that have left the window
  local score = tonumber(redis.call('ZSCORE', q.window, member) or nil)
  if score and entry.again == '1' then
    local _, _, given, reserved = quota_queue.split(q.places[entry.execution])
    if not is_set(reserved) then
      redis.call('ZREM', q.window, member)
      redis.call('ZADD', q.window, score, member .. ' ' .. given)
      score = nil
    end
  end
  local fits = score and score > c.now - l.window or in_use + added < l.rate
  for _, other in ipairs(l.others) do
    fits = fits and (score and score > c.now - other.window or quota_places.counted(c, q, other) + added < other.rate)
  end
  return fits, score and score > c.now - l.window and added or added + 1
end

-- Renews the places of those that begin now. One that cannot be renewed has lost its place, and requests it like any other.
local function renew(c, q, l, out)
  local kept, added = {}, 0
  for _, entry in ipairs(q.renewing) do
    local held = quota_queue.split(q.places[entry.execution] or '')
    local may, all = held == entry.token, added
    if may then may, all = may_renew(c, q, l, entry, added) end
    if may then
      kept[#kept + 1] = { entry.execution, entry.token, entry.execution .. ' ' .. entry.token }
      added = all
    else
      quota_places.release(q, entry.execution, entry.token, false, '0', entry.needs)
      quota_queue.join(q, entry)
    end
  end
  quota_places.hand_out(c, q, l, kept, out, true, true)
  quota_places.write_released(c, q)
end

-- @record place execution:text token:int grant:int begins:bool

-- @function ffx_exchange
-- @summary  Gives places of a quota back and requests others. Places go to waiting executions, in the order of their scores:
--           `granted` names the executions that got one, which may be others than the call's own. The others wait in the queue of
--           the quota; `contended` reports that any do. A request without a score does not wait: it gets a place for which no
--           execution waits, or none. `want` is how many the caller can use at once. `room` is how many more places there are
--           before the limit comes near; 0 while any execution waits. `needs` are the other quotas of an execution, and `ready`
--           means that it holds a place of them. `full` are quotas that have refused executions which give places back: for a
--           while, these places go to no execution that needs one of those too, until a request is `ready`. With `begins`, the
--           caller begins within `within_ms` of sending the call with the places that it requests without a score or again, and
--           with `want` others: those with `begins` in the reply. All other places of a rate are requested again before anything
--           begins with them. `again`: a function has begun with this place before. `rated` reports that the quota has a rate.
-- @flags    derives repeatable
-- @key      definition         quota.record
-- @arg      quota_policy_id    quota_policy_id
-- @arg      name               text optional
-- @arg      key                text optional
-- @arg      rate               int
-- @arg      window_ms          int
-- @arg      cap                int
-- @arg      want               int
-- @arg      full               csv optional
-- @arg      begins             bool
-- @arg      within_ms          int
-- @group    releases           execution:text token:int refund:bool grant:int needs:csv
-- @group    requests           execution:text token:int score:text needs:csv ready:bool again:bool
-- @reply    OK granted:list(place) contended:bool room:int rated:bool
-- @error    invalid_input message:text
function F.ffx_exchange(K, A)
  local n, err = quota_limits.check(A, { { 'want', 0 }, { 'within_ms', 0 } })
  if err then return err end
  if not A.releases or not A.requests then
    return reply.err('invalid_input', 'the counts of releases and requests do not fit the arguments')
  end
  for _, entry in ipairs(A.requests) do
    if entry.score ~= '' and not number.finite(entry.score) then return number.refuse('score', entry.score) end
  end
  local c = call.open(K.definition)
  local q = quota_limits.keys_of(c, A.quota_policy_id)
  local l = quota_limits.define(c, q, A, n)
  if A.begins == '1' then q.within = n.within_ms end
  quota_places.read(q, A.releases, A.requests)
  quota_queue.skip_full(c, q, A.full)
  for _, entry in ipairs(A.releases) do
    quota_places.release(q, entry.execution, entry.token, entry.refund == '1', entry.grant, entry.needs)
  end
  local out = {}
  for _, entry in ipairs(A.requests) do request_place(q, l, entry, out) end
  quota_places.write_released(c, q)
  if #q.renewing > 0 then renew(c, q, l, out) end
  quota_queue.write_joining(q)
  local most = math.max(n.want, q.given_back or 0, q.ready_count)
  local free, at = quota_permits.grant(c, q, l, beyond(c, q, l, most), out, n.want)
  free, at = grant_at_once(c, q, l, free, at, out)
  quota_queue.end_skipping(q, A.full)
  quota_queue.write_skipped(q)
  quota_places.write_count(q)
  local _, waiting = quota_permits.schedule(c, q, l, free, at)
  return reply.ok(out, waiting and '1' or '0', waiting and '0' or number.text(quota_places.spare(c, q, l)),
    l.rate > 0 and '1' or '0')
end
