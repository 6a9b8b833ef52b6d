-- Records which partitions have been reconciled since the server started. A server that is killed while it logs a call can come
-- back with a part of that call, so a keeper learns from the server which partitions have not been reconciled since the start.
--
-- The record is in the memory of the server, not in keys: a server that starts, becomes a primary or loads the library has none,
-- which is correct. Keepers that start later also read it, and need no further rights.

local DONE, BEGUN, NEEDED = 0, 1, 2

-- By partition.
local passes, pass_count = {}, 0

-- Deployments have far fewer partitions. Further ones are dropped, which costs a pass.
local MAX_PASSES = 65536

local function set_pass(c, state)
  if passes[c.at.probe] == nil then
    if pass_count >= MAX_PASSES then passes, pass_count = {}, 0 end
    pass_count = pass_count + 1
  end
  passes[c.at.probe] = state
end

-- Returns the state of a partition's records: DONE when they have been checked, or there are none, BEGUN while a pass runs, and
-- NEEDED.
function recovery.state(c)
  local state = passes[c.at.probe]
  if state then return state end
  local found = redis.call('EXISTS', key.index_all_executions(c), key.index_flow_index(c), key.ffx_all_runs(c), key.ffx_lanes(c),
    key.ffx_schedules(c))
  state = found > 0 and NEEDED or DONE
  set_pass(c, state)
  return state
end

-- Reports whether counters may be wrong. They are then counted again before they decide anything.
function recovery.in_doubt(c) return (passes[c.at.probe] or recovery.state(c)) ~= DONE end

-- Records that a pass begins, or ends. One that began before the server started does not count.
function recovery.pass_begins(c)
  if recovery.state(c) == NEEDED then set_pass(c, BEGUN) end
end

function recovery.pass_ends(c)
  if passes[c.at.probe] == BEGUN then set_pass(c, DONE) end
end
