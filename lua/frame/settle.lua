-- The end of a call that changes executions: what follows from its transitions is worked, and then its messages are sent.

-- @hook Works what the transitions of a call touch: the edges that lead on from executions that have ended.
function settle.propagate(c) end

-- Everything that follows from the call's transitions: edges, then messages.
function settle.run(c)
  settle.propagate(c)
  call.write_gathered(c)
  wake.flush(c)
end
