-- Closes sibling cancels of joins that have nothing left to cancel.

-- @function ffx_reconcile_siblings
-- @summary  Checks the groups of a partition that owe cancels to siblings: removes siblings that have ended or that something
--           else needs, closes groups that owe nothing, and removes entries without a meaning. `owing` counts groups whose
--           siblings still run: the dispatchers cancel these. Checks about `limit` records per call: continue with next_cursor
--           until it is empty.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      limit              int
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text checked:int closed:int stale:int owing:int faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_reconcile_siblings(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local c = call.open_guarded(K.partition)
  local pending_key = key.index_pending_cancel_groups(c)
  local work, counts = scan.begin(limit), { completed_drain = 0, sremmed_stale = 0, no_op = 0 }
  local cursor = scan.set(c, 'sibling_cancel_reconciliation', work, pending_key, A.cursor or '', function(tuple)
    local flow_id, child_id = string.match(tuple, '^([^|]+)|(.+)$')
    local action = 'sremmed_stale'
    c.budget = call.WORK_BUDGET
    if flow_id then
      action = sibling_cancel.reconcile(c, key.flow_edgegroup(c, flow_id, child_id), pending_key, flow_id, child_id)
    else
      redis.call('SREM', pending_key, tuple)
    end
    counts[action] = counts[action] + 1
    work.checked = work.checked + call.WORK_BUDGET - c.budget
    return nil, action ~= 'no_op'
  end)
  return reply.ok(cursor, number.text(work.checked), number.text(counts.completed_drain), number.text(counts.sremmed_stale),
    number.text(counts.no_op), c.faults)
end
