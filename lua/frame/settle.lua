-- The end of a call that changes executions: follow-up transitions, gathered writes, then messages.

-- @hook Resolves the edges of the executions that the call has ended.
function settle.propagate(c) end

local NOTHING = {}

-- When the caller does not continue the work that a call left for later, keepers do so after this time (ms).
settle.LEFT_MS = 2000

local function note_left(c)
  if c.more then wake.due(c, c.now + settle.LEFT_MS) end
end

-- Performs everything that follows from the call's transitions: edges, gathered writes, then messages.
function settle.run(c)
  settle.propagate(c)
  for _, beside in ipairs(c.contexts or NOTHING) do settle.propagate(beside) end
  call.write_gathered(c)
  note_left(c)
  for _, beside in ipairs(c.contexts or NOTHING) do note_left(beside) end
  wake.flush(c)
end
