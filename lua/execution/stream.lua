-- Output streams of attempts.

-- Length (entries) to which a stream is cut when the worker names none, roughly.
local DEFAULT_RETENTION = 10000
local DEFAULT_MAX_PAYLOAD_BYTES = 65536
local MAX_READ_COUNT = 10000

local OWNER_LOST = { lease_expired_reclaimable = true, lease_revoked = true }

-- Checks an append. Returns nil, or the error reply.
local function check_append(c, core, A)
  if not core or core.lifecycle_phase ~= 'active' then return reply.err('stream_closed') end
  local stale = OWNER_LOST[core.ownership_state] or fence.lapsed(c, core)
    or A.attempt_index ~= core.current_attempt_index
    or A.lease_id ~= core.current_lease_id or A.lease_epoch ~= core.current_lease_epoch
    or is_set(A.attempt_id) and A.attempt_id ~= core.current_attempt_id
  if stale then return reply.err('stale_owner_cannot_append') end
  return nil
end

-- Returns the limits of the stored policy: the largest payload (bytes) and the most frames that are kept; nil for a missing
-- limit.
local function limits_of(c, execution_id)
  local policy = policies.of(c, execution_id).stream_policy
  local function limit(name)
    local n = type(policy) == 'table' and number.finite(policy[name])
    return n and n >= 1 and math.floor(n) or nil
  end
  return { payload = limit('max_frame_bytes'), retention = limit('retention_maxlen') }
end

-- The policy of an execution never changes, so its limits are read once and then stored with the stream.
local function create_meta(c, meta_key, A, limits, retention)
  redis.call('HSET', meta_key,
    'stream_id', A.execution_id .. ':' .. A.attempt_index, 'execution_id', A.execution_id,
    'attempt_id', A.attempt_id or '', 'attempt_index', A.attempt_index, 'created_at', c.now_text,
    'closed_at', '', 'closed_reason', '', 'durability_mode', 'durable_full',
    'retention_maxlen', number.text(retention), 'last_sequence', '', 'frame_count', '0', 'total_bytes', '0',
    'last_frame_at', '')
  if limits.payload then redis.call('HSET', meta_key, 'max_payload_bytes', number.text(limits.payload)) end
  if limits.retention then redis.call('HSET', meta_key, 'max_retention', number.text(limits.retention)) end
end

-- @function ff_append_frame
-- @summary  Adds a frame to the output stream of the running attempt. The caller can lower but not raise
--           stream_policy.max_frame_bytes and stream_policy.retention_maxlen of the stored policy.
-- @flags    derives fence
-- @key      core            exec.core
-- @key      stream          stream.frames
-- @key      meta            stream.meta
-- @arg      execution_id    execution_id
-- @arg      attempt_index   attempt_index
-- @arg      lease_id        lease_id
-- @arg      lease_epoch     lease_epoch
-- @arg      frame_type      text
-- @arg      ts              text optional
-- @arg      payload         bytes optional
-- @arg      encoding        text optional=utf8
-- @arg      correlation_id  text optional
-- @arg      source          text optional=worker
-- @arg      retention_maxlen int optional=0
-- @arg      attempt_id      attempt_id optional
-- @arg      max_payload_bytes int optional=65536
-- @reply    OK entry_id:text frame_count:int
-- @error    invalid_input message:text
-- @error    retention_limit_exceeded
-- @error    stream_closed
-- @error    stale_owner_cannot_append
function F.ff_append_frame(K, A)
  local max_bytes, err = number.optional('max_payload_bytes', A.max_payload_bytes, DEFAULT_MAX_PAYLOAD_BYTES)
  if err then return err end
  local payload = A.payload or ''
  if #payload > max_bytes then return reply.err('retention_limit_exceeded') end
  local c = call.open(K.core)
  local core = record.read(K.core, fence.FIELDS)
  err = check_append(c, core, A)
  if err then return err end
  local meta = record.read(K.meta, { 'closed_at', 'max_payload_bytes', 'max_retention' })
  if meta and is_set(meta.closed_at) then return reply.err('stream_closed') end
  local limits = meta and { payload = number.finite(meta.max_payload_bytes),
    retention = number.finite(meta.max_retention) } or limits_of(c, A.execution_id)
  if limits.payload and #payload > limits.payload then return reply.err('retention_limit_exceeded') end
  local retention
  retention, err = number.count('retention_maxlen', A.retention_maxlen, 0)
  if err then return err end
  if limits.retention and (retention == 0 or retention > limits.retention) then retention = limits.retention end

  if not meta then
    create_meta(c, K.meta, A, limits, retention)
    attempt_record.write_first(c, A.execution_id, core)
    local attached = lease.attach(core)
    if attached then record.set(K.core, 'attached', attached) end
  end
  local frame = {
    'frame_type', A.frame_type, 'ts', is_set(A.ts) and A.ts or c.now_text, 'payload', payload,
    'encoding', A.encoding or 'utf8', 'source', A.source or 'worker',
  }
  if is_set(A.correlation_id) then
    frame[#frame + 1] = 'correlation_id'
    frame[#frame + 1] = A.correlation_id
  end
  local id = redis.call('XADD', K.stream, '*', unpack(frame))
  local count = redis.call('HINCRBY', K.meta, 'frame_count', 1)
  redis.call('HINCRBY', K.meta, 'total_bytes', #payload)
  redis.call('HSET', K.meta, 'last_sequence', id, 'last_frame_at', c.now_text,
    'retention_maxlen', number.text(retention))
  if retention == 0 then
    redis.call('XTRIM', K.stream, 'MAXLEN', '~', DEFAULT_RETENTION)
  else
    redis.call('XTRIM', K.stream, 'MAXLEN', retention)
  end
  return reply.ok(id, number.text(count))
end

-- Longest stream id that XRANGE reads (bytes).
local MAX_ID_BYTES = 127
local LAST_ID = '18446744073709551615-18446744073709551615'

-- Reports whether XRANGE accepts a text as the end of a range: `-`, `+`, <ms> or <ms>-<sequence>, with `(` in front to leave that
-- id out. `beyond` is the id that cannot be left out at this end, because no id is beyond it.
local function is_range_end(text, beyond)
  if text == '-' or text == '+' then return true end
  if #text > MAX_ID_BYTES then return false end
  local open, ms, dash, sequence = string.match(text, '^(%(?)(%d+)(%-?)(%d*)$')
  if not ms or (dash == '') ~= (sequence == '') then return false end
  ms, sequence = number.unsigned(ms), number.unsigned(sequence)
  return ms and sequence and not (open == '(' and ms .. '-' .. sequence == beyond)
end

-- @record frame id:text fields:pairs

-- @function ff_read_attempt_stream
-- @summary  Returns the frames of an attempt's output stream between two ids, oldest first, and whether it is closed.
-- @flags    readonly
-- @key      stream          stream.frames
-- @key      meta            stream.meta
-- @arg      from_id         text optional=-
-- @arg      to_id           text optional=+
-- @arg      count_limit     int optional
-- @reply    OK frames:list(frame) closed_at:unix_ms closed_reason:text
-- @error    invalid_input message:text
function F.ff_read_attempt_stream(K, A)
  local count = tonumber(A.count_limit)
  if not count or not (count >= 1) then return reply.err('invalid_input', 'count_limit must be >= 1') end
  if count > MAX_READ_COUNT then return reply.err('invalid_input', 'count_limit_exceeds_hard_cap') end
  count = math.floor(count)
  local from, to = is_set(A.from_id) and A.from_id or '-', is_set(A.to_id) and A.to_id or '+'
  if not is_range_end(from, LAST_ID) then return reply.err('invalid_input', 'from_id must be a stream id, got: ' .. from) end
  if not is_range_end(to, '0-0') then return reply.err('invalid_input', 'to_id must be a stream id, got: ' .. to) end
  local entries = redis.call('XRANGE', K.stream, from, to, 'COUNT', count)
  local meta = redis.call('HMGET', K.meta, 'closed_at', 'closed_reason')
  return reply.ok(entries, meta[1] or '', meta[2] or '')
end
