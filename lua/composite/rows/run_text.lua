-- The encoding of classes and records of runs, which clients write: a byte with its version, and a MessagePack array of texts, of
-- which the last ones are left out while they are empty. See internal/runrecord.

local VERSION = 1
run_text.VERSION = VERSION

-- Returns the texts of such an encoding, whose name is for the error about another version.
function run_text.decode(text, name)
  local version = string.byte(text) or 0
  if version ~= VERSION then
    error('the ' .. name .. ' has version ' .. version .. ', but this library reads version ' .. VERSION, 0)
  end
  local _, fields = cmsgpack.unpack_one(text, 1)
  return fields
end

-- Checks such an encoding from a client, with at most `most` texts. Returns them, or nil and the error reply.
function run_text.check(text, name, most)
  local ok, fields = pcall(run_text.decode, text, name)
  if not ok then return nil, reply.err('invalid_input', tostring(fields)) end
  ok = type(fields) == 'table' and #fields <= most
  for i = 1, ok and #fields or 0 do ok = ok and type(fields[i]) == 'string' end
  if not ok then return nil, reply.err('invalid_input', 'the ' .. name .. ' must be an array of at most ' .. most .. ' texts') end
  return fields
end
