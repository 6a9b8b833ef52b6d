-- The audit log of a namespace: the author and the kind of each change of something that does not belong to a single run. An
-- entry is written before its action, and another one when the action has failed, so nothing is changed without an entry. It is a
-- stream in the partition that programs name, by convention the first one.

-- Approximate maximum number of entries of a log, and time (ms) for which they are kept.
local MAX_ENTRIES = '10000'
local KEPT_MS = 90 * 24 * 3600 * 1000

local MAX_READ = 200

-- Maximum bytes of each text of an entry.
local MAX_TEXT = 4096

-- Number of last entries of a log that are searched for a repeated one.
local REPEATED = 32

local FIELDS = { 'entry_id', 'actor', 'action', 'name', 'detail', 'failure' }

-- Reports whether the entry of an action, or of its failure, was written before.
local function is_there(log_key, entry_id, failed)
  for _, entry in ipairs(redis.call('XREVRANGE', log_key, '+', '-', 'COUNT', REPEATED)) do
    local values = entry[2]
    if values[2] == entry_id and is_set(values[2 * #FIELDS]) == failed then return true end
  end
  return false
end

-- @function ffx_audit
-- @summary  Adds an entry to the audit log of a namespace. The caller makes the entry id, and sends it again with a repeat.
--           `failure` is the reason why the action, whose entry was written, has failed. Entries older than 90 days, and entries
--           beyond 10,000, are removed.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      entry_id           text
-- @arg      actor              text
-- @arg      action             text
-- @arg      name               text
-- @arg      detail             text
-- @arg      failure            text optional
-- @reply    OK
-- @reply    ALREADY_SATISFIED
-- @error    invalid_input message:text
function F.ffx_audit(K, A)
  local values = {}
  for i, field in ipairs(FIELDS) do
    local text = A[field] or ''
    if #text > MAX_TEXT then
      return reply.err('invalid_input', field .. ' must have at most ' .. MAX_TEXT .. ' bytes, got: ' .. #text)
    end
    values[2 * i - 1], values[2 * i] = field, text
  end
  local c = call.open(K.partition)
  local log_key = key.ffx_audit_log(c, A.namespace)
  if is_there(log_key, A.entry_id, is_set(A.failure)) then return reply.already() end
  redis.call('XTRIM', log_key, 'MINID', '~', number.text(c.now - KEPT_MS))
  redis.call('XADD', log_key, 'MAXLEN', '~', MAX_ENTRIES, '*', unpack(values))
  return reply.ok()
end

-- @record audit_entry position:text entry_id:text actor:text action:text name:text detail:text failure:text

-- @function ffx_read_audit
-- @summary  Returns entries of the audit log of a namespace, the last one first, at `after` or later and `before` or earlier. The
--           position of an entry is its time (Unix ms), "-" and a number. Continue with next_cursor until it is empty.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      limit              int
-- @arg      after              unix_ms optional
-- @arg      before             unix_ms optional
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text entries:list(audit_entry)
-- @error    invalid_input message:text
function F.ffx_read_audit(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  if is_set(A.cursor) and not string.match(A.cursor, '^%d+%-%d+$') then
    return reply.err('invalid_input', 'cursor must be that of a reply, got: ' .. A.cursor)
  end
  local c = call.open(K.partition)
  limit = math.max(1, math.min(limit, MAX_READ))
  local from = is_set(A.cursor) and '(' .. A.cursor or is_set(A.before) and A.before or '+'
  local found = redis.call('XREVRANGE', key.ffx_audit_log(c, A.namespace), from, is_set(A.after) and A.after or '-', 'COUNT', limit)
  local entries = {}
  for i, entry in ipairs(found) do
    entries[i] = { entry[1] }
    for j = 2, #entry[2], 2 do entries[i][1 + j / 2] = entry[2][j] end
  end
  return reply.ok(#found == limit and found[limit][1] or '', entries)
end
