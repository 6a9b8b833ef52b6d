-- The end of a call that changes executions: follow-up transitions, gathered writes, then messages.

-- @hook Works what the transitions of a call touch: the edges that lead on from executions that have ended.
function settle.propagate(c) end

local NOTHING = {}

-- What a call leaves for later, its caller goes on with, or keepers do after this time (ms).
settle.LEFT_MS = 2000

local function note_left(c)
  if c.more then wake.due(c, c.now + settle.LEFT_MS) end
end

-- Everything that follows from the call's transitions: edges, then messages.
function settle.run(c)
  settle.propagate(c)
  for _, beside in ipairs(c.contexts or NOTHING) do settle.propagate(beside) end
  call.write_gathered(c)
  note_left(c)
  for _, beside in ipairs(c.contexts or NOTHING) do note_left(beside) end
  wake.flush(c)
end
