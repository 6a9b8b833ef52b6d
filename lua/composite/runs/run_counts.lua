-- Counts runs, by namespace, flow and outcome, and the starts and ends in each hour. The counts change only in the calls that
-- start, end, reopen and purge runs.
--
-- A start and an end are counted in the hash of their hour, with one command. With the first event of a further hour, the hash
-- before is added to the totals, and kept for a while. So the present counts are the totals and the present hash together, which
-- the field `hour` of the totals names. A purged run is subtracted from the totals alone.

local HOUR_MS = 3600000

-- Time (ms) for which the counts of an hour are kept.
local KEPT_MS = 8 * 24 * HOUR_MS

-- Maximum number of hours that one call reads.
local MAX_HOURS = 200

-- Counts that the call has not written yet, by field, and key, where several have the same: key, field, number, context. The
-- table lives from call to call, as the frame of each call writes it in the end.
local pending = {}

-- The last count of the call, since the next is usually the same: event, flow and namespace, the place of the partition, and its
-- entry in `pending`.
local last_event, last_flow, last_namespace, last_at, last_entry

local function add(c, target, field, by, is_total)
  local place = field
  local entry = pending[place]
  if entry and entry.key ~= target then
    place = field .. '\n' .. target
    entry = pending[place]
  end
  if entry then
    entry.by = entry.by + by
  else
    entry = { key = target, field = field, by = by, c = c, is_total = is_total }
    pending[place], call.held.run_counts = entry, true
  end
  return entry
end

-- Returns the field of an event (started, success, failed, cancelled, expired) of the runs of a flow. Child runs are counted
-- separately.
function run_counts.field(event, flow_name, namespace, is_child)
  return (is_child and 'child_' or '') .. event .. ' ' .. (flow_name or '') .. ' ' .. (namespace or '')
end

function run_counts.hour(ms) return number.text(math.floor(ms / HOUR_MS)) end

local function count(c, event, flow_name, namespace, is_child)
  if last_at == c.at and last_event == event and last_flow == flow_name and last_namespace == namespace and not is_child then
    last_entry.by = last_entry.by + 1
    return
  end
  local hash = key.ffx_run_counts_of_hour(c, run_counts.hour(c.now))
  local entry = add(c, hash, run_counts.field(event, flow_name, namespace, is_child), 1)
  if is_child then return end
  last_event, last_flow, last_namespace, last_at, last_entry = event, flow_name, namespace, c.at, entry
end

function run_counts.started(c, flow_name, namespace, is_child)
  count(c, 'started', flow_name, namespace, is_child)
end

-- Counts `runs` starts at once. `known` keeps from call to call the field of the runs, and the key of the hash of the hour.
function run_counts.add_started(c, known, runs)
  local hour = math.floor(c.now / HOUR_MS)
  if known.hour ~= hour then known.hour, known.hour_key = hour, key.ffx_run_counts_of_hour(c, number.text(hour)) end
  if redis.call('HINCRBY', known.hour_key, known.field, runs) == runs then run_counts.begin_hour(c) end
end

-- Counts the end of a run. `flow` has its flow_kind, namespace and parent_execution_id.
function run_counts.ended(c, flow, outcome)
  count(c, outcome, flow.flow_kind, flow.namespace, is_set(flow.parent_execution_id))
end

-- Counts `runs` ends with success of runs of a class, which belong to no node.
function run_counts.add_ended(c, class, runs)
  add(c, key.ffx_run_counts_of_hour(c, run_counts.hour(c.now)), run_counts.field('success', class.flow_kind, class.namespace), runs)
end

-- Reverts the count of an event for a run.
function run_counts.taken_back(c, event, flow)
  local field = run_counts.field(event, flow.flow_kind, flow.namespace, is_set(flow.parent_execution_id))
  add(c, key.ffx_run_counts(c), field, -1, true)
end

-- Adds to a field of the totals. A field of 0 is removed.
function run_counts.add_total(totals, field, by)
  if redis.call('HINCRBY', totals, field, by) == 0 then redis.call('HDEL', totals, field) end
end

-- Makes the hash of this hour the present one, and adds the hash of an earlier hour to the totals.
function run_counts.begin_hour(c)
  local totals, hour = key.ffx_run_counts(c), run_counts.hour(c.now)
  local before = redis.call('HGET', totals, 'hour')
  if before == hour then return end
  if before then
    local done = key.ffx_run_counts_of_hour(c, before)
    local fields = redis.call('HGETALL', done)
    for i = 1, #fields, 2 do run_counts.add_total(totals, fields[i], fields[i + 1]) end
    redis.call('PEXPIRE', done, KEPT_MS)
  end
  redis.call('HSET', totals, 'hour', hour)
end

-- Writes the counts of the call. The next call gets another table, as in event_log.write.
function run_counts.write()
  local counted = pending
  pending, last_at = {}, nil
  for _, entry in next, counted, nil do
    local c, field, by = entry.c, entry.field, entry.by
    if entry.is_total then
      if by ~= 0 then run_counts.add_total(entry.key, field, by) end
    elseif redis.call('HINCRBY', entry.key, field, by) == by then
      run_counts.begin_hour(c) -- the first of its kind in this hour
    end
  end
end

-- Drops the counts that an interrupted call has left.
function run_counts.drop() pending, last_at = {}, nil end

-- Returns the present counts, by field.
function run_counts.present(c)
  local totals, sums = key.ffx_run_counts(c), {}
  local hour = redis.call('HGET', totals, 'hour')
  local function take(name)
    local fields = redis.call('HGETALL', name)
    for i = 1, #fields, 2 do
      if fields[i] ~= 'hour' then sums[fields[i]] = (sums[fields[i]] or 0) + tonumber(fields[i + 1]) end
    end
  end
  take(totals)
  if hour then take(key.ffx_run_counts_of_hour(c, hour)) end
  return sums
end

-- Reports whether a text, in lower case, is in the name of a flow that has runs, whatever its case.
function run_counts.has_flow_with(c, text)
  for field in pairs(run_counts.present(c)) do
    local flow_name = string.match(field, '^%S+ (%S*) ')
    if flow_name and string.find(run_entries.folded(flow_name), text, 1, true) then return true end
  end
  return false
end

-- Returns the names of the flows of a namespace that have runs, in order, except the flows of child runs alone.
function run_counts.flows(c, namespace)
  local names = {}
  for field, runs in pairs(run_counts.present(c)) do
    local flow_name, of = string.match(field, '^started (%S*) (.*)$')
    if flow_name and of == namespace and runs > 0 then names[#names + 1] = flow_name end
  end
  table.sort(names)
  return names
end

-- Appends the counts of a namespace, and of a flow if one is named, to a list.
local function append_counts(list, hour, event, flow_name, namespace, runs, A)
  if namespace == A.namespace and (not is_set(A.flow_name) or flow_name == A.flow_name) then
    list[#list + 1] = { hour, event, flow_name, number.text(runs) }
  end
end

local function each_field(list, hour, fields, A)
  for field, runs in pairs(fields) do
    local event, flow_name, namespace = string.match(field, '^(%S*) (%S*) (.*)$')
    if event and tonumber(runs) ~= 0 then append_counts(list, hour, event, flow_name, namespace, tonumber(runs), A) end
  end
end

-- @record run_count hour:int event:text flow_name:text runs:int

-- @function ffx_count_runs
-- @summary  Returns how many runs of a partition there are, by flow and event: `started` counts all runs that are not purged,
--           success, failed, cancelled and expired the ones that ended so; with `child_` in front, child runs. With `from_hour`
--           and `to_hour`, hours since 1970, returns how many were started and ended so in each of these hours, purged ones
--           included; counts before `kept_from` are no longer known. No run is read.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      flow_name          text optional
-- @arg      from_hour          int optional
-- @arg      to_hour            int optional
-- @reply    OK counts:list(run_count) now:unix_ms kept_from:unix_ms
-- @error    invalid_input message:text
function F.ffx_count_runs(K, A)
  local from, to, err
  from, err = number.optional('from_hour', A.from_hour, nil)
  if err then return err end
  to, err = number.optional('to_hour', A.to_hour, from)
  if err then return err end
  local c, list = call.open(K.partition), {}
  if from and to - from >= MAX_HOURS then
    return reply.err('invalid_input', 'at most ' .. MAX_HOURS .. ' hours in one call, got: ' .. number.text(to - from + 1))
  end
  if not from then each_field(list, '0', run_counts.present(c), A) end
  for hour = from or 1, to or 0 do
    local text, fields = number.text(hour), {}
    local found = redis.call('HGETALL', key.ffx_run_counts_of_hour(c, text))
    for i = 1, #found, 2 do fields[found[i]] = found[i + 1] end
    each_field(list, text, fields, A)
  end
  return reply.ok(list, c.now_text, number.text((math.floor(c.now / HOUR_MS) - KEPT_MS / HOUR_MS) * HOUR_MS))
end
