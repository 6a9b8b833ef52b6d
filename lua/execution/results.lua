-- Results of executions.

-- A list that the library keeps instead of a value, out of values that it does not read: the mark, the letter of its sort, and the
-- texts, each after its length. Clients make the value out of it. internal/enginerpc/lists.go is the other side, and has the sorts.
results.LIST = '\0list '

-- Sorts of lists: signals with eight texts each, and JSON arrays that become one. A client marks a value that begins as a list
-- does as one of the sort p, with its bytes alone.
results.SIGNALS, results.ARRAYS = 's', 'a'
local PLAIN = results.LIST .. 'p'

-- Returns texts as they are in a list.
function results.listed(texts)
  local list = {}
  for i, text in ipairs(texts) do list[i] = struct.pack('<I4', #text) .. text end
  return table.concat(list)
end

-- Reports whether a stored text is a list.
function results.is_list(text) return string.sub(text, 1, #results.LIST) == results.LIST end

-- The first bytes of a value that a client has sealed or compressed: see internal/payload.
local ENVELOPE = '\1F'

-- Reports whether a stored text can be read only as a whole, given its beginning.
function results.is_whole(text) return results.is_list(text) or string.sub(text, 1, #ENVELOPE) == ENVELOPE end

-- Returns a value without the mark of a client: programs of the contract do not know it.
function results.plain(text)
  return string.sub(text, 1, #PLAIN) == PLAIN and string.sub(text, #PLAIN + 1) or text
end

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
