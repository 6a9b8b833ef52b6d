-- Counts the runs of a partition again, and their nodes by lane (see lane_counts), a bounded number per call, while runs start,
-- end and are purged. It counts their states at the beginning of the pass, which the time of each change shows; the difference
-- from the counters at that moment is their error, regardless of later changes.
--
-- A pass visits the list of all runs, the oldest first. A run that is reopened or purged before the pass has reached it is
-- counted then, with its earlier state.

-- Passes that began since the server started, by partition: the time of each. Another one, which may have come back in part from
-- a damaged log, is not continued.
local begun, begun_count = {}, 0
local MAX_BEGUN = 65536

local function is_under_way(c, since) return since and begun[c.at.probe] == since end

local function tally(pass_key, event, flow)
  local field = run_counts.field(event, flow.flow_kind, flow.namespace, is_set(flow.parent_execution_id))
  redis.call('HINCRBY', pass_key, 'n ' .. field, 1)
end

-- Counts a run in the state that it had when the pass began.
local function count_run(pass_key, since, flow)
  local created, closed = number.finite(flow.created_at), number.finite(flow.closed_at)
  if not created or created >= since then return end
  tally(pass_key, 'started', flow)
  if closed and closed < since and is_set(flow.outcome) then tally(pass_key, flow.outcome, flow) end
end

-- Counts a run that is being reopened or purged, which hides its earlier state.
local function count_before_change(c, flow_id, flow, stays)
  local pass_key = key.ffx_run_recount(c)
  local pass = redis.call('HMGET', pass_key, 'since', 'at', 'id')
  if not is_under_way(c, pass[1]) then return end
  local created, at = number.finite(flow.created_at) or 0, tonumber(pass[2])
  if created < at or created == at and flow_id <= pass[3] then return end
  if redis.call('HEXISTS', pass_key, 'seen ' .. flow_id) == 1 then return end
  count_run(pass_key, tonumber(pass[1]), flow)
  if stays then redis.call('HSET', pass_key, 'seen ' .. flow_id, '1') end
end

-- Fields of a run that a count reads.
local RUN_FIELDS = { 'flow_kind', 'namespace', 'parent_execution_id', 'created_at', 'closed_at', 'outcome', 'purging' }

-- Counts a run that had ended and is open again.
function run_recount.reopened(c, flow_id, outcome, closed_at)
  local flow = is_set(outcome) and record.read(key.flow_core(c, flow_id), RUN_FIELDS)
  if not flow then return end
  flow.outcome, flow.closed_at = outcome, closed_at
  count_before_change(c, flow_id, flow, true)
  run_counts.taken_back(c, outcome, flow)
end

-- Counts a run that has ended and is being purged.
function run_recount.purged(c, flow_id)
  local flow = record.read(key.flow_core(c, flow_id), RUN_FIELDS)
  count_before_change(c, flow_id, flow, false)
  run_counts.taken_back(c, 'started', flow)
  if is_set(flow.outcome) then run_counts.taken_back(c, flow.outcome, flow) end
end

-- Begins a pass. Returns false when something has changed in this millisecond, because times then do not separate before and
-- after.
local function begin(c, pass_key)
  if redis.call('ZCOUNT', key.ffx_all_runs(c), c.now_text, '+inf') > 0
    or redis.call('ZCOUNT', key.ffx_closed_flows(c), c.now_text, '+inf') > 0 then
    return false
  end
  run_counts.begin_hour(c)
  redis.call('UNLINK', pass_key)
  local values = { 'since', c.now_text, 'at', '-1', 'id', '' }
  for field, runs in pairs(run_counts.present(c)) do
    values[#values + 1] = 'b ' .. field
    values[#values + 1] = number.text(runs)
  end
  call.chunked('HSET', pass_key, values)
  lane_counts.pass_begins(c, c.now)
  if begun[c.at.probe] == nil then
    if begun_count >= MAX_BEGUN then begun, begun_count = {}, 0 end
    begun_count = begun_count + 1
  end
  begun[c.at.probe] = c.now_text
  return true
end

-- Adds the errors to the totals, when all runs are counted.
local function finish(c, pass_key)
  local fields, wrong = redis.call('HGETALL', pass_key), {}
  for i = 1, #fields, 2 do
    local kind, field = string.match(fields[i], '^([nb]) (.*)$')
    if kind then wrong[field] = (wrong[field] or 0) + (kind == 'n' and 1 or -1) * tonumber(fields[i + 1]) end
  end
  for field, by in pairs(wrong) do
    if by ~= 0 then
      run_counts.add_total(key.ffx_run_counts(c), field, by)
      repair_index.note(c, 'run_counts')
    end
  end
  lane_counts.pass_ends(c)
  begun[c.at.probe] = false
  redis.call('UNLINK', pass_key)
end

-- Number of calls that may find that a pass cannot begin, before it is left to the next one.
local TRIES = 8

-- Counts up to `limit` more runs. Returns the argument `tried` of the next call, '0' when there is none, and how many were read.
function run_recount.step(c, limit, tried)
  local pass_key = key.ffx_run_recount(c)
  local since = redis.call('HGET', pass_key, 'since')
  if not is_under_way(c, since) and not begin(c, pass_key) then
    tried = tonumber(tried) + 1
    return tried < TRIES and number.text(tried) or '0', limit
  end
  local pass = redis.call('HMGET', pass_key, 'since', 'at', 'id')
  local list_key = key.ffx_all_runs(c)
  local rank = run_list.rank_behind(list_key, tonumber(pass[2]), is_set(pass[3]) and pass[3] or nil, true)
  local page = redis.call('ZRANGE', list_key, rank, rank + limit - 1, 'WITHSCORES')
  local looked, done = 0, 0
  local function count_one(flow_id, created)
    local rows, all = lane_counts.count_run(c, flow_id, tonumber(created))
    if not all then return rows, true end
    local flow = record.read(key.flow_core(c, flow_id), RUN_FIELDS)
    if flow and not flow.purging and redis.call('HEXISTS', pass_key, 'seen ' .. flow_id) == 0 then
      count_run(pass_key, tonumber(pass[1]), flow)
    end
    return rows, false
  end
  while done < #page and looked < limit do
    -- A run that raises an error is counted as missing.
    local _, rows, has_more = call.guarded(c, 'index_reconciliation', page[done + 1], count_one, page[done + 2])
    looked = looked + 1 + (rows or 0)
    if has_more then break end
    done = done + 2
  end
  if done == #page and #page < 2 * limit then
    finish(c, pass_key)
    return '0', looked
  end
  if done > 0 then redis.call('HSET', pass_key, 'at', page[done], 'id', page[done - 1]) end
  return '1', looked
end
