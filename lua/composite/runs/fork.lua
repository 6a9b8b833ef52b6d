-- Runs that begin with results of another run: some of their nodes have succeeded from the beginning on.

-- Nodes of a run that one call may end.
local MAX_KEPT = 256

-- Checks the nodes that the runs of a call keep: nil, or the error reply.
function fork.check(A, nodes)
  if #A.kept > MAX_KEPT then
    return reply.err('invalid_input', 'at most ' .. MAX_KEPT .. ' nodes are kept in one call, got: ' .. #A.kept)
  end
  local seen = {}
  for _, entry in ipairs(A.kept) do
    local ordinal = number.finite(entry.node)
    if not ordinal or ordinal % 1 ~= 0 or ordinal < 1 or ordinal > nodes or seen[ordinal] then
      return reply.err('invalid_input', 'a kept node must be named by its ordinal, once, got: ' .. tostring(entry.node))
    end
    seen[ordinal] = true
  end
  return nil
end

-- What a waitpoint node has that was opened with its run.
local WAIT_FIELDS = { 'current_suspension_id', 'current_waitpoint_id' }

local LEFT = { attempt_state = 'ended_success', stream_reason = 'kept', close_reason = 'kept', released = 'kept' }

-- Ends a node that nothing has happened to, with a result.
local function succeed(c, run, ordinal, result)
  local execution_id = row.execution_id(run, ordinal)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, terminal.END_FIELDS)
  terminal.leave_phase(c, execution_id, core, LEFT)
  call.list_in(c, 'completed')[execution_id] = result
  results.write(c, execution_id, result)
  terminal.finish(c, execution_id, core_key, core, {
    outcome = 'success', attempt_state = terminal.ended_attempt_state(core), blank = WAIT_FIELDS, silent = true,
  })
end

-- Ends the nodes of a new run that it keeps. A node comes before those that it depends on, so that none of them is let go.
function fork.keep(c, flow_id, kept)
  local run = row.run(c, flow_id)
  local ordered = {}
  for i, entry in ipairs(kept) do ordered[i] = { tonumber(entry.node), entry.result or '' } end
  table.sort(ordered, function(a, b) return a[1] > b[1] end)
  for _, entry in ipairs(ordered) do succeed(c, run, entry[1], entry[2]) end
end
