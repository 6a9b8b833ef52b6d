-- Results of executions.

-- @hook Writes the result of a node with a row, or takes it away (nil). False for other executions.
function results.write_row(core_key, text) return false end

-- @hook The result of a node with a row, false without one; nil for other executions.
function results.read_row(core_key) return nil end

-- Writes the result of an execution; without one, what was there goes. The contract stores no result without bytes; that of a node is
-- one like any other.
function results.write(c, execution_id, text)
  if results.write_row(key.exec_core(c, execution_id), text) then return end
  local result_key = key.exec_result(c, execution_id)
  if is_set(text) then redis.call('SET', result_key, text) else redis.call('DEL', result_key) end
end

-- The result of an execution, or false.
function results.read(c, execution_id)
  local text = results.read_row(key.exec_core(c, execution_id))
  if text ~= nil then return text end
  return redis.call('GET', key.exec_result(c, execution_id))
end
