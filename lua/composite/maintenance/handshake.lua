-- The version of the library, and the rights that the user of a connection lacks.

-- Reports whether the calling user may run a command with its arguments. A server without rights allows all.
local function allowed(words)
  local check = server.redis().acl_check_cmd
  if not check then return true end
  local known, may = pcall(check, unpack(words))
  return known and may
end

-- @function ffx_missing_rights
-- @summary  Returns which of some commands the calling user may not run, with the keys and channels that they name. The words of
--           a command are separated by spaces.
-- @flags    readonly
-- @args     commands           text
-- @reply    OK missing:list(text)
function F.ffx_missing_rights(K, A)
  local missing = {}
  for _, command in ipairs(A.commands) do
    local words = {}
    for word in string.gmatch(command, '%S+') do words[#words + 1] = word end
    if #words > 0 and not allowed(words) then missing[#missing + 1] = command end
  end
  return reply.ok(missing)
end

-- @function ffx_version
-- @summary  Returns the identity of the loaded library. Within a protocol, composite calls only gain fields that old callers may
--           ignore.
-- @flags    readonly
-- @reply    OK build:text protocol:int min_protocol:int
function F.ffx_version()
  audience.note()
  return reply.ok(call.build, call.protocol, call.min_protocol)
end
