-- The policy document of an execution.

-- @hook The policy of a node with a row, as text; nil for other executions.
function policies.of_row(core_key) return nil end

-- The document as text, nil when there is none.
function policies.text(c, execution_id)
  return policies.of_row(key.exec_core(c, execution_id)) or redis.call('GET', key.exec_policy(c, execution_id)) or nil
end

-- The decoded document, or an empty table when there is none or it is no JSON object.
function policies.of(c, execution_id)
  local text = policies.text(c, execution_id)
  if not text then return {} end
  local ok, decoded = pcall(cjson.decode, text)
  if not ok or type(decoded) ~= 'table' then return {} end
  return decoded
end
