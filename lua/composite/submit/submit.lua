-- Submits runs of a graph.

local MAX_RUNS = 64

-- Fields by which an existing run is judged.
local FLOW_FIELDS = { 'graph_hash', 'input_hash', 'public_flow_state', 'purging', 'parent_execution_id', 'roots_left' }

local function run_at(A, place, what)
  local at = number.finite(place)
  if at and A.runs[at] then return A.runs[at] end
  return nil, reply.err('invalid_input', what .. ' must name a run by its place, got: ' .. tostring(place))
end

-- Assigns the elements of separate lists to the runs that they belong to. Returns nil, or the error reply.
local function assign(A)
  local run, err
  for _, entry in ipairs(A.budgets) do
    run, err = run_at(A, entry.run, 'budgets')
    if err then return err end
    run.budgets = entry
  end
  for _, tag in ipairs(A.own_tags) do
    run, err = run_at(A, tag.run, 'a tag')
    if err then return err end
    run.tags = run.tags or {}
    run.tags[#run.tags + 1] = tag.name
    run.tags[#run.tags + 1] = tag.value
  end
  for _, entry in ipairs(A.limits) do
    run, err = run_at(A, entry.run, 'limits')
    if err then return err end
    local ordinal = number.finite(entry.node)
    if not ordinal or not decode.limits(entry.text) then
      return reply.err('invalid_input', 'malformed limits of node ' .. tostring(entry.node))
    end
    run.limits = run.limits or {}
    run.limits[#run.limits + 1] = { ordinal = ordinal, text = entry.text, quota_policy_id = entry.quota_policy_id }
  end
  for _, entry in ipairs(A.parents) do
    run, err = run_at(A, entry.run, 'a parent')
    if err then return err end
    run.parent = entry
  end
  for _, entry in ipairs(A.signals) do
    run, err = run_at(A, entry.run, 'a signal')
    err = err or wait_control.check_signal(entry) or signal.check_size({}, entry)
    if err then return err end
    run.signal = entry
  end
  return nil
end

-- Returns tags as a flat list of names and values.
local function flat(tags)
  local list = {}
  for i = 1, #tags do
    list[#list + 1] = tags[i].name
    list[#list + 1] = tags[i].value
  end
  return list
end

-- Converts the numbers of the call, before anything is written. Returns nil and the error reply when one is invalid.
local function parse(A)
  if not (A.tags and A.runs and A.limits and A.budgets and A.own_tags and A.fires and A.parents and A.signals and A.arrivals and A.forks and A.kept) then
    return nil, reply.err('invalid_input', 'the counts do not fit the arguments')
  elseif #A.runs > MAX_RUNS then
    return nil, reply.err('invalid_input', 'at most ' .. MAX_RUNS .. ' runs in one call, got: ' .. #A.runs)
  end
  local n, err = { tags = flat(A.tags) }, nil
  n.deadline, err = number.optional('deadline', A.deadline, nil)
  if err then return nil, err end
  n.start_at, err = number.optional('start_at', A.start_at, nil)
  if err then return nil, err end
  n.class, err = run_record.class_of(A.class)
  if err then return nil, err end
  n.origin, err = run_watch.parse_origin(A.origin)
  if err then return nil, err end
  n.fire, err = schedule.parse_fire(A)
  if err then return nil, err end
  if n.fire and #A.runs ~= 1 then return nil, reply.err('invalid_input', 'a fire is of one run') end
  for _, run in ipairs(A.runs) do
    if string.byte(run.flow_id, 15) ~= 56 or string.sub(run.flow_id, -4) ~= '0000' then
      return nil, reply.err('invalid_input', 'flow_id must be a UUID of version 8 that ends in 0000, got: ' .. run.flow_id)
    end
    err = run_data.check(run.record)
    if err then return nil, err end
  end
  err = assign(A)
  if not err and #A.forks > 0 then
    n.fork = A.forks[1]
    if #A.runs ~= 1 or #A.forks ~= 1 or #A.arrivals > 0 or n.start_at then
      err = reply.err('invalid_input', 'a fork is of one run, without an arrival and a time of its start')
    end
  end
  if not err and #A.arrivals > 0 then n.arrival, err = arrival.parse(A) end
  if err then return nil, err end
  return n
end

-- Returns the outcome of an existing run.
local function outcome_of(flow, class, run)
  if flow.purging then return { 'flow_purging', '', '', '' } end
  -- The run receives a signal regardless of its input, or other calls have changed its input.
  if run.signal or run.arrival and run.arrival.quiet > 0 then return { 'ALREADY_SATISFIED', '', '', '' } end
  local graph_hash, input_hash = class.graph_hash, run_data.hash_text(run_data.decode(run.record, run.flow_id).input_hash)
  if flow.graph_hash ~= graph_hash then
    local what = flow.input_hash == input_hash and 'graph' or 'graph and input'
    return { 'flow_id_conflict', what, flow.graph_hash or '', graph_hash }
  elseif flow.input_hash ~= input_hash then
    return { 'flow_id_conflict', 'input', flow.input_hash or '', input_hash or '' }
  elseif run.parent and flow.parent_execution_id ~= run.parent.execution_id then
    return { 'flow_id_conflict', 'parent', flow.parent_execution_id or '', run.parent.execution_id }
  end
  return { 'ALREADY_SATISFIED', '', '', '' }
end

-- Writes the policies of joins, and the limits of nodes.
local function write_special(c, r, run, g)
  for _, ordinal in ipairs(g.has_joins and graph_store.joins(g) or {}) do
    local node = graph_store.node(g, ordinal)
    local policy = join_spec.parse(node.name, node.join, node.open)
    edge_group.write(c, key.flow_edgegroup(c, run.flow_id, row.execution_id(r, ordinal)), policy)
  end
  for _, entry in ipairs(run.limits or {}) do
    local quota = is_set(entry.quota_policy_id) and { 'quota_policy_id', entry.quota_policy_id } or {}
    row_record.set(row.at(r, entry.ordinal), 'limits', entry.text, unpack(quota))
  end
end

-- Checks that the graph has the nodes whose limits the call contains. Returns nil, or the error reply.
local function check_limits(c, A, n)
  if #A.limits == 0 then return nil end
  local g = graph_store.find(c, n.class.graph)
  if not g then return reply.err('graph_unknown') end
  for _, entry in ipairs(A.limits) do
    local ordinal = number.finite(entry.node)
    if ordinal % 1 ~= 0 or ordinal < 1 or ordinal > g.head.nodes then
      return reply.err('invalid_input', 'limits must name a node by its ordinal, got: ' .. entry.node)
    end
  end
  return nil
end

local OK = { 'OK', '', '', '' }

-- Reports whether none of the runs of a call exists. Where the partition has flows of the contract's calls, one of them may have
-- the id of a run.
local function are_new(c, A)
  local keys = call.short_list()
  for i = 1, #A.runs do keys[i] = key.flow_nodes(c, A.runs[i].flow_id) end
  keys[#keys + 1] = key.index_flow_index(c)
  return redis.call('EXISTS', unpack(keys)) == 0
end

-- Returns the outcome of a run that already exists, or that must not be created; nil for one that is to be created. `is_new`: the
-- run does not exist.
local function judge(c, A, n, run, is_new)
  local flow = not is_new and record.read(key.flow_core(c, run.flow_id), FLOW_FIELDS, true)
  if not flow then return schedule.refuse_fire(c, n.fire) or n.arrival and arrival.judge(c, A, n, run) or nil end
  local outcome = outcome_of(flow, n.class, run)
  if flow.roots_left and outcome[1] == 'ALREADY_SATISFIED' then row_edges.release_left(c, run.flow_id) end
  return outcome
end

-- Returns the graph of the runs of a call, and counts `count` more runs of their class. Returns nil and the error reply when they
-- cannot be created.
local function graph_for(c, A, n, count)
  local g = graph_store.find(c, n.class.graph)
  if not g then return nil, reply.err('graph_unknown') end
  local err = #A.arrivals > 0 and arrival.check_graph(g, A.runs[1]) or #A.forks > 0 and fork.check(A, g.head.nodes) or (g.head.waits or #A.signals > 0) and waitpoint_token.check_secret(key.waitpoint_secrets(c))
  if err then return nil, err end
  if not graph_store.use(c, n.class, g, count, key.ffx_run_class(c, n.class.digits)) then return nil, reply.err('graph_unknown') end
  graph_store.has_joins(g)
  return g
end

-- Creates a run that is already in the lists, and gathers its roots in a batch.
local function create_run(c, batch, A, n, run, g)
  local flags = run_head.PLAIN
  if is_set(run.fair_key) then flags = flags + run_head.FAIR end
  if run.budgets or g.head.budgets or run.parent then flags = flags + run_head.SPECIAL end
  if run.has_input then flags = flags + run_head.INPUT end
  local further = run_record.further(run, g, n)
  if further then flags = flags + run_head.OVERLAY end
  local r = row.create(c, run.flow_id, g.head.nodes, n.class.id, graph_store.initial_rows(g), key.ffx_graph_rows(c, n.class.graph), flags,
    n.deadline_at or 0, run.listed, g.head.nodes == 1 and run.data or '', n.origin)
  r.known_graph, r.start_at = g, n.start_at
  if n.arrival and n.arrival.at_once > 0 then r.marks = r.marks + run_head.KEYED end
  if run.parent then r.marks = r.marks + run_head.CHILD end
  if r.marks > 0 then row.touch_run(r) end
  if further then redis.call('HSET', key.flow_core(c, run.flow_id), unpack(further)) end
  if r.count > 1 then lane_counts.created(c, r, g, 1) end
  run_record.created(c, run, n)
  if g.has_joins or run.limits then write_special(c, r, run, g) end
  row_edges.release_roots(c, r, g, batch, run)
  if not run.parent and row.is_plain(r) then run_rows.created(c, r, n.class, run, run_record.budgets(run, g)) end
end

-- Creates runs. They are in the lists, with their data, before they have rows: should the server come back with a part of the
-- call, each run with rows is complete or is found by the lists. Returns nil, or the error reply.
local function create_all(c, A, n, runs)
  if #runs == 0 then return nil end
  local g, err = graph_for(c, A, n, #runs)
  if err then return err end
  local batch = batch_writes.new()
  for i = 1, #runs do
    local run = runs[i]
    if string.byte(run.input) == 0 then run.input = stored_value.keep_input(c, run.flow_id, run.input) end
    run.data, run.has_input = run_data.of_new(run.record, n.arrival and '' or run.input)
    run_record.enter(c, batch, run, g, n)
  end
  batch_writes.finish(batch)
  run_list.enter(c, n.class.flow_kind, runs)
  batch = batch_writes.new()
  if n.arrival then runs[1].fields = arrival.fields(runs[1]) end
  if n.fork then runs[1].fields = { 'forked_from', n.fork.forked_from, 'kept_nodes', number.text(#A.kept) } end
  for i = 1, #runs do create_run(c, batch, A, n, runs[i], g) end
  batch_writes.finish(batch)
  if n.arrival then arrival.created(c, A, n, runs[1]) end
  if n.fork then fork.keep(c, runs[1].flow_id, A.kept, A.skips or {}) end
  return nil
end

-- Delivers the signals that come with runs, both created and existing ones. Returns the outcome of each.
local function send_signals(c, A, outcomes)
  local sent = {}
  for i, entry in ipairs(A.signals) do
    local at = number.finite(entry.run)
    local code, answer, err = outcomes[at][1], nil, nil
    if code == 'OK' or code == 'ALREADY_SATISFIED' then
      answer, err = named_signal.send(c, A.runs[at].flow_id, entry)
      code = err and err[2] or 'OK'
    end
    answer = answer or {}
    sent[i] = { code, answer[1] or '', answer[2] or '', answer[3] or '', answer[4] or '0', answer[5] or '', err and err[3] or '', answer[6] or '', answer[7] or {} }
  end
  return sent
end

-- Leases executions to the worker that sends the call. When runs existed before, an earlier try of the call may have leased some.
local function claim_first(c, request, may_repeat)
  request.skip_abandoned, request.repeated = true, may_repeat
  row.flush()
  row.forget()
  event_log.write()
  return claiming.claim(c, request), claiming.remaining(c, request)
end

-- @record    submission_outcome code:text what:text stored:text given:text
-- @record    sent_signal code:text outcome:text signal_id:text first_outcome:text matched:bool answer_schema:text detail:text uncounted:text? counting:list(text)?

-- @function ffx_submit
-- @summary  Creates runs of one class and makes their roots eligible. ffx_put_graph stores its graph before; when the partition
--           does not have it, nothing is written. internal/runrecord encodes the class and the records of the runs. The outcomes are in the order of the runs: OK, ALREADY_SATISFIED, or why a run
--           is not created, which does not affect the others: `flow_purging`; `flow_id_conflict`, with the difference (graph,
--           input, graph and input, parent); `purged`, for a fire whose run was purged; `fire_too_late`, with the latest possible
--           time and the present one. A run's own tags replace the common tags; `own_tags`, `limits`, `budgets` and `parents`
--           name their run by its place, from 1, and limits their node by its ordinal. A run's own budgets replace those in its
--           graph. The retention of the class is how long runs are kept after their end (ms): one time for all outcomes, or
--           four, for success, failed, cancelled and expired; a negative or missing time is for ever. Runs with a `fair_key` take turns with those
--           of other keys in their lanes. With `start_at`, no node of the runs is eligible before that time, from which their
--           deadline counts. A run that a schedule starts has its fire: a fire creates one run at most, also when that run has
--           been purged, and none after `start_before`. When a run has many roots, one call releases some: `more` means that the
--           same call again releases others. The keeper releases those that are left. The priority of the class
--           is inherited by child runs; the graph's nodes already have it. A signal goes to a wait of its run as by
--           ffx_signal_node, in the same step, also to an existing run, whose graph and input are not compared then; `signals`
--           contains its outcome, with the error's code. A run with an arrival comes alone, in the partition of its key. Up to
--           `at_once` runs of the key are open; beyond that, `when_taken` decides: reject (`run_key_taken`, with the run id and
--           flow id of one of them), queue (it starts when its turn comes, or `run_key_full`), join (joined, with those ids), or
--           cancel, which cancels the oldest. Within `unique_for` after the first run of the key, others are joined to it. A
--           start beyond `starts` within `per` (ms), for each `starts/per` of its windows, is deferred or `throttled`, with the
--           time at which it could be. With `quiet`, the run starts that time after the last call, or `at_most` after the first
--           one: a later call is joined, and its input replaces the run's input, or is added to it, up to `max_inputs`
--           (`debounce_full`). The same `call_id` counts once. A fork comes alone, too: its `kept` nodes, by their ordinals, have
--           succeeded with these results from the beginning, and its `skips` were skipped for these reasons, because their child
--           runs had no result. The process with the given origin receives the ends of the runs.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      class              bytes<plain>
-- @arg      deadline           ms optional
-- @arg      start_at           unix_ms optional
-- @arg      origin             text optional
-- @include  claim_request
-- @group    tags               name:text value:text
-- @group    runs               flow_id:flow_id record:bytes<plain> input:value<input> fair_key:text
-- @group    limits             run:int node:int text:text quota_policy_id:text
-- @group    budgets            run:int text:json blocking:csv
-- @group    own_tags           run:int name:text value:text
-- @group    parents            run:int execution_id:text fail_fast:bool
-- @group    fires              schedule_id:schedule_id name:text incarnation:text serial:int fire_at:unix_ms start_before:unix_ms
-- @group    signals            run:int node:text step:text signal_id:signal_id signal_name:text source_type:text source_identity:text idempotency_key:text payload:bytes<signal> signal_category:text correlation_id:text checked:text comment:text
-- @group    arrivals           run:int key_id:run_key_id key:text call_id:text at_once:int when_taken:text unique_for:ms windows:csv when_many:text quiet:ms at_most:ms max_inputs:int
-- @group    forks              run:int forked_from:text
-- @group    kept               node:int result:value<result>
-- @group    skips              node:int reason:text
-- @reply    OK outcomes:list(submission_outcome) more:bool executions:list(claimed_execution) candidates:list(candidate) remaining:int signals:list(sent_signal)?
-- @error    graph_unknown
-- @error    value_missing
-- @error    flow_purging
-- @error    flow_id_conflict what:text stored:text given:text
-- @error    fire_too_late start_before:unix_ms now:unix_ms
-- @error    invalid_input message:text
-- @error    set:signing
function F.ffx_submit(K, A)
  local n, err = parse(A)
  local request
  if not err and A.count ~= '0' then request, err = claim_request.parse(A) end
  if err then return err end
  local c = call.open(K.partition)
  if n.start_at and n.start_at <= c.now then n.start_at = nil end
  n.deadline_at = n.deadline and (n.start_at or c.now) + n.deadline
  err = check_limits(c, A, n) or stored_value.refuse(c, A.runs, 'input') or stored_value.refuse(c, A.kept, 'result')
  if err then return err end
  recovery.state(c) -- while there is nothing to check
  local outcomes, runs, seen, again, is_new = call.short_list(), call.short_list(), {}, {}, are_new(c, A)
  for i, run in ipairs(A.runs) do
    local outcome = not seen[run.flow_id] and judge(c, A, n, run, is_new)
    if seen[run.flow_id] then again[#again + 1] = i elseif not outcome then runs[#runs + 1] = run end
    outcomes[i], seen[run.flow_id] = outcome or OK, true
  end
  err = create_all(c, A, n, runs)
  if err then return err end
  for _, i in ipairs(again) do outcomes[i] = judge(c, A, n, A.runs[i]) end
  local sent = #A.signals > 0 and send_signals(c, A, outcomes) or nil
  local executions, remaining = '', '0'
  if request then executions, remaining = claim_first(c, request, #runs < #A.runs) end
  settle.run(c)
  return reply.ok(outcomes, c.more and '1' or '0', executions, request and request.candidates or '', remaining, sent)
end
