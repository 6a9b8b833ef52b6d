-- Counts the runs of a partition again, and their nodes by lane (see lane_counts), a bounded number per call, while runs start,
-- end and are purged. It counts their states at the beginning of the pass: the times of the entries in the lists of runs, which
-- only grow, show which were before. The difference from the counters at that moment is their error, regardless of later changes.
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
local function count_run(pass_key, pass, run, flow)
  if run.listed > pass.last_start then return end
  tally(pass_key, 'started', flow)
  if run.closed > 0 and run.closed <= pass.last_end and is_set(flow.outcome) then tally(pass_key, flow.outcome, flow) end
end

-- Returns the pass that is under way: the times of the last start and of the last end before it began, and of the last run that
-- it has counted; nil when there is none.
local function read_pass(c, pass_key)
  local pass = redis.call('HMGET', pass_key, 'since', 'last_start', 'last_end', 'at')
  if not is_under_way(c, pass[1]) then return nil end
  return { last_start = tonumber(pass[2]), last_end = tonumber(pass[3]), at = tonumber(pass[4]) }
end

-- Counts a run that is being reopened or purged, which hides its earlier state.
local function count_before_change(c, flow_id, flow, stays)
  local pass_key, run = key.ffx_run_recount(c), row.run(c, flow_id)
  local pass = run and read_pass(c, pass_key)
  if not pass or run.listed <= pass.at then return end
  if redis.call('HEXISTS', pass_key, 'seen ' .. flow_id) == 1 then return end
  count_run(pass_key, pass, run, flow)
  if stays then redis.call('HSET', pass_key, 'seen ' .. flow_id, '1') end
end

-- Fields of a run that a count reads.
local RUN_FIELDS = { 'flow_kind', 'namespace', 'parent_execution_id', 'outcome', 'purging' }

-- Counts a run that had ended and is open again, before its rows record that.
function run_recount.reopened(c, flow_id, outcome)
  local flow = is_set(outcome) and record.read(key.flow_core(c, flow_id), RUN_FIELDS)
  if not flow then return end
  flow.outcome = outcome
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

-- Begins a pass.
local function begin(c, pass_key)
  local last_start = run_entries.last_time(key.ffx_all_runs(c))
  run_counts.begin_hour(c)
  redis.call('UNLINK', pass_key)
  local values = {
    'since', c.now_text, 'last_start', number.digits(last_start),
    'last_end', number.digits(run_entries.last_time(key.ffx_closed_flows(c))), 'at', '0',
  }
  for field, runs in pairs(run_counts.present(c)) do
    values[#values + 1] = 'b ' .. field
    values[#values + 1] = number.text(runs)
  end
  call.chunked('HSET', pass_key, values)
  lane_counts.pass_begins(c, last_start)
  if begun[c.at.probe] == nil then
    if begun_count >= MAX_BEGUN then begun, begun_count = {}, 0 end
    begun_count = begun_count + 1
  end
  begun[c.at.probe] = c.now_text
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

-- Counts up to `limit` more runs. Returns '1' while there are more, else '0', and how many were read.
function run_recount.step(c, limit)
  local pass_key = key.ffx_run_recount(c)
  if not is_under_way(c, redis.call('HGET', pass_key, 'since')) then begin(c, pass_key) end
  local pass = read_pass(c, pass_key)
  local list_key = key.ffx_all_runs(c)
  local rank = run_entries.rank(list_key, pass.at + 1)
  local page = redis.call('LRANGE', list_key, rank, rank + limit - 1)
  local looked, done = 0, 0
  local function count_one(flow_id, at)
    local run = row.run(c, flow_id)
    if not run or run.listed ~= at then return 0, false end
    local rows, all = lane_counts.count_run(c, run)
    if not all then return rows, true end
    local flow = record.read(key.flow_core(c, flow_id), RUN_FIELDS)
    if flow and not flow.purging and redis.call('HEXISTS', pass_key, 'seen ' .. flow_id) == 0 then
      count_run(pass_key, pass, run, flow)
    end
    return rows, false
  end
  while done < #page and looked < limit do
    local at, flow_id = run_entries.read(page[done + 1])
    -- A run that raises an error is counted as missing.
    local _, rows, has_more = call.guarded(c, 'index_reconciliation', flow_id or '', count_one, at)
    looked = looked + 1 + (rows or 0)
    if has_more then break end
    done = done + 1
  end
  if done == #page and #page < limit then
    finish(c, pass_key)
    return '0', looked
  end
  if done > 0 then redis.call('HSET', pass_key, 'at', number.digits(run_entries.time(page[done]))) end
  return '1', looked
end
