-- Runs that begin with results of another run: some of their nodes have succeeded from the beginning.

-- Maximum number of a run's nodes that one call may end.
local MAX_KEPT = 256

-- Checks the nodes that the runs of a call keep. Returns nil, or the error reply.
function fork.check(A, nodes)
  local skips = A.skips or {}
  if #A.kept + #skips > MAX_KEPT then
    return reply.err('invalid_input', 'at most ' .. MAX_KEPT .. ' nodes are kept in one call, got: ' .. #A.kept + #skips)
  end
  local seen = {}
  for _, list in ipairs({ A.kept, skips }) do
    for _, entry in ipairs(list) do
      local ordinal = number.finite(entry.node)
      if not ordinal or ordinal % 1 ~= 0 or ordinal < 1 or ordinal > nodes or seen[ordinal] then
        return reply.err('invalid_input', 'a kept node must be named by its ordinal, once, got: ' .. tostring(entry.node))
      end
      seen[ordinal] = true
    end
  end
  return nil
end

-- Fields of a waitpoint node that was opened with its run.
local WAIT_FIELDS = { 'current_suspension_id', 'current_waitpoint_id' }

local LEFT = { attempt_state = 'ended_success', stream_reason = 'kept', close_reason = 'kept', released = 'kept' }

-- Ends an unchanged node according to the entry: with a result, or skipped for a reason.
local function finish(c, run, entry)
  local execution_id = row.execution_id(run, entry.ordinal)
  local core_key = key.exec_core(c, execution_id)
  local s, at = store.of(core_key)
  local core = s.fresh(at)
  if core then
    if core.eligibility_state == 'eligible_now' then order.leave(c, core.lane_id, execution_id, core) end
    if core.start_timeout then redis.call('ZREM', key.ffx_start_deadlines(c), execution_id) end
  else
    core = record.read(core_key, terminal.END_FIELDS)
    terminal.leave_phase(c, execution_id, core, LEFT)
  end
  if entry.result then
    call.list_in(c, 'completed')[execution_id] = results.write(c, execution_id, entry.result)
  end
  terminal.finish(c, execution_id, core_key, core, {
    outcome = entry.result and 'success' or 'skipped', attempt_state = terminal.ended_attempt_state(core), blank = WAIT_FIELDS,
    silent = true, reason = entry.reason, values = entry.reason and { 'failure_reason', entry.reason },
  })
end

-- Ends the nodes of a new run that it keeps. A node is ended before its upstreams, so that none of them starts.
function fork.keep(c, flow_id, kept, skips)
  local run = row.run(c, flow_id)
  local ordered = {}
  for i, entry in ipairs(kept) do ordered[i] = { ordinal = tonumber(entry.node), result = entry.result or '' } end
  for _, entry in ipairs(skips) do ordered[#ordered + 1] = { ordinal = tonumber(entry.node), reason = entry.reason or '' } end
  table.sort(ordered, function(a, b) return a.ordinal > b.ordinal end)
  for _, entry in ipairs(ordered) do finish(c, run, entry) end
  -- The effects of each come in the original order: a condition skips its other branches before a join of the branches is
  -- satisfied and cancels the rest.
  local ended = c.queue or {}
  for i = #ended, 1, -1 do
    c.queue = { ended[i] }
    propagate.run(c)
  end
end
