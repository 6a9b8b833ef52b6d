-- The end of a call that changes executions: follow-up transitions, gathered writes, then messages.

-- @hook Works what the transitions of a call touch: the edges that lead on from executions that have ended.
function settle.propagate(c) end

local NOTHING = {}

-- Everything that follows from the call's transitions: edges, then messages.
function settle.run(c)
  settle.propagate(c)
  for _, beside in ipairs(c.contexts or NOTHING) do settle.propagate(beside) end
  call.write_gathered(c)
  wake.flush(c)
end
