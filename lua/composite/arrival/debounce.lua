-- Gathers several calls in one run: the run exists from the first call on and starts when no call has come for a time. Until
-- then, each call replaces its input, or adds to it, and defers its start.

-- Maximum size of a run's input (bytes).
local MAX_INPUT = 1048576

-- Time (ms) after the start of its run for which a repeated call is recognised.
local KNOWN_MS = 600000

local PENDING_FIELDS = { 'flow_id', 'run_id', 'first_at', 'inputs', 'mode', 'quiet_until', 'start_by' }
local FLOW_FIELDS = { 'public_flow_state', 'purging', 'start_at', 'deadline_at', 'graph_hash' }

local function mode_of(a) return a.max_inputs > 0 and 'collect' or 'latest' end

-- Returns when a gathering run starts, and the two times that determine this: when all calls have been quiet for the times that
-- they require, and the latest start that the first call allows. `pending`: the record of the earlier calls.
local function start_of(c, a, pending)
  local quiet_until = math.max(c.now + a.quiet, tonumber(pending and pending.quiet_until) or 0)
  local start_by = (tonumber(pending and pending.first_at) or c.now) + a.at_most
  start_by = math.min(start_by, tonumber(pending and pending.start_by) or start_by)
  return math.max(c.now, math.min(quiet_until, start_by)), quiet_until, start_by
end

local function note_times(c, a, quiet_until, start_by)
  redis.call('HSET', key.ffx_run_key_pending(c, a.key_id), 'quiet_until', number.digits(quiet_until), 'start_by', number.digits(start_by))
end

-- Keeps the record of the calls of a key until some time after the start.
local function keep(c, a, start_at)
  local ms = number.digits(start_at - c.now + KNOWN_MS)
  redis.call('PEXPIRE', key.ffx_run_key_pending(c, a.key_id), ms)
  redis.call('PEXPIRE', key.ffx_run_key_calls(c, a.key_id), ms)
end

-- Returns the run that gathers calls of a key, while they may join it; nil when there is none for this call.
local function gathering(c, n, a, pending)
  if not pending or pending.mode ~= mode_of(a) then return nil end
  local flow = record.read(key.flow_core(c, pending.flow_id), FLOW_FIELDS)
  if not flow or flow.public_flow_state ~= 'open' or flow.purging then return nil end
  local at = number.finite(flow.start_at)
  if not at or at <= c.now or flow.graph_hash ~= n.class.graph_hash then return nil end
  return flow
end

-- Returns the input of a gathering run together with a call's input, as a list; nil and the outcome when that is not possible.
local function joined_input(c, run, a, pending)
  if mode_of(a) == 'latest' then return run.input end
  local count = tonumber(pending.inputs) or 0
  if count >= a.max_inputs then return nil, { 'debounce_full', pending.run_id, number.text(count), 'inputs' } end
  local input = redis.call('GET', key.flow_input(c, pending.flow_id)) or ''
  if not results.is_list(input) then input = results.LIST .. results.ARRAYS .. results.listed({ input }) end
  input = input .. results.listed({ stored_value.bytes(c.at.prefix, run.input) })
  -- The array has a comma in place of two brackets and a length.
  local bytes = #input - #results.LIST - 5 * (count + 1)
  if bytes > MAX_INPUT then return nil, { 'debounce_full', pending.run_id, number.text(bytes), 'bytes' } end
  return input
end

-- Gives a run the input of a call, and updates the data that depend on the input.
local function write_input(c, pending, run, input)
  local flow_id = pending.flow_id
  stored_value.write(c.at.prefix, key.flow_input(c, flow_id), input)
  record.set(key.flow_core(c, flow_id), 'input_hash', run_data.hash_text(run.input_hash))
  if mode_of(run.arrival) == 'latest' and is_set(run.fair_key) then
    record.set(key.flow_core(c, flow_id), 'fair_key', run.fair_key)
  end
  local r = row.run(c, flow_id)
  for _, entry in ipairs(run.limits or {}) do
    local quota = is_set(entry.quota_policy_id) and { 'quota_policy_id', entry.quota_policy_id } or {}
    row_record.set(row.at(r, entry.ordinal), 'limits', entry.text, unpack(quota))
  end
end

-- Adds a call to the run that gathers the calls of its key. Returns the outcome, or nil when a run has to be created.
function debounce.judge(c, A, n, run, a)
  local pending_key, calls_key = key.ffx_run_key_pending(c, a.key_id), key.ffx_run_key_calls(c, a.key_id)
  local pending = record.read(pending_key, PENDING_FIELDS)
  if pending and redis.call('SISMEMBER', calls_key, a.call_id) == 1 then
    return { 'joined', pending.run_id, pending.flow_id, 'repeated' }
  end
  local flow = gathering(c, n, a, pending)
  if not flow then
    n.start_at = start_of(c, a, nil)
    return nil
  end
  local input, refused = joined_input(c, run, a, pending)
  if not input then return refused end
  write_input(c, pending, run, input)
  local at, quiet_until, start_by = start_of(c, a, pending)
  run_start.move_all(c, row.run(c, pending.flow_id), flow, at)
  redis.call('HINCRBY', pending_key, 'inputs', 1)
  note_times(c, a, quiet_until, start_by)
  redis.call('SADD', calls_key, a.call_id)
  keep(c, a, at)
  return { 'joined', pending.run_id, pending.flow_id, 'gathered' }
end

-- Records a new run that gathers from now on.
function debounce.created(c, n, run, a)
  local pending_key, calls_key = key.ffx_run_key_pending(c, a.key_id), key.ffx_run_key_calls(c, a.key_id)
  redis.call('DEL', pending_key, calls_key)
  redis.call('HSET', pending_key, 'flow_id', run.flow_id, 'run_id', run.run_id, 'first_at', c.now_text, 'inputs', '1', 'mode', mode_of(a))
  note_times(c, a, c.now + a.quiet, c.now + a.at_most)
  redis.call('SADD', calls_key, a.call_id)
  keep(c, a, n.start_at or c.now)
end

-- Returns the run that gathers calls of a key, with the time of its start, as a list.
function debounce.pending(c, id)
  local pending = record.read(key.ffx_run_key_pending(c, id), PENDING_FIELDS)
  local flow = pending and record.read(key.flow_core(c, pending.flow_id), FLOW_FIELDS)
  if not flow or flow.public_flow_state ~= 'open' or (number.finite(flow.start_at) or 0) <= c.now then return {} end
  return { { pending.flow_id, pending.run_id, flow.start_at } }
end
