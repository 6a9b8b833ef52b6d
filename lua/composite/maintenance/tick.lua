-- The calls by which a keeper performs the due work of one partition.

-- Returns the earliest score of an index, or nil; also nil for a key of another type.
local function head(index_key)
  local first = redis.pcall('ZRANGE', index_key, 0, 0, 'WITHSCORES')
  return tonumber(first[2] or nil)
end

-- Returns the keys of some tasks: the indexes by due time, and all.
local function keys_of(c, some, lanes)
  local clocks, all = {}, {}
  for _, task in ipairs(some) do
    for _, name in ipairs(task.clocks and task.clocks(c, lanes) or {}) do
      clocks[#clocks + 1] = name
      all[#all + 1] = name
    end
    for _, name in ipairs(task.signs and task.signs(c) or {}) do all[#all + 1] = name end
  end
  return clocks, all
end

-- Performs some tasks, at most about `limit` items in all. Most partitions have nothing to do most of the time, which takes one
-- command to find out. Returns the number of items by task, and the time (ms) at which something is due next, or nil.
local function see_to(c, some, limit, lanes)
  local clocks, all = keys_of(c, some, lanes)
  if #all == 0 or redis.call('EXISTS', unpack(all)) == 0 then return {}, nil end
  local left, done = limit, {}
  for _, task in ipairs(some) do
    c.lag = 0
    local _, count = call.guarded(c, task.name, '', function() return task.work(c, left, lanes) end)
    count = count or 0
    if count > 0 then done[#done + 1] = { task.name, number.text(count), number.text(c.lag) } end
    if not task.free then left = left - count end
  end
  if left <= 0 then c.more = true end
  settle.run(c)
  if c.more then return done, c.now end
  local at
  for _, index_key in ipairs(clocks) do
    local score = head(index_key)
    if score and (not at or score < at) then at = score end
  end
  return done, at
end

local MAX_LIMIT = 256

local function limit_of(A)
  local limit, err = number.whole('limit', A.limit)
  if err then return nil, err end
  return math.max(1, math.min(limit, MAX_LIMIT))
end

local function time_text(at) return at and number.text(math.max(at, 0)) or '' end

-- @function ffx_tick
-- @summary  Performs the due work of one partition, at most about `limit` items, and returns when something is due next. Safe to
--           call from any number of keepers.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      limit              int
-- @args     lanes              lane_id
-- @reply    OK now:unix_ms next_due_at:unix_ms more:bool promoted:int leases_expired:int attempts_timed_out:int deadlines_expired:int cancelled:int propagated:int suspensions_expired:int waitpoints_closed:int purged:int? candidates:list(candidate)?
-- @error    invalid_input message:text
function F.ffx_tick(K, A)
  local limit, err = limit_of(A)
  if err then return err end
  local c = call.open_guarded(K.partition)
  local done, at = see_to(c, timers.list(), limit, timers.lanes(c, A.lanes))
  wake.visited(c, at)
  local counts = {}
  for _, entry in ipairs(done) do counts[entry[1]] = tonumber(entry[2]) end
  local function sum(...)
    local total = 0
    for _, name in ipairs({ ... }) do total = total + (counts[name] or 0) end
    return number.text(total)
  end
  return reply.ok(c.now_text, time_text(at), c.more and '1' or '0', sum('delayed_promotion', 'pause_recheck'),
    sum('lease_expiry'), sum('attempt_timeout'), sum('execution_deadline', 'start_deadline', 'flow_deadline'),
    sum('cancel_backlog', 'sibling_cancel_dispatch'), sum('propagation'), sum('suspension_timeout'),
    sum('pending_waitpoint_expiry'), sum('retention'), c.candidates or {})
end

-- Returns the dispositions of siblings that a join did not need: cancelled, already_terminal, not_found, or needed elsewhere.
local function disposed(c)
  local list = {}
  for _, disposition in ipairs({ 'cancelled', 'already_terminal', 'not_found', 'needed' }) do
    local count = c.siblings[disposition]
    if count then list[#list + 1] = { disposition, number.text(count) } end
  end
  return list
end

-- Returns the cancels of such siblings, by the reason of the join.
local function dispatched(c)
  local list = {}
  for reason, count in pairs(c.dispatched) do list[#list + 1] = { reason, number.text(count) } end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

-- @record task_done task:text done:int lag:ms
-- @record sibling_count disposition:text count:int
-- @record sibling_dispatch reason:text count:int
-- @record item_fault task:text item:text error:text

-- @function ffx_keep
-- @summary  Performs the due work of one partition, as ffx_tick does, and returns for each task the number of items and the
--           lateness of the first. The caller gets the due schedules that no other keeper has received lately; the same applies
--           to bulk jobs. The caller delivers the relay entries, and acknowledges them with ffx_end_errand. A named task is the
--           only one that is performed; `next_due_at` then belongs to this task. `unchecked` is 0 when ffx_reconcile has checked
--           the records since the server started, 1 while it does, and else 2. `siblings` counts the upstreams that decided joins
--           did not need, by disposition. With a sibling namespace or tag, siblings of other programs' flows are left alone
--           unless the join's execution has it. With `quiet`, waiting entries are not checked again just in case a part of a call
--           was lost. `now_micros` are the microseconds beyond `now`, by which a keeper sets its clock. With `takes_over`, the
--           schedules and bulk jobs that other keepers than `keeper` have received, or have taken, are due again. `faults` are
--           the items that could not be worked on: they are deferred, and do not delay others. `dispatched` counts the cancels of
--           siblings by the reason of the join.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      limit              int
-- @arg      task               text optional
-- @arg      sibling_namespace  text optional
-- @arg      sibling_tag        text optional
-- @arg      sibling_tag_value  text optional
-- @arg      quiet              bool optional
-- @arg      keeper             text optional
-- @arg      takes_over         bool optional
-- @args     lanes              lane_id
-- @reply    OK now:unix_ms next_due_at:unix_ms more:bool done:list(task_done) candidates:list(candidate) schedules:list(schedule_id)? relay_entries:list(relay_entry)? unchecked:int? siblings:list(sibling_count)? bulk_jobs:list(bulk_job_id)? now_micros:int? faults:list(item_fault)? dispatched:list(sibling_dispatch)?
-- @error    invalid_input message:text
function F.ffx_keep(K, A)
  local limit, err = limit_of(A)
  if err then return err end
  local some = timers.list()
  if is_set(A.task) then
    local named
    for _, task in ipairs(some) do
      if task.name == A.task then named = task end
    end
    if not named then return reply.err('invalid_input', 'task is unknown: ' .. A.task) end
    some = { named }
  end
  local c = call.open_guarded(K.partition)
  c.schedules, c.bulk_jobs, c.relay_entries, c.carries, c.siblings, c.dispatched = {}, {}, {}, true, {}, {}
  c.quiet = A.quiet == '1'
  if is_set(A.sibling_namespace) or is_set(A.sibling_tag) then
    c.sibling_filter = { namespace = A.sibling_namespace, tag = A.sibling_tag, value = A.sibling_tag_value or '' }
  end
  c.keeper = A.keeper
  if A.takes_over == '1' then
    call.guarded(c, 'schedule', key.ffx_schedules_taken(c), function() schedule.take_over(c, A.keeper) end)
    call.guarded(c, 'bulk_job', key.ffx_bulk_jobs_due(c), function() bulk_job.take_over(c, A.keeper) end)
  end
  local done, at = see_to(c, some, limit, timers.lanes(c, A.lanes))
  call.guarded(c, 'index_reconciliation', key.ffx_lane_counts(c), function() lane_counts.write_all(c) end)
  if not is_set(A.task) then wake.visited(c, at) end
  return reply.ok(c.now_text, time_text(at), c.more and '1' or '0', done, c.candidates or {}, c.schedules,
    c.relay_entries, number.text(recovery.state(c)), disposed(c), c.bulk_jobs, number.text(call.micros()), c.faults, dispatched(c))
end

-- @function ffx_end_leases
-- @summary  Ends every lease of a partition at once, for a caller that knows that no earlier worker lives. Checks a bounded
--           number per call; continue while `more`.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @reply    OK ended:int more:bool
function F.ffx_end_leases(K, A)
  local c = call.open_guarded(K.partition)
  local expiry_key = key.index_lease_expiry(c)
  local ended, seen = 0, redis.call('ZRANGE', expiry_key, 0, MAX_LIMIT - 1)
  local function end_lease(execution_id)
    local core_key = key.exec_core(c, execution_id)
    local core = record.read(core_key, fence.FIELDS)
    if core and core.lifecycle_phase == 'active' and core.ownership_state == 'leased' then
      core.execution_id = core.execution_id or execution_id
      lease.mark_expired(c, core_key, core)
      lease.offer_reclaim(c, execution_id, core)
      ended = ended + 1
    end
  end
  for _, execution_id in ipairs(seen) do
    call.guarded(c, 'lease_expiry', execution_id, end_lease) -- one that raises an error is left to the keeper
    redis.call('ZADD', expiry_key, c.now + number.MAX_LEASE_MS, execution_id)
  end
  local rest = redis.call('ZRANGE', expiry_key, '-inf', c.now + number.MAX_LEASE_MS - 1, 'BYSCORE', 'LIMIT', 0, 1)
  return reply.ok(number.text(ended), #rest > 0 and '1' or '0')
end
