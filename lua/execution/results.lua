-- Results of executions.

-- Writes the result of an execution; without one, removes the stored result. Returns it as results.named does.
function results.write(c, execution_id, text)
  local s, at = store.of(key.exec_core(c, execution_id))
  return s.write_result(at, c, execution_id, text)
end

-- Returns the result of an execution, or false.
function results.read(c, execution_id)
  local s, at = store.of(key.exec_core(c, execution_id))
  return s.result(at, c, execution_id)
end

-- Does the same, but names a large result that is stored by itself: for replies and arguments that clients read.
function results.named(c, execution_id)
  local s, at = store.of(key.exec_core(c, execution_id))
  return s.named_result(at, c, execution_id)
end
