-- The past of a function that continues as new: the waits of its former generations, and the signals that these took. Their
-- records are gone. With the entries that are kept here, a repeated signal is recognised as a duplicate, and a signal with a
-- token from then as late. The newest entries are kept, in two hashes: when one is full, it replaces the other.
--
-- Those records are removed, a bounded number in one call. The rest is removed with the waitpoints that are closed by time.

-- Maximum number of entries of one hash.
local MAX_ENTRIES = 256

local function put(c, execution_id, field, entry)
  local past_key = key.exec_past(c, execution_id)
  if redis.call('HLEN', past_key) >= MAX_ENTRIES then redis.call('RENAME', past_key, key.exec_past_before(c, execution_id)) end
  redis.call('HSET', past_key, field, cjson.encode(entry))
end

local function get(c, execution_id, field)
  local entry = redis.call('HGET', key.exec_past(c, execution_id), field)
    or redis.call('HGET', key.exec_past_before(c, execution_id), field)
  return entry and cjson.decode(entry) or nil
end

local function wait_field(waitpoint_id) return 'w:' .. waitpoint_id end

-- Returns the field of a signal: one with an idempotency key is known by it, at the step that it was sent to.
local function signal_field(step, signal_id, idempotency_key)
  if not is_set(idempotency_key) then return 's:' .. signal_id end
  return 'k:' .. #step .. ':' .. step .. idempotency_key
end

-- Maximum number of a waitpoint's waits that are kept: it is pending again when early signals are left.
local MAX_WAITS = 16

-- Records that a function had a wait. `w` has step, waitpoint_key, created_at and close_reason.
function past.note_wait(c, execution_id, waitpoint_id, w)
  local field = wait_field(waitpoint_id)
  local waits = get(c, execution_id, field) or {}
  if #waits == MAX_WAITS then table.remove(waits, 1) end
  waits[#waits + 1] = { w.step or '', w.waitpoint_key or '', w.created_at or '', signal.ended_as(w.close_reason) }
  put(c, execution_id, field, waits)
end

-- Returns the wait of a former generation that a token belongs to: its step, and the outcome of a late signal. Nil when there is
-- none.
function past.wait(c, secrets_key, A)
  for _, entry in ipairs(get(c, A.execution_id, wait_field(A.waitpoint_id)) or {}) do
    if not waitpoint_token.check(c, secrets_key, A.waitpoint_token, A.waitpoint_id, entry[2], entry[3]) then
      return entry[1], entry[4]
    end
  end
  return nil
end

-- Records that a signal was taken. `s` has signal_id, idempotency_key, waitpoint_id, outcome and counts, as in the reply to its
-- sender.
local function note_signal(c, execution_id, step, s)
  put(c, execution_id, signal_field(step, s.signal_id, s.idempotency_key), { s.signal_id, s.outcome, s.counts, s.waitpoint_id })
end

-- Returns the earlier reply to the sender of such a signal to a step, in the form of wait_control.take, and its waitpoint; nil
-- when it is new.
function past.signal(c, execution_id, step, A)
  local entry = get(c, execution_id, signal_field(step, A.signal_id, A.idempotency_key))
  if not entry then return nil end
  return { 'duplicate', entry[1], entry[2], entry[3] }, entry[4]
end

-- Approximate number of keys that one call removes: as many as a full journal of waits with one signal each has.
local KEYS_PER_CALL = 2000

-- Number of signals that are taken at a time.
local SIGNALS_AT_A_TIME = 64

function past.work() return { left = KEYS_PER_CALL } end

-- Removes the signals from the stream of a waitpoint that `wanted` selects, and records them in the past. `entries` are entries
-- of the stream. Returns the removed bytes of signals.
local function remove_signals(c, work, execution_id, waitpoint_id, step, entries, wanted)
  local names, stream_ids, signal_ids, bytes = {}, {}, {}, 0
  for _, entry in ipairs(entries) do
    local signal_id = entry[2][2]
    local record_key, payload_key = key.signal_record(c, signal_id), key.signal_payload(c, signal_id)
    local s = redis.call('HMGET', record_key, 'idempotency_key', 'observed_effect', 'target_scope', 'signal_name', 'signal_category',
      'source_identity', 'correlation_id')
    if not wanted or wanted(s[3]) then
      local outcome, counts = signal.told(s[2] or '')
      note_signal(c, execution_id, step, {
        signal_id = signal_id, idempotency_key = s[1], waitpoint_id = waitpoint_id, outcome = outcome, counts = counts,
      })
      bytes = bytes + signal.weight(redis.call('STRLEN', payload_key), s[4] or '', s[5] or '', s[6] or '', s[7] or '')
      names[#names + 1], names[#names + 2] = record_key, payload_key
      if is_set(s[1]) then names[#names + 1] = key.signal_dedup(c, waitpoint_id, s[1]) end
      stream_ids[#stream_ids + 1], signal_ids[#signal_ids + 1] = entry[1], signal_id
    end
  end
  if #names == 0 then return 0 end
  redis.call('UNLINK', unpack(names))
  redis.call('XDEL', key.waitpoint_signals(c, waitpoint_id), unpack(stream_ids))
  redis.call('ZREM', key.exec_signals(c, execution_id), unpack(signal_ids))
  work.left = work.left - #names
  return bytes
end

-- Removes the signals of a waitpoint up to an entry of its stream that one call may read: those before a wait began. Returns the
-- removed bytes of signals.
function past.remove_until(c, work, execution_id, waitpoint_id, step, last)
  local bytes = 0
  repeat
    local entries = redis.call('XRANGE', key.waitpoint_signals(c, waitpoint_id), '-', last, 'COUNT', SIGNALS_AT_A_TIME)
    bytes = bytes + remove_signals(c, work, execution_id, waitpoint_id, step, entries)
  until #entries < SIGNALS_AT_A_TIME
  return bytes
end

local function came_by_token(scope) return scope ~= 'step' end

-- Removes the signals of a waitpoint that came with its token. Returns the removed bytes of signals.
function past.remove_by_token(c, work, execution_id, waitpoint_id, step)
  local entries = redis.call('XRANGE', key.waitpoint_signals(c, waitpoint_id), '-', '+')
  local bytes = 0
  for from = 1, #entries, SIGNALS_AT_A_TIME do
    local some = { unpack(entries, from, math.min(from + SIGNALS_AT_A_TIME - 1, #entries)) }
    bytes = bytes + remove_signals(c, work, execution_id, waitpoint_id, step, some, came_by_token)
  end
  return bytes
end

-- Removes a waitpoint with its signals, or a part of them. Returns whether it is removed completely.
local function remove(c, work, execution_id, waitpoint_id)
  local waitpoint_key, signals_key = key.waitpoint_record(c, waitpoint_id), key.waitpoint_signals(c, waitpoint_id)
  local w = record.read(waitpoint_key, { 'step', 'waitpoint_key', 'created_at', 'close_reason', 'timer' })
  if w then
    local entries
    repeat
      if work.left <= 0 then return false end
      entries = redis.call('XRANGE', signals_key, '-', '+', 'COUNT', SIGNALS_AT_A_TIME)
      remove_signals(c, work, execution_id, waitpoint_id, w.step or '', entries)
    until #entries < SIGNALS_AT_A_TIME
    if not w.timer then past.note_wait(c, execution_id, waitpoint_id, w) end
  end
  redis.call('UNLINK', waitpoint_key, key.waitpoint_condition(c, waitpoint_id), signals_key)
  redis.call('SREM', key.exec_waitpoints(c, execution_id), waitpoint_id)
  redis.call('ZREM', key.index_pending_waitpoint_expiry(c), waitpoint_id)
  work.left = work.left - 3
  return true
end

-- Leaves the rest of a waitpoint to the keeper.
local function leave_rest(c, waitpoint_id)
  redis.call('HSET', key.waitpoint_record(c, waitpoint_id), 'spent', '1')
  redis.call('ZADD', key.index_pending_waitpoint_expiry(c), c.now, waitpoint_id)
  wake.due(c, c.now)
end

-- Removes waitpoints that no generation needs, and records how many of their signals are left. `kept` is the number of signals of
-- the waitpoints that stay.
function past.remove_all(c, work, execution_id, core_key, waitpoint_ids, kept)
  local all = true
  for _, waitpoint_id in ipairs(waitpoint_ids) do
    if not remove(c, work, execution_id, waitpoint_id) then
      leave_rest(c, waitpoint_id)
      all = false
    end
  end
  if all then
    record.clear(core_key, 'spent_signals')
  else
    record.set(core_key, 'spent_signals', number.text(redis.call('ZCARD', key.exec_signals(c, execution_id)) - kept))
  end
end

-- Returns how many signals of an execution belong to former generations.
function past.signals(core_key) return tonumber(record.value(core_key, 'spent_signals') or nil) or 0 end

-- Continues to remove a waitpoint that was left to the keeper.
function past.go_on(c, work, waitpoint_id, execution_id)
  local signals_key = key.exec_signals(c, execution_id)
  local before = redis.call('ZCARD', signals_key)
  if not remove(c, work, execution_id, waitpoint_id) then
    redis.call('ZADD', key.index_pending_waitpoint_expiry(c), c.now, waitpoint_id)
    c.more = true
  end
  local core_key, gone = key.exec_core(c, execution_id), before - redis.call('ZCARD', signals_key)
  local left = past.signals(core_key) - gone
  if left > 0 then record.set(core_key, 'spent_signals', number.text(left)) else record.clear(core_key, 'spent_signals') end
end
