-- Rows in the states of the usual case, as the bytes that they are stored as: of nodes that wait for their first attempt, run in
-- it, or have succeeded in it, and need nothing beyond the least. A completion compares and writes whole pieces of them, as
-- packing and unpacking their fields one by one takes several times as long.

-- Where the parts of a row begin, and where its states end, see ROW in row.lua: all up to the lease epoch, open edges, resolved edges,
-- end of the lease, start of the lease, last transition, lease.
local STATES, TOLD, EXPIRES, ACQUIRED, CHANGED, LEASE = 19, 22, 24, 30, 48, 58

-- How pieces of rows are read: the states and the open edges; all up to the end of the lease, that, and when the lease and the first
-- attempt began.
local READ_OPEN, READ_LEASE = '<c19H', '<c23I6c12'

-- Pieces of rows: of one that waits for upstreams, one that may run, one that runs, and one that was leased ahead of its places under
-- its limits. They are packed at the first call.
local WAITING, READY, READY_END, ACTIVE, AHEAD, NO_TIME, NO_WORKER
-- Of one that has succeeded, up to the end of the lease, by how many of its edges are resolved.
local DONE, MAX_DONE = {}, 64

local function piece(states)
  local r = {
    owner = 1, why = 1, outcome = 1, flags = 0, index = 0, total = 1, retries = 0, reclaims = 0, epoch = 1, open = 0, told = 0, expires = 0,
    acquired = 0, started = 0, ended = 0, changed = 0, worker = 0, lease = row.NO_LEASE,
  }
  for name, value in pairs(states) do r[name] = value end
  return row.pack(r)
end

local function prepare()
  NO_TIME, NO_WORKER = struct.pack('<I6', 0), struct.pack('<I4', 0)
  WAITING = string.sub(row.initial(1), 1, STATES)
  local ready = piece({ phase = 1, elig = 1, why = 2, attempt = 2, public = 1, index = row.NO_ATTEMPT, total = 0, epoch = 0 })
  READY, READY_END = string.sub(ready, 1, CHANGED - 1), string.sub(ready, CHANGED + 6)
  local active = { phase = 2, owner = 2, elig = 9, attempt = 3, public = 5, flags = row.LEASED }
  ACTIVE = string.sub(piece(active), 1, EXPIRES - 1)
  active.flags = row.LEASED + row.AHEAD
  AHEAD = string.sub(piece(active), 1, EXPIRES - 1)
end

-- Packs a time.
function row_bytes.time(at) return struct.pack('<I6', at) end

-- When the lease of a node and its first attempt began, packed. Nil unless it runs its first attempt, which has done nothing but run,
-- under a lease with this id that has not ended. Its row is in `bytes` behind `at` others.
function row_bytes.held_since(bytes, at, lease_id, now)
  if not ACTIVE then prepare() end
  local last = at + row.ROW_BYTES
  if #bytes < last then return nil end
  local begin, expires, since = struct.unpack(READ_LEASE, bytes, at + 1)
  if begin ~= ACTIVE and begin ~= AHEAD or expires <= now or string.sub(bytes, at + LEASE, last) ~= lease_id then return nil end
  return since
end

-- How many edges that lead to a node are open, which has never been anything but waiting for them; nil for another one.
function row_bytes.open_edges(bytes, at)
  local states, open = struct.unpack(READ_OPEN, bytes, at + 1)
  return states == WAITING and open or nil
end

-- The row of such a node with so many open edges.
function row_bytes.waiting(bytes, at, open)
  return WAITING .. struct.pack('<H', open) .. string.sub(bytes, at + TOLD, at + row.ROW_BYTES)
end

-- The row of such a node that may run from now on. `now`: packed.
function row_bytes.ready(now) return READY .. now .. READY_END end

-- What the rows of nodes that are leased together have in common, but for what they begin with and the lease: times of the lease
-- (`expires`, `now`: packed) and the number of the worker.
function row_bytes.lease_of(expires, now, worker)
  return expires .. now .. now .. NO_TIME .. now .. struct.pack('<I4', worker)
end

-- The row of a node that is leased, with what row_bytes.lease_of gives. `ahead`: before it has its places under its limits.
function row_bytes.leased(lease_of, lease_id, ahead) return (ahead and AHEAD or ACTIVE) .. lease_of .. lease_id end

local function done_of(told)
  local done = string.sub(piece({ phase = 4, elig = 9, outcome = 2, attempt = 7, public = 7, told = told }), 1, ACQUIRED - 1)
  if told <= MAX_DONE then DONE[told] = done end
  return done
end

-- What the row of a node that has succeeded begins with, of whose edges so many are resolved, up to the start of the lease (see
-- row_bytes.held_since).
function row_bytes.done(told) return DONE[told] or done_of(told) end

-- What follows there, but for the lease, on rows of nodes that succeed together. `now`: packed.
function row_bytes.ended(now)
  if not NO_WORKER then prepare() end
  return now .. now .. NO_WORKER
end
