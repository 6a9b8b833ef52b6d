-- The choice of the partition that a claim works in, when its worker knows of work in several.
--
-- On one server, a worker with peers sends a list of partitions, and the claim works in the one whose last listed
-- claim, by any worker, is longest ago. With k partitions that have work, each is therefore served within k claims of
-- workers that know of it, whatever their pace.
--
-- The times of these claims are kept in the memory of the server, not in keys. A server that starts, becomes a primary
-- or loads the library begins anew, which costs k claims once. In a cluster no server sees all claims, and a claim
-- works in the partition that it is sent to.

-- By lane of a prefix: the number of visits so far (count), and of which number a partition's last one was. `former` are
-- those of lanes that have not been visited for some time.
local recent, former, recent_count = {}, {}, 0

-- Lanes are kept from call to call, at most twice as many: the interpreter goes through all that is kept again and again.
local MAX_RECENT = 64

local function visits_of(first_key, lane)
  local name = string.match(first_key, '^[^:]*') .. ' ' .. lane
  local known = recent[name]
  if not known then
    if recent_count >= MAX_RECENT then former, recent, recent_count = recent, {}, 0 end
    known = former[name] or { count = 0 }
    recent[name] = known
    recent_count = recent_count + 1
  end
  return known
end

-- The slots of the wake ring at which the worker heard of partitions.
-- @list ring_slot " {partition}@{slot:word} "

-- A list of partitions is a text with one digit for each, from {fp:0} on: whether it is on the list, all workers have heard
-- of work there (shared), this one answers among the first besides (early), or few have heard of it, at a slot of the wake
-- ring (assigned); and whether executions were set aside there that the worker can run.
-- @digits partition_hint none=0 listed=1 shared=2 early=3 assigned=4 set_aside=+4

local LISTED = '[1-8]'

-- The listed partition that was visited longest ago, and its number is that of the next visit from now on.
local function choose(known, list)
  local best, best_at
  local place = string.find(list, LISTED)
  while place do
    local at = known[place] or 0
    if not best_at or at < best_at then best, best_at = place, at end
    if at == 0 then break end
    place = string.find(list, LISTED, place + 1)
  end
  if not best then return nil end
  known.count = known.count + 1
  known[best] = known.count
  return best
end

-- The listed partition where an earlier try of the same claim has leased something; nil when there is none.
local function visited_before(first_key, request, list)
  local place = string.find(list, LISTED)
  while place do
    if #leasing.of_claim(call.beside(first_key, place - 1), request) > 0 then return place end
    place = string.find(list, LISTED, place + 1)
  end
  return nil
end

-- Opens the partition that a claim visits: that of its first key, or one of its list. `request.tell` is what others are to
-- hear of the visit.
function partition_choice.open(first_key, request, A)
  request.tell = { none = A.tell_none == '1', empty = A.tell_empty == '1', more = A.tell_more == '1', place = A.place }
  if not is_set(A.list) or call.is_clustered() then return call.open(first_key) end
  local place = request.repeated and visited_before(first_key, request, A.list)
    or choose(visits_of(first_key, request.lane), A.list)
  if not place then return call.open(first_key) end
  local digit = string.byte(A.list, place) - 48
  request.aside = digit > decode.PARTITION_HINT_ASSIGNED
  if request.aside then digit = digit - decode.PARTITION_HINT_SET_ASIDE end
  local assigned = digit == decode.PARTITION_HINT_ASSIGNED
  request.tell = {
    none = digit >= decode.PARTITION_HINT_SHARED, empty = digit >= decode.PARTITION_HINT_EARLY, more = assigned,
    place = assigned and decode.ring_slot_of(A.places or '', place - 1) or '',
  }
  return call.beside(first_key, place - 1)
end
