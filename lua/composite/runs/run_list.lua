-- The lists in which runs are searched, each by time of creation: all runs, the runs of a flow, the runs of a tag. A run is in
-- its lists from its submission until its purge begins. Claims and completions do not write them.

-- Maximum numbers of runs that one call returns and checks. Runs are read in batches of the given size while a filter leaves some
-- out.
local MAX_PAGE = 200
local LOOKED_AT = 500
local BATCH = 64

-- Tags are a flat list of names and values.
local function each_tag(c, command, tags, ...)
  for i = 1, #tags, 2 do redis.call(command, key.ffx_tagged_runs(c, tags[i], tags[i + 1]), ...) end
end

-- Returns the lists that a run with these tags is in, from its submission on; the score is the time of that.
function run_list.of(c, flow_name, tags)
  local lists = { key.ffx_runs(c, flow_name or ''), key.ffx_all_runs(c) }
  for i = 1, #tags, 2 do lists[#lists + 1] = key.ffx_tagged_runs(c, tags[i], tags[i + 1]) end
  return lists
end

-- Records that runs of a flow have entered the lists. Lists of tags are left in the server's form, since there may be very many.
function run_list.entered(c, flow_name)
  call.keep_as_tree(c, key.ffx_all_runs(c), call.CALLS_PER_TREE, key.ffx_runs(c, flow_name or ''))
end

-- Returns when the oldest and the latest run of the partition were created; nil without runs.
function run_list.span(c)
  local list = key.ffx_all_runs(c)
  local oldest = redis.call('ZRANGE', list, 0, 0, 'WITHSCORES')
  if not oldest[1] then return nil end
  return tonumber(oldest[2]), tonumber(redis.call('ZRANGE', list, -1, -1, 'WITHSCORES')[2])
end

function run_list.of_run(c, flow_id, flow_name)
  return run_list.of(c, flow_name, redis.call('HGETALL', key.flow_tags(c, flow_id)))
end

-- Removes a run from the lists, as it is being purged.
function run_list.remove(c, flow_id, flow_name)
  redis.call('ZREM', key.ffx_runs(c, flow_name), flow_id)
  redis.call('ZREM', key.ffx_all_runs(c), flow_id)
  each_tag(c, 'ZREM', redis.call('HGETALL', key.flow_tags(c, flow_id)), flow_id)
end

-- Updates the lists for further or changed tags of a submitted run: called before the tags are written.
function run_list.retag(c, flow_id, created_at, tags_key, tags)
  for i = 1, #tags, 2 do
    local old = redis.call('HGET', tags_key, tags[i])
    if old then redis.call('ZREM', key.ffx_tagged_runs(c, tags[i], old), flow_id) end
  end
  local last = {}
  for i = 1, #tags, 2 do last[tags[i]] = tags[i + 1] end
  for name, value in pairs(last) do
    redis.call('ZADD', key.ffx_tagged_runs(c, name, value), created_at, flow_id)
  end
end

local RUN_FIELDS = {
  'managed', 'run_id', 'public_flow_state', 'outcome', 'created_at', 'closed_at', 'flow_kind', 'node_count', 'open_nodes',
  'nodes_failed', 'nodes_cancelled', 'nodes_expired', 'nodes_skipped', 'failed_node', 'paused', 'purging', 'node_total',
  'parent_execution_id', 'namespace', 'start_at', 'run_key', 'queued',
}
local RUN_ID, CLOSED_AT, FLOW_NAME, NODE_COUNT, SKIPPED, PURGING, NODE_TOTAL, PARENT, NAMESPACE, START_AT, RUN_KEY, QUEUED =
  2, 6, 7, 8, 13, 16, 17, 18, 19, 20, 21, 22

-- Returns a text with the letters A to Z in lower case; others do not change, as interpreters do not agree on them.
local function folded(text)
  return (string.gsub(text, '[A-Z]+', string.lower))
end

-- Checks the arguments of a search. Returns nil and the error reply when they are invalid.
local function parse(A)
  local q, err = { name = A.flow_name, namespace = A.namespace }, nil
  q.limit, err = number.whole('limit', A.limit)
  if err then return nil, err end
  q.limit = math.max(1, math.min(q.limit, MAX_PAGE))
  q.before, err = number.optional('before', A.before, nil)
  if err then return nil, err end
  q.after, err = number.optional('after', A.after, nil)
  if err then return nil, err end
  q.closed = A.order == 'closed'
  if not q.closed and is_set(A.order) and A.order ~= 'created' then
    return nil, reply.err('invalid_input', 'order must be created or closed, got: ' .. A.order)
  end
  q.oldest_first = A.oldest_first == '1'
  q.text = is_set(A.text) and folded(A.text)
  q.run_key, q.queued = is_set(A.run_key) and A.run_key, A.queued == '1'
  if #A.tags % 2 ~= 0 then return nil, reply.err('invalid_input', 'tags must be pairs of a name and a value') end
  q.tags = A.tags
  q.children = A.children == '1'
  if is_set(A.states) then
    q.states = {}
    for state in string.gmatch(A.states, '[^,]+') do q.states[state] = true end
  end
  return q
end

-- Returns the shortest list that has all runs of the search.
local function list_of(c, q)
  if q.closed then return key.ffx_closed_flows(c) end
  if q.tags[1] then return key.ffx_tagged_runs(c, q.tags[1], q.tags[2]) end
  if is_set(q.name) then return key.ffx_runs(c, q.name) end
  return key.ffx_all_runs(c)
end

-- Returns the rank after a run in a list, from the newest on, or from the oldest on with `oldest_first`. The run itself may be
-- gone. Without an id: of the first one that is not newer than `at`, or not older.
function run_list.rank_behind(list_key, at, flow_id, oldest_first)
  if not at then return 0 end
  local text = number.digits(at)
  local low
  if oldest_first then
    low = redis.call('ZCOUNT', list_key, '-inf', '(' .. text)
  else
    low = redis.call('ZCOUNT', list_key, '(' .. text, '+inf')
  end
  if not is_set(flow_id) then return low end
  local high = low + redis.call('ZCOUNT', list_key, text, text)
  -- Runs of one time are ordered by their ids: the greatest first, or the least.
  while low < high do
    local middle = math.floor((low + high) / 2)
    local there
    if oldest_first then
      there = redis.call('ZRANGE', list_key, middle, middle)[1] <= flow_id
    else
      there = redis.call('ZRANGE', list_key, middle, middle, 'REV')[1] >= flow_id
    end
    if there then low = middle + 1 else high = middle end
  end
  return low
end

-- Reports whether a run has all the tags.
local function has_tags(tags_key, tags)
  for i = 1, #tags, 2 do
    if redis.call('HGET', tags_key, tags[i]) ~= tags[i + 1] then return false end
  end
  return true
end

-- Reports whether a run's id or the name of its flow contains a text, regardless of case.
local function has_text(run, text)
  return string.find(folded(run[RUN_ID]), text, 1, true) or string.find(folded(run[FLOW_NAME] or ''), text, 1, true)
end

-- Returns one run in the form of the reply, or nil when it is not wanted.
local function found(c, q, flow_id)
  local core_key, tags_key = key.flow_core(c, flow_id), key.flow_tags(c, flow_id)
  -- Most runs that are left out are so by one field.
  if q.states and not q.states[record.value(core_key, 'outcome') or 'open'] then return nil end
  if q.queued and not record.value(core_key, 'queued') then return nil end
  if q.run_key and record.value(core_key, 'run_key') ~= q.run_key then return nil end
  if not has_tags(tags_key, q.tags) then return nil end
  local run = record.values(core_key, unpack(RUN_FIELDS))
  if not run[RUN_ID] or run[PURGING] or run[PARENT] and not q.children then return nil end
  if is_set(q.name) and run[FLOW_NAME] ~= q.name or is_set(q.namespace) and run[NAMESPACE] ~= q.namespace then return nil end
  if q.closed and not is_set(run[CLOSED_AT]) or q.text and not has_text(run, q.text) then return nil end
  -- While a large flow is being submitted, its record does not have all nodes yet.
  run[NODE_COUNT] = run[NODE_TOTAL] or run[NODE_COUNT]
  for i = NODE_COUNT, SKIPPED do run[i] = is_set(run[i]) and run[i] or '0' end
  run[1] = flow_id
  for i = 1, PURGING do run[i] = run[i] or '' end
  run[PURGING], run[PURGING + 1] = redis.call('HGETALL', tags_key), run[START_AT] or ''
  run[PURGING + 2], run[PURGING + 3] = run[RUN_KEY] or '', run[QUEUED] and '1' or '0'
  for i = QUEUED, PURGING + 4, -1 do run[i] = nil end
  return run
end

-- Returns runs of a list by rank, with their times.
local function page_of(list_key, from, to, oldest_first)
  if oldest_first then return redis.call('ZRANGE', list_key, from, to, 'WITHSCORES') end
  return redis.call('ZRANGE', list_key, from, to, 'REV', 'WITHSCORES')
end

-- Reports whether all wanted runs come before a time, in the order of the search.
local function is_past(q, at)
  if q.oldest_first then return q.before and at > q.before end
  return q.after and at < q.after
end

-- @record run flow_id:flow_id run_id:text state:text outcome:text created_at:unix_ms closed_at:unix_ms flow_name:text? node_count:int? open_nodes:int? nodes_failed:int? nodes_cancelled:int? nodes_expired:int? nodes_skipped:int? failed_node:text? paused:text? tags:pairs? start_at:unix_ms? run_key:text? queued:bool?

-- @function ffx_list_runs
-- @summary  Returns runs in one partition, the newest first, or the oldest first: of a flow or of all, in certain states (open,
--           success, failed, cancelled, expired), with certain tags, with a text in their id or the name of their flow, created
--           at `before` or earlier and at `after` or later. With the order `closed` both are times of the end, and only runs that
--           are over are returned. With `behind_id`, returns those after the run with that id and the time `before`, or `after`
--           when the oldest come first, whether or not it still exists. With `run_key`, returns the runs with this key, with
--           `queued` those that wait in the queue of their key. Checks a bounded number of runs and may return fewer than there
--           are: while `more`, continue after `next_at` and `next_id`. The tags are names and values in turn. Child runs are left
--           out without `children`, and runs of other namespaces with `namespace`.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      flow_name          text
-- @arg      before             unix_ms optional
-- @arg      limit              int
-- @arg      behind_id          flow_id optional
-- @arg      after              unix_ms optional
-- @arg      order              text optional
-- @arg      oldest_first       bool optional
-- @arg      states             csv optional
-- @arg      children           bool optional
-- @arg      namespace          text optional
-- @arg      text               text optional
-- @arg      run_key            text optional
-- @arg      queued             bool optional
-- @args     tags               text
-- @reply    OK runs:list(run) more:bool? next_at:unix_ms? next_id:flow_id?
-- @error    invalid_input message:text
function F.ffx_list_runs(K, A)
  local q, err = parse(A)
  if err then return err end
  local c = call.open(K.partition)
  local list_key = list_of(c, q)
  local rank = run_list.rank_behind(list_key, q.oldest_first and q.after or not q.oldest_first and q.before, A.behind_id, q.oldest_first)
  local filtered = q.states or q.closed or q.tags[1] or q.text or q.run_key or q.queued or not q.children or is_set(q.namespace)
  local batch = filtered and math.max(q.limit, BATCH) or q.limit
  local runs, looked_at = {}, 0
  while true do
    local page = page_of(list_key, rank, rank + batch - 1, q.oldest_first)
    for i = 1, #page, 2 do
      local flow_id, at = page[i], page[i + 1]
      if is_past(q, tonumber(at)) then return reply.ok(runs, '0', '', '') end
      runs[#runs + 1] = found(c, q, flow_id)
      looked_at = looked_at + 1
      if #runs == q.limit or looked_at == LOOKED_AT then return reply.ok(runs, '1', at, flow_id) end
    end
    if #page < 2 * batch then return reply.ok(runs, '0', '', '') end
    rank = rank + batch
  end
end
