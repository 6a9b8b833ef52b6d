-- Going through a set of any size in calls that look at a bounded number of members each.

-- What a call may look at; more than this it does not, whatever the caller asks for.
local MAX_CHECKED = 500

function walk.begin(limit) return { limit = math.max(1, math.min(limit, MAX_CHECKED)), checked = 0 } end

-- Goes on from a cursor, "<scan> <done> <inner>": a page of the set, how many of it are done, and how far the next of them
-- is. `visit` gets a member and its inner cursor, "" to begin with. It gives the inner cursor to go on with, nil when
-- the member is done; and whether the member has left the set. Every look at something is to be counted in
-- work.checked. Gives the next cursor, "" at the end.
function walk.set(work, set_key, cursor, visit)
  local scan, done, inner = string.match(cursor, '^(%d+) (%d+) (%S*)$')
  scan, done, inner = scan or '0', tonumber(done) or 0, inner or ''
  repeat
    local page = redis.call('SSCAN', set_key, scan, 'COUNT', work.limit)
    for i = done + 1, #page[2] do
      if work.checked >= work.limit then return scan .. ' ' .. number.text(done) .. ' ' .. inner end
      work.checked = work.checked + 1
      local rest, left = visit(page[2][i], inner)
      if rest then return scan .. ' ' .. number.text(done) .. ' ' .. rest end
      inner = ''
      if not left then done = done + 1 end
    end
    scan, done = page[1], 0
  until scan == '0' or work.checked >= work.limit
  return scan == '0' and '' or scan .. ' 0 '
end
