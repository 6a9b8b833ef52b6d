-- Counts the success of a node at joins after it, as join.resolve does. Only the waiting row of a join, the states of its edges and
-- the counts of its group change.

-- Returns the policy of a join.
local function policy_of(node)
  local policy = node.join_policy
  if not policy then
    policy = join_spec.parse(node.name, node.join, node.open)
    node.join_policy = policy
  end
  return policy
end

local function group_key(run, stem, node) return key.flow_edgegroup(run, run.id, stem .. node.suffix) end

-- Reports whether one more success satisfies a join with `open` open edges; nil when the general functions decide that.
local function is_satisfied(run, stem, node, open)
  local policy = policy_of(node)
  if policy.variant == 'finally' or policy.variant == 'any_failure' then return open == 1 end
  local satisfied = policy.variant == 'any_of'
  if not satisfied then
    satisfied = (tonumber(redis.call('HGET', group_key(run, stem, node), 'succeeded') or nil) or 0) + 1 >= policy.k
    if open == 1 and not satisfied then return nil end
  end
  if satisfied and policy.on_satisfied == 'cancel_remaining' then return nil end
  return satisfied
end

-- Returns how many edges to a join are open, 1 when one more success satisfies it, and 0 when it is satisfied already. `open`: how
-- many are, nil for a join that no longer waits. Returns nil when the general functions have to resolve the edge.
function usual_join.open_to(run, stem, successors, node, open)
  if not open then return redis.call('HGET', group_key(run, stem, node), 'group_state') == 'satisfied' and 0 or nil end
  if open < 1 then return nil end
  local satisfied = is_satisfied(run, stem, node, open)
  if not satisfied then return satisfied == false and open or nil end
  return node.may_take and not node.delay and successors.count == 1 and 1 or nil
end

-- Returns how many bytes of its run come before the number of a join's open edges.
local function open_place(node)
  node.open_place = number.text(node.place + node_row.OPEN_AT - 1)
  return node.open_place
end

-- Counts the success of an upstream at the joins among its successors. `open`: the results of usual_join.open_to. The row of a
-- join that it satisfies is left to the caller.
function usual_join.count_all(c, run, stem, upstream, successors, open)
  for i = 1, successors.count do
    local node = successors[i]
    if node.join then
      local target = group_key(run, stem, node)
      row_joins.note_success(run, stem, node, upstream, open[i] == 0)
      redis.call('HINCRBY', target, 'succeeded', 1)
      if open[i] == 1 then
        redis.call('HSET', target, 'group_state', 'satisfied', 'satisfied_at', c.now_text)
      elseif open[i] > 1 then
        redis.call('SETRANGE', run.key, node.open_place or open_place(node), struct.pack(node_row.OPEN_FORMAT, open[i] - 1))
      end
    end
  end
end

-- Performs the consequences of a satisfied join, once its row and the row of the upstream are written. That may load the run; it is
-- written at once, so that the call may lease the join in the usual path, unless the general functions work on other runs.
function usual_join.follow(x, c, run, stem, node)
  local policy = policy_of(node)
  if policy.variant ~= 'finally' then return end
  finally.begin(c, run.id, policy)
  run_rows.forget(stem)
  if x.is_mixed then return end
  row.flush()
  row.forget()
end
