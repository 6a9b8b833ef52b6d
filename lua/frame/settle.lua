-- The end of a call that changes executions: follow-up transitions, gathered writes, then messages.

-- @hook Resolves the edges of the executions that the call has ended.
function settle.propagate(c) end

-- When the caller does not continue the work that a call left for later, keepers do so after this time (ms).
settle.LEFT_MS = 2000

local function note_left(c) wake.due(c, c.now + settle.LEFT_MS) end

-- Performs everything that follows from the call's transitions: edges, gathered writes, then messages.
function settle.run(c)
  local contexts = c.contexts
  settle.propagate(c)
  for i = 1, contexts and #contexts or 0 do settle.propagate(contexts[i]) end
  if c.gathered then call.write_gathered(c) end
  if c.more then note_left(c) end
  for i = 1, contexts and #contexts or 0 do
    if contexts[i].more then note_left(contexts[i]) end
  end
  wake.flush(c)
end
