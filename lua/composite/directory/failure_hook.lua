-- Failure hooks, which workers call when a run fails: one of the workers with the same hook calls it. That worker holds the hook,
-- and stores its position in the feed of runs. The records are in the partition that programs name, by convention the first one.

-- Time (ms) for which the record of a hook is kept that no worker holds.
local KEPT_MS = 30 * 24 * 3600 * 1000

local MAX_CURSOR = 256 * 1024

-- @function ffx_hold_failure_hook
-- @summary  Lets a worker hold a hook for `hold_ms` unless another one holds it; 0 ends that. The holder may store its cursor.
--           `free_in_ms` is the time after which another worker may hold it, `stored_at` is when the cursor was stored.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      hook               text
-- @arg      holder             worker_instance_id
-- @arg      hold_ms            int
-- @arg      cursor             text optional
-- @reply    OK held:bool free_in_ms:int cursor:text stored_at:unix_ms
-- @error    invalid_input message:text
function F.ffx_hold_failure_hook(K, A)
  local hold, err = number.whole('hold_ms', A.hold_ms)
  if err then return err end
  local cursor = A.cursor or ''
  if #cursor > MAX_CURSOR then
    return reply.err('invalid_input', 'cursor must have at most ' .. MAX_CURSOR .. ' bytes, got: ' .. #cursor)
  end
  local c = call.open(K.partition)
  local hook_key = key.ffx_failure_hook(c, A.namespace, A.hook)
  local hook = record.read(hook_key, { 'holder', 'held_until', 'cursor', 'stored_at' }) or {}
  local held_until = tonumber(hook.held_until or nil) or 0
  if is_set(hook.holder) and hook.holder ~= A.holder and held_until > c.now then
    return reply.ok('0', number.text(held_until - c.now), '', '')
  end
  held_until = c.now + hold
  record.set(hook_key, 'holder', A.holder, 'held_until', number.text(held_until))
  if cursor ~= '' then
    hook.cursor, hook.stored_at = cursor, number.text(c.now)
    record.set(hook_key, 'cursor', cursor, 'stored_at', hook.stored_at)
  end
  redis.call('PEXPIRE', hook_key, number.text(KEPT_MS))
  return reply.ok(hold > 0 and '1' or '0', number.text(hold), hook.cursor or '', hook.stored_at or '')
end
