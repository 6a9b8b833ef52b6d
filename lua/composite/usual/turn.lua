-- The data of one call of the usual path: the worker that calls, the executions that the call leases to it, and for each partition
-- the changes that are written together.

-- More executions than a call has room for.
turn.MANY = 1 / 0

-- The packed time of the last call, and the rest of rows that end at that time.
local last_now, packed_now, packed_end

-- The data are kept from call to call, since making such a table takes longer than most of the work in it. The data of a partition
-- are kept with its place (see call.open).
local kept = {
  c = nil, request = nil, leased = nil, logged_instance = nil, kinds = nil, lane = nil, room = 0, budget = 0, now = nil, ended = nil, expires = 0,
  ending = 0, partitions = { nil, nil }, count = 0, is_mixed = false, waiting = 0, looked = false, urgent = nil, heads = nil, fair = nil,
  fed = nil, over = nil, alone = nil, expires_packed = nil, expires_text = nil, base = nil, last = nil, completion = 0, serial = 0,
  nil, nil, nil, nil,
}

-- Begins the data of a call, which has written those that it began before. `request`: the request of the worker, see claim_request. The
-- result also is the list of a handoff (see handoff.lua), so that general functions lease to the same worker. `heads` are the first executions of the lane
-- with their scores, once the call has read them, `waiting` how many that is if it is all of them, and `urgent` the score of the
-- first. `ending` is the number of completions in the call, `completion` the place of the present one, and `count` the number of
-- its partitions.
function turn.new(c, request)
  local x, now = kept, c.now
  if now ~= last_now then
    last_now, packed_now = now, row_bytes.time(now)
    packed_end, x.over = row_bytes.ended(packed_now), nil
  end
  x.c, x.request, x.leased, x.logged_instance = c, request, { nil, nil, nil, nil }, request.logged_instance
  x.kinds, x.lane, x.room, x.budget = request.kinds, request.lane, request.count, c.budget
  x.now, x.ended, x.expires, x.ending, x.count = packed_now, packed_end, now + request.ttl, 0, 0
  x.is_mixed, x.waiting, x.looked, x.urgent, x.heads, x.fair, x.fed, x.alone = false, turn.MANY, false, nil, nil, nil, nil, nil
  x.expires_packed, x.base, x.last, x.completion, x.serial = nil, nil, nil, 0, x.serial + 1
  for i = #x, 1, -1 do x[i] = nil end
  return x
end

local function new_place(at)
  local here = {
    serial = 0, c = nil, at = at, tag = at.tag, tag_bytes = #at.tag, flow_keys = at.prefix .. ':flow:', in_doubt = false,
    leases_key = key.index_lease_expiry({ at = at }), left = { nil, nil, nil, nil }, left_count = 0,
    entered = { nil, nil, nil, nil }, entered_count = 0, lane = nil, counts = nil, leased = nil, flows = nil, ends = {},
    due = { nil, nil, nil, nil }, due_count = 0,
  }
  at.turn = here
  return here
end

-- Returns the entry of the partition of an execution, which is often the one of the last execution.
function turn.enter(x, execution_id)
  local here = x.last
  if here and string.sub(execution_id, 1, here.tag_bytes) == here.tag then return here end
  local c = call.at(x.c, execution_id)
  here = c.at.turn or new_place(c.at)
  if here.serial ~= x.serial then
    here.serial, here.c, here.in_doubt, here.left_count, here.entered_count, here.due_count = x.serial, c, call.in_doubt(c), 0, 0, 0
    here.lane, here.leased, here.flows = nil, nil, nil
    if next(here.ends) then here.ends = {} end
    x.count = x.count + 1
    x.partitions[x.count] = here
  end
  x.last = here
  return here
end

-- Reports whether an execution is of the partition of an entry: in a cluster, a call does not find executions of others.
function turn.is_of(here, execution_id) return string.sub(execution_id, 1, here.tag_bytes) == here.tag end

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
  if not x.expires_packed then
    x.expires_packed, x.expires_text = row_bytes.time(x.expires), number.time(x.expires)
    if not request.repeated then x.base = string.sub(request.claim_id, 1, 24) .. '0' end
  end
  here.leased = row_bytes.lease_of(x.expires_packed, x.now,
    worker_registry.number(c.at, request.worker_instance_id, request.worker_id, c.now))
  wake.due(c, x.expires)
end

-- Reports whether the worker can run a node.
function turn.knows(x, node)
  if not claim_request.knows(x.request, node.kind) then return false end
  node.known_to = x.kinds
  return true
end

-- Returns the id of the lease after `n` others of the call.
function turn.lease_id(x, n)
  local suffix = x.base and claim_request.SUFFIXES[n]
  return suffix and x.base .. suffix or claim_request.lease_id(x.c, x.request, n)
end

-- Returns the middle of the description of a node that the worker makes ready by a completion whose result is the only input of
-- the node, so that the worker knows all else: `>` and the place of the completion in the call, `a` when the node is leased ahead of
-- its places under limits, the last digits of its id, and the end of the lease. Its lease has the number of its place among
-- the leases of the call. internal/enginerpc/claimed_text.go reads it.
function turn.mark_of(node) return (node.limits and 'a ' or ' ') .. node.suffix .. ' ' end

-- Counts nodes of a lane: more active ones, and more that wait for upstreams.
function turn.count(here, run, node, active, waiting)
  local counts = lane_counts.add(here.at, run, node.ordinal, node.lane_id, active, waiting)
  here.counts, here.lane = counts, counts and node.lane_id
end

-- Counts one more active node (1), or one less (-1), of a run with one node. `bytes`: the header of the run; nil for a run that the
-- call creates.
function turn.count_one(here, bytes, node, by)
  if here.lane == node.lane_id then
    local counts = here.counts
    counts[row.COUNTED_ACTIVE] = counts[row.COUNTED_ACTIVE] + by
  else
    local listed = bytes and struct.unpack(run_head.LISTED_FORMAT, bytes, run_head.LISTED_AT) or turn.MANY
    turn.count(here, { listed = listed }, node, by, 0)
  end
end

-- Names a run in the feed of its partition.
function turn.touch(here, run_id)
  local flows = here.flows
  if not flows then
    flows = event_log.flows(here.c)
    here.flows = flows
  end
  local n = #flows
  if flows[n] ~= run_id then flows[n + 1] = run_id end
end

-- The index of leases is often empty.
local CALLS_PER_TREE = 32

-- Writes the ends of runs with one node in a partition: their counts, and when they are to be purged.
local function write_ends(here)
  local c, due, count = here.c, here.due, here.due_count
  for known, ends in next, here.ends, nil do run_counts.add_ended(c, known.class, ends) end
  here.ends = {}
  if count == 0 then return end
  local due_key, first = key.ffx_purge_due(c), due[1]
  call.keep_as_tree(c, due_key, call.CALLS_PER_TREE)
  call.chunked('ZADD', due_key, due, count)
  for i = 3, count, 2 do
    if due[i] < first then first = due[i] end
  end
  wake.due(c, first)
  here.due_count = 0
end

-- Writes the changes of the index of leases, and the ends of runs with one node.
function turn.write(x)
  for i = 1, x.count do
    local here = x.partitions[i]
    if here.left_count > 0 then
      call.chunked('ZREM', here.leases_key, here.left, here.left_count)
      here.left_count = 0
    end
    if here.entered_count > 0 then
      call.keep_as_tree(here.c, here.leases_key, CALLS_PER_TREE)
      call.chunked('ZADD', here.leases_key, here.entered, here.entered_count)
      here.entered_count = 0
    end
    if next(here.ends) then write_ends(here) end
  end
end
