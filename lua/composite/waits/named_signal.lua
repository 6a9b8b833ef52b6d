-- Signals to waits by their names: the node, and the step of a function. They need no token, and may come before the wait has begun.

-- Core fields of an execution that is signalled.
local FIELDS = {
  'lifecycle_phase', 'terminal_outcome', 'current_attempt_index', 'current_waitpoint_id', 'flow_id', 'node', 'wait', 'journal',
  'generation',
}

-- Returns the outcome of a signal that came too late, or to a wait that never existed.
local function closed(s) return { 'closed', s.signal_id, '', '0' } end

local function is_open(c, waitpoint_id)
  local state = redis.call('HGET', key.waitpoint_record(c, waitpoint_id), 'state')
  return state == 'pending' or state == 'active'
end

-- Opens the waitpoint of a wait that has not begun. Returns nil, or the error reply.
local function open_ahead(c, s, core, waitpoint_id, waitpoint_key)
  local minted, code = waitpoint_token.mint(key.waitpoint_secrets(c), waitpoint_id, waitpoint_key, c.now_text)
  if not minted then return reply.err(code) end
  waitpoint.write_pending(c, waitpoint_id, waitpoint_key, minted, nil, {
    execution_id = s.execution_id, attempt_index = core.current_attempt_index or '', step = is_set(s.step) and s.step or nil,
  })
  return nil
end

-- Returns the waitpoint of a waitpoint node: the last one, unless the node waits again. Returns nil without one, or with the
-- error reply.
local function of_node(c, s, core)
  if is_set(s.step) then
    return nil, reply.err('invalid_input', 'node ' .. core.node .. ' is a waitpoint, and has no wait "' .. s.step .. '"')
  end
  if wait.of_node(core.wait_spec or record.value(key.exec_core(c, s.execution_id), 'wait_spec')).sleeps then
    return nil, reply.err('invalid_input', 'node ' .. core.node .. ' is a timer, and takes no signals')
  end
  if core.row then return core.current_waitpoint_id end
  local times = redis.call('SCARD', key.exec_waitpoints(c, s.execution_id))
  local last = times > 0 and wait.waitpoint_of(core, times - 1) or nil
  if core.lifecycle_phase == 'terminal' or last and is_open(c, last) then return last end
  local waitpoint_id, waitpoint_key = wait.waitpoint_of(core, times)
  local err = open_ahead(c, s, core, waitpoint_id, waitpoint_key)
  if err then return nil, err end
  return waitpoint_id
end

-- Returns the waitpoint of a function's wait.
local function of_step(c, s, core)
  if not is_set(s.step) then
    return nil, reply.err('invalid_input', 'node ' .. core.node .. ' is no waitpoint: the wait of its function has to be named')
  end
  local err = journal.check_step(s.step)
  if err then return nil, err end
  local entry = 'open:' .. s.step
  local latest = record.read(key.exec_suspension(c, s.execution_id), { 'step', 'waitpoint_id' }) or {}
  local last = latest.step == s.step and latest.waitpoint_id or journal.get(c, s.execution_id, core, entry)
  if last and is_open(c, last) or journal.get(c, s.execution_id, core, 'await:' .. s.step) then return last end
  if core.lifecycle_phase == 'terminal' then return last end
  err = not journal.get(c, s.execution_id, core, entry) and journal.check_room(c, s.execution_id, core, 0, true)
  if err then return nil, err end
  local waitpoint_id = wait.uuid(s.signal_id .. ':' .. s.step)
  err = open_ahead(c, s, core, waitpoint_id, 'wpk:' .. waitpoint_id)
  if err then return nil, err end
  journal.put(c, s.execution_id, key.exec_core(c, s.execution_id), entry, waitpoint_id)
  return waitpoint_id
end

-- Delivers a signal whose arguments were checked to the wait of a node of a run. Returns the result of wait_control.take.
function named_signal.send(c, flow_id, s)
  local run = row.run(c, flow_id)
  if not run then return nil, reply.err('flow_not_found') end
  local ordinal = graph_store.ordinal(run, s.node)
  if not ordinal then return nil, reply.err('execution_not_found') end
  s.execution_id = row.execution_id(run, ordinal)
  if string.sub(graph_store.node(graph_store.of_run(run), ordinal).kind or '', 1, 1) == ':' then
    return nil, reply.err('invalid_input', 'node ' .. s.node .. ' starts runs of its own, and waits for no signals')
  end
  local core = row_steps.waiting(row.at(run, ordinal)) or record.read(key.exec_core(c, s.execution_id), FIELDS)
  local before = core.generation and is_set(s.step) and past.signal(c, s.execution_id, s.step, s)
  if before then return before end
  local err
  s.target_scope = 'step'
  s.waitpoint_id, err = (core.wait and of_node or of_step)(c, s, core)
  if err then return nil, err end
  if not s.waitpoint_id then return closed(s) end
  if not is_set(s.signal_category) then s.signal_category = nil end -- the default of signals
  return wait_control.take(c, s, core.row and core)
end

-- @function ffx_signal_node
-- @summary  Sends a signal to the wait of a node of a run: a waitpoint node, or the step of a function. Where the wait has not
--           begun, its waitpoint is opened ahead and keeps the signal. Outcomes are the same as in ffx_signal, for the latest
--           wait of that name; also closed, when the node has ended without one. Needs no token.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      node               text
-- @arg      step               text optional
-- @include  outgoing_signal
-- @reply    OK outcome:text signal_id:signal_id first_outcome:text matched:bool answer_schema:text? uncounted:text? counting:list(text)?
-- @error    flow_not_found
-- @error    flow_purging
-- @error    execution_not_found
-- @error    journal_full message:text
-- @error    signal_limit_exceeded limit:int
-- @error    signal_too_large bytes:int limit:int
-- @error    invalid_input message:text
-- @error    set:signing
function F.ffx_signal_node(K, A)
  local err = wait_control.check_signal(A)
  if err then return err end
  local c = call.open(K.partition)
  local run = row.run(c, A.flow_id)
  if run and row.is_purging(run) then return reply.err('flow_purging') end
  local answer
  answer, err = named_signal.send(c, A.flow_id, A)
  if err then return err end
  settle.run(c)
  return reply.ok(unpack(answer))
end
