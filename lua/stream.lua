-- Output streams of attempts.

-- Length (entries) to which a stream is cut when the worker names none, roughly.
local DEFAULT_RETENTION = 10000
local DEFAULT_MAX_PAYLOAD_BYTES = 65536
local MAX_READ_COUNT = 10000

local OWNER_LOST = { lease_expired_reclaimable = true, lease_revoked = true }

-- The check of an append: nil, or the error reply.
local function check_append(c, core, A)
  if not core or core.lifecycle_phase ~= 'active' then return reply.err('stream_closed') end
  local stale = OWNER_LOST[core.ownership_state] or fence.lapsed(c, core)
    or A.attempt_index ~= core.current_attempt_index
    or A.lease_id ~= core.current_lease_id or A.lease_epoch ~= core.current_lease_epoch
    or is_set(A.attempt_id) and A.attempt_id ~= core.current_attempt_id
  if stale then return reply.err('stale_owner_cannot_append') end
  return nil
end

local function create_meta(c, meta_key, A, retention)
  redis.call('HSET', meta_key,
    'stream_id', A.execution_id .. ':' .. A.attempt_index, 'execution_id', A.execution_id,
    'attempt_id', A.attempt_id or '', 'attempt_index', A.attempt_index, 'created_at', c.now_text,
    'closed_at', '', 'closed_reason', '', 'durability_mode', 'durable_full',
    'retention_maxlen', number.text(retention), 'last_sequence', '', 'frame_count', '0', 'total_bytes', '0',
    'last_frame_at', '')
end

-- @function ff_append_frame
-- @summary  Adds a frame to the output stream of the running attempt.
-- @flags    fence
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
-- @arg      encoding        text optional
-- @arg      correlation_id  text optional
-- @arg      source          text optional
-- @arg      retention_maxlen int optional
-- @arg      attempt_id      attempt_id optional
-- @arg      max_payload_bytes int optional
-- @reply    OK entry_id:text frame_count:int
-- @error    invalid_input message:text
-- @error    retention_limit_exceeded
-- @error    stream_closed
-- @error    stale_owner_cannot_append
function F.ff_append_frame(K, A)
  local n, err = number.counts(A, { { 'max_payload_bytes', DEFAULT_MAX_PAYLOAD_BYTES }, { 'retention_maxlen', 0 } })
  if err then return err end
  local payload = A.payload or ''
  if #payload > n.max_payload_bytes then return reply.err('retention_limit_exceeded') end
  local c = call.open(K.core)
  err = check_append(c, record.read(K.core, fence.FIELDS), A)
  if err then return err end
  local meta = record.read(K.meta, { 'closed_at' })
  if meta and is_set(meta.closed_at) then return reply.err('stream_closed') end

  if not meta then create_meta(c, K.meta, A, n.retention_maxlen) end
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
  redis.call('HSET', K.meta, 'last_sequence', id, 'last_frame_at', c.now_text)
  if n.retention_maxlen == 0 then
    redis.call('XTRIM', K.stream, 'MAXLEN', '~', DEFAULT_RETENTION)
  else
    redis.call('XTRIM', K.stream, 'MAXLEN', n.retention_maxlen)
  end
  return reply.ok(id, number.text(count))
end

-- @record frame id:text fields:pairs

-- @function ff_read_attempt_stream
-- @summary  Frames of an attempt's output stream between two ids, oldest first, and whether it is closed.
-- @flags    readonly
-- @key      stream          stream.frames
-- @key      meta            stream.meta
-- @arg      from_id         text optional
-- @arg      to_id           text optional
-- @arg      count_limit     int optional
-- @reply    OK frames:list(frame) closed_at:unix_ms closed_reason:text
-- @error    invalid_input message:text
function F.ff_read_attempt_stream(K, A)
  local count = number.whole('count_limit', A.count_limit or '0')
  if not count or count < 1 then return reply.err('invalid_input', 'count_limit must be >= 1') end
  if count > MAX_READ_COUNT then return reply.err('invalid_input', 'count_limit_exceeds_hard_cap') end
  local entries = redis.call('XRANGE', K.stream, A.from_id or '-', A.to_id or '+', 'COUNT', count)
  local meta = redis.call('HMGET', K.meta, 'closed_at', 'closed_reason')
  return reply.ok(entries, meta[1] or '', meta[2] or '')
end
