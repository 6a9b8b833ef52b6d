-- Rows in the states of the usual case, as stored bytes: nodes that wait for their first attempt, run in it, or have succeeded in
-- it, with only the least fields. A completion compares and writes whole pieces of them, as packing and unpacking their fields
-- one by one takes several times as long. Rows are declared in row.lua.

-- Number of bytes before parts of a row: its states, up to the lease epoch, end before the open edges.
local OPEN, TOLD, EXPIRES, ACQUIRED = node_row.OPEN_AT - 1, node_row.TOLD_AT - 1, node_row.EXPIRES_AT - 1, node_row.ACQUIRED_AT - 1
local ROW_BYTES, TIME, WAITS_FOR = node_row.BYTES, node_row.CHANGED_FORMAT, node_row.WAITS_FOR
local CHANGED, LEASE, TRIED = node_row.CHANGED_AT - 1, node_row.LEASE_AT - 1, node_row.TRIED

-- Pieces of rows: of a node that waits for upstreams, one that may run, one that runs (row_bytes.ACTIVE), and one that was leased
-- ahead of its places under its limits (row_bytes.AHEAD). They are packed at the first call.
local WAITING, READY, READY_END, ACTIVE, AHEAD, NO_TIME
-- Piece of a node that has succeeded, up to the end of the lease, by the number of its resolved edges.
local DONE, MAX_DONE = {}, 64

local function piece(states)
  local r = {
    owner = 1, why = 1, outcome = 1, flags = 0, index = 0, total = 1, retries = 0, reclaims = 0, epoch = 1, open = 0, told = 0, expires = 0,
    acquired = 0, started = 0, ended = 0, changed = 0, worker = 0, lease = row.NO_LEASE,
  }
  for name, value in pairs(states) do r[name] = value end
  return node_row.pack(r)
end

local function prepare()
  NO_TIME = struct.pack(node_row.ENDED_FORMAT, 0)
  WAITING = string.sub(row.initial(1), 1, OPEN)
  local ready = piece({ phase = 1, elig = 1, why = 2, attempt = 2, public = 1, index = row.NO_ATTEMPT, total = 0, epoch = 0 })
  READY, READY_END = string.sub(ready, 1, CHANGED), string.sub(ready, LEASE + 1)
  row_bytes.READY = READY
  local active = { phase = 2, owner = 2, elig = 9, attempt = 3, public = 5, flags = node_row.LEASED }
  ACTIVE = string.sub(piece(active), 1, EXPIRES)
  active.flags = node_row.LEASED + node_row.AHEAD
  AHEAD = string.sub(piece(active), 1, EXPIRES)
  row_bytes.ACTIVE, row_bytes.AHEAD = ACTIVE, AHEAD
end

-- Packs a time.
function row_bytes.time(at) return struct.pack(TIME, at) end

-- Returns how many edges to a node are open that has only waited for them; nil for another node.
function row_bytes.open_edges(bytes, at)
  local states, open = struct.unpack(WAITS_FOR, bytes, at + 1)
  return states == WAITING and open or nil
end

-- Reports whether a row, which is in `bytes` after `at` other bytes, belongs to a node that may run, has never run, and has only
-- the least fields.
function row_bytes.is_ready(bytes, at)
  if not READY then prepare() end
  return string.sub(bytes, at + 1, at + CHANGED) == READY
end

-- Returns the row of such a node with a number of open edges.
function row_bytes.waiting(bytes, at, open)
  return WAITING .. struct.pack(node_row.OPEN_FORMAT, open) .. string.sub(bytes, at + TOLD + 1, at + ROW_BYTES)
end

-- Returns the row of such a node that may run from now on. `now`: packed.
function row_bytes.ready(now) return READY .. now .. READY_END end

-- Returns the common part of the rows of nodes that are leased together, without their beginning and the lease: times of the
-- lease (`expires`, `now`: packed) and the number of the worker.
function row_bytes.lease_of(expires, now, worker)
  return expires .. now .. now .. struct.pack(node_row.WORKER_FORMAT, worker) .. NO_TIME .. now
end

-- Returns the row of a leased node, with the result of row_bytes.lease_of. `ahead`: before it has its places under its limits.
function row_bytes.leased(lease_of, lease_id, ahead) return (ahead and AHEAD or ACTIVE) .. lease_of .. lease_id end

local function done_of(told)
  local done = string.sub(piece({ phase = 4, elig = 9, outcome = 2, attempt = 7, public = 7, told = told }), 1, ACQUIRED)
  if told <= MAX_DONE then DONE[told] = done end
  return done
end

-- Returns the first part of the row of a node that has succeeded, with a number of resolved edges, up to the start of the lease
-- (`expires` in row.lua).
function row_bytes.done(told) return DONE[told] or done_of(told) end

-- Does the same for a node that runs again after failed attempts and has only the least fields besides, with `begin` as the first
-- part of its row up to the resolved edges, if `attempt` names its lease epoch and its attempt, whose lease it is. Also returns the
-- index of the attempt as text. Returns nil for another one.
function row_bytes.done_again(begin, attempt, lease_id, told)
  local phase, owner, elig, why, outcome, state, public, flags, index, total, retries, reclaims, epoch, open = struct.unpack(TRIED, begin)
  if phase ~= 2 or owner ~= 2 or state ~= 3 or flags ~= node_row.LEASED + node_row.RETRIED or open > 0
    or attempt ~= number.text(epoch) .. ' ' .. row_record.attempt_of(lease_id) then
    return nil
  end
  return struct.pack(TRIED, 4, 1, elig, why, 2, 7, 7, node_row.RETRIED, index, total, retries, reclaims, epoch, 0, told) .. NO_TIME, number.text(index)
end

-- Returns the part of the header of a run that is completed with success in the call, from its state to the time of its end.
function row_bytes.over(x)
  local state = x.over
  if not state then
    state = struct.pack(run_head.OVER, 2, 2, x.c.now)
    x.over = state
  end
  return state
end

-- Does the same up to the time of its entry in the list of runs that are over. `bytes`: the beginning of the run.
function row_bytes.completed(x, bytes) return row_bytes.over(x) .. string.sub(bytes, run_head.COUNT_AT, run_head.CLOSED_AT - 1) end

-- Returns the rest of the rows of nodes that succeed together, without the lease. `now`: packed.
function row_bytes.ended(now)
  if not NO_TIME then prepare() end
  return now .. now
end
