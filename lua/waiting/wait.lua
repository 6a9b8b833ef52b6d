-- Waits of managed flows. A waitpoint node needs no worker: it opens when nothing blocks it, and ends with its wait. A function
-- that waits finds the result of the wait in its journal.

-- Core field `wait` = 1 marks a waitpoint node; the key exec.wait contains its wait, as JSON.

local BEHAVIOURS = { fail = true, cancel = true, expire = true, auto_resume_with_timeout_signal = true, escalate = true }

-- Longest timeout (ms): about 100 years, so that due times stay exact.
local MAX_TIMEOUT = 100 * 366 * 24 * 3600 * 1000

-- Core fields that an operator's end of a wait reads.
wait.END_FIELDS = {
  'execution_id', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'terminal_outcome', 'attempt_state',
  'current_lease_id', 'current_lease_epoch', 'current_attempt_id', 'current_attempt_index',
  'current_worker_id', 'current_worker_instance_id', 'lease_expires_at', 'lane_id', 'current_lane',
  'flow_id', 'managed', 'node', 'created_at', 'priority', 'retry_count', 'public_state',
  'current_waitpoint_id', 'current_suspension_id', 'start_timeout', 'delay_until', 'wait',
  'fair_key', 'namespace',
}

local function refuse(why) return nil, reply.err('invalid_input', why) end

-- Maximum size (bytes) of the information about a wait for people, with the rules for an answer: a JSON object with title,
-- question, audience (a list of names) and answer (the text of a JSON Schema). It is stored with the waitpoint of a function, and
-- in the wait of a node.
local MAX_ABOUT = 98304

-- Returns nil when such a text can be stored, else the error reply.
function wait.check_about(what, about)
  if #about > MAX_ABOUT then
    return reply.err('invalid_input', what .. ': about must have at most ' .. MAX_ABOUT .. ' bytes, got: ' .. #about)
  end
  local ok, about_object = pcall(cjson.decode, about)
  if not ok or type(about_object) ~= 'table' then return reply.err('invalid_input', what .. ': about is no JSON object') end
  return nil
end

-- Returns the text of a waitpoint, or nil. `core` has the field wait, `w` the field about.
function wait.about_text(core_key, core, w)
  if not core.wait then return is_set(w.about) and w.about or nil end
  return wait.of_node(record.value(core_key, 'wait_spec')).about
end

-- Returns the decoded text as a table; empty without one.
function wait.about(core_key, core, w)
  local about = wait.about_text(core_key, core, w)
  return about and cjson.decode(about) or {}
end

-- Returns the schema of the answers to a waitpoint. Returns nil when the caller has checked its answer with it, and when there is
-- none.
function wait.unchecked(core_key, core, w, A)
  local schema = wait.about(core_key, core, w).answer
  if not schema or schema == '' or A.checked == redis.sha1hex(schema) then return nil end
  return schema
end

-- Reports whether a wait returns a list of signals.
function wait.collects(k)
  local state = condition.read(k.condition)
  return state ~= nil and state.collect
end

-- Reports whether an execution belongs to the namespace and the flow that the caller names; an empty one matches all.
function wait.belongs(core, A)
  return (not is_set(A.namespace) or core.namespace == A.namespace) and (not is_set(A.flow_id) or core.flow_id == A.flow_id)
end

-- Converts a wait: condition, timeout (ms; nil without), behaviour. Returns nil and the error reply when something is wrong.
-- `what` names the wait in errors.
function wait.parse(what, condition_json, timeout, behaviour, collect)
  local w, err = {}, nil
  w.condition, err = condition.parse(condition_json)
  if err then return nil, err end
  w.sleeps = w.condition.kind == timer.CONDITION
  if w.sleeps then w.condition.matchers, w.condition.decisive = {}, 0 end
  local matchers = #w.condition.matchers - w.condition.decisive
  if not w.sleeps and condition.needed(w.condition) > matchers then
    return refuse(what .. ': ' .. condition.needed(w.condition) .. ' signals are needed, but only ' .. matchers .. ' can count')
  end
  w.condition.collect = collect
  w.timeout, err = number.count(what .. ': timeout', timeout, 0)
  if err then return nil, err end
  if w.timeout > MAX_TIMEOUT then return refuse(what .. ': timeout must be at most ' .. MAX_TIMEOUT .. ' ms') end
  if w.timeout == 0 then
    w.timeout = nil
  elseif not BEHAVIOURS[behaviour] then
    return refuse(what .. ': unknown timeout behaviour "' .. tostring(behaviour) .. '"')
  end
  w.behaviour = is_set(behaviour) and behaviour or 'fail'
  if w.sleeps then w.behaviour = 'auto_resume_with_timeout_signal' end
  return w
end

-- Reads where a timer node finds its time, from its JSON form, for timer.due; returns nil and the error reply when something is
-- wrong.
local function parse_timer(what, spec, w)
  if type(spec) ~= 'table' then return refuse(what .. ': timer must be an object') end
  local at = spec.at ~= nil and cjson.encode(spec.at) or nil
  if spec['until'] ~= true and not w.timeout then return refuse(what .. ': a timer must have a timeout or a time') end
  if spec.path ~= nil and type(spec.path) ~= 'table' then return refuse(what .. ': path must be an array') end
  return { until_time = spec['until'] == true, at = at, input = spec.input == true, path = spec.path }
end

-- Waits of nodes by their JSON forms. Bounded: when the table is full, it is emptied.
local known, known_count = {}, 0
local MAX_KNOWN = 256

-- Returns the wait of a waitpoint node that was stored, with its condition before any signal.
function wait.of_node(json)
  local kept = known[json]
  if not kept then
    kept = wait.parse_node('', json)
    if known_count >= MAX_KNOWN then known, known_count = {}, 0 end
    known[json], known_count = kept, known_count + 1
    condition.prepare(kept.condition)
  end
  return kept
end

-- Returns the wait of a waitpoint node from its JSON form, or nil and the error reply.
function wait.parse_node(what, json)
  local ok, spec = pcall(cjson.decode, json)
  if not ok or type(spec) ~= 'table' then return refuse(what .. ': wait is no JSON object') end
  if type(spec.condition) ~= 'table' then return refuse(what .. ': condition must be an object') end
  local condition_json = cjson.encode(spec.condition)
  local fault = spec.about ~= nil and wait.check_about(what, tostring(spec.about))
  if fault then return nil, fault end
  local w, err = wait.parse(what, condition_json, spec.timeout, spec.timeout_behavior, spec.collect == true)
  if err then return nil, err end
  w.condition_json, w.about = condition_json, spec.about ~= cjson.null and spec.about or nil
  w.approval = spec.approval == true
  if w.sleeps then w.timer, err = parse_timer(what, spec.timer, w) end
  if err then return nil, err end
  return w
end

-- Namespace of ids that derive from names.
local NAMESPACE = '\143\107\13\78\92\10\92\62\157\15\59\31\106\30\124\33'

-- Returns a part of a name, after its length. Names have at most 128 bytes.
local function part(text)
  if #text < 128 then return string.char(#text) .. text end
  return string.char(128 + #text % 128, math.floor(#text / 128)) .. text
end

-- Returns the id of the first waitpoint of a node: the UUID of version 5 that derives from its flow and its name.
local function id_of(flow_id, node)
  local hex = redis.sha1hex(NAMESPACE .. 'waitpoint' .. part(flow_id) .. part(node))
  local variant = string.format('%x', 8 + tonumber(string.sub(hex, 17, 17), 16) % 4)
  return string.sub(hex, 1, 8) .. '-' .. string.sub(hex, 9, 12) .. '-5' .. string.sub(hex, 14, 16) .. '-' .. variant
    .. string.sub(hex, 18, 20) .. '-' .. string.sub(hex, 21, 32)
end

-- Returns a UUID that derives from a text.
function wait.uuid(text)
  local hex = redis.sha1hex(text)
  return string.sub(hex, 1, 8) .. '-' .. string.sub(hex, 9, 12) .. '-5' .. string.sub(hex, 14, 16) .. '-8'
    .. string.sub(hex, 18, 20) .. '-' .. string.sub(hex, 21, 32)
end

-- Returns the keys of the records of a wait that is about to begin.
function wait.keys(c, execution_id, waitpoint_id)
  return {
    core = key.exec_core(c, execution_id),
    suspension = key.exec_suspension(c, execution_id), waitpoint = key.waitpoint_record(c, waitpoint_id),
    condition = key.waitpoint_condition(c, waitpoint_id), signals = key.waitpoint_signals(c, waitpoint_id),
    waitpoints = key.exec_waitpoints(c, execution_id), secrets = key.waitpoint_secrets(c),
    pending_waitpoint_expiry = key.index_pending_waitpoint_expiry(c),
  }
end

-- Returns the arguments of a suspension, as ff_suspend_execution has them.
function wait.arguments(c, execution_id, w)
  return {
    execution_id = execution_id, attempt_index = w.attempt_index or '', suspension_id = w.suspension_id, step = w.step,
    reason_code = w.sleeps and timer.REASON or 'waiting_for_signal', requested_by = w.step and 'worker' or 'engine',
    timeout_at = w.due and number.text(w.due) or w.timeout and number.text(c.now + w.timeout) or '', timeout_behavior = w.behaviour,
    resume_condition_json = w.condition_json, resume_policy_json = '{}', about = w.about, managed = true,
  }
end

-- Returns the id of the first waitpoint of a node.
wait.first_id = id_of

-- Returns the id of a node's waitpoint after `times` earlier ones, and the waitpoint key that all of them share. A node that runs
-- again, since it was replayed, has another waitpoint each time. `core` may have the id of the first one.
function wait.waitpoint_of(core, times)
  local first = core.first_waitpoint or id_of(core.flow_id, core.node)
  return times > 0 and wait.uuid(first .. ':' .. times) or first, 'wpk:' .. first
end

-- Returns the waitpoint of a node that opens: the one that a signal has opened ahead, or another one.
local function waitpoint_for(c, execution_id, core)
  local times, w = redis.call('SCARD', key.exec_waitpoints(c, execution_id)), {}
  if times > 0 then
    w.id, w.key = wait.waitpoint_of(core, times - 1)
    local ahead = record.read(key.waitpoint_record(c, w.id), { 'state', 'waitpoint_token' }) or {}
    if ahead.state == 'pending' then
      w.token, w.pending = ahead.waitpoint_token or '', true
      return w, times > 1
    end
  end
  w.id, w.key = wait.waitpoint_of(core, times)
  w.token = waitpoint_token.mint(key.waitpoint_secrets(c), w.id, w.key, c.now_text) or ''
  return w, times > 0
end

-- Fails a timer node whose time cannot be read.
local function fail_timer(c, execution_id, core_key, fault)
  local core = record.read(core_key, terminal.END_FIELDS)
  terminal.leave_indexes(c, execution_id, core)
  terminal.finish(c, execution_id, core_key, core, {
    outcome = 'failed', attempt_state = 'none', blank = {},
    values = { 'failure_reason', fault, 'failure_category', 'decode' }, reason = fault, category = 'decode',
  })
  return terminal.PUBLIC_STATE.failed
end

-- Returns the detail text in the record of a waitpoint node that is open.
function wait.detail(waitpoint_id) return 'suspended: waitpoint ' .. waitpoint_id end

-- Opens a waitpoint node that nothing blocks. It has no attempt and no lease. Signals that came before may end the wait at once.
function wait.open(c, execution_id, core_key, core)
  if flow_record.is_over({ public_flow_state = record.value(key.flow_core(c, core.flow_id), 'public_flow_state') }) then
    terminal.cancel(c, execution_id, core_key, record.read(core_key, terminal.END_FIELDS), 'flow is over', 'flow',
      { silent = true })
    return terminal.PUBLIC_STATE.cancelled
  end
  local node = core.node or record.value(core_key, 'node')
  local spec = wait.of_node(core.wait_spec or record.value(core_key, 'wait_spec'))
  local due, fault = spec.timeout and c.now + spec.timeout, nil
  if spec.sleeps then
    due, fault = timer.due(c, execution_id, core, spec)
    if fault then return fail_timer(c, execution_id, core_key, fault) end
  end
  core.node = node
  local w, again = waitpoint_for(c, execution_id, core)
  local suspension_id = wait.uuid(w.id)
  local k = wait.keys(c, execution_id, w.id)
  if again then redis.call('DEL', k.suspension) end
  local decided = suspension_record.begin(c, k, wait.arguments(c, execution_id, {
    suspension_id = suspension_id, due = due, behaviour = spec.behaviour, condition_json = spec.condition_json, sleeps = spec.sleeps,
  }), w, condition.fresh(spec.condition))
  local s, at = store.of(core_key)
  local detail = spec.sleeps and timer.detail(due) or wait.detail(w.id)
  if not s.suspend(at, c, spec.sleeps, w.id, detail) then
    record.write(core_key, core.managed, {
      'lifecycle_phase', 'suspended',
      'ownership_state', 'unowned',
      'eligibility_state', 'not_applicable',
      'blocking_reason', spec.sleeps and 'waiting_for_delay' or 'waiting_for_signal',
      'last_transition_at', c.now_text,
      'last_mutation_at', c.now_text,
      'blocking_detail', detail,
      'terminal_outcome', 'none',
      'attempt_state', 'none',
      'public_state', 'suspended',
      'current_suspension_id', suspension_id,
      'current_waitpoint_id', w.id,
    }, { 'delay_until', 'pending_replay_attempt', 'completed_at' })
  end
  suspension_record.index(c, k, execution_id, core, due)
  if spec.sleeps then
    event_log.add(c, core.flow_id, 'sleeping', node, '', number.text(due))
    if due > c.now then return 'suspended' end
    event_log.add(c, core.flow_id, 'timer_ended', node, '', '')
    suspension_record.close(c, k, 'timed_out_auto_resume', { known = suspension_record.ALL })
    wait.answer(c, execution_id, core_key, record.read(core_key, wait.END_FIELDS), k, { timed_out = true })
    return terminal.PUBLIC_STATE.success
  end
  event_log.add(c, core.flow_id, 'suspended', node, '', w.key)
  if not decided then return 'suspended' end
  local ended = record.read(core_key, wait.END_FIELDS)
  wait.answer(c, execution_id, core_key, ended, k, { payload = redis.call('GET', key.signal_payload(c, decided)) or '' })
  return terminal.PUBLIC_STATE[ended.terminal_outcome] or 'suspended'
end

-- Returns the list of the signals that a condition took, in the order of arrival.
function wait.collected(c, state)
  local texts = {}
  for _, signal_id in ipairs(condition.taken_signals(state)) do
    local s = redis.call('HMGET', key.signal_record(c, signal_id), 'signal_name', 'signal_category', 'source_type', 'source_identity',
      'correlation_id', 'accepted_at')
    texts[#texts + 1] = signal_id
    for i = 1, 6 do texts[#texts + 1] = s[i] or '' end
    texts[#texts + 1] = redis.call('GET', key.signal_payload(c, signal_id)) or ''
  end
  return results.LIST .. results.SIGNALS .. results.listed(texts)
end

-- Returns the result of a wait. `o`: timed_out; payload of the deciding signal; result (an operator's); state (the condition,
-- when it is at hand). Returns the value and its mark in the journal: l for a list of signals, t for a wait that timed out, v for
-- a payload.
local function value_of(c, k, o)
  local state = o.state or condition.read(k.condition)
  local collects = state ~= nil and state.collect
  if o.timed_out then return collects and '[]' or 'null', 't' end
  if is_set(o.result) then return o.result, collects and 'l' or 'v' end
  if collects then return wait.collected(c, state), 'l' end
  return is_set(o.payload) and o.payload or 'null', 'v'
end

-- Ends a waitpoint node with the result of its wait.
local function end_node(c, execution_id, core_key, core, value)
  suspension_record.leave_indexes(c, execution_id, core)
  results.write(c, execution_id, value)
  terminal.finish(c, execution_id, core_key, core, {
    outcome = 'success', attempt_state = 'none', waited = true, blank = { 'current_suspension_id', 'current_waitpoint_id' },
  })
end

-- Maximum size (bytes) of the comment of a rejection, which its sender has cut.
local MAX_COMMENT = 1027

-- Returns the field that keeps the comment of a signal with its record, and the comment: where it rejects an approval node, the
-- failure has it. Empty for other waits.
function wait.comment(core_key, core, comment)
  if not core.wait or not is_set(comment) or #comment > MAX_COMMENT then return {} end
  return wait.of_node(core.wait_spec or record.value(core_key, 'wait_spec')).approval and { 'comment', comment } or {}
end

-- Fails an approval node that a decisive signal has rejected.
local function reject_node(c, execution_id, core_key, core, signal_id)
  local s = redis.call('HMGET', key.signal_record(c, signal_id), 'source_identity', 'comment')
  local reason = 'rejected by ' .. (s[1] or '') .. (is_set(s[2]) and ': ' .. s[2] or '')
  suspension_record.leave_indexes(c, execution_id, core)
  terminal.finish(c, execution_id, core_key, core, {
    outcome = 'failed', attempt_state = 'none', blank = { 'current_suspension_id', 'current_waitpoint_id' },
    values = { 'failure_reason', reason, 'failure_category', 'rejected' }, reason = reason, category = 'rejected',
  })
end

-- Returns the signal that has rejected an approval node, or nil.
local function rejection(c, core_key, k, o)
  if o.timed_out or is_set(o.result) or not wait.of_node(record.value(core_key, 'wait_spec')).approval then return nil end
  return condition.decisive_signal(o.state or condition.read(k.condition))
end

-- Adds the result of a step's wait to the journal, and returns the entry.
function wait.record(c, execution_id, core_key, step, k, o)
  local value, mark = value_of(c, k, o)
  journal.put(c, execution_id, core_key, 'await:' .. step, mark .. value)
  return mark .. value
end

-- Gives a suspended execution the result of its wait: a waitpoint node ends, a function finds it in its journal. Returns true
-- when the execution has ended. `k`: suspension and condition; `o` is the argument of value_of.
function wait.answer(c, execution_id, core_key, core, k, o)
  if core.wait then
    local rejected_by = rejection(c, core_key, k, o)
    if rejected_by then
      reject_node(c, execution_id, core_key, core, rejected_by)
    else
      end_node(c, execution_id, core_key, core, value_of(c, k, o))
    end
    return true
  end
  local step = redis.call('HGET', k.suspension, 'step')
  if step then wait.record(c, execution_id, core_key, step, k, o) end
  return false
end
