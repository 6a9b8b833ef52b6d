-- Runs that start later: their roots are delayed until then, and nodes with their own delay count it from then on.

-- Returns the time of the start of a run, as a number; nil for a run that started with its submission.
function run_start.at(flow) return number.finite(flow.start_at) end

-- Delays a root of a run until its start, or makes it eligible if that is not later. `delay` is the node's own delay (ms), or
-- nil.
function run_start.hold(c, run, ordinal, at, delay)
  local execution_id = row.execution_id(run, ordinal)
  at = at + (tonumber(delay) or 0)
  if at > c.now then
    row_steps.delay(c, row.at(run, ordinal), execution_id, at)
    return
  end
  local core_key = key.exec_core(c, execution_id)
  dependency.ready(c, execution_id, core_key, record.read(core_key, dependency.CHILD_FIELDS))
end

-- Maximum number of roots that one call moves.
local ROOTS_PER_CALL = 256

-- Gives an unchanged root its new time.
local function move(c, run, g, ordinal, at)
  local r = row.at(run, ordinal)
  local execution_id = row.execution_id(run, ordinal)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, dependency.CHILD_FIELDS)
  if r.total > 0 or core.eligibility_state ~= 'not_eligible_until_time' then return end
  redis.call('ZREM', key.lane_delayed(c, record.lane(core)), execution_id)
  run_start.hold(c, run, ordinal, at, graph_store.node(g, ordinal).delay or 0)
end

-- Moves the time of the start, and the deadline with it.
local function write(c, flow_id, flow, at)
  local flow_key = key.flow_core(c, flow_id)
  record.set(flow_key, 'start_at', number.text(at))
  local deadline = number.finite(flow.deadline_at)
  if not deadline then return end
  deadline = deadline - run_start.at(flow) + at
  record.set(flow_key, 'deadline_at', number.text(deadline))
  redis.call('ZADD', key.ffx_flow_deadlines(c), deadline, flow_id)
  wake.due(c, deadline)
end

-- Moves all roots of a run that has not started, which are not many. `flow` has its start_at and deadline_at.
function run_start.move_all(c, run, flow, at)
  write(c, run.id, flow, at)
  run.start_at = at
  local g = graph_store.of_run(run)
  for _, ordinal in ipairs(graph_store.roots(g)) do move(c, run, g, ordinal, at) end
end

-- @function ffx_move_start
-- @summary  Moves the start of a run that has not started to another time; a past or missing time is now. Its deadline moves with
--           it. One call moves a bounded number of roots, from the place `from` on; `next` is where another call continues, with
--           the same time.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      start_at           unix_ms optional
-- @arg      from               int
-- @reply    OK start_at:unix_ms next:int
-- @error    flow_not_found
-- @error    flow_already_terminal
-- @error    run_started
-- @error    run_queued
-- @error    invalid_input message:text
function F.ffx_move_start(K, A)
  local start_at, err = number.optional('start_at', A.start_at, nil)
  if err then return err end
  local from
  from, err = number.whole('from', A.from)
  if err then return err end
  local c = call.open(K.partition)
  local run = row.run(c, A.flow_id)
  local flow = run and record.read(key.flow_core(c, A.flow_id), { 'start_at', 'deadline_at', 'public_flow_state', 'queued' })
  if not flow then return reply.err('flow_not_found') end
  if flow.public_flow_state ~= 'open' then return reply.err('flow_already_terminal') end
  if flow.queued then return reply.err('run_queued') end
  local at = math.max(start_at or 0, c.now)
  if from == 0 then
    local before = run_start.at(flow)
    if not before or before <= c.now then return reply.err('run_started') end
    write(c, A.flow_id, flow, at)
  else
    at = run_start.at(flow) or at
  end
  run.start_at = at
  local g = graph_store.of_run(run)
  local roots = graph_store.roots(g)
  local to = math.min(#roots, from + ROOTS_PER_CALL)
  for place = from + 1, to do move(c, run, g, roots[place], at) end
  settle.run(c)
  return reply.ok(number.text(at), number.text(to < #roots and to or 0))
end
