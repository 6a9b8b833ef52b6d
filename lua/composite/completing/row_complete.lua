-- Completing a node in the usual case, in few steps: its first attempt has done nothing but run, and what follows from its success
-- is that other nodes of its run may start. Everything else goes the long way, with the same effect.

-- Whether all edges that lead on from a node are satisfied by its success.
local function leads_on_plainly(node)
  local plain = node.leads_on_plainly
  if plain == nil then
    plain = true
    for i = 1, graph_store.edge_count(node.downs) do
      local _, kind = graph_store.edge(node.downs, i)
      plain = plain and kind ~= 'on_failure'
    end
    node.leads_on_plainly = plain
  end
  return plain
end

-- Whether a completion comes from the holder of the lease of a first attempt that stands.
local function is_held(c, r, completion)
  return r.phase == 2 and r.owner == 2 and r.expires > c.now and r.lease == completion.lease_id and r.flags == row.LEASED
    and r.epoch == 1 and completion.lease_epoch == '1' and row_record.attempt_of(r.lease) == completion.attempt_id
end

-- Whether a node that waits for nothing any more can be leased or entered into its lane by its row alone.
local function is_fresh(r, node)
  return r.flags == 0 and r.attempt == 2 and r.total == 0 and node.plain
end

-- A node that may run now is leased with the others that the call makes ready, or enters its lane.
local function release(c, flow, r, execution_id)
  local node, next_up = graph_store.of_row(r), c.next_up
  if not is_fresh(r, node) then
    local core_key = key.exec_core(c, execution_id)
    dependency.release(c, execution_id, { managed = true, child_id = execution_id, core = core_key, next_up = next_up },
      record.read(core_key, dependency.HANDOFF_FIELDS))
  elseif not (next_up and row_lease.add(c, next_up, execution_id, r, node, flow)) then
    requeue.ready_fresh(c, execution_id, claim.of_row(r))
  end
end

-- Takes the edges that lead on from a node off the open ones of the nodes behind them.
local function resolve_edges(c, flow, run, node, result)
  local downs, next_up = node.downs, c.next_up
  for i = 1, graph_store.edge_count(downs) do
    local ordinal, _, carries = graph_store.edge(downs, i)
    local child = row.at(run, ordinal)
    local execution_id = row.execution_id(run, ordinal)
    if carries and next_up then
      local fed = call.list_in(next_up.fed, execution_id)
      fed[#fed + 1] = { node.name, result }
    end
    child.open = child.open - 1
    row.touch(child)
    if child.open == 0 and child.phase == 1 and child.elig == 3 and child.owner == 1 and child.outcome == 1 then
      release(c, flow, child, execution_id)
    end
  end
end

-- Commits a completion if it is of the usual kind. Reports whether it did.
function row_complete.commit(c, completion)
  local execution_id = completion.execution_id
  local r = row.of(c, execution_id)
  if not r or not is_held(c, r, completion) then return false end
  local run, node = r.run, graph_store.of_row(r)
  local flow = flow_record.read(c, run.id)
  local count = graph_store.edge_count(node.downs)
  c.budget = c.budget or call.WORK_BUDGET
  if flow.joins or flow.public_flow_state ~= 'open' or run.flags % row.PLAIN ~= 0 or count > c.budget or not leads_on_plainly(node)
    or call.in_doubt(c) then
    return false
  end
  c.budget = c.budget - count
  local result = completion.result
  call.list_in(c, 'completed')[execution_id] = result
  if result ~= '' then redis.call('HSET', key.flow_results(c, run.id), r.ordinal, result) end
  call.leave(c, 'ZREM', key.index_lease_expiry(c), execution_id)
  if node.attempt_timeout then call.leave(c, 'ZREM', key.index_attempt_timeout(c), execution_id) end
  event_log.add(c, run.id, 'success', node.name, number.text(r.index))
  row_steps.succeed(c, r)
  r.told = count
  run.open = run.open - 1
  row.touch_run(run)
  resolve_edges(c, flow, run, node, result)
  if run.open == 0 then graph.close(c, run.id, key.flow_core(c, run.id)) end
  return true
end
