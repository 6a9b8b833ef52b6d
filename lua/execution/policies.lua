-- The policy document of an execution.

-- Returns the document as text, nil when there is none.
function policies.text(c, execution_id)
  local s, at = store.of(key.exec_core(c, execution_id))
  return s.policy(at, c, execution_id)
end

-- Returns the decoded document, or an empty table when there is none or it is not a JSON object.
function policies.of(c, execution_id) return policies.decode(policies.text(c, execution_id)) end

-- Does the same for a given text, nil for none.
function policies.decode(text)
  if not text then return {} end
  local ok, decoded = pcall(cjson.decode, text)
  if not ok or type(decoded) ~= 'table' then return {} end
  return decoded
end
