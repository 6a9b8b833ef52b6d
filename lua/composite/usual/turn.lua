-- The data of one call of the usual path: the worker that calls, the executions that the call leases to it, and for each partition
-- the changes that are written together.

-- Creates it. `request`: the request of the worker, see claim_request. It also is the list of a handoff (see handoff.new), so that
-- general functions lease to the same worker.
function turn.new(c, request)
  local x, now = handoff.new(request), row_bytes.time(c.now)
  x.c, x.is_mixed, x.partitions, x.by_place = c, false, call.short_list(), {}
  x.kinds, x.lane, x.room, x.budget = request.kinds, request.lane, request.count, c.budget
  x.now, x.ended, x.expires = now, row_bytes.ended(now), c.now + request.ttl
  return x
end

-- Returns the entry of the partition of an execution.
function turn.enter(x, execution_id)
  local c = call.at(x.c, execution_id)
  local here = x.by_place[c.at]
  if here then return here end
  here = {
    c = c, at = c.at, in_doubt = call.in_doubt(c), leases_key = key.index_lease_expiry(c), left = call.short_list(), left_count = 0,
    entered = call.short_list(), entered_count = 0, lane = nil, counts = nil, leased = nil,
  }
  x.by_place[c.at] = here
  x.partitions[#x.partitions + 1] = here
  return here
end

-- Prepares a partition for the general functions. They and the usual path do not work on one run in the same call, and share the
-- budget of the call.
function turn.mix(x, here)
  local c = here.c
  if not x.is_mixed then
    x.is_mixed = true
    call.gather(x.c)
    if x.room > 0 then x.c.next_up = x end
  end
  if not c.ends then graph.gather_ends(c) end
  c.next_up = x.c.next_up
  c.budget = x.budget
  return c
end

-- Sets the common part of the rows of nodes in a partition that the call leases.
function turn.lease(x, here)
  local request, c = x.request, here.c
  x.expires_packed = x.expires_packed or row_bytes.time(x.expires)
  x.expires_text = x.expires_text or number.time(x.expires)
  here.leased = row_bytes.lease_of(x.expires_packed, x.now,
    worker_registry.number(c.at, request.worker_instance_id, request.worker_id, c.now))
  wake.due(c, x.expires)
end

-- Counts nodes of a lane: more active ones, and more that wait for upstreams.
function turn.count(here, run, node, active, waiting)
  local counts = lane_counts.add(here.at, run, node.ordinal, node.lane_id, active, waiting)
  here.counts, here.lane = counts, counts and node.lane_id
end

-- The index of leases is often empty.
local CALLS_PER_TREE = 32

-- Writes the changes of the index of leases.
function turn.write(x)
  for i = 1, #x.partitions do
    local here = x.partitions[i]
    if here.left_count > 0 then
      call.chunked('ZREM', here.leases_key, here.left)
      here.left, here.left_count = call.short_list(), 0
    end
    if here.entered_count > 0 then
      call.keep_as_tree(here.c, here.leases_key, CALLS_PER_TREE)
      call.chunked('ZADD', here.leases_key, here.entered)
      here.entered, here.entered_count = call.short_list(), 0
    end
  end
end
