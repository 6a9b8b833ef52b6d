-- Scanning a set of any size, or the due entries of an index, a bounded number of members per call.

-- What a call may look at; more than this it does not, whatever the caller asks for.
local MAX_CHECKED = 500

function scan.begin(limit) return { limit = math.max(1, math.min(limit, MAX_CHECKED)), checked = 0 } end

-- Goes on from a cursor, "<scan> <done> <inner>": a page of the set, how many of it are done, and how far the next of them
-- is. `visit` gets a member and its inner cursor, "" to begin with. It gives the inner cursor to go on with, nil when
-- the member is done; and whether the member has left the set. Every look at something is to be counted in
-- work.checked. A member that raises an error is done: it is a fault of the task. Gives the next cursor, "" at the end.
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

-- Entries of an index that are due, the earliest first. How late the first of them is counts as the lag of the duty.
function scan.due(c, index_key, limit)
  if limit <= 0 then return {} end
  local ids = redis.call('ZRANGE', index_key, '-inf', c.now, 'BYSCORE', 'LIMIT', 0, limit)
  if #ids > 0 then
    local due = tonumber(redis.call('ZSCORE', index_key, ids[1]))
    c.lag = math.max(c.lag or 0, c.now - due)
  end
  return ids
end

-- An entry that raises an error is looked at again after this time (ms).
local PUT_OFF_MS = 30000

-- Works on the due entries of an index, the earliest first. One that raises an error is put off, so that it holds up no
-- others; neither does an index that cannot be read. Gives how many there were.
function scan.each_due(c, task, index_key, limit, work)
  local _, ids = call.guarded(c, task, index_key, function() return scan.due(c, index_key, limit) end)
  ids = ids or {}
  for _, id in ipairs(ids) do
    if not call.guarded(c, task, id, work) then scan.put_off(c, index_key, id) end
  end
  return #ids
end

-- Looks at an entry that has raised an error again later.
function scan.put_off(c, index_key, item) redis.call('ZADD', index_key, c.now + PUT_OFF_MS, item) end

-- When (ms) an item that could not be read is looked at again, as text.
function scan.put_off_until(c) return number.text(c.now + PUT_OFF_MS) end

-- A quiet engine is looked at again after this time (ms).
local QUIET_MS = 31557600000

-- When (ms) something that waits is looked at again, in case a part of a call was lost: after a time, or in a quiet engine hardly ever.
function scan.again(c, after) return c.now + (c.quiet and QUIET_MS or after) end
