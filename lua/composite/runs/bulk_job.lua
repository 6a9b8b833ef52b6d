-- Bulk jobs: one action on all runs that a query selects, in bounded steps. Keepers perform the action; the library keeps the
-- record, and lets one keeper at a time have the job.

-- Time (ms) in which a keeper that received a job has to take it, before another one receives it.
local TOLD_MS = 5000

-- Time (ms) after its last report for which a job belongs to the keeper that has taken it. Then another one may have it, or as
-- soon as that takes over the partition.
local TAKEN_MS = 20000
local TAKEN_PER_TICK = 16

-- Time (ms) for which a job that is over is kept: a week.
local KEEP_MS = 604800000

local MAX_LISTED = 100

local FIELDS = { 'spec', 'progress', 'state', 'created_at', 'closed_at', 'stopped_by' }

-- Reports whether another keeper has the job. A time that is too far ahead was written before the clock was set back.
local function is_taken(c, stored, claimant)
  local held = tonumber(stored.taken_until) or 0
  return is_set(stored.claimant) and stored.claimant ~= claimant and held > c.now and held <= c.now + TAKEN_MS
end

local function remove(c, id)
  redis.call('UNLINK', key.ffx_bulk_job(c, id))
  redis.call('SREM', key.ffx_bulk_jobs(c), id)
  redis.call('ZREM', key.ffx_bulk_jobs_due(c), id)
end

-- Makes the jobs due that other keepers have received or taken, when a keeper takes over the partition. Those keepers may be
-- gone; one that is not is refused when it saves its progress, and its present action on a run is counted once.
function bulk_job.take_over(c, keeper)
  local due_key = key.ffx_bulk_jobs_due(c)
  local ids = redis.call('ZRANGE', due_key, '(' .. c.now_text, c.now + TAKEN_MS, 'BYSCORE')
  for _, id in ipairs(ids) do
    call.guarded(c, 'bulk_job', id, function()
      local job_key = key.ffx_bulk_job(c, id)
      local stored = record.read(job_key, { 'state', 'claimant', 'taken_until', 'told' })
      if stored and stored.state == 'running'
        and (is_taken(c, stored, keeper) or is_set(stored.told) and stored.told ~= keeper) then
        redis.call('HSET', job_key, 'taken_until', '0')
        redis.call('ZADD', due_key, c.now, id)
      end
    end)
  end
end

-- Takes jobs that are due, for the calling keeper alone, and removes expired ones. A caller that is not a keeper gets none.
-- Returns how many.
function bulk_job.take_due(c)
  if not c.bulk_jobs then return 0 end
  local due_key = key.ffx_bulk_jobs_due(c)
  local count = scan.each_due(c, 'bulk_job', due_key, TAKEN_PER_TICK, function(id)
    local job_key = key.ffx_bulk_job(c, id)
    if redis.call('HGET', job_key, 'state') == 'running' then
      redis.call('ZADD', due_key, c.now + TOLD_MS, id)
      if is_set(c.keeper) then redis.call('HSET', job_key, 'told', c.keeper) end
      c.bulk_jobs[#c.bulk_jobs + 1] = id
    else
      remove(c, id)
    end
  end)
  if count == TAKEN_PER_TICK then c.more = true end
  return count
end

-- Closes a job: it is not due again until its record is to be removed.
local function close(c, id, record_key, state)
  redis.call('HSET', record_key, 'state', state, 'closed_at', c.now_text)
  redis.call('ZADD', key.ffx_bulk_jobs_due(c), c.now + KEEP_MS, id)
end

-- @function ffx_start_bulk_job
-- @summary  Begins a job, unless there is one with this id: then its spec is returned, for the caller to compare.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      bulk_job_id        bulk_job_id
-- @arg      namespace          namespace
-- @arg      spec               bytes<plain>
-- @reply    OK created_at:unix_ms spec:bytes<plain>
-- @reply    ALREADY_SATISFIED created_at:unix_ms spec:bytes<plain>
function F.ffx_start_bulk_job(K, A)
  local c = call.open(K.partition)
  local record_key = key.ffx_bulk_job(c, A.bulk_job_id)
  local stored = record.read(record_key, { 'created_at', 'spec' })
  if stored then return reply.already(stored.created_at, stored.spec) end
  redis.call('HSET', record_key, 'spec', A.spec, 'namespace', A.namespace, 'state', 'running', 'created_at', c.now_text)
  redis.call('SADD', key.ffx_bulk_jobs(c), A.bulk_job_id)
  redis.call('ZADD', key.ffx_bulk_jobs_due(c), c.now, A.bulk_job_id)
  wake.due(c, c.now)
  wake.flush(c)
  return reply.ok(c.now_text, A.spec)
end

-- @function ffx_take_bulk_job
-- @summary  Takes a job for a keeper, which may save its progress until another one has taken it. That may happen when nothing
--           was saved for 20 s, and when that keeper takes over the partition.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      bulk_job_id        bulk_job_id
-- @arg      claimant              text
-- @reply    OK now:unix_ms namespace:namespace created_at:unix_ms spec:bytes<plain> progress:bytes<plain>
-- @error    bulk_job_not_found
-- @error    bulk_job_over state:text
-- @error    bulk_job_taken
function F.ffx_take_bulk_job(K, A)
  local c = call.open(K.partition)
  local record_key = key.ffx_bulk_job(c, A.bulk_job_id)
  local stored = record.read(record_key, { 'namespace', 'created_at', 'spec', 'progress', 'state', 'claimant', 'taken_until' })
  if not stored then return reply.err('bulk_job_not_found') end
  if stored.state ~= 'running' then return reply.err('bulk_job_over', stored.state) end
  if is_taken(c, stored, A.claimant) then return reply.err('bulk_job_taken') end
  redis.call('HSET', record_key, 'claimant', A.claimant, 'taken_until', number.text(c.now + TAKEN_MS))
  redis.call('HDEL', record_key, 'told')
  redis.call('ZADD', key.ffx_bulk_jobs_due(c), c.now + TAKEN_MS, A.bulk_job_id)
  return reply.ok(c.now_text, stored.namespace, stored.created_at, stored.spec, stored.progress or '')
end

-- @function ffx_save_bulk_job
-- @summary  Saves the progress of a job that the caller has taken. With `due_at` the caller gives it back, and a keeper continues
--           it then; with `completed` it is over; else the caller keeps it. A job that was stopped since receives the progress,
--           and its state is returned.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      bulk_job_id        bulk_job_id
-- @arg      claimant              text
-- @arg      progress           bytes<plain>
-- @arg      due_at             unix_ms optional
-- @arg      completed          bool
-- @reply    OK now:unix_ms state:text
-- @error    bulk_job_not_found
-- @error    bulk_job_taken
-- @error    invalid_input message:text
function F.ffx_save_bulk_job(K, A)
  local due_at, err = number.optional('due_at', A.due_at, nil)
  if err then return err end
  local c = call.open(K.partition)
  local record_key = key.ffx_bulk_job(c, A.bulk_job_id)
  local stored = record.read(record_key, { 'state', 'claimant' })
  if not stored then return reply.err('bulk_job_not_found') end
  if stored.claimant ~= A.claimant then return reply.err('bulk_job_taken') end
  redis.call('HSET', record_key, 'progress', A.progress)
  if stored.state ~= 'running' then return reply.ok(c.now_text, stored.state) end
  if A.completed == '1' then
    close(c, A.bulk_job_id, record_key, 'completed')
    return reply.ok(c.now_text, 'completed')
  end
  local next_at = due_at or c.now + TAKEN_MS
  redis.call('HSET', record_key, 'taken_until', number.text(due_at and 0 or next_at))
  redis.call('ZADD', key.ffx_bulk_jobs_due(c), next_at, A.bulk_job_id)
  if due_at then wake.due(c, due_at) end
  wake.flush(c)
  return reply.ok(c.now_text, 'running')
end

-- @function ffx_stop_bulk_job
-- @summary  Stops a job: the keeper that has it acts on no further run once it has saved its progress.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      bulk_job_id        bulk_job_id
-- @arg      actor              text
-- @reply    OK state:text
-- @reply    ALREADY_SATISFIED state:text
-- @error    bulk_job_not_found
function F.ffx_stop_bulk_job(K, A)
  local c = call.open(K.partition)
  local record_key = key.ffx_bulk_job(c, A.bulk_job_id)
  local state = redis.call('HGET', record_key, 'state')
  if not state then return reply.err('bulk_job_not_found') end
  if state ~= 'running' then return reply.already(state) end
  close(c, A.bulk_job_id, record_key, 'stopped')
  redis.call('HSET', record_key, 'stopped_by', A.actor)
  return reply.ok('stopped')
end

-- @record bulk_job_record bulk_job_id:bulk_job_id spec:bytes<plain> progress:bytes<plain> state:text created_at:unix_ms closed_at:unix_ms stopped_by:text

local function as_listed(id, stored)
  return {
    id, stored.spec or '', stored.progress or '', stored.state or '', stored.created_at or '', stored.closed_at or '',
    stored.stopped_by or '',
  }
end

-- @function ffx_read_bulk_job
-- @summary  Returns the record of a job.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      bulk_job_id        bulk_job_id
-- @reply    OK jobs:list(bulk_job_record)
-- @error    bulk_job_not_found
function F.ffx_read_bulk_job(K, A)
  local stored = record.read(key.ffx_bulk_job(call.open(K.partition), A.bulk_job_id), FIELDS)
  if not stored then return reply.err('bulk_job_not_found') end
  return reply.ok({ as_listed(A.bulk_job_id, stored) })
end

-- @function ffx_list_bulk_jobs
-- @summary  Returns the jobs of a namespace in a partition, in pages and in no particular order. A job that exists all the time
--           is in at least one page.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      namespace          namespace
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text jobs:list(bulk_job_record)
function F.ffx_list_bulk_jobs(K, A)
  local c = call.open(K.partition)
  local page = redis.call('SSCAN', key.ffx_bulk_jobs(c), is_set(A.cursor) and A.cursor or '0', 'COUNT', MAX_LISTED)
  local list = {}
  for _, id in ipairs(page[2]) do
    local record_key = key.ffx_bulk_job(c, id)
    if redis.call('HGET', record_key, 'namespace') == A.namespace then
      list[#list + 1] = as_listed(id, record.read(record_key, FIELDS))
    end
  end
  return reply.ok(page[1] == '0' and '' or page[1], list)
end
