-- Pages of a sorted set whose members may get a higher score during the listing: none of them is missed, some may come twice.

-- Returns the members after a cursor, and the next cursor; an empty one after the last. Members with one score come together, so
-- a page may be longer than the limit.
function score_page.read(index, cursor, limit)
  local from = is_set(cursor) and '(' .. cursor or '-inf'
  local page = redis.call('ZRANGEBYSCORE', index, from, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  local is_last, last, members = #page < 2 * limit, page[#page], {}
  for i = 1, #page, 2 do
    if is_last or page[i + 1] ~= last then members[#members + 1] = page[i] end
  end
  if is_last then return members, '' end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', index, last, last)) do members[#members + 1] = member end
  return members, last
end
