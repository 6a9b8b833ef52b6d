-- Releases executions that were set aside, when a worker starts that can run them.

-- @function ffx_announce
-- @summary  Releases executions that were set aside because no worker knew their activity or offered their capabilities, if the
--           calling worker does. Checks a bounded number per call; continue with next_cursor until it is empty.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      lane_id            lane_id
-- @arg      kinds              text
-- @arg      capabilities       csv optional
-- @arg      cursor             text optional
-- @reply    OK released:int next_cursor:text
-- @error    invalid_capabilities reason:text
function F.ffx_announce(K, A)
  local offered, err = capability.parse(A.capabilities, 'worker')
  if err then return err end
  local c = call.open(K.partition)
  local request = { kinds = A.kinds or '', offered = offered }
  local blocked_key = key.lane_blocked_route(c, A.lane_id)
  local page = redis.call('ZSCAN', blocked_key, is_set(A.cursor) and A.cursor or '0', 'COUNT', 200)
  local released = 0
  for i = 1, #page[2], 2 do
    local execution_id = page[2][i]
    local core_key = key.exec_core(c, execution_id)
    local core = record.read(core_key, claim.FIELDS)
    if not core or core.eligibility_state ~= 'blocked_by_route' then
      redis.call('ZREM', blocked_key, execution_id)
    elseif not claim_request.unfit(request, core) then
      redis.call('ZREM', blocked_key, execution_id)
      record.write(core_key, core.managed, {
        'eligibility_state', 'eligible_now',
        'blocking_reason', 'waiting_for_worker',
        'public_state', 'waiting',
        'last_transition_at', c.now_text,
        'last_mutation_at', c.now_text,
      }, { 'blocking_detail' })
      requeue.make_eligible(c, execution_id, core)
      released = released + 1
    end
  end
  wake.flush(c)
  return reply.ok(number.text(released), page[1] == '0' and '' or page[1])
end
