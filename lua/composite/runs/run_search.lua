-- Searches of runs in their lists.

-- Maximum numbers of runs that one call returns and checks, and of entries that it reads. Runs are read in batches of the given size
-- while a filter leaves some out, entries in larger ones while their ids are searched.
local MAX = { page = 200, checked = 500, read = 16384, batch = 64, named_batch = 1024 }

local RUN_FIELDS = {
  'managed', 'run_id', 'public_flow_state', 'outcome', 'created_at', 'closed_at', 'flow_kind', 'node_count', 'open_nodes',
  'nodes_failed', 'nodes_cancelled', 'nodes_expired', 'nodes_skipped', 'failed_node', 'paused', 'purging', 'node_total',
  'parent_execution_id', 'namespace', 'start_at', 'run_key', 'queued', 'failure_reason', 'failure_category',
  'rerun_at',
}
local RUN_ID, CREATED_AT, CLOSED_AT, FLOW_NAME, NODE_COUNT, OPEN, SKIPPED, PURGING, NODE_TOTAL, PARENT, NAMESPACE, START_AT, RUN_KEY, QUEUED =
  2, 5, 6, 7, 8, 9, 13, 16, 17, 18, 19, 20, 21, 22

-- Checks the arguments of a search. Returns nil and the error reply when they are invalid.
local function parse(A)
  local q, err = { name = A.flow_name, namespace = A.namespace }, nil
  q.limit, err = number.whole('limit', A.limit)
  if err then return nil, err end
  q.limit = math.max(1, math.min(q.limit, MAX.page))
  q.before, err = number.optional('before', A.before, nil)
  if err then return nil, err end
  q.after, err = number.optional('after', A.after, nil)
  if err then return nil, err end
  q.behind_at, err = number.optional('behind_at', A.behind_at, nil)
  if err then return nil, err end
  q.behind_id = A.behind_id or ''
  q.closed = A.order == 'closed'
  if not q.closed and is_set(A.order) and A.order ~= 'created' then
    return nil, reply.err('invalid_input', 'order must be created or closed, got: ' .. A.order)
  end
  q.oldest_first = A.oldest_first == '1'
  q.text = is_set(A.text) and run_entries.folded(A.text)
  q.begins = is_set(A.run_id_begins) and A.run_id_begins
  q.run_key, q.queued = is_set(A.run_key) and A.run_key, A.queued == '1'
  if #A.tags % 2 ~= 0 then return nil, reply.err('invalid_input', 'tags must be pairs of a name and a value') end
  q.tags = A.tags
  if not A.terms then return nil, reply.err('invalid_input', 'the count of terms does not fit the arguments') end
  q.terms, q.tag_names, q.only = A.terms, A.tag_names or '', is_set(A.only) and A.only
  q.children = A.children == '1'
  if is_set(A.states) then
    q.states, q.outcomes = {}, {}
    for state in string.gmatch(A.states, '[^,]+') do q.states[state] = true end
    for i, outcome in ipairs(run_head.OUTCOME) do
      if q.states[outcome] or i == 1 and q.states.open then q.outcomes[string.char(i)] = true end
    end
  end
  return q
end

-- Reports whether a run has all the tags.
local function has_tags(tags_key, tags)
  for i = 1, #tags, 2 do
    if redis.call('HGET', tags_key, tags[i]) ~= tags[i + 1] then return false end
  end
  return true
end

-- Reports whether a run's id or the name of its flow contains a text, regardless of case.
local function has_text(core_key, text)
  local run = record.values(core_key, 'run_id', 'flow_kind')
  local folded = run_entries.folded
  return string.find(folded(run[1] or ''), text, 1, true) or string.find(folded(run[2] or ''), text, 1, true)
end

-- Reports whether a time (ms) is among the times of the search.
local function is_at(q, at) return not (q.before and at > q.before or q.after and at < q.after) end

-- Returns one run in the form of the reply, or nil when it is not wanted. `at` is the time of its entry in a list.
local function found(c, q, flow_id, at)
  -- Most runs that are left out are so by one field: the outcome is a byte of the header.
  if q.outcomes and not q.outcomes[run_list.outcome_byte(c, flow_id)] then return nil end
  local core_key, tags_key = key.flow_core(c, flow_id), key.flow_tags(c, flow_id)
  if q.queued and not record.value(core_key, 'queued') then return nil end
  if q.run_key and record.value(core_key, 'run_key') ~= q.run_key then return nil end
  if q.begins and string.sub(record.value(core_key, 'run_id') or '', 1, #q.begins) ~= q.begins then return nil end
  if q.text and not has_text(core_key, q.text) then return nil end
  if not has_tags(tags_key, q.tags) or not run_list.has_terms(core_key, tags_key, q.terms) then return nil end
  local rows = row.run(c, flow_id)
  if not rows or not q.sets and at ~= (q.closed and rows.closed or rows.listed) then return nil end
  local run = record.values(core_key, unpack(RUN_FIELDS))
  if not run[RUN_ID] or run[PURGING] or run[PARENT] and not q.children then return nil end
  if is_set(q.name) and run[FLOW_NAME] ~= q.name or is_set(q.namespace) and run[NAMESPACE] ~= q.namespace then return nil end
  if not is_at(q, tonumber(run[q.closed and CLOSED_AT or CREATED_AT]) or 0) then return nil end
  -- While a large flow is being submitted, its record does not have all nodes yet.
  run[NODE_COUNT] = run[NODE_TOTAL] or run[NODE_COUNT]
  run[OPEN] = number.text(row.open(rows))
  for i = NODE_COUNT, SKIPPED do run[i] = is_set(run[i]) and run[i] or '0' end
  run[1] = flow_id
  for i = 1, PURGING do run[i] = run[i] or '' end
  local reason, category, rerun_at = run[QUEUED + 1] or '', run[QUEUED + 2] or '', run[QUEUED + 3] or ''
  run[PURGING], run[PURGING + 1] = redis.call('HGETALL', tags_key), run[START_AT] or ''
  run[PURGING + 2], run[PURGING + 3], run[PURGING + 4] = run[RUN_KEY] or '', run[QUEUED] and '1' or '0', number.digits(at)
  run[PURGING + 5], run[PURGING + 6], run[PURGING + 7] = reason, category, rerun_at
  for i = QUEUED + 3, PURGING + 8, -1 do run[i] = nil end
  return run
end

-- Returns the rank after a place in a list. Entries of other partitions may have the same time: entries of one time are ordered by
-- their ids.
local function rank_behind(q)
  local at, oldest_first = q.behind_at, q.oldest_first
  local rank = run_entries.rank_in(q.list, oldest_first and at or at + 1, oldest_first)
  local there, flow_id = run_entries.read(run_entries.page(q.list, rank, 1, oldest_first)[1] or '')
  if there ~= at then return rank end
  local is_behind
  if oldest_first then is_behind = flow_id > q.behind_id else is_behind = flow_id < q.behind_id end
  return is_behind and rank or rank + 1
end

-- Begins a search in the sets of its outcomes, if these have all of its runs, and not more than its list. They are in the order of
-- starts, so a search in the order of ends reads all of them, if they are few. Reports whether it did.
local function begin_in_outcomes(c, q)
  local sets, size = run_list.sets_of_outcomes(c, q)
  if not sets or (q.closed or q.by_id) and size > MAX.checked or size > redis.call('LLEN', q.list) then return false end
  if not q.closed then
    run_list.begin_outcomes(q, sets)
    return true
  end
  local ids = {}
  for i = 1, #sets do
    for _, flow_id in ipairs(redis.call('ZRANGE', sets[i], 0, -1)) do ids[#ids + 1] = flow_id end
  end
  run_list.begin_named(c, q, ids)
  return true
end

-- Reports whether the entries of the list of all runs show which runs may have the ids of a search. A text may be in the name of a
-- flow, too, and the runs of a flow with few are checked one by one.
local function is_by_id(c, q)
  if q.closed or not q.begins and not q.text then return false end
  if is_set(q.name) and redis.call('LLEN', run_entries.key(c, run_entries.OF_FLOW .. q.name)) <= MAX.checked then return false end
  q.text_of_id = q.text and not run_counts.has_flow_with(c, q.text) and q.text
  return q.begins or q.text_of_id
end

-- Chooses the shortest list that has all runs of the search, and finds the rank at which it begins there; 0 without a list.
local function begin(c, q)
  if q.only then
    local ids = {}
    for flow_id in string.gmatch(q.only, '[^,]+') do ids[#ids + 1] = flow_id end
    run_list.begin_named(c, q, ids)
    return 0
  end
  if (q.tags[1] or q.terms[1]) and not q.closed then
    run_list.begin_sets(c, q)
    return 0
  end
  q.by_id = is_by_id(c, q)
  local name = run_entries.ALL
  if q.closed then name = run_entries.OVER elseif is_set(q.name) and not q.by_id then name = run_entries.OF_FLOW .. q.name end
  q.list = run_entries.key(c, name)
  if q.before then q.none_from = run_entries.none_from(c, q.closed and run_entries.OVER or run_entries.ALL, q.before) end
  if begin_in_outcomes(c, q) then
    q.by_id = false
    return 0
  end
  if q.behind_at then return rank_behind(q) end
  if q.oldest_first then return q.after and run_entries.rank_in(q.list, q.after * 1000, true) or 0 end
  return q.none_from and run_entries.rank_in(q.list, q.none_from, false) or 0
end

-- Returns the runs of `count` entries from a rank on that may be wanted, each with the time (µs) of its entry; and the last of these
-- entries, nil at the end of the list.
local function page_of(q, rank, count)
  local page = {}
  if q.sets then
    page = run_list.next_of_sets(q, count)
    return page, page[count]
  end
  if q.named then
    for i = rank + 1, math.min(#q.named, rank + count) do page[#page + 1] = q.named[i] end
    return page, page[count]
  end
  page = run_entries.page(q.list, rank, count, q.oldest_first)
  local last = page[count] and run_entries.pair(page[count])
  if q.by_id then page = run_entries.may_be_named(page, q.begins, q.text_of_id) end
  for i = 1, #page do page[i] = run_entries.pair(page[i]) end
  return page, last
end

-- Reports whether all wanted runs come before an entry, in the order of the search.
local function is_past(q, at)
  if q.oldest_first then return q.none_from and at >= q.none_from end
  return q.after and at < q.after * 1000
end

-- @record run flow_id:flow_id run_id:text state:text outcome:text created_at:unix_ms closed_at:unix_ms flow_name:text? node_count:int? open_nodes:int? nodes_failed:int? nodes_cancelled:int? nodes_expired:int? nodes_skipped:int? failed_node:text? paused:text? tags:pairs? start_at:unix_ms? run_key:text? queued:bool? listed_at:int? failure_reason:text? failure_category:text? rerun_at:unix_ms?

-- @function ffx_list_runs
-- @summary  Returns runs in one partition, the newest first, or the oldest first: of a flow or of all, in certain states (open,
--           success, failed, cancelled, expired), with certain tags, with a text in their id or the name of their flow, created
--           at `before` or earlier and at `after` or later. With the order `closed` both are times of the end, and only runs that
--           are over are returned. Each has its place in the order, `listed_at` (µs); with `behind_at` and `behind_id`, returns
--           those after such a place, and the id of its run, whether or not the run still exists. With `run_key`, returns the runs
--           with this key, with `queued` those that wait in the queue of their key, with `only` the ones with these ids, with
--           `run_id_begins` those whose id, as programs know it, begins with a text.
--           Each of the `terms` must be the value of a tag of the run, or have all its words, comma-separated, among the words
--           of the run's failure; the sets of the tags that `tag_names` names are searched for a value. `cut` means that a set of a
--           word that was searched keeps only the newest runs. Checks a bounded number of runs and may return
--           fewer than there are: while `more`, continue after `next_at` and `next_id`. The tags are names and values in turn.
--           Child runs are left out without `children`, and runs of other namespaces with `namespace`.
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
-- @arg      run_id_begins      text optional
-- @arg      run_key            text optional
-- @arg      queued             bool optional
-- @arg      behind_at          int optional
-- @arg      only               csv optional
-- @arg      tag_names          csv optional
-- @group    terms              value:text words:text
-- @args     tags               text
-- @reply    OK runs:list(run) more:bool? next_at:int? next_id:flow_id? cut:bool?
-- @error    invalid_input message:text
function F.ffx_list_runs(K, A)
  local q, err = parse(A)
  if err then return err end
  local c = call.open(K.partition)
  local rank = begin(c, q)
  local filtered = q.states or q.closed or q.tags[1] or q.terms[1] or q.text or q.begins or q.run_key or q.queued or not q.children or is_set(q.namespace)
  local batch = q.by_id and MAX.named_batch or filtered and math.max(q.limit, MAX.batch) or q.limit
  local runs, looked_at, read = {}, 0, 0
  while true do
    local page, last = page_of(q, rank, batch)
    for i = 1, #page do
      local flow_id, at = page[i][1], page[i][2]
      if is_past(q, at) then return reply.ok(runs, '0', '0', '', q.is_cut or '0') end
      runs[#runs + 1] = found(c, q, flow_id, at)
      looked_at = looked_at + 1
      if #runs == q.limit or looked_at == MAX.checked then return reply.ok(runs, '1', number.digits(at), flow_id, q.is_cut or '0') end
    end
    if not last or is_past(q, last[2]) then return reply.ok(runs, '0', '0', '', q.is_cut or '0') end
    rank, read = rank + batch, read + batch
    if read >= MAX.read then return reply.ok(runs, '1', number.digits(last[2]), last[1], q.is_cut or '0') end
  end
end
