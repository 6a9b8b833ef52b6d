-- Schedules. A client that has read the present version of a schedule's record writes the whole record. The client has the rules
-- of time; the library makes every step happen once.

-- Time (ms) for which a due schedule belongs to the keeper that received it; then another one may have it, or as soon as that
-- takes over the partition. Until the keeper has written the record, a hash has its name under the schedule.
local TAKEN_MS = 10000
local TAKEN_PER_TICK = 16

-- Number of entries of the history that are kept.
local MAX_HISTORY = 50

-- Time (ms) for which a partition remembers which fires of a schedule it has started, regardless of the runs.
local FIRED_MEMORY_MS = 86400000

local MAX_LISTED = 100

-- Makes the schedules due that other keepers have taken, when a keeper takes over the partition. Those keepers may be gone;
-- otherwise a step is still written only once.
function schedule.take_over(c, keeper)
  local taken_key = key.ffx_schedules_taken(c)
  local taken = redis.call('HGETALL', taken_key)
  for i = 1, #taken, 2 do
    if taken[i + 1] ~= keeper then
      redis.call('ZADD', key.ffx_schedules_due(c), 'XX', c.now, taken[i])
      redis.call('HDEL', taken_key, taken[i])
    end
  end
end

-- Takes schedules that are due, for the calling keeper alone. A caller that is not a keeper gets none. Returns how many.
function schedule.take_due(c)
  if not c.schedules then return 0 end
  local due_key = key.ffx_schedules_due(c)
  local ids = scan.due(c, due_key, TAKEN_PER_TICK)
  for _, id in ipairs(ids) do
    redis.call('ZADD', due_key, c.now + TAKEN_MS, id)
    if is_set(c.keeper) then
      call.guarded(c, 'schedule', id, function() redis.call('HSET', key.ffx_schedules_taken(c), id, c.keeper) end)
    end
  end
  if #ids == TAKEN_PER_TICK then c.more = true end
  c.schedules = ids
  return #ids
end

-- Returns the fire in a submitting call, or nil when it has none. Returns nil and the error reply when it is invalid.
function schedule.parse_fire(A)
  local fire = A.fires and A.fires[1]
  if not fire then return nil end
  local err
  local parsed = { schedule_id = fire.schedule_id, name = fire.name, incarnation = fire.incarnation }
  for _, name in ipairs({ 'serial', 'fire_at', 'start_before' }) do
    parsed[name], err = number.whole(name, fire[name])
    if err then return nil, err end
  end
  return parsed
end

-- Returns why a fire may not create its run, as the outcome of the submission: it has done so before, or its keeper has been away
-- too long. Returns nil when it may.
function schedule.refuse_fire(c, fire)
  if not fire then return nil end
  local incarnation, serial = string.match(redis.call('GET', key.ffx_schedule_fired(c, fire.schedule_id)) or '', '^(%S+) (%d+)$')
  if incarnation == fire.incarnation and fire.serial <= tonumber(serial) then return { 'purged', '', '', '' } end
  if c.now > fire.start_before then
    return { 'fire_too_late', '', number.text(fire.start_before), c.now_text }
  end
  return nil
end

-- Records that a fire creates its run, which it does once. Fires of one schedule are started in the order of their serials.
function schedule.note_fire(c, fire)
  redis.call('SET', key.ffx_schedule_fired(c, fire.schedule_id), fire.incarnation .. ' ' .. number.text(fire.serial),
    'PX', FIRED_MEMORY_MS)
end

-- Appends the fields of the record of a run that a fire creates, with their values.
function schedule.append_fire(values, fire)
  record.append(values, 'schedule', fire.name)
  record.append(values, 'schedule_id', fire.schedule_id)
  record.append(values, 'fire_at', number.text(fire.fire_at))
end

-- Writes the parts of a record that the call contains.
local function write_record(c, A, record_key, version, due_at)
  local id = A.schedule_id
  redis.call('HSET', record_key, 'version', number.text(version + 1), 'write_id', A.write_id, 'state', A.state)
  if is_set(A.spec) then redis.call('HSET', record_key, 'spec', A.spec) end
  if is_set(A.plan) then
    local plan_key = key.ffx_schedule_plan(c, id, A.plan)
    redis.call('DEL', plan_key)
    redis.call('HSET', plan_key, 'spec', A.spec or '', 'definition', A.definition or '', 'input', A.input or '')
  end
  for revision in string.gmatch(A.dropped_plans or '', '[^,]+') do
    redis.call('UNLINK', key.ffx_schedule_plan(c, id, revision))
  end
  if version == 0 then redis.call('SADD', key.ffx_schedules(c), id) end
  if is_set(A.keeper) then
    redis.call('HSET', key.ffx_schedules_taken(c), id, A.keeper)
  else
    redis.call('HDEL', key.ffx_schedules_taken(c), id)
  end
  if due_at then
    redis.call('ZADD', key.ffx_schedules_due(c), due_at, id)
    wake.due(c, due_at)
  else
    redis.call('ZREM', key.ffx_schedules_due(c), id)
  end
  if #A.history > 0 then
    local history_key = key.ffx_schedule_history(c, id)
    for _, entry in ipairs(A.history) do redis.call('LPUSH', history_key, entry) end
    redis.call('LTRIM', history_key, 0, MAX_HISTORY - 1)
  end
end

-- @function ffx_write_schedule
-- @summary  Writes the record of a schedule if it still has the version that the caller has read; 0 means that there is none.
--           `due_at` is when a keeper has to check it; without it none does. `plan` is the revision under which spec, definition
--           and input are stored for later runs, `dropped_plans` are revisions that no run needs. `history` gets entries in
--           front, and keeps the last 50. `write_id` identifies a repeated write. `keeper` starts a fire until `due_at`.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      schedule_id        schedule_id
-- @arg      version            int
-- @arg      write_id           text
-- @arg      state              bytes<plain>
-- @arg      due_at             unix_ms optional
-- @arg      spec               bytes<plain> optional
-- @arg      plan               text optional
-- @arg      definition         bytes<plain> optional
-- @arg      input              bytes<schedule_input> optional
-- @arg      dropped_plans      csv optional
-- @arg      keeper             text optional
-- @args     history            text
-- @reply    OK version:int
-- @reply    ALREADY_SATISFIED version:int
-- @error    schedule_changed version:int
-- @error    invalid_input message:text
function F.ffx_write_schedule(K, A)
  local version, err = number.count('version', A.version)
  if err then return err end
  local due_at
  due_at, err = number.optional('due_at', A.due_at, nil)
  if err then return err end
  local c = call.open(K.partition)
  local record_key = key.ffx_schedule(c, A.schedule_id)
  local stored = record.read(record_key, { 'version', 'write_id' }) or {}
  local present = tonumber(stored.version) or 0
  if present == version + 1 and stored.write_id == A.write_id then return reply.already(number.text(present)) end
  if present ~= version then return reply.err('schedule_changed', number.text(present)) end
  write_record(c, A, record_key, version, due_at)
  wake.flush(c)
  return reply.ok(number.text(version + 1))
end

-- @function ffx_read_schedule
-- @summary  Returns the record of a schedule, with its newest history entries and the server's time. Version 0 means that there
--           is none.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      schedule_id        schedule_id
-- @arg      history            int
-- @reply    OK now:unix_ms version:int spec:bytes<plain> state:bytes<plain> history:list(text)
-- @error    invalid_input message:text
function F.ffx_read_schedule(K, A)
  local count, err = number.count('history', A.history)
  if err then return err end
  local c = call.open(K.partition)
  local stored = record.read(key.ffx_schedule(c, A.schedule_id), { 'version', 'spec', 'state' }) or { version = '0' }
  local history = count > 0 and redis.call('LRANGE', key.ffx_schedule_history(c, A.schedule_id), 0, count - 1) or {}
  return reply.ok(c.now_text, stored.version, stored.spec or '', stored.state or '', history)
end

-- @function ffx_read_schedule_plan
-- @summary  Returns the plan of a schedule: the spec that the revision was written with, the input, and, on request, the
--           definition of the flow.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      schedule_id        schedule_id
-- @arg      plan               text
-- @arg      with_definition    bool
-- @reply    OK spec:bytes<plain> input:bytes<schedule_input> definition:bytes<plain>
-- @error    schedule_not_found
function F.ffx_read_schedule_plan(K, A)
  local c = call.open(K.partition)
  local plan_key = key.ffx_schedule_plan(c, A.schedule_id, A.plan)
  local plan = record.read(plan_key, { 'spec', 'input', A.with_definition == '1' and 'definition' or nil })
  if not plan then return reply.err('schedule_not_found') end
  return reply.ok(plan.spec or '', plan.input or '', plan.definition or '')
end

-- @function ffx_delete_schedule
-- @summary  Removes a schedule, if it still has the version that the caller has read. `plans` are the revisions of its plans. The
--           runs that it has started stay. ffx_forget_fires removes the rest, in every partition.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      schedule_id        schedule_id
-- @arg      version            int
-- @args     plans              text
-- @reply    OK
-- @reply    ALREADY_SATISFIED
-- @error    schedule_changed version:int
-- @error    invalid_input message:text
function F.ffx_delete_schedule(K, A)
  local version, err = number.count('version', A.version)
  if err then return err end
  local c = call.open(K.partition)
  local record_key = key.ffx_schedule(c, A.schedule_id)
  local present = tonumber(redis.call('HGET', record_key, 'version') or nil)
  if not present then return reply.already() end
  if present ~= version then return reply.err('schedule_changed', number.text(present)) end
  local names = { record_key, key.ffx_schedule_history(c, A.schedule_id) }
  for _, revision in ipairs(A.plans) do names[#names + 1] = key.ffx_schedule_plan(c, A.schedule_id, revision) end
  redis.call('UNLINK', unpack(names))
  redis.call('SREM', key.ffx_schedules(c), A.schedule_id)
  redis.call('ZREM', key.ffx_schedules_due(c), A.schedule_id)
  redis.call('HDEL', key.ffx_schedules_taken(c), A.schedule_id)
  return reply.ok()
end

-- @function ffx_forget_fires
-- @summary  Removes the record of a schedule's fires in a partition, when the schedule is gone.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      schedule_id        schedule_id
-- @reply    OK
function F.ffx_forget_fires(K, A)
  redis.call('UNLINK', key.ffx_schedule_fired(call.open(K.partition), A.schedule_id))
  return reply.ok()
end

-- @record schedule_record schedule_id:schedule_id version:int spec:bytes<plain> state:bytes<plain>

-- @function ffx_list_schedules
-- @summary  Returns the schedules of a partition, in pages and in no particular order. A schedule that exists all the time is in
--           at least one page. `faults` are those that cannot be read.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      cursor             text optional
-- @reply    OK now:unix_ms next_cursor:text schedules:list(schedule_record) faults:list(item_fault)?
function F.ffx_list_schedules(K, A)
  local c = call.open_guarded(K.partition)
  local page = redis.call('SSCAN', key.ffx_schedules(c), is_set(A.cursor) and A.cursor or '0', 'COUNT', MAX_LISTED)
  local list = {}
  local function add(id)
    local stored = record.read(key.ffx_schedule(c, id), { 'version', 'spec', 'state' })
    if stored then list[#list + 1] = { id, stored.version, stored.spec or '', stored.state or '' } end
  end
  for _, id in ipairs(page[2]) do call.guarded(c, 'schedule_reconciliation', id, add) end
  return reply.ok(c.now_text, page[1] == '0' and '' or page[1], list, c.faults)
end
