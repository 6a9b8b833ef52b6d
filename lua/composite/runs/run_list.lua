-- The lists in which runs are searched: all runs and the runs of a flow, by their start, the runs that are over, by their end (see
-- run_entries), and the runs of a tag, or of a word of the error that they failed with, in sorted sets by time of creation. Runs
-- without success are in sorted sets by their outcome. A run is in its lists from its submission until its purge. Claims and
-- completions with success do not write the sets.

-- Tags are a flat list of names and values.
local function each_tag(c, command, tags, ...)
  for i = 1, #tags, 2 do redis.call(command, key.ffx_tagged_runs(c, tags[i], tags[i + 1]), ...) end
end

-- The words of the failure of a run are in sets as the tags are, under a name that no tag has, as all tags have a dot. A program
-- sends keyed hashes, and the category is there as it is, after `=`. The run keeps them in `failure_words`, with commas around
-- each. A set keeps the newest runs.
local FAILURE, MAX_FAILURES = 'failure', 1000
run_list.MAX_FAILURES = MAX_FAILURES

-- Returns the sets of the words of a failure.
function run_list.of_words(c, words)
  local sets = call.short_list()
  for word in string.gmatch(words or '', '[^,]+') do sets[#sets + 1] = key.ffx_tagged_runs(c, FAILURE, word) end
  return sets
end

-- Reports whether the key of a set is of a word, not of a tag.
function run_list.is_of_words(c, set_key)
  local begins = key.ffx_tagged_runs(c, FAILURE, '')
  return string.sub(set_key, 1, #begins) == begins
end

-- Enters a run, whose failure is recorded, in the sets of its words.
function run_list.failed(c, flow_id, flow_key, category, words)
  local run = record.values(flow_key, 'created_at', 'flow_kind', 'run_id', 'purging')
  if not run[3] or run[4] then return end
  local text = ',=' .. string.sub(string.gsub(category or '', '[^%w_.-]', '_'), 1, 64) .. ','
  if is_set(words) then text = text .. words .. ',' end
  record.set(flow_key, 'failure_words', text)
  for _, set in ipairs(run_list.of_words(c, text)) do
    redis.call('ZADD', set, run[1], flow_id)
    if redis.call('ZCARD', set) > MAX_FAILURES then redis.call('ZREM', set, redis.call('ZRANGE', set, '0', '0')[1]) end
  end
end

local function leave_words(c, flow_id, words)
  for _, set in ipairs(run_list.of_words(c, words)) do redis.call('ZREM', set, flow_id) end
end

-- Removes a run from the sets of the words of its failure, which is forgotten.
function run_list.not_failed(c, flow_id, flow_key)
  local words = record.value(flow_key, 'failure_words')
  if not words then return end
  leave_words(c, flow_id, words)
  record.clear(flow_key, 'failure_words')
end

-- The runs that failed, expired or were cancelled are in sets by their outcome, as soon as that is recorded. The score is the time
-- of the run's entry in the list of all runs, so these sets have the order of that list.
local OUTCOME = 'outcome'

-- Returns the set of the runs with an outcome.
function run_list.of_outcome(c, outcome) return key.ffx_tagged_runs(c, OUTCOME, outcome) end

-- Returns the set that a run is in by its outcome; nil for a run that is open or has succeeded.
function run_list.set_of_outcome(c, run)
  local outcome = run_head.OUTCOME[run.outcome]
  return outcome ~= 'none' and outcome ~= 'success' and run_list.of_outcome(c, outcome) or nil
end

local OUTCOME_AT = '' .. run_head.OUTCOME_AT - 1

-- Returns the outcome of a run as the byte that its header has; '' when it has no rows.
function run_list.outcome_byte(c, flow_id) return redis.call('GETRANGE', key.flow_nodes(c, flow_id), OUTCOME_AT, OUTCOME_AT) end

-- Enters a run in the set of its outcome, once that is recorded.
function run_list.judged(c, flow_id)
  local run = row.run(c, flow_id)
  local set = run and run_list.set_of_outcome(c, run)
  if set then redis.call('ZADD', set, number.digits(run.listed), flow_id) end
end

-- Returns the sets that a run with these tags is in; the score is the time of its creation.
function run_list.of_tags(c, tags)
  local sets = call.short_list()
  for i = 1, #tags, 2 do sets[#sets + 1] = key.ffx_tagged_runs(c, tags[i], tags[i + 1]) end
  return sets
end

-- Makes the entries of runs that are to be created, and enters them in the lists. Each run gets its time as `listed`, and its packed
-- id.
function run_list.enter(c, flow_name, runs)
  local all_key, own_key, named, entries = key.ffx_all_runs(c), key.ffx_runs(c, flow_name or ''), call.short_list(), call.short_list()
  local at = run_entries.next_time(c, all_key, own_key) - 1
  for i = 1, #runs do
    local run = runs[i]
    local id = run_entries.pack_id(run.flow_id)
    local entry = run_entries.pack(at + i, id)
    run.listed, run.packed_id, entries[i], named[i] = at + i, id, entry, entry .. run_data.name(run.record)
  end
  call.chunked('RPUSH', all_key, named)
  call.chunked('RPUSH', own_key, entries)
  run_entries.note_lead(c, run_entries.ALL, at + #runs)
end

-- The entries of runs that end in the call, by the place of the partition. The table lives from call to call, as the frame of each
-- call writes it in the end.
local ends = {}

-- Enters a run in the list of those that are over, as it ends. `id`: packed. Returns the time of the entry, which is to be in its
-- header.
function run_list.ended(c, id)
  local list = ends[c.at]
  if not list then
    local list_key = key.ffx_closed_flows(c)
    local first = run_entries.next_time(c, list_key)
    list = { c = c, key = list_key, first = first, next_at = first, entries = call.short_list() }
    ends[c.at], call.held.ends = list, true
  end
  local at, entries = list.next_at, list.entries
  list.next_at = at + 1
  entries[#entries + 1] = run_entries.pack(at, id)
  return at
end

-- Returns when the oldest and the latest run of the partition were entered in its lists (ms); nil without runs.
function run_list.span(c)
  local list_key = key.ffx_all_runs(c)
  local oldest = redis.call('LINDEX', list_key, '0')
  if not oldest then return nil end
  return math.floor(run_entries.time(oldest) / 1000), math.floor(run_entries.last_time(list_key) / 1000)
end

-- Writes the entries of the runs that have ended in the call.
function run_list.write()
  local ended = ends
  ends = {}
  for _, list in next, ended, nil do
    call.chunked('RPUSH', list.key, list.entries)
    run_entries.note_lead(list.c, run_entries.OVER, list.next_at - 1)
  end
end

-- Drops the entries that an interrupted call has left.
function run_list.drop() ends = {} end

-- Records the end of a run, which has its outcome, in its header.
function run_list.close(c, flow_id)
  local run = row.run(c, flow_id)
  if not run then return end
  run.closed = run_list.ended(c, run_entries.pack_id(flow_id))
  row.touch_run(run)
  run_list.judged(c, flow_id)
end

-- Records that a run is open again, which leaves a hole in the list of runs that are over. `outcome`: its outcome until now.
function run_list.reopen(c, flow_id, outcome)
  local run = row.run(c, flow_id)
  if not run then return end
  if is_set(outcome) then redis.call('ZREM', run_list.of_outcome(c, outcome), flow_id) end
  if run.closed == 0 then return end
  run.closed = 0
  row.touch_run(run)
  run_holes.note(c, run_entries.OVER)
end

-- Removes a run that is being purged from the sets of its tags, its outcome and the words of its failure. Its rows are the sign for
-- the other lists.
function run_list.withdraw(c, flow_id, words)
  each_tag(c, 'ZREM', redis.call('HGETALL', key.flow_tags(c, flow_id)), flow_id)
  local run = row.run(c, flow_id)
  local set = run and run_list.set_of_outcome(c, run)
  if set then redis.call('ZREM', set, flow_id) end
  if words then leave_words(c, flow_id, words) end
end

-- Notes that the rows of a run are removed, which leaves holes. The name of its flow is nil if it is unknown.
function run_list.removed(c, run, flow_name)
  run_holes.note(c, run_entries.ALL)
  if flow_name then run_holes.note(c, run_entries.OF_FLOW .. flow_name) end
  if run.closed > 0 then run_holes.note(c, run_entries.OVER) end
end

-- Reports whether the list of all runs has a run.
function run_list.has(c, flow_id)
  local run = row.run(c, flow_id)
  return run ~= nil and run_entries.find(c, key.ffx_all_runs(c), run_entries.of_run(run)) ~= nil
end

-- Enters a missing entry, or puts it in the place of another one of its run.
local function repair_entry(c, index, list_key, entry, name)
  local wanted, there = name and entry .. name or entry, run_entries.find(c, list_key, entry)
  if there == wanted then return end
  run_holes.drop_copies(c)
  if there then redis.call('LREM', list_key, 1, there) end
  run_entries.insert(c, list_key, wanted)
  repair_index.note(c, index)
end

-- Enters a run in the lists that it is missing from. One that is being purged has left the sets of its tags.
function run_list.repair(c, run, flow_name, created_at, is_purged)
  local entry = run_entries.of_run(run)
  local run_id = record.value(key.flow_core(c, run.id), 'run_id') or ''
  repair_entry(c, 'runs', key.ffx_all_runs(c), entry, run_data.name_of(run_id))
  repair_entry(c, 'runs', key.ffx_runs(c, flow_name), entry)
  if is_purged then return end
  for _, set in ipairs(run_list.of_tags(c, redis.call('HGETALL', key.flow_tags(c, run.id)))) do
    repair_index.place(c, 'runs', set, run.id, created_at, true)
  end
  for _, set in ipairs(run_list.of_words(c, record.value(key.flow_core(c, run.id), 'failure_words'))) do
    if redis.call('ZCARD', set) < MAX_FAILURES then repair_index.place(c, 'runs', set, run.id, created_at, true) end
  end
  local set = run_list.set_of_outcome(c, run)
  if set then repair_index.place(c, 'runs', set, run.id, run.listed, true) end
end

-- Reports whether a run that exists belongs into a set of a tag, an outcome or a word.
function run_list.belongs(c, set_key, flow_id)
  for _, set in ipairs(run_list.of_tags(c, redis.call('HGETALL', key.flow_tags(c, flow_id)))) do
    if set == set_key then return true end
  end
  for _, set in ipairs(run_list.of_words(c, record.value(key.flow_core(c, flow_id), 'failure_words'))) do
    if set == set_key then return true end
  end
  local run = row.run(c, flow_id)
  return run ~= nil and run_list.set_of_outcome(c, run) == set_key
end

-- Enters a run that is over in the list of those, or makes one that is open leave it.
function run_list.repair_end(c, run, is_over)
  if is_over and ends[c.at] and run.closed >= ends[c.at].first then return end -- it has ended in this call
  if is_over and run.closed > 0 then
    repair_entry(c, 'closed_flows', key.ffx_closed_flows(c), run_entries.pack(run.closed, run_entries.pack_id(run.id)))
  elseif is_over ~= (run.closed > 0) then
    if is_over then run_list.close(c, run.id) else run_list.reopen(c, run.id) end
    repair_index.note(c, 'closed_flows')
  end
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

-- Returns the rank after a run in a sorted set, from the newest on, or from the oldest on with `oldest_first`. The run itself may be
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

-- Reports whether the failure of a run has all words of a term.
local function has_words(failed, words)
  if not failed or words == '' then return false end
  for word in string.gmatch(words, '[^,]+') do
    if not string.find(failed, ',' .. word .. ',', 1, true) then return false end
  end
  return true
end

-- Reports whether a run has each of the terms, in its failure or as the value of a tag.
function run_list.has_terms(core_key, tags_key, terms)
  if #terms == 0 then return true end
  local failed, values = record.value(core_key, 'failure_words'), {}
  local tags = redis.call('HGETALL', tags_key)
  for i = 2, #tags, 2 do values[tags[i]] = true end
  for _, term in ipairs(terms) do
    if not (is_set(term.value) and values[term.value]) and not has_words(failed, term.words or '') then return false end
  end
  return true
end

-- Searches in the sets: the runs of several sets, each once, in one order.

-- Returns the keys of the sets that together have all runs with the first tag, or with the first of the terms.
local function sets_of(c, q)
  if q.tags[1] then return { key.ffx_tagged_runs(c, q.tags[1], q.tags[2]) } end
  local term, keys = q.terms[1], {}
  if is_set(term.value) then
    for name in string.gmatch(q.tag_names, '[^,]+') do keys[#keys + 1] = key.ffx_tagged_runs(c, name, term.value) end
  end
  keys[#keys + 1] = run_list.of_words(c, string.match(term.words or '', '[^,]+'))[1]
  return keys
end

-- Returns a set of a search, with the rank at which it begins there: after the score `from`. `unit`: of its scores (µs).
local function open_set(q, set_key, from, unit)
  return {
    key = set_key, rank = run_list.rank_behind(set_key, from, q.behind_id, q.oldest_first), page = {}, at = 1, unit = unit,
  }
end

-- Finds the sets of the search that have runs.
function run_list.begin_sets(c, q)
  local from = q.oldest_first and q.after or not q.oldest_first and q.before
  if q.behind_at then from = math.floor(q.behind_at / 1000) end
  q.none_from = q.before and q.before * 1000 + 1
  q.sets = {}
  for _, set_key in ipairs(sets_of(c, q)) do
    local size = redis.call('ZCARD', set_key)
    if size > 0 then
      q.sets[#q.sets + 1] = open_set(q, set_key, from, 1000)
      if size >= run_list.MAX_FAILURES and run_list.is_of_words(c, set_key) then q.is_cut = '1' end
    end
  end
end

-- Returns the sets that together have all runs with the outcomes of the search, and the number of their runs; nil when the search
-- is for runs that are open or have succeeded, too.
function run_list.sets_of_outcomes(c, q)
  if not q.states or q.states.open or q.states.success then return nil end
  local sets, size = {}, 0
  for outcome in pairs(q.states) do
    local set_key = run_list.of_outcome(c, outcome)
    sets[#sets + 1], size = set_key, size + redis.call('ZCARD', set_key)
  end
  return sets, size
end

-- Finds the places at which a search begins in the sets of outcomes.
function run_list.begin_outcomes(q, sets)
  local from = q.behind_at
  if not from and q.oldest_first then from = q.after and q.after * 1000 elseif not from then from = q.none_from end
  q.sets = {}
  for i = 1, #sets do q.sets[i] = open_set(q, sets[i], from, 1) end
end

-- Reports whether a run comes before another one in the order of the search.
function run_list.comes_first(q, a, b)
  if q.oldest_first then return a[2] < b[2] or a[2] == b[2] and a[1] < b[1] end
  return a[2] > b[2] or a[2] == b[2] and a[1] > b[1]
end

-- Makes the list of the runs of a search whose ids are given, those after its place.
function run_list.begin_named(c, q, ids)
  local behind = q.behind_at and { q.behind_id, q.behind_at }
  q.named = {}
  for _, flow_id in ipairs(ids) do
    local run = row.run(c, flow_id)
    local entry = run and { flow_id, q.closed and run.closed or run.listed }
    if entry and entry[2] > 0 and (not behind or run_list.comes_first(q, behind, entry)) then q.named[#q.named + 1] = entry end
  end
  table.sort(q.named, function(a, b) return run_list.comes_first(q, a, b) end)
end

-- Returns the first run of a set that was not taken yet, with the time (µs) of its entry; nil at the end.
local function head_of(q, set, count)
  if set.at > #set.page and not set.is_read then
    local page
    if q.oldest_first then
      page = redis.call('ZRANGE', set.key, set.rank, set.rank + count - 1, 'WITHSCORES')
    else
      page = redis.call('ZRANGE', set.key, set.rank, set.rank + count - 1, 'REV', 'WITHSCORES')
    end
    set.page, set.at, set.rank, set.is_read = {}, 1, set.rank + count, #page < 2 * count
    for i = 1, #page, 2 do set.page[#set.page + 1] = { page[i], tonumber(page[i + 1]) * set.unit } end
  end
  return set.page[set.at]
end

-- Returns the next runs of the sets of the search, each once.
function run_list.next_of_sets(q, count)
  local page = {}
  while #page < count do
    local first
    for _, set in ipairs(q.sets) do
      local head = head_of(q, set, count)
      if head and (not first or run_list.comes_first(q, head, first)) then first = head end
    end
    if not first then return page end
    for _, set in ipairs(q.sets) do
      local head = set.page[set.at]
      if head and head[1] == first[1] then set.at = set.at + 1 end
    end
    page[#page + 1] = first
  end
  return page
end
