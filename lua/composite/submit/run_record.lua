-- The data of a submitted run itself, in addition to its rows.

local append, gather = record.append, batch_writes.gather

-- Returns the fields `budgets` and `budget_ids` of a run; nil without budgets.
function run_record.budgets(run, g)
  if run.budgets then return '1', run.budgets.blocking end
  if g.head.budgets then return budget_gate.OF_GRAPH, g.head.blocking end
end

-- Returns the fields of a run that have no other place than the hash of a flow's record, with their values; nil for most runs,
-- which have none.
function run_record.further(run, g, n)
  if not (n.start_at or n.fire or run.fields or run.budgets) then return nil end
  local values, fields = {}, run.fields
  if n.start_at then append(values, 'start_at', number.text(n.start_at)) end
  for i = 1, fields and #fields or 0, 2 do append(values, fields[i], fields[i + 1]) end
  if run.budgets then
    append(values, 'budgets', '1')
    values[#values + 1] = 'budget_ids'
    values[#values + 1] = run.budgets.blocking
  end
  if n.fire then schedule.append_fire(values, n.fire) end
  return values[1] and values or nil
end

-- Returns the class that a client has sent for new runs; nil and the error reply for an invalid one.
function run_record.class_of(text)
  local class, err = run_class.given(text)
  if err or class.is_valid then return class, err end
  err = purge.check_retention(class.retention)
  if not err and class.priority then
    local _
    _, err = number.priority('priority', class.priority)
  end
  if err then return nil, err end
  class.is_valid = true
  return class
end

-- Writes the tags of a run, a flat list, and gathers its entries in the sets of runs for them: most runs of a batch have the same tags
-- as the previous one.
function run_record.enter_tags(c, batch, flow_id, tags)
  if batch.tags ~= tags then batch.tags, batch.sets = tags, run_list.of_tags(c, tags) end
  if #tags > 0 then call.chunked('HSET', key.flow_tags(c, flow_id), tags) end
  for i = 1, #batch.sets do gather(batch, 'ZADD', batch.sets[i], c.now_text, flow_id) end
end

-- Enters a run that is to be created into the lists, and stores its data in addition to its rows.
function run_record.enter(c, batch, run, g, n)
  local flow_id = run.flow_id
  if run.budgets then batch_writes.text(batch, key.flow_budgets(c, flow_id), run.budgets.text) end
  if g.head.nodes > 1 then batch_writes.text(batch, key.flow_data(c, flow_id), run.data) end
  if is_set(run.input) and not run.has_input and not stored_value.is_kept(run.input) then batch_writes.text(batch, key.flow_input(c, flow_id), run.input) end
  run_record.enter_tags(c, batch, flow_id, run.tags or n.tags)
  if n.deadline_at then
    gather(batch, 'ZADD', key.ffx_flow_deadlines(c), n.deadline_at, flow_id)
    wake.due(c, n.deadline_at)
  end
end

-- Records the start of a run that has rows.
function run_record.created(c, run, n)
  local class = n.class
  run_counts.started(c, class.flow_kind, class.namespace, run.parent)
  run_feed.started(c, run.flow_id, class, run)
  if run.parent then child_run.submitted(c, run.flow_id) end
  if n.fire then schedule.note_fire(c, n.fire) end
end
