-- Scans a set of any size, or the due entries of an index, a bounded number of members per call.

-- Maximum number of checks in a call, regardless of the caller's limit.
local MAX_CHECKED = 500

function scan.begin(limit) return { limit = math.max(1, math.min(limit, MAX_CHECKED)), checked = 0 } end

-- Continues from a cursor, "<scan> <done> <inner>": a page of the set, how many of it are done, and the position within the next
-- of them. `visit` gets a member and its inner cursor, "" to begin with. It returns the next inner cursor, nil when the member is
-- done; and whether the member has left the set. Every check is to be counted in work.checked. A member that raises an error is
-- done: it is a fault of the task. Returns the next cursor, "" at the end.
function scan.set(c, task, work, set_key, cursor, visit)
  local from, done, inner = string.match(cursor, '^(%d+) (%d+) (%S*)$')
  from, done, inner = from or '0', tonumber(done) or 0, inner or ''
  repeat
    local page = redis.call('SSCAN', set_key, from, 'COUNT', work.limit)
    for i = done + 1, #page[2] do
      if work.checked >= work.limit then return from .. ' ' .. number.text(done) .. ' ' .. inner end
      work.checked = work.checked + 1
      local _, rest, left = call.guarded(c, task, page[2][i], visit, inner)
      if rest then return from .. ' ' .. number.text(done) .. ' ' .. rest end
      inner = ''
      if not left then done = done + 1 end
    end
    from, done = page[1], 0
  until from == '0' or work.checked >= work.limit
  return from == '0' and '' or from .. ' 0 '
end

-- Does the same with the entries of a list of runs, which are done from the oldest to the one at the time of the cursor, "<time>
-- <inner>". `visit` gets the id of a run.
function scan.list(c, task, work, list_key, cursor, visit)
  local at, inner = string.match(cursor, '^(%d+) (%S*)$')
  at, inner = tonumber(at) or 0, inner or ''
  local rank = run_entries.rank(list_key, at + 1)
  local page = redis.call('LRANGE', list_key, rank, rank + work.limit - 1)
  for i = 1, #page do
    if work.checked >= work.limit then return number.digits(at) .. ' ' .. inner end
    work.checked = work.checked + 1
    local time, flow_id = run_entries.read(page[i])
    if flow_id then
      local _, rest = call.guarded(c, task, flow_id, visit, inner)
      if rest then return number.digits(at) .. ' ' .. rest end
      at, inner = time, ''
    end
  end
  return #page < work.limit and '' or number.digits(at) .. ' '
end

-- Returns the due entries of an index, the earliest first. The lateness of the first counts as the lag of the duty.
function scan.due(c, index_key, limit)
  if limit <= 0 then return {} end
  local ids = redis.call('ZRANGE', index_key, '-inf', c.now, 'BYSCORE', 'LIMIT', 0, limit)
  if #ids > 0 then
    local due = tonumber(redis.call('ZSCORE', index_key, ids[1]))
    c.lag = math.max(c.lag or 0, c.now - due)
  end
  return ids
end

-- Time (ms) after which an entry that raised an error is checked again.
local PUT_OFF_MS = 30000

-- Works on the due entries of an index, the earliest first. One that raises an error is deferred, so that it does not delay
-- others; neither does an index that cannot be read. Returns how many there were.
function scan.each_due(c, task, index_key, limit, work)
  local _, ids = call.guarded(c, task, index_key, function() return scan.due(c, index_key, limit) end)
  scan.each(c, task, index_key, ids or {}, work)
  return ids and #ids or 0
end

-- Does the same for some of these entries.
function scan.each(c, task, index_key, ids, work)
  for i = 1, #ids do
    if not call.guarded(c, task, ids[i], work) then scan.put_off(c, index_key, ids[i]) end
  end
end

-- Defers the next check of an entry that has raised an error.
function scan.put_off(c, index_key, item) redis.call('ZADD', index_key, c.now + PUT_OFF_MS, item) end

-- Returns when (ms) an item that could not be read is checked again, as text.
function scan.put_off_until(c) return number.text(c.now + PUT_OFF_MS) end

-- Time (ms) after which a quiet engine is checked again.
local QUIET_MS = 31557600000

-- Returns when (ms) a waiting entry is checked again, in case a part of a call was lost: after a time, or in a quiet engine
-- hardly ever.
function scan.again(c, after) return c.now + (c.quiet and QUIET_MS or after) end
