-- Pauses of lanes, activities and runs, and the numbers of executions in each lane.

-- While a lane or an activity is paused in a partition, or on a server that has all partitions, this member is the first in the
-- eligible set of every lane that this concerns. A claim reads the head of the set anyway, so the check whether anything is
-- paused costs nothing.
pauses.MARK = 'paused'

-- Executions that are held are checked again after this time (ms), in case a resumption was cut short.
local RECHECK_MS = 5000

local MAX_RECHECKED = 200

local SUBJECTS = { lane = true, kind = true }

-- A pause as it is stored, with its author and reason, which may be empty.
-- @text pause "{since:unix_ms} {actor}\n{reason}"
local function stored(c, A) return encode.pause(c.now_text, A.actor or '', A.reason or '') end

local function reason_of(text)
  local _, _, reason = decode.pause(text)
  return is_set(reason) and reason or nil
end

-- Returns the pauses of the partition, or of the server, by subject and name, read once in a call.
function pauses.of(c)
  c = c.root or c
  if not c.pauses then
    c.pauses = { lane = {}, kind = {} }
    local flat = redis.call('HGETALL', key.ffx_pauses(call.home(c)))
    for i = 1, #flat, 2 do
      local subject, name = string.match(flat[i], '^(%l+) (.*)$')
      if SUBJECTS[subject] then c.pauses[subject][name] = flat[i + 1] end
    end
  end
  return c.pauses
end

-- Reports whether a claim that has met the mark may take nothing from a lane.
function pauses.stops(c, lane) return pauses.of(c).lane[lane] ~= nil end

-- Returns why an execution may not start although its lane is open: nil, or a text for the record. `flow` is the flow that it
-- belongs to. Other pauses count only once the call has read them.
function pauses.why(c, core, flow)
  local text = flow.paused
  local what = 'the run is paused'
  local known = (c.root or c).pauses
  if not text and known then
    text = known.kind[core.execution_kind or '']
    what = 'activity "' .. (core.execution_kind or '') .. '" is paused'
  end
  if not text then return nil end
  local reason = reason_of(text)
  return reason and what .. ': ' .. reason or what
end

-- Reports whether one of our pauses holds a blocked execution; operators may block executions for other reasons.
function pauses.is_held(core)
  local detail = core.blocking_detail or ''
  return core.blocking_reason == 'paused_by_operator'
    and (string.find(detail, '^the run is paused') or string.find(detail, '^activity ".*" is paused')) ~= nil
end

-- Blocks an eligible execution until its pause is over.
function pauses.hold(c, execution_id, core, lane, detail)
  record.write(key.exec_core(c, execution_id), core.managed, {
    'eligibility_state', 'blocked_by_operator',
    'blocking_reason', 'paused_by_operator',
    'blocking_detail', detail,
    'public_state', 'rate_limited',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
  }, {})
  order.leave(c, lane, execution_id, core)
  redis.call('ZADD', key.lane_blocked_operator(c, lane), c.now, execution_id)
  redis.call('ZADD', key.ffx_held(c), c.now + RECHECK_MS, execution_id)
  wake.due(c, c.now + RECHECK_MS)
end

-- Releases a held execution when nothing holds it, and reports whether it did.
local function recheck(c, execution_id)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, claim.FIELDS)
  if not core or core.lifecycle_phase ~= 'runnable' or core.eligibility_state ~= 'blocked_by_operator' then
    redis.call('ZREM', key.ffx_held(c), execution_id)
    return false
  end
  pauses.of(c)
  local flow = is_set(core.flow_id) and record.read(key.flow_core(c, core.flow_id), { 'paused' }) or {}
  if pauses.why(c, core, flow) then
    redis.call('ZADD', key.ffx_held(c), scan.again(c, RECHECK_MS), execution_id)
    return false
  end
  redis.call('ZREM', key.ffx_held(c), execution_id)
  redis.call('ZREM', key.lane_blocked_operator(c, record.lane(core)), execution_id)
  requeue.ready(c, execution_id, core_key, core,
    { values = { 'attempt_state', core.attempt_state or 'pending_first_attempt' } })
  return true
end

-- Checks the held executions again, beginning with the one whose last check is the oldest.
function pauses.recheck_due(c, limit)
  return scan.each_due(c, 'pause_recheck', key.ffx_held(c), limit,
    function(execution_id) recheck(c, execution_id) end)
end

-- Reports whether a pause keeps an execution from its first start.
function pauses.keeps(c, core)
  return core.eligibility_state == 'blocked_by_operator'
    or core.eligibility_state == 'eligible_now' and pauses.stops(c, record.lane(core))
end

-- Reports whether a lane has to be marked, by the pauses of the partition. A lane that is not in use here gets its mark when it
-- is.
local function is_marked(c, lane)
  local p = pauses.of(c)
  return p.lane[lane] ~= nil or next(p.kind) ~= nil and redis.call('SISMEMBER', key.ffx_lanes(call.home(c)), lane) == 1
end

-- Sets or removes the mark of a lane.
local function mark(c, lane)
  if is_marked(c, lane) then
    redis.call('ZADD', key.lane_eligible(call.home(c), lane), '-inf', pauses.MARK)
  else
    redis.call('ZREM', key.lane_eligible(call.home(c), lane), pauses.MARK)
  end
end

-- Corrects the mark of a lane, and reports whether it was wrong.
function pauses.repair_mark(c, lane)
  local wanted = call.home(c) == c and is_marked(c, lane)
  local found = redis.call('ZSCORE', key.lane_eligible(c, lane), pauses.MARK)
  if wanted == (found ~= nil and found ~= false) and (not wanted or tonumber(found) == nil or tonumber(found) < 0) then return false end
  if wanted then mark(c, lane) else redis.call('ZREM', key.lane_eligible(c, lane), pauses.MARK) end
  return true
end

-- Records that a lane is in use in this partition. Reports whether it was not before. Where partitions share the order of a lane,
-- they are listed with it.
function pauses.note_lane(c, lane)
  if redis.call('SADD', key.ffx_lanes(c), lane) == 0 then return false end
  local home = call.home(c)
  if home ~= c then
    redis.call('SADD', key.ffx_lane_partitions(home, lane), call.partition(c))
    redis.call('SADD', key.ffx_lanes(home), lane)
  end
  if redis.call('EXISTS', key.ffx_pauses(home)) == 1 then mark(c, lane) end
  return true
end

-- Updates the marks of all lanes after a change.
local function mark_all(c)
  c.pauses = nil
  for _, lane in ipairs(redis.call('SMEMBERS', key.ffx_lanes(call.home(c)))) do mark(c, lane) end
end

local function check_subject(A)
  if not SUBJECTS[A.subject] then
    return reply.err('invalid_input', 'subject must be lane or kind, got: ' .. tostring(A.subject))
  elseif not is_set(A.name) then
    return reply.err('invalid_input', 'name must be given')
  end
  return nil
end

-- @function ffx_pause
-- @summary  Pauses a lane or an activity in one partition, on a server that has all of them in all: nothing of it is claimed
--           until it is resumed. Running executions continue.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      subject            text
-- @arg      name               text
-- @arg      reason             text optional
-- @arg      actor              text optional
-- @reply    OK
-- @reply    ALREADY_SATISFIED
-- @error    invalid_input message:text
function F.ffx_pause(K, A)
  local err = check_subject(A)
  if err then return err end
  local c = call.open(K.partition)
  local home = call.home(c)
  if A.subject == 'lane' then redis.call('SADD', key.ffx_lanes(home), A.name) end
  local added = redis.call('HSETNX', key.ffx_pauses(home), A.subject .. ' ' .. A.name, stored(c, A))
  mark_all(c)
  if added == 0 then return reply.already() end
  return reply.ok()
end

-- Wakes workers for executions outside of managed flows, which wait in the sets of their own partitions.
local function wake_partitions(c, lane)
  local home = call.home(c)
  for _, partition in ipairs(redis.call('SMEMBERS', key.ffx_lane_partitions(home, lane))) do
    local beside = call.at(c, '{fp:' .. partition .. '}')
    if beside.tag ~= home.tag and redis.call('EXISTS', key.lane_eligible(beside, lane)) == 1 then
      wake.workers(c, lane, nil, beside)
    end
  end
end

-- @function ffx_resume
-- @summary  Ends the pause of a lane or an activity in one partition, on a server that has all of them in all. Releases the held
--           executions, a bounded number per call: continue with next_cursor until it is empty.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      subject            text
-- @arg      name               text
-- @arg      cursor             text optional
-- @reply    OK released:int next_cursor:text
-- @error    invalid_input message:text
function F.ffx_resume(K, A)
  local err = check_subject(A)
  if err then return err end
  local c = call.open(K.partition)
  local home = call.home(c)
  if redis.call('HDEL', key.ffx_pauses(home), A.subject .. ' ' .. A.name) == 1 then mark_all(c) end
  if A.subject == 'lane' then
    if redis.call('EXISTS', key.lane_eligible(home, A.name)) == 1 then wake.workers(c, A.name) end
    wake_partitions(c, A.name)
    return reply.ok('0', '')
  end
  local page = redis.call('ZSCAN', key.ffx_held(c), is_set(A.cursor) and A.cursor or '0', 'COUNT', MAX_RECHECKED)
  local released = 0
  for i = 1, #page[2], 2 do
    if recheck(c, page[2][i]) then released = released + 1 end
  end
  wake.flush(c)
  return reply.ok(number.text(released), page[1] == '0' and '' or page[1])
end

-- @function ffx_pause_flow
-- @summary  Pauses a run: no node of it starts until it is resumed. Running nodes continue.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      reason             text optional
-- @arg      actor              text optional
-- @reply    OK
-- @reply    ALREADY_SATISFIED
-- @error    flow_not_found
-- @error    flow_already_terminal
function F.ffx_pause_flow(K, A)
  local c = call.open(K.partition)
  local flow_key = key.flow_core(c, A.flow_id)
  local flow = record.read(flow_key, { 'public_flow_state', 'paused' })
  if not flow then return reply.err('flow_not_found') end
  if flow_record.is_over(flow) then return reply.err('flow_already_terminal') end
  if flow.paused then return reply.already() end
  flow_record.set(flow_key, 'paused', stored(c, A))
  event_log.add(c, A.flow_id, 'flow_paused', '', '', A.actor)
  return reply.ok()
end

-- @function ffx_resume_flow
-- @summary  Ends the pause of a run. Releases the held executions, a bounded number per call: continue with next_cursor until it
--           is empty.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      cursor             text optional
-- @arg      actor              text optional
-- @reply    OK released:int next_cursor:text
-- @error    flow_not_found
function F.ffx_resume_flow(K, A)
  local c = call.open(K.partition)
  local flow_key = key.flow_core(c, A.flow_id)
  if record.exists(flow_key) == 0 then return reply.err('flow_not_found') end
  if record.value(flow_key, 'paused') then
    record.clear(flow_key, 'paused')
    event_log.add(c, A.flow_id, 'flow_resumed', '', '', A.actor)
  end
  local page, cursor = member_list.page(c, A.flow_id, is_set(A.cursor) and A.cursor or '0', MAX_RECHECKED)
  local released = 0
  for _, execution_id in ipairs(page) do
    if redis.call('ZSCORE', key.ffx_held(c), execution_id) and recheck(c, execution_id) then
      released = released + 1
    end
  end
  wake.flush(c)
  return reply.ok(number.text(released), cursor == '0' and '' or cursor)
end

-- @record lane_state lane_id:lane_id paused:text eligible:int delayed:int active:int suspended:int blocked_dependencies:int blocked_budget:int blocked_quota:int blocked_route:int blocked_operator:int oldest_eligible_at:unix_ms

-- Returns when the execution of a score of an eligible set was created (ms). Priorities are whole numbers in practice.
local function created_at(c, score)
  return score + math.floor((c.now - score) / record.PRIORITY_STEP) * record.PRIORITY_STEP
end

-- Returns the age of an eligible set: the age of its first member or of its first one without priority, whichever is older.
local function oldest_eligible(c, lane)
  local oldest
  for _, from in ipairs({ '(-inf', c.now - record.PRIORITY_STEP }) do
    local first = redis.call('ZRANGE', key.lane_eligible(c, lane), from, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    local at = first[2] and created_at(c, tonumber(first[2]))
    if at and (not oldest or at < oldest) then oldest = at end
  end
  return oldest and number.text(math.floor(oldest)) or ''
end

-- Returns the number of executions in an index, plus `others`.
local function count(index_key, others) return number.text(redis.call('ZCARD', index_key) + (others or 0)) end

local NO_NODES = { 0, 0 }

-- @function ffx_lanes
-- @summary  Returns the lanes of a partition with the executions in each of their indexes, and the nodes of runs that are active
--           or wait for upstreams, which are counted as they change: no run is read. On a server that has all partitions,
--           eligible executions are counted in partition 0, except those outside of managed flows.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @reply    OK lanes:list(lane_state)
function F.ffx_lanes(K)
  local c = call.open(K.partition)
  local list, nodes = {}, lane_counts.of(c)
  for _, lane in ipairs(redis.call('SMEMBERS', key.ffx_lanes(c))) do
    local of_lane = nodes[lane] or NO_NODES
    list[#list + 1] = {
      lane, pauses.of(c).lane[lane] or '',
      number.text(redis.call('ZCOUNT', key.lane_eligible(c, lane), '(-inf', '+inf')),
      count(key.lane_delayed(c, lane)), count(key.lane_active(c, lane), of_lane[1]), count(key.lane_suspended(c, lane)),
      count(key.lane_blocked_dependencies(c, lane), of_lane[2]), count(key.lane_blocked_budget(c, lane)),
      count(key.lane_blocked_quota(c, lane)), count(key.lane_blocked_route(c, lane)),
      count(key.lane_blocked_operator(c, lane)), oldest_eligible(c, lane),
    }
  end
  return reply.ok(list)
end

-- @record pause subject:text name:text text:text

-- @function ffx_pauses
-- @summary  Returns the lanes and activities that are paused in a partition, or on a server that has all partitions. The text is
--           a pause: its time in ms, its author, and the reason.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @reply    OK pauses:list(pause)
function F.ffx_pauses(K)
  local c = call.open(K.partition)
  local list = {}
  for subject, names in pairs(pauses.of(c)) do
    for name, text in pairs(names) do list[#list + 1] = { subject, name, text } end
  end
  return reply.ok(list)
end
