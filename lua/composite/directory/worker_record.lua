-- Records of workers: each worker reports about itself, so that operators see which worker serves which lanes and activities. A
-- worker reports periodically; its record counts as live until the time that the last report named. It is then kept for a while,
-- to show which worker was the last to serve an activity. All records are in the partition that programs name, by convention the
-- first one. They decide nothing: claims and leases do not read them.

local KEPT_MS = 24 * 3600000

-- Maximum number of builds of programs that are kept. Attempts name a worker instance, and that names its build, as long as the
-- attempts exist: so builds are kept without a time limit. There is one for each version of a program, not for each worker.
local MAX_BUILDS = 10000

-- Maximum number of records in one answer, and of those that one call searches for a worker.
local MAX_LISTED, MAX_SEARCHED = 200, 2000

-- Maximum number of workers that one report removes.
local MAX_FORGOTTEN = 100

local STATES = { running = true, draining = true, stopped = true }

local FIELDS = {
  'state', 'used', 'reported_at', 'expires_at', 'drain_requested_at', 'drain_by', 'lanes', 'kinds', 'about', 'started',
}

local function is_live(r, now) return r.state ~= 'stopped' and (tonumber(r.expires_at) or 0) > now end

-- Returns a record with its fields; nil when it is gone.
local function read(c, instance)
  local values = redis.call('HMGET', key.ffx_worker_record(c, instance), unpack(FIELDS))
  if not values[1] then return nil end
  local r = { instance = instance }
  for i, field in ipairs(FIELDS) do r[field] = values[i] or '' end
  return r
end

local function as_reply(r)
  return {
    r.instance, r.state, r.used, r.reported_at, r.expires_at, r.drain_requested_at, r.drain_by, r.lanes, r.kinds, r.about,
    r.started,
  }
end

-- Removes the entries of workers whose records are gone: a bounded number, because one call adds one worker.
local function forget_old(c, index)
  for _, instance in ipairs(redis.call('ZRANGE', index, '-inf', c.now - KEPT_MS, 'BYSCORE', 'LIMIT', 0, MAX_FORGOTTEN)) do
    if redis.call('EXISTS', key.ffx_worker_record(c, instance)) == 0 then redis.call('ZREM', index, instance) end
  end
end

-- Stores the build of a program under its id. The builds that no worker has started with for the longest time are removed first.
local function keep_build(c, id, build)
  local by_use = key.ffx_worker_builds_by_use(c)
  redis.call('HSET', key.ffx_worker_builds(c), id, build)
  redis.call('ZADD', by_use, c.now, id)
  local over = redis.call('ZCARD', by_use) - MAX_BUILDS
  if over <= 0 then return end
  for _, old in ipairs(redis.call('ZRANGE', by_use, 0, over - 1)) do
    redis.call('ZREM', by_use, old)
    redis.call('HDEL', key.ffx_worker_builds(c), old)
  end
end

-- @function ffx_report_worker
-- @summary  Reports a worker: how many of its slots are in use, how many attempts it has started by lane, and its state: running,
--           draining or stopped. The record counts as live for the time `ttl`, except when the worker has stopped. `lanes` and
--           `kinds` are sets of the lanes and kinds that it serves, `about` is a text of the worker's; they are needed in the
--           first report, and again when the answer reports that the record is not known. Then nothing was written. `build`
--           describes the build of the worker's program, which is kept under `build_id` when the worker is gone; they come with
--           `about`. `drain` reports whether an operator requests the worker to drain.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      worker_instance_id worker_instance_id
-- @arg      state              text
-- @arg      used               int
-- @arg      ttl                ms
-- @arg      lanes              text optional
-- @arg      kinds              text optional
-- @arg      about              json optional
-- @arg      build_id           text optional
-- @arg      build              json optional
-- @arg      started            json optional
-- @reply    OK known:bool drain:bool
-- @error    invalid_input message:text
function F.ffx_report_worker(K, A)
  local used, err = number.whole('used', A.used)
  if err then return err end
  local ttl
  ttl, err = number.whole('ttl', A.ttl)
  if err then return err end
  if not STATES[A.state] then
    return reply.err('invalid_input', 'state must be running, draining or stopped, got: ' .. tostring(A.state))
  end
  local c, instance = call.open(K.partition), A.worker_instance_id
  local record_key, index = key.ffx_worker_record(c, instance), key.ffx_worker_reports(c)
  if is_set(A.about) then
    redis.call('HSET', record_key, 'lanes', A.lanes or '', 'kinds', A.kinds or '', 'about', A.about)
    forget_old(c, index) -- only this function creates records
    if is_set(A.build_id) then keep_build(c, A.build_id, A.build or '') end
  end
  local known = redis.call('HMGET', record_key, 'about', 'drain_requested_at')
  if not known[1] then return reply.ok('0', '0') end
  redis.call('HSET', record_key, 'state', A.state, 'used', number.text(used), 'started', A.started or '', 'reported_at', c.now_text,
    'expires_at', number.text(A.state == 'stopped' and c.now or c.now + ttl))
  redis.call('PEXPIRE', record_key, number.text(KEPT_MS + (A.state == 'stopped' and 0 or ttl)))
  redis.call('ZADD', index, c.now, instance)
  return reply.ok('1', known[2] and '1' or '0')
end

-- @function ffx_drain_worker
-- @summary  Requests a live worker to take no more work. Its record keeps that, for a worker that misses the message.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      worker_instance_id worker_instance_id
-- @arg      actor              text optional
-- @reply    OK
-- @reply    ALREADY_SATISFIED
-- @error    worker_not_found
function F.ffx_drain_worker(K, A)
  local c, instance = call.open(K.partition), A.worker_instance_id
  local r = read(c, instance)
  if not r or not is_live(r, c.now) then return reply.err('worker_not_found') end
  wake.send(key.channel_worker(c, instance), message.drain(instance))
  local record_key = key.ffx_worker_record(c, instance)
  if redis.call('HSETNX', record_key, 'drain_requested_at', c.now_text) == 0 then return reply.already() end
  if is_set(A.actor) then redis.call('HSET', record_key, 'drain_by', A.actor) end
  return reply.ok()
end

-- @record worker_record worker_instance_id:worker_instance_id state:text used:int reported_at:unix_ms expires_at:unix_ms drain_requested_at:unix_ms drain_by:text lanes:text kinds:text about:json started:json

-- @function ffx_list_workers
-- @summary  Returns the records of live workers, with `gone` also the records about workers that were seen within a day, by the
--           time of their last report, the oldest first: continue with next_cursor until it is empty. A worker that reports
--           during the listing may be listed twice.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      cursor             text optional
-- @arg      gone               bool optional
-- @reply    OK workers:list(worker_record) next_cursor:text now:unix_ms
function F.ffx_list_workers(K, A)
  local c = call.open(K.partition)
  local instances, next_cursor = score_page.read(key.ffx_worker_reports(c), A.cursor, MAX_LISTED)
  local list = {}
  for _, instance in ipairs(instances) do
    local r = read(c, instance)
    if r and (A.gone == '1' or is_live(r, c.now)) then list[#list + 1] = as_reply(r) end
  end
  return reply.ok(list, next_cursor, c.now_text)
end

-- Reports whether a worker takes work of a kind in a lane.
local function serves(r, query) return decode.has_kind(r.kinds, query.kind) and decode.has_kind(r.lanes, query.lane_id) end

-- @record worker_sighting live:bool worker_instance_id:worker_instance_id state:text reported_at:unix_ms about:json

-- @function ffx_find_workers
-- @summary  Reports for each pair of a lane and a kind of executions whether a live worker that is not draining serves it;
--           otherwise returns the one that did last, without an instance when none is known.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @group    queries            lane_id:lane_id kind:text
-- @reply    OK sightings:list(worker_sighting) now:unix_ms
function F.ffx_find_workers(K, A)
  local c = call.open(K.partition)
  local instances = redis.call('ZRANGE', key.ffx_worker_reports(c), 0, MAX_SEARCHED - 1, 'REV')
  local records, list = {}, {}
  for _, query in ipairs(A.queries or {}) do
    local found, live
    for i, instance in ipairs(instances) do
      local r = records[i]
      if r == nil then
        r = read(c, instance) or false
        records[i] = r
      end
      if r and serves(r, query) then
        found = found or r
        if is_live(r, c.now) and r.state == 'running' and not is_set(r.drain_requested_at) then
          found, live = r, true
          break
        end
      end
    end
    list[#list + 1] = found and { live and '1' or '0', found.instance, found.state, found.reported_at, found.about }
      or { '0', '', '', '', '' }
  end
  return reply.ok(list, c.now_text)
end

-- Maximum number of builds that one call reads.
local MAX_BUILDS_PER_CALL = 1000

-- @function ffx_read_builds
-- @summary  Returns the builds of programs, by the ids under which their workers reported them, in the requested order; empty for
--           an id that is not known.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @args     build_ids          text
-- @reply    OK builds:list(json)
-- @error    invalid_input message:text
function F.ffx_read_builds(K, A)
  local ids = A.build_ids
  if #ids > MAX_BUILDS_PER_CALL then
    return reply.err('invalid_input', 'at most ' .. MAX_BUILDS_PER_CALL .. ' builds in one call, got: ' .. #ids)
  end
  if #ids == 0 then return reply.ok({}) end
  local builds = redis.call('HMGET', key.ffx_worker_builds(call.open(K.partition)), unpack(ids))
  for i = 1, #ids do builds[i] = builds[i] or '' end
  return reply.ok(builds)
end
