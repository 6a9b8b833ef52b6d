-- Rows in the states of the usual case, as the bytes that they are stored as: of nodes that wait for their first attempt, run in
-- it, or have succeeded in it, and need nothing beyond the least. A completion compares and writes whole pieces of them, as
-- packing and unpacking their fields one by one takes several times as long.

-- Where the parts of a row begin, and where its states end, see ROW in row.lua: all up to the lease epoch, open edges, resolved edges,
-- end of the lease, start of the lease, last transition, lease.
local STATES, OPEN, TOLD, EXPIRES, ACQUIRED, CHANGED, LEASE = 19, 20, 22, 24, 30, 48, 58

-- Pieces of rows: of one that waits for upstreams, one that may run, and one that runs. They are packed at the first call.
local WAITING, READY, READY_END, ACTIVE, NO_TIME, NO_WORKER
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
  local active = piece({ phase = 2, owner = 2, elig = 9, attempt = 3, public = 5, flags = row.LEASED })
  ACTIVE = string.sub(active, 1, EXPIRES - 1)
end

-- Packs a time.
function row_bytes.time(at) return struct.pack('<I6', at) end

-- Reports whether a node runs its first attempt, which has done nothing but run, under a lease that has not ended. Its row is in
-- `bytes` behind so many others.
function row_bytes.is_held(bytes, at, lease_id, now)
  if not ACTIVE then prepare() end
  local sub = string.sub
  return sub(bytes, at + 1, at + EXPIRES - 1) == ACTIVE and sub(bytes, at + LEASE, at + row.ROW_BYTES) == lease_id
    and struct.unpack('<I6', bytes, at + EXPIRES) > now
end

-- How many edges that lead to a node are open, which has never been anything but waiting for them; nil for another one.
function row_bytes.open_edges(bytes, at)
  if string.sub(bytes, at + 1, at + STATES) ~= WAITING then return nil end
  local low, high = string.byte(bytes, at + OPEN, at + OPEN + 1)
  return low + 256 * high
end

-- The row of such a node with so many open edges.
function row_bytes.waiting(bytes, at, open)
  return WAITING .. struct.pack('<H', open) .. string.sub(bytes, at + TOLD, at + row.ROW_BYTES)
end

-- The row of such a node that may run from now on. `now`: packed.
function row_bytes.ready(now) return READY .. now .. READY_END end

-- What the rows of nodes that are leased together begin with: times of the lease (`expires`, `now`: packed) and the number of the worker.
function row_bytes.lease_of(expires, now, worker)
  return ACTIVE .. expires .. now .. now .. NO_TIME .. now .. struct.pack('<I4', worker)
end

-- The row of a node that is leased for its first attempt. `begin`: see row_bytes.lease_of.
function row_bytes.active(begin, lease_id) return begin .. lease_id end

local function done_of(told)
  local done = string.sub(piece({ phase = 4, elig = 9, outcome = 2, attempt = 7, public = 7, told = told }), 1, ACQUIRED - 1)
  if told <= MAX_DONE then DONE[told] = done end
  return done
end

-- The row of a node that has succeeded under a lease, of whose edges so many are resolved. `bytes`, `at`: its row before.
function row_bytes.done(bytes, at, lease_id, told, now)
  return (DONE[told] or done_of(told)) .. string.sub(bytes, at + ACQUIRED, at + ACQUIRED + 11) .. now .. now .. NO_WORKER .. lease_id
end
