-- Which partitions have been reconciled since the server started. A server that dies while it logs a call can come back
-- with a part of that call, at the start after that, too, so whoever reconciles is told of the partitions that have not been
-- gone through since.
--
-- This is kept by the library in the memory of the server, not in keys: a server that starts, takes over or loads the library
-- knows nothing, and is right in that. It also tells keepers that start later, and needs no rights besides those of calls.

-- By partition: false while the first pass is under way, true behind it.
local passes, pass_count = {}, 0

-- Deployments have far fewer partitions. Those beyond are forgotten, which costs a pass.
local MAX_PASSES = 65536

local function set_pass(c, state)
  if passes[c.at.probe] == nil then
    if pass_count >= MAX_PASSES then passes, pass_count = {}, 0 end
    pass_count = pass_count + 1
  end
  passes[c.at.probe] = state
end

-- A pass begins, or ends. One that began before the server started does not count.
function mend.pass_begins(c)
  if passes[c.at.probe] == nil then set_pass(c, false) end
end

function mend.pass_ends(c)
  if passes[c.at.probe] == false then set_pass(c, true) end
end

-- Whether a partition has records that have not been gone through since the server started.
function mend.is_unchecked(c)
  if passes[c.at.probe] then return false end
  if redis.call('EXISTS', key.index_all_executions(c), key.index_flow_index(c), key.ffx_lanes(c), key.ffx_schedules(c)) > 0 then
    return true
  end
  set_pass(c, true)
  return false
end
